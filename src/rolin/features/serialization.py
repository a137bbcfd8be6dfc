"""Read feature maps from JSON texts and files."""

from __future__ import annotations

import json
from os import PathLike

from rolin._support.files import read_limited
from rolin.errors import RolinError, StateFileError
from rolin.features.base import FORMAT, BaseFeatureMap
from rolin.features.hashed import HashedFeatures
from rolin.features.map import FeatureMap
from rolin.features.sklearn import MissingFeatureMap

__all__ = ["from_json", "load"]

_LARGEST = 256 << 20  # bytes of a file; a category of 30 characters takes about 40


def from_json(text: str, source: str = "the text") -> BaseFeatureMap:
    """Return the feature map that `to_json` wrote.

    Parameters
    ----------
    text
        The JSON.
    source
        What error messages call the text.

    Raises
    ------
    StateFileError
        If the text is not a feature map, is of another format, or was changed.
    """
    try:
        given = json.loads(text)
        if not isinstance(given, dict) or "rolin-features" not in given:
            raise StateFileError(
                f"{source} is not a feature map of rolin, expected the JSON that FeatureMap.save or to_json writes"
            )
        if (written := given.pop("rolin-features")) != FORMAT:
            raise StateFileError(
                f"{source} is a feature map of format {written!r}, another format, expected {FORMAT}: read it with "
                "the version of rolin that wrote it"
            )
        version, kind = given.pop("version"), given.pop("kind")
        found: BaseFeatureMap
        if kind == "map":
            found = FeatureMap.from_dict(given)
        elif kind == "hashed":
            found = HashedFeatures.from_dict(given)
        elif kind == "transformed":
            found = MissingFeatureMap(given["names"])
        else:
            raise StateFileError(
                f"{source} is a feature map of unknown kind {kind!r}, expected 'map', 'hashed' or 'transformed'"
            )
    except StateFileError:
        raise
    except (
        RolinError, KeyError, TypeError, AttributeError, ValueError, RecursionError, OverflowError, MemoryError
    ) as error:  # fmt: skip
        raise StateFileError(
            f"{source} is not a feature map of rolin, or is damaged: {error!r}"
        ) from error
    if found.version != version:
        raise StateFileError(
            f"{source} is damaged: it says version {version}, but its content has version {found.version}"
        )
    return found


def load(path: str | PathLike[str]) -> BaseFeatureMap:
    """Return the feature map that `save` wrote to a file.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    StateFileError
        If the file is not a feature map, is of another format, or was changed.
    """
    try:
        text = read_limited(path, _LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise StateFileError(f"{path} is not a feature map of rolin: {error}") from error
    return from_json(text, str(path))
