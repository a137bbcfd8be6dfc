"""Write the reference from the package, and insert stored results into the other pages.

    python docs/build.py            rewrite the pages
    python docs/build.py --check    write nothing; name the pages that differ and exit with 1

- `docs/reference/*.md` is written whole, from the signatures and docstrings of `rolin`;
  `docs/reference_pages.toml` says which page has which names. Cross references in docstrings,
  [`text`][rolin.package.name], become links. A reference to a name without an entry is an error.
- In every other page below `docs/`, the text between `<!-- begin: PATH -->` and `<!-- end -->` is
  replaced by the file `docs/PATH`. A `.md` file is inserted as it is. Any other file is inserted as a
  `text` code block, so the fences of the block lie between the markers, too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from reference_pages import CONFIG, DOCS, Reference

INSERTED = re.compile(r"(<!-- begin: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def insert(text: str) -> str:
    """Return a page whose stored results are those of their files."""

    def fill(found: re.Match[str]) -> str:
        begin, path, end = found.groups()
        result = (DOCS / path).read_text(encoding="utf-8").strip("\n")
        if not path.endswith(".md"):
            result = f"```text\n{result}\n```"
        return f"{begin}\n{result}\n\n{end}"

    return INSERTED.sub(fill, text)


def build() -> dict[Path, str]:
    """Return the text of every page that is written or filled here."""
    folder = DOCS / "reference"
    reference = Reference()
    pages = {folder / f"{page}.md": reference.write(page) for page in CONFIG["pages"]}
    pages[folder / "index.md"] = reference.index()
    for path in sorted(DOCS.rglob("*.md")):
        if path.parent != folder:
            pages[path] = insert(path.read_text(encoding="utf-8"))
    return pages


def main() -> None:
    """Rewrite the pages that differ, or name them."""
    check = "--check" in sys.argv[1:]
    pages = build()
    different = [
        path for path in pages if not path.exists() or path.read_text("utf-8") != pages[path]
    ]
    different += [path for path in (DOCS / "reference").glob("*.md") if path not in pages]
    for path in different:
        print(f"{path.relative_to(DOCS.parent)}: {'out of date' if check else 'written'}")
        if not check and path in pages:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages[path], encoding="utf-8")
        elif not check:
            path.unlink()
    if check and different:
        sys.exit("Run `python docs/build.py` and commit the pages that it writes.")


if __name__ == "__main__":
    main()
