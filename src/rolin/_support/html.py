"""Small HTML tables for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

__all__ = ["html_table"]


def html_table(
    caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """Return a table as HTML; every text is escaped.

    Parameters
    ----------
    caption
        Text above the table.
    header
        Names of the columns.
    rows
        Texts of the cells. The first column is aligned left, the others right.
    notes
        Lines below the table.
    """

    def cell(tag: str, text: str, column: int) -> str:
        align = "left" if column == 0 else "right"
        return f'<{tag} style="text-align:{align}">{escape(text)}</{tag}>'

    def line(tag: str, texts: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(tag, text, j) for j, text in enumerate(texts))}</tr>"

    body = "".join(line("td", row) for row in rows)
    table = (
        f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>" if rows else ""
    )
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<div><div><strong>{escape(caption)}</strong></div>{table}{below}</div>"
