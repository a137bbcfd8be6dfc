"""The dashboard: a page of HTML, CSS and plain JavaScript, which reads the API with the key of the user."""

from __future__ import annotations

__all__: list[str] = []
