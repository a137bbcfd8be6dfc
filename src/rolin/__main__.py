"""`python -m rolin`: the command line."""

from rolin.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
