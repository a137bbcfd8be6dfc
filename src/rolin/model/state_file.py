"""State files: the state of a policy, or moments, as one safe and versioned file.

The format is safetensors: arrays and a text header, and no code that could run on loading. The header, a JSON text, holds
the settings and a digest of everything, which detects damage. Files are replaced atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rolin._support.arms import Name, PastArm
from rolin._support.files import write_bytes
from rolin.errors import ArmError, StateFileError
from rolin.model.moments import Moments

__all__ = [
    "FOLDED",
    "FORMAT",
    "MOMENTS",
    "VERSION",
    "State",
    "decode",
    "encode",
    "moments_of",
    "pack",
    "read",
    "state_of",
    "unpack",
    "write",
]

FORMAT = "rolin-state"
VERSION = 1
_SQLITE = b"SQLite format 3\0"
MOMENTS = "Moments"
"""The name of the policy in a file that holds moments instead of a policy."""
FOLDED = "folded"
"""The setting that counts the partitions in these moments, in the checkpoint of an unfinished fit."""


class State(NamedTuple):
    """The complete state of a policy."""

    policy: str
    """Name of its class."""
    settings: dict[str, Any]
    names: Sequence[Name]
    """Name of every row of the arrays."""
    removed: Sequence[Name]
    """Names of removed arms."""
    decisions: int
    """Number of decisions without a key."""
    arrays: Mapping[str, NDArray[Any]]
    feature_map: str | None = None
    """The feature map as JSON."""


# -- files -----------------------------------------------------------------------------------


def pack(state: State) -> bytes:
    """Return a state as the bytes of its file."""
    tensors = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    # Names go into an array of bytes: safetensors limits the size of the header.
    text = json.dumps([[encode(n) for n in state.names], [encode(n) for n in state.removed]])
    tensors["names"] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    header = {
        "version": VERSION,
        "policy": state.policy,
        "settings": state.settings,
        "decisions": state.decisions,
    }
    if state.feature_map is not None:
        tensors["features"] = np.frombuffer(state.feature_map.encode("ascii"), dtype=np.uint8)
    header["digest"] = _digest(header, tensors)
    return save(tensors, {FORMAT: json.dumps(header)})


def write(path: str | PathLike[str], state: State) -> None:
    """Write a state to a file, atomically and durably."""
    write_bytes(path, pack(state))


def read(path: str | PathLike[str]) -> State:
    """Read a state; raise `StateFileError` if the file is damaged or not a state file of rolin."""
    if os.path.lexists(path) and not Path(path).is_file():
        raise StateFileError(f"{path} is not a file")
    return unpack(Path(path).read_bytes(), str(path))


def unpack(data: bytes, source: str) -> State:
    """Return the state that `pack` packed; raise `StateFileError` with the name of the source."""
    if data.startswith(_SQLITE):
        raise StateFileError(
            f"{source} is an SQLite file, not a state file: rolin.Bandit(journal=…) opens a journal"
        )
    try:
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
        if FORMAT not in metadata:
            raise StateFileError(f"{source} is a safetensors file, but not a state of rolin")
        header = json.loads(metadata[FORMAT])
        if header["version"] != VERSION:
            raise StateFileError(
                f"{source} has format version {header['version']}, expected {VERSION}: it was "
                "written by another version of rolin"
            )
        tensors = load(data)
        if header.pop("digest") != _digest(header, tensors):
            raise StateFileError(f"{source} is damaged: its content does not match its digest")
        names, removed = json.loads(tensors.pop("names").tobytes())
        features = tensors.pop("features", None)
        return State(
            header["policy"],
            header["settings"],
            [decode(name) for name in names],
            [decode(name) for name in removed],
            header["decisions"],
            tensors,
            None if features is None else features.tobytes().decode("ascii"),
        )
    except (
        SafetensorError, KeyError, TypeError, AttributeError, ValueError, RecursionError
    ) as error:  # fmt: skip
        raise StateFileError(f"{source} is not a state file of rolin, or is damaged") from error


def _digest(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(dict(header), sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


# -- names of arms ---------------------------------------------------------------------------


def encode(name: Name) -> object:
    """Return the name of an arm as a JSON value."""
    if isinstance(name, (str, int)):
        return name
    if isinstance(name, PastArm):
        return {"past": encode(name.name), "life": name.life}
    raise ArmError(
        f"arm {name!r} is a {type(name).__name__}, expected a string or an integer: other names work in memory, but "
        "cannot be saved. Name the arm by a string, such as str(…), from its first update on"
    )


def decode(name: Any) -> Name:
    """Return the name that `encode` encoded."""
    if isinstance(name, dict):
        return PastArm(decode(name["past"]), int(name["life"]))
    return name


# -- moments ---------------------------------------------------------------------------------


def state_of(
    moments: Moments, settings: Mapping[str, Any] | None = None, feature_map: str | None = None
) -> State:
    """Return moments as a state, with settings and the JSON of a feature map."""
    numbers = [moments.count, moments.sum_log_weight, moments.reward_scatter]
    arrays = {
        "numbers": np.array(numbers),
        "scatter": moments.scatter,
        "cross": moments.cross,
        "weight": moments.weight,
        "mean_context": moments.mean_context,
        "mean_reward": moments.mean_reward,
    }
    return State(MOMENTS, dict(settings or {}), moments.arms, (), 0, arrays, feature_map)


def moments_of(state: State) -> Moments:
    """Return the moments in a state; raise `StateFileError` if the arrays do not fit together."""
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    try:
        k, d = arrays["mean_context"].shape
        shapes: dict[str, tuple[int, ...]] = {
            "numbers": (3,), "scatter": (d, d), "cross": (d,), "weight": (k,),
            "mean_context": (k, d), "mean_reward": (k,),
        }  # fmt: skip
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} has shape {arrays[name].shape}, expected {shape}")
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} contains numbers that are not finite")
        if len(state.names) != k:
            raise ValueError(f"there are {len(state.names)} names for {k} arms")
    except (KeyError, ValueError) as error:
        raise StateFileError(f"the file's parts do not fit together: {error}") from error
    count, sum_log_weight, reward_scatter = arrays["numbers"].tolist()
    return Moments(
        count,
        sum_log_weight,
        arrays["scatter"],
        arrays["cross"],
        reward_scatter,
        tuple(state.names),
        arrays["weight"],
        arrays["mean_context"],
        arrays["mean_reward"],
    )
