"""Files that someone else made: every one is rejected by an error of rolin, fast, and without much memory."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

import rolin
from rolin import errors
from rolin.fitting.checkpoint import Checkpoint
from rolin.fitting.fold import Fold
from rolin.model import state_file
from rolin.model.state_file import State
from rolin.policies import registry
from rolin.simulation.run_file import RunFile, read_runs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no pipes")


def state_of(policy: Any) -> State:
    """Return a state whose settings and arrays may be changed."""
    state: State = policy.state()
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    return state._replace(settings=dict(state.settings), arrays=arrays)


def trained(**options: Any) -> Any:
    """Return a policy that has learned a little."""
    policy = rolin.RoLinTS(n_features=2, seed=1, **options)
    for i in range(12):
        policy.update(["a", "b"][i % 2], [1.0, float(i)], float(i % 3))
    return policy


def pack(state: State, names: object = None) -> bytes:
    """Return the file of a state; its names may be any JSON."""
    tensors = dict(state.arrays)
    known = [list(state.names), []] if names is None else names
    tensors["names"] = np.frombuffer(json.dumps(known).encode(), dtype=np.uint8)
    header: dict[str, Any] = {"version": 1, "policy": state.policy, "settings": state.settings}
    header["decisions"] = state.decisions
    header["digest"] = state_file._digest(header, tensors)
    return save(tensors, {state_file.FORMAT: json.dumps(header)})


def rejected(load: Callable[[], object], match: str | None = None) -> None:
    """Check that a call fails by an error of rolin within a second and with less than 100 MB."""
    tracemalloc.start()
    try:
        began = perf_counter()
        with pytest.raises((errors.StateFileError, errors.DataError), match=match):
            load()
        assert perf_counter() - began < 1.0
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", sorted(registry.find()))
def test_a_claim_of_many_features_builds_nothing(name: str, tmp_path: Path) -> None:
    """A small file with n_features=20000 is rejected before a policy of that size is built."""
    state = state_of(registry.find()[name](n_features=2, seed=1))
    state.settings["n_features"] = 20_000
    for option in ("shared", "own"):
        if option in state.settings:
            state.settings[option] = None
    path = tmp_path / "state"
    path.write_bytes(pack(state))
    rejected(lambda: rolin.load(path), "shape")


@pytest.mark.parametrize("name", sorted(registry.find()))
def test_arrays_of_another_type_or_number_are_rejected(name: str, tmp_path: Path) -> None:
    """Every array of every policy has its shape and its type; there are no others."""
    policy = registry.find()[name](n_features=2, seed=1)
    for i in range(12):  # scales are learned, so that all numbers have an ordinary size
        policy.update("a", [1.0, i], i % 2)
    good, path = state_of(policy), tmp_path / "state"
    path.write_bytes(pack(good))
    assert rolin.load(path).arms == ["a"]
    for array in good.arrays:
        for bad in (
            good.arrays[array].astype(np.uint8), np.zeros(9), None
        ):  # fmt: skip
            arrays = {**good.arrays, array: bad} if bad is not None else dict(good.arrays)
            if bad is None:
                del arrays[array]
            path.write_bytes(pack(good._replace(arrays=arrays)))
            rejected(lambda: rolin.load(path), array)
    path.write_bytes(pack(good._replace(arrays={**good.arrays, "more": np.zeros((0, 2**30))})))
    rejected(lambda: rolin.load(path), "more")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", ["RoLinTS"]), ("policy", {"a": 1}), ("policy", None), ("settings", [1]),
        ("settings", None), ("decisions", 2.0), ("decisions", None), ("decisions", True),
    ],
)  # fmt: skip
def test_fields_of_the_header_have_a_type(field: str, value: Any, tmp_path: Path) -> None:
    """A field of another type is rejected with its name."""
    path = tmp_path / "state"
    path.write_bytes(pack(state_of(trained())._replace(**{field: value})))
    rejected(lambda: rolin.load(path), field)
    rejected(lambda: rolin.RoLinTS.from_fit(path))


def nested(depth: int) -> object:
    """Return the name of a past life of a past life, and so on."""
    name: object = "a"
    for _ in range(depth):
        name = {"past": name, "life": 1}
    return name


@pytest.mark.parametrize(
    "name",
    [
        None, 1.5, [1], {}, {"past": "a"}, {"past": "a", "life": 1e300}, {"past": "a", "life": 0},
        {"past": "a", "life": float("inf")}, {"past": [1], "life": 1}, nested(2), nested(300),
    ],
)  # fmt: skip
def test_names_are_texts_and_whole_numbers(name: object, tmp_path: Path) -> None:
    """Any other name of an arm is rejected."""
    path = tmp_path / "state"
    for names in ([["a", name], []], [["a", "b"], [name]], [name, []], [name]):
        path.write_bytes(pack(state_of(trained()), names))
        rejected(lambda: rolin.load(path))


@pytest.mark.parametrize(
    ("array", "index", "value", "options"),
    [
        ("arms", (1, 0), -5.0, {}),
        ("factor", (0, 0), 0.0, {}),
        ("numbers", 0, 0.0, {}),
        ("numbers", 2, -1.0, {}),
        ("age", 0, 1e300, {"half_life": 5.0}),
        ("age", 2, 0.0, {"half_life": 5.0}),
    ],
)
def test_numbers_that_cannot_be_are_rejected(
    array: str, index: Any, value: float, options: dict[str, Any], tmp_path: Path
) -> None:
    """Weights and counts are not negative, and variances are positive."""
    state, path = state_of(trained(**options)), tmp_path / "state"
    state.arrays[array][index] = value  # type: ignore[index]  # a copy
    path.write_bytes(pack(state))
    rejected(lambda: rolin.load(path), array)


def moments() -> rolin.Moments:
    """Return the moments of a few observations."""
    rng = np.random.default_rng(0)
    return rolin.Moments.of(["a", "b"] * 10, rng.normal(size=(20, 3)), rng.normal(size=20))


@pytest.mark.parametrize(
    "changes",
    [
        {"numbers": np.array([-5.0, 0.0, 1.0])},
        {"numbers": np.array([5.0, 0.0, -1.0])},
        {"weight": np.array([-5.0, 1.0])},
        {"scatter": -1e5 * np.eye(3)},
        {"scatter": np.ones((3, 3)) - 0.5 * np.eye(3)},
        {"scatter": np.eye(3) + 1e5 * np.eye(3, k=2)},
        {"cross": np.array([1e9, 0.0, 0.0])},
        {"scatter": np.ones((3, 3), np.uint8)},
        {"weight": np.ones(2, np.int64)},
        {"mean_context": np.zeros((0, 2**20))},
        {"mean_context": np.zeros(3)},
        {"more": np.zeros(3)},
    ],
)
def test_sums_of_no_observations_are_rejected(changes: dict[str, Any], tmp_path: Path) -> None:
    """Moments have positive weights and a symmetric, positive semidefinite scatter."""
    path = tmp_path / "fit"
    state = state_file.state_of(moments())
    path.write_bytes(pack(state))
    assert rolin.RoLinTS.from_fit(path).arms == ["a", "b"]
    path.write_bytes(pack(state._replace(arrays={**state.arrays, **changes})))
    rejected(lambda: rolin.RoLinTS.from_fit(path), "parts do not fit together")


def test_sums_with_rounding_errors_are_not_rejected(tmp_path: Path, seed: int) -> None:
    """Far offsets, collinear features, constant features and subtracted batches give valid files."""
    rng = np.random.default_rng(seed)
    for offset in (0.0, 1e3, 1e8):
        x = rng.normal(size=(200, 6)) + offset
        x[:, 3], x[:, 4], x[:, 5] = x[:, 0], x[:, 1] - x[:, 2], offset
        y = x @ rng.normal(size=6)
        arms = rng.integers(0, 5, 200).tolist()
        parts = [rolin.Moments.of(arms[i::2], x[i::2], y[i::2]) for i in (0, 1)]
        both = parts[0] + parts[1]
        for given in (both, both - parts[1], both.decayed(1e-9), rolin.Moments.zero(6)):
            state_file.write(tmp_path / "fit", state_file.state_of(given))
            found = state_file.moments_of(state_file.read(tmp_path / "fit"))
            assert np.array_equal(found.scatter, given.scatter)


def test_checkpoints_of_any_content_are_rejected(tmp_path: Path) -> None:
    """The settings of a checkpoint may be anything; it is another fit, or damaged."""
    fold, path = (
        Fold(("arm", "reward", "x"), "strings", features=("x",), widths=(1,)),
        tmp_path / "checkpoint",
    )
    first = Checkpoint(path, fold, [], 3)
    settings = {**first._settings, "folded": 1}
    wrong: list[Any] = [
        {"folded": 1}, {**settings, "fold": 5}, {**settings, "fold": []}, {**settings, "files": []}, {},
    ]  # fmt: skip
    for given in wrong:
        path.write_bytes(pack(state_file.state_of(rolin.Moments.zero(1), given)))
        with pytest.raises(errors.ParameterError, match="checkpoint"):
            Checkpoint(path, fold, [], 3)
    path.write_bytes(pack(state_file.state_of(rolin.Moments.zero(7), settings)))
    rejected(lambda: Checkpoint(path, fold, [], 3), "7 features, expected 1")
    path.write_bytes(pack(state_file.state_of(rolin.Moments.zero(1), {**settings, "folded": "x"})))
    rejected(lambda: Checkpoint(path, fold, [], 3), "'x' of 3")


READERS: list[Callable[[Path], object]] = [
    rolin.load,
    rolin.RoLinTS.from_fit,
    rolin.features.load,
    read_runs,
]


@pytest.mark.parametrize("read", READERS)
def test_what_is_not_a_file_is_not_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    """Pipes, devices, folders and huge files are rejected at once."""
    pipe, huge, empty = (tmp_path / name for name in ("pipe", "huge", "empty"))
    os.mkfifo(pipe)
    with huge.open("wb") as file:
        file.truncate(8 << 30)  # sparse
    empty.touch()
    for path in (pipe, Path("/dev/zero"), tmp_path, huge, empty):
        rejected(lambda path=path: read(path))  # type: ignore[misc]  # it takes no argument


def test_runs_are_not_stored_in_a_pipe(tmp_path: Path) -> None:
    """Storing runs in a pipe does not wait for its other end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(errors.ParameterError, match="cannot be written"):
        RunFile(tmp_path / "pipe", {})


def test_headers_larger_than_the_file_are_rejected(tmp_path: Path) -> None:
    """Lengths, shapes and types are compared with the size of the file before the arrays are read."""
    path = tmp_path / "state"
    inner = {"__metadata__": {"rolin-state": json.dumps({"version": 1, "digest": "x"})}}
    for tensor in (
        {"dtype": "F64", "shape": [2**60, 2**60], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**30], "data_offsets": [0, 2**33]},
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": [], "shape": {}, "data_offsets": 5},
    ):
        text = json.dumps({**inner, "a": tensor}).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
        rejected(lambda: rolin.load(path))
    for text in (b"[" * 200_000, b"9" * 100_000, b"[]", b'{"__metadata__":[1]}', b"\xff"):
        path.write_bytes(struct.pack("<Q", len(text)) + text)
        rejected(lambda: rolin.load(path))
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    rejected(lambda: rolin.load(path))
