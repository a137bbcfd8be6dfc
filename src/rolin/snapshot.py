"""The state of a policy as one safe, versioned file.

The format is safetensors: arrays and a text header, nothing that could run on loading. The
header (one JSON text) holds the settings and a digest of everything, so that damage is found. A file is written
beside its place and moved there, so that it is either the old one or the new one, never half.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rolin.arms import Name, PastArm
from rolin.errors import ArmError, StateFileError

__all__ = [
    "FORMAT",
    "VERSION",
    "State",
    "check_target",
    "decode",
    "encode",
    "pack",
    "read",
    "unpack",
    "write",
    "write_bytes",
]

FORMAT = "rolin-state"
VERSION = 1


class State(NamedTuple):
    """All there is to a policy."""

    policy: str
    settings: dict[str, Any]
    names: Sequence[Name]
    removed: Sequence[Name]
    decisions: int
    arrays: Mapping[str, NDArray[Any]]
    features: str | None = None
    """What makes vectors of raw features, as JSON."""


def pack(state: State) -> bytes:
    """Return a state as the bytes of its file."""
    tensors = {name: np.ascontiguousarray(array) for name, array in state.arrays.items()}
    # Names go into an array of bytes, not the header, whose size safetensors limits.
    text = json.dumps([[encode(n) for n in state.names], [encode(n) for n in state.removed]])
    tensors["names"] = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    header = {
        "version": VERSION,
        "policy": state.policy,
        "settings": state.settings,
        "decisions": state.decisions,
    }
    if state.features is not None:
        tensors["features"] = np.frombuffer(state.features.encode("ascii"), dtype=np.uint8)
    header["digest"] = _digest(header, tensors)
    return save(tensors, {FORMAT: json.dumps(header)})


def write(path: str | PathLike[str], state: State) -> None:
    """Write a state to a file, atomically and durably."""
    write_bytes(path, pack(state))


def check_target(path: str | PathLike[str]) -> Path:
    """Refuse a place where no file can be written."""
    target = Path(os.path.realpath(path))  # through a link, to the file it stands for
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written: there is no folder {target.parent}")
    if target.exists() and not target.is_file():
        raise StateFileError(f"{path} cannot be written: it is there, and is not a file")
    return target


def write_bytes(path: str | PathLike[str], data: bytes) -> None:
    """Write a file, atomically and durably."""
    target = check_target(path)
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the new name itself must reach the disk too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: str | PathLike[str]) -> State:
    """Read a state, or raise `StateFileError` if the file is not a whole one of ours."""
    if os.path.lexists(path) and not Path(path).is_file():
        raise StateFileError(f"{path} is not a file")
    return unpack(Path(path).read_bytes(), str(path))


def unpack(data: bytes, source: str) -> State:
    """Return the state that `pack` packed, or raise `StateFileError` naming the source."""
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
        raise StateFileError(f"{source} is not a state of rolin, or is damaged: {error}") from error


def _digest(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=32)
    digest.update(json.dumps(dict(header), sort_keys=True).encode())
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def encode(name: Name) -> object:
    """Return the name of an arm as JSON has it."""
    if isinstance(name, (str, int)):
        return name
    if isinstance(name, PastArm):
        return {"past": encode(name.name), "life": name.life}
    raise ArmError(
        f"arm {name!r} is a {type(name).__name__}; only arms named by strings or integers "
        "can be saved"
    )


def decode(name: Any) -> Name:
    """Return the name that `encode` encoded."""
    if isinstance(name, dict):
        return PastArm(decode(name["past"]), int(name["life"]))
    return name
