"""`python -m rolin`: the command line."""

from rolin.cli import main

if __name__ == "__main__":
    main()
