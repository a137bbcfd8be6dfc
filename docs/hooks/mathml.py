"""Formulas between dollar signs become MathML when the site is built.

So the pages need no script, no font and nothing from elsewhere to show them.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

# A fenced block or inline code, which is left alone, or a formula.
_PARTS = re.compile(r"(```.*?```|`[^`\n]*`)|\$\$(.+?)\$\$|\$([^$\n]+?)\$", re.DOTALL)
_formulas: list[str] = []


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put a mark in the place of every formula, so that Markdown does not touch it."""
    _formulas.clear()

    def mark(found: re.Match[str]) -> str:
        code, block, inline = found.groups()
        if code is not None:
            return str(code)
        _formulas.append(convert(block or inline, display="block" if block else "inline"))
        return f"FORMULA{len(_formulas) - 1}END"

    return _PARTS.sub(mark, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Put the formulas in the place of their marks."""
    return re.sub(r"FORMULA(\d+)END", lambda found: _formulas[int(found[1])], html)
