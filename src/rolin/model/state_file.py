"""State files: the state of a policy, or moments, as one safe and versioned file.

The format is safetensors: arrays and a text header, and no code that could run on loading. The header, a JSON text, holds
the settings and a digest of everything, which detects damage. Files are replaced atomically.

A file may come from anyone. So sizes and types are compared with each other before anything large is read or built.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rolin._support.arms import Name, PastArm
from rolin._support.files import open_file, write_bytes
from rolin.errors import ArmError, StateFileError
from rolin.model.moments import Moments
from rolin.model.slope_moments import check_arm_scatter

__all__ = [
    "FOLDED",
    "FORMAT",
    "MOMENTS",
    "VERSION",
    "State",
    "check_arrays",
    "decode",
    "encode",
    "holds_moments",
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
_LONGEST_HEADER = 4 << 20  # bytes; two numbers for each of 50 000 features take about half of it
_BYTES = {"F64": 8, "F32": 4, "I64": 8, "U8": 1}  # size of an item of each type that models store
_BROKEN = (
    SafetensorError, KeyError, TypeError, AttributeError, ValueError, RecursionError, OverflowError, MemoryError,
)  # fmt: skip  # what reading a file that was not written by `pack` may raise
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
    source = str(path)
    with open_file(path) as (file, size):
        start = file.read(min(size, 8 + _LONGEST_HEADER))
        _header(start, size, source)  # before the rest is read: most large files are not ours
        try:
            data = start + file.read()
        except MemoryError:
            raise StateFileError(f"{source} has {size} bytes, too many for the memory") from None
    return unpack(data, source)


def holds_moments(path: str | PathLike[str]) -> bool:
    """Return whether a file is a state file that holds moments; only its header is read."""
    with open_file(path) as (file, size):
        start = file.read(min(size, 8 + _LONGEST_HEADER))
    return bool(_header(start, size, str(path))["policy"] == MOMENTS)


def unpack(data: bytes, source: str) -> State:
    """Return the state that `pack` packed; raise `StateFileError` with the name of the source."""
    header = _header(data, len(data), source)
    try:
        tensors = load(data)
        if header.pop("digest") != _digest(header, tensors):
            raise StateFileError(f"{source} is damaged: its content does not match its digest")
        names, removed = _parse(tensors.pop("names"))
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
    except _BROKEN as error:
        raise StateFileError(f"{source} is not a state file of rolin, or is damaged") from error


def _header(data: bytes, size: int, source: str) -> dict[str, Any]:
    """Return the header of a state file of `size` bytes, of which `data` is the beginning."""
    if data.startswith(_SQLITE):
        raise StateFileError(
            f"{source} is an SQLite file, not a state file: rolin.Bandit(journal=…) opens a journal"
        )
    try:
        length = int.from_bytes(data[:8], "little")
        if not 0 < length <= min(size - 8, _LONGEST_HEADER):
            raise ValueError(f"a header of {length} bytes in a file of {size} bytes")
        outer = json.loads(data[8 : 8 + length])
        metadata = outer.pop("__metadata__", None) or {}
        if FORMAT not in metadata:
            raise StateFileError(f"{source} is a safetensors file, but not a state of rolin")
        header = json.loads(metadata[FORMAT])
        if header["version"] != VERSION:
            raise StateFileError(
                f"{source} has format version {header['version']}, expected {VERSION}: it was "
                "written by another version of rolin"
            )
        stored = 0
        for name, tensor in outer.items():
            first, end = tensor["data_offsets"]
            stored += _sized(name, tensor["dtype"], tensor["shape"], end - first)
        if 8 + length + stored != size:
            raise ValueError(f"{8 + length + stored} bytes are described, and {size} stored")
        known: dict[str, type | tuple[type, ...]] = {
            "policy": str, "settings": dict, "decisions": int, "digest": str,
        }  # fmt: skip
        for name, kind in known.items():
            if not isinstance(header[name], kind):
                shown = repr(header[name])[:100]
                raise StateFileError(
                    f"{source} is damaged: its parts do not fit together: {name}={shown}, which is a "
                    f"{type(header[name]).__name__}"
                )
    except _BROKEN as error:
        raise StateFileError(f"{source} is not a state file of rolin, or is damaged") from error
    return dict(header)


def _sized(name: str, kind: str, shape: Sequence[int], n_bytes: int) -> int:
    """Return the size of an array in bytes, if its type and its shape agree with it."""
    expected = _BYTES[kind]
    for length in shape:
        if type(length) is not int or not 0 <= length < 2**40:
            raise ValueError(f"{name} has shape {shape}")
        expected *= length
    if type(n_bytes) is not int or n_bytes != expected:
        raise ValueError(f"{name} has {n_bytes} bytes, expected {expected}")
    return n_bytes


def _parse(names: NDArray[Any]) -> tuple[list[Any], list[Any]]:
    """Return the names of all rows and of removed arms, as JSON values."""
    known, removed = json.loads(names.tobytes())
    if type(known) is not list or type(removed) is not list:
        raise ValueError("expected two lists of names")
    return known, removed


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
    """Return the name that `encode` encoded; raise `ValueError` for anything else."""
    if isinstance(name, (str, int)):
        return name
    if isinstance(name, dict) and name.keys() == {"past", "life"}:
        past, life = name["past"], name["life"]
        if isinstance(past, (str, int)) and type(life) is int and 0 < life < 2**63:
            return PastArm(past, life)
    raise ValueError(
        f"{str(name)[:100]} is not the name of an arm, expected a string or an integer"
    )


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
    if moments.arm_scatter is not None and moments.slopes:
        arrays["slopes"] = np.array(moments.slopes, dtype=np.int64)
        arrays["arm_scatter"] = moments.arm_scatter
    return State(MOMENTS, dict(settings or {}), moments.arms, (), 0, arrays, feature_map)


def moments_of(state: State) -> Moments:
    """Return the moments in a state; raise `StateFileError` if the arrays do not fit together."""
    try:
        k, d = state.arrays["mean_context"].shape
        shapes: dict[str, tuple[int, ...]] = {
            "numbers": (3,), "scatter": (d, d), "cross": (d,), "weight": (k,),
            "mean_context": (k, d), "mean_reward": (k,),
        }  # fmt: skip
        if state.arrays.keys() & {"slopes", "arm_scatter"}:
            s = np.size(state.arrays["slopes"])
            shapes |= {"slopes": (s,), "arm_scatter": (k, s, 1 + d)}
        check_arrays(state.arrays, shapes, {"slopes": np.int64})
        if len(state.names) != k:
            raise ValueError(f"there are {len(state.names)} names for {k} arms")
        arrays = {name: np.array(array) for name, array in state.arrays.items()}
        _check_sums(arrays)
        slopes = tuple(arrays["slopes"].tolist()) if "slopes" in arrays else ()
        if slopes:
            check_arm_scatter(slopes, arrays["arm_scatter"], arrays)
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
        slopes,
        arrays["arm_scatter"] if slopes else None,
    )


def check_arrays(
    arrays: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, tuple[int, ...]],
    types: Mapping[str, type[np.generic]] | None = None,
) -> None:
    """Raise `ValueError` unless these arrays, and no others, have these shapes, types and finite numbers.

    Parameters
    ----------
    arrays
        The arrays of a state.
    shapes
        The shape of each.
    types
        The types of those that are not float64.
    """
    if unknown := arrays.keys() - shapes.keys():
        raise ValueError(f"there is an array {min(unknown)[:100]!r}, which has no meaning here")
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        given, kind = arrays[name], (types or {}).get(name, np.float64)
        if given.shape != shape:
            raise ValueError(f"{name} has shape {given.shape}, expected {shape}")
        if given.dtype != kind:
            raise ValueError(f"{name} has numbers of type {given.dtype}, expected {kind.__name__}")
        if not np.isfinite(given).all():
            raise ValueError(f"{name} contains numbers that are not finite")


# Rounding errors of sums, relative to the sums of squares that they are parts of; and how far below zero the smallest
# eigenvalue of a correlation matrix may be by rounding.
_ROUNDING, _INDEFINITE = 1e-9, 1e-6


def _check_sums(arrays: Mapping[str, NDArray[np.float64]]) -> None:
    """Raise `ValueError` if the sums cannot be those of any observations."""
    count, _, reward_scatter = arrays["numbers"].tolist()
    weight, scatter, cross = arrays["weight"], arrays["scatter"], arrays["cross"]
    if (
        count < 0.0
        or reward_scatter < 0.0
        or (weight < 0.0).any()
        or (np.diag(scatter) < 0.0).any()
    ):
        raise ValueError("a count, a weight or a sum of squares is negative")
    # All sums in units of the standard deviations, which makes a correlation matrix of them. Rounding errors are
    # relative to the raw sums of squares.
    total = np.block([[np.array([[reward_scatter]]), cross[None]], [cross[:, None], scatter]])
    means = np.column_stack([arrays["mean_reward"], arrays["mean_context"]])
    # Means may be huge if nothing scatters around them.
    with np.errstate(over="ignore", invalid="ignore"):
        unit = np.sqrt(np.diag(total) + _ROUNDING * (weight @ means**2))
    unit[np.isnan(unit)] = np.inf
    if (total[unit == 0.0] != 0.0).any():
        raise ValueError("a feature that is always 0 has a product with another one")
    unit[unit == 0.0] = 1.0
    total /= unit
    total /= unit[:, None]
    if (np.abs(total - total.T) > _INDEFINITE).any():
        raise ValueError("scatter is not symmetric")
    total[np.diag_indices(len(total))] += _INDEFINITE * len(total)
    try:
        np.linalg.cholesky(total)
    except np.linalg.LinAlgError:
        raise ValueError("scatter is not positive semidefinite, as sums of squares are") from None
