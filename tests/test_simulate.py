"""Simulations are paired, reproducible and resumable, and show policies only what they may see."""

from __future__ import annotations

import dataclasses
import functools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pytest

import rolin
from rolin._support.progress import reporter
from rolin.environments import Rounds, Synthetic
from rolin.errors import DataError, MissingExtra, ParameterError
from support.simulations import POLICIES, WORLD, same, small_result


def test_regret_is_computed_from_the_means(seed: int) -> None:
    """Recorded regrets are Σ (best mean - mean of the pulled arm), computed here once more."""
    result = small_result(seed=seed, runs=2, n_points=5)
    assert result.recorded_rounds.tolist() == [10, 20, 25, 30, 37, 40, 50]
    for run in range(2):
        world, own = np.random.SeedSequence([seed, run]).spawn(2)
        policy = rolin.RoLinTS(
            n_features=2, arm_std=0.5, seed=int(own.generate_state(1, np.uint64)[0])
        )
        total, regrets = 0.0, []
        (block,) = WORLD.play(50, np.random.Generator(np.random.SFC64(world)))
        for t in range(50):
            arm = policy.decide(block.contexts[t]).arm
            policy.update(arm, block.contexts[t, arm], block.rewards[t, arm])
            total += block.means[t].max() - block.means[t, arm]
            regrets.append(total)
        expected = np.array(regrets)[result.recorded_rounds - 1]
        np.testing.assert_allclose(result.regret["RoLinTS"][run], expected, rtol=1e-12)


def test_a_run_does_not_depend_on_the_others() -> None:
    """Other policies, more runs, more rounds or more workers leave a run as it is."""
    result = small_result(n_points=50)
    alone = rolin.simulate(
        {"RoLinTS": POLICIES["RoLinTS"]}, WORLD, rounds=80, runs=3, seed=3, n_points=80,
        progress=False,
    )  # fmt: skip
    assert (alone.regret["RoLinTS"][:, :50] == result.regret["RoLinTS"][:3]).all()
    assert same(small_result(n_points=50, n_jobs=2), result)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        assert same(small_result(n_points=50), result)
    assert not same(small_result(n_points=50, seed=4), result)


class Spy:
    """A policy that records all that it is shown, and always pulls arm 1."""

    seen: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, *, seed: int) -> None:
        self._uniform = rolin.Uniform(n_features=2, seed=seed)

    def decide(self, *args: Any, **options: Any) -> rolin.Decision:
        """Record the contexts."""
        Spy.seen.append(("decide", *args, *options.items()))
        return self._uniform.decide(*args, exclude=[0, 2, 3])

    def update(self, *args: Any, **options: Any) -> None:
        """Record the reward."""
        Spy.seen.append(("update", *args, *options.items()))


def test_policies_see_contexts_and_their_own_rewards_only() -> None:
    """A round is one decision and one update; the rewards of other arms are never shown."""
    Spy.seen = []
    rolin.simulate({"spy": Spy}, WORLD, rounds=3, runs=1, seed=0, progress=False)
    world, _ = np.random.SeedSequence([0, 0]).spawn(2)
    (block,) = WORLD.play(3, np.random.Generator(np.random.SFC64(world)))
    decisions, updates = Spy.seen[0::2], Spy.seen[1::2]
    for t, (decide, update) in enumerate(zip(decisions, updates, strict=True)):
        assert decide[0] == "decide"
        assert len(decide) == 2
        np.testing.assert_array_equal(decide[1], block.contexts[t])
        kind, arm, context, reward = update
        assert (kind, arm, reward) == ("update", 1, block.rewards[t, 1])
        np.testing.assert_array_equal(context, block.contexts[t, 1])


@dataclasses.dataclass(frozen=True)
class Stopped(Synthetic):
    """An environment in which somebody presses Ctrl-C after some runs."""

    after: int = 3

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Rounds]:
        """Count the calls, and stop."""
        calls.append(1)
        if len(calls) > self.after:
            raise KeyboardInterrupt
        return super().play(rounds, generator)


calls: list[int] = []


def test_an_interrupt_returns_the_completed_runs(tmp_path: Path) -> None:
    """After Ctrl-C, completed runs are returned, stored in the checkpoint, and not played again."""
    calls.clear()
    options = {
        "rounds": 50,
        "runs": 6,
        "seed": 3,
        "progress": False,
        "checkpoint": tmp_path / "runs",
    }
    world = Stopped(n_arms=4, n_features=2, arm_std=0.5)
    with pytest.warns(UserWarning, match="3 of 6 runs"):
        part = rolin.simulate(POLICIES, world, **options)
    assert part.runs == (0, 1, 2)
    assert rolin.Result.load(tmp_path / "runs").runs == (0, 1, 2)
    calls.clear()
    whole = rolin.simulate(POLICIES, world, **options)
    assert len(calls) == 3
    assert same(whole, small_result())
    assert same(rolin.Result.load(tmp_path / "runs"), whole)
    calls.extend([1] * 10)
    with pytest.raises(KeyboardInterrupt):  # there is nothing to return
        rolin.simulate(POLICIES, world, rounds=50, runs=6, progress=False)


def test_a_checkpoint_survives_a_cut_anywhere(tmp_path: Path) -> None:
    """A file that was cut after any byte is read up to its last complete run, and resumes from there."""
    path = tmp_path / "runs"
    whole = small_result(checkpoint=path, runs=3)
    content = path.read_bytes()
    header = content.index(b"\n") + 1
    for cut in (0, 1, 20, header // 2, header - 1):  # no complete line is left: it starts again
        path.write_bytes(content[:cut])
        with pytest.raises(DataError, match="cut short"):
            rolin.Result.load(path)
        assert same(small_result(checkpoint=path, runs=3), whole)
    for cut in (header, header + 1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        assert len(rolin.Result.load(path).runs) == content[:cut].count(b"\n") - 1
        assert same(small_result(checkpoint=path, runs=3), whole)
        assert sorted(path.read_bytes().splitlines()) == sorted(content.splitlines())


class Nameless:
    """A policy without a `repr` of its own."""

    def __init__(self, *, seed: int) -> None:
        uniform = rolin.Uniform(n_features=2, seed=seed)
        self.decide, self.update = uniform.decide, uniform.update


def test_a_checkpoint_needs_a_repr(tmp_path: Path) -> None:
    """A policy without a `repr` of its own could be mistaken for another one, so it is rejected."""
    options = {"rounds": 5, "runs": 1, "progress": False}
    rolin.simulate({"a": Nameless}, WORLD, **options)
    with pytest.raises(ParameterError, match="__repr__"):
        rolin.simulate({"a": Nameless}, WORLD, checkpoint=tmp_path / "runs", **options)
    assert not list(tmp_path.iterdir())


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    """A file that another process writes to is rejected and left unchanged."""
    path = tmp_path / "runs"
    whole = small_result(checkpoint=path, runs=2)
    file = rolin.simulation.run_file.RunFile(path, whole.settings)
    with pytest.raises(ParameterError, match="another process"):
        small_result(checkpoint=path, runs=3)
    file.close()
    assert same(small_result(checkpoint=path, runs=2), whole)


class Vandal(Nameless):
    """A policy that writes to the contexts it is shown."""

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        honest = self.decide

        def decide(contexts: Any) -> rolin.Decision:
            contexts[:] = 0.0
            return honest(contexts)

        self.decide = decide  # type: ignore[method-assign]


@pytest.mark.parametrize("contexts", ["fresh", "fixed"])
def test_a_policy_cannot_change_the_contexts_of_another(contexts: str) -> None:
    """The other policies do not see what one policy writes to its contexts."""
    world = dataclasses.replace(WORLD, contexts=contexts)
    options = {"rounds": 200, "runs": 2, "progress": False}
    alone = rolin.simulate({"RoLinTS": POLICIES["RoLinTS"]}, world, **options)
    beside = rolin.simulate({"vandal": Vandal, "RoLinTS": POLICIES["RoLinTS"]}, world, **options)
    assert (alone.regret["RoLinTS"] == beside.regret["RoLinTS"]).all()


def test_blas_threads_are_restored() -> None:
    """After a simulation in threads, BLAS has as many threads as before."""
    from threadpoolctl import threadpool_info

    before = [library["num_threads"] for library in threadpool_info()]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        small_result(runs=8)
    assert [library["num_threads"] for library in threadpool_info()] == before


def test_more_runs_are_added_and_fewer_are_selected(tmp_path: Path) -> None:
    """With more runs, only the new ones are played; with fewer, the file stays unchanged."""
    path = tmp_path / "runs"
    small_result(checkpoint=path, runs=2)
    assert same(small_result(checkpoint=path, runs=6), small_result())
    before = path.read_bytes()
    assert small_result(checkpoint=path, runs=2).runs == (0, 1)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "named"),
    [({"seed": 4}, "seed was 3 and is now 4"), ({"rounds": 40}, "rounds was 50 and is now 40"),
     ({"n_points": 7}, "checkpoints was")],
)  # fmt: skip
def test_runs_of_other_settings_are_rejected(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    """The error names the file and the setting that differs; the file stays unchanged."""
    path = tmp_path / "runs"
    small_result(checkpoint=path, runs=2)
    before = path.read_bytes()
    with pytest.raises(ParameterError, match=named):
        small_result(checkpoint=path, **options)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"hello\n", b'{"format": "rolin-runs", "version": 9}\n', b"\n"]
)
def test_other_files_are_not_overwritten(tmp_path: Path, content: bytes) -> None:
    """A file of another kind is rejected by `load` and as a checkpoint, and stays unchanged."""
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(DataError, match="line 1"):
        rolin.Result.load(path)
    with pytest.raises(DataError, match="line 1"):
        small_result(checkpoint=path)
    assert path.read_bytes() == content
    with pytest.raises(DataError, match="no file"):
        rolin.Result.load(tmp_path / "nowhere")
    with pytest.raises(ParameterError, match="cannot be written"):
        small_result(checkpoint=tmp_path / "no folder" / "runs")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds=0"),
        ({"runs": 0}, "runs=0"),
        ({"seed": -1}, "seed=-1"),
        ({"n_points": 0}, "n_points=0"),
    ],
)
def test_bad_numbers_are_rejected(options: dict[str, Any], message: str) -> None:
    """The error names the option and its value."""
    with pytest.raises(ParameterError, match=message):
        small_result(**options)


@pytest.mark.parametrize(
    "policies",
    [{}, None, {"a": 3}, {1: rolin.Uniform}, {"a": lambda s: s}, {"a": lambda seed: seed}],
)
def test_bad_policies_are_rejected(policies: Any) -> None:
    """Policies are functions of a seed, by name."""
    with pytest.raises(ParameterError, match="policies"):
        rolin.simulate(policies, WORLD, rounds=5, runs=1, progress=False)


def test_bad_environments_are_rejected() -> None:
    """An environment needs all parts of the protocol."""
    for environment in ("mars", Synthetic):
        with pytest.raises(ParameterError, match="environment="):
            rolin.simulate(POLICIES, environment, rounds=5, runs=1, progress=False)  # type: ignore[arg-type]


def test_memory_does_not_grow_with_rounds_times_arms() -> None:
    """Ten times the rounds (72 MB more contexts) need less than 1 MB more memory."""
    world = Synthetic(n_arms=50, n_features=10)
    policies = {"Uniform": functools.partial(rolin.Uniform, n_features=10)}
    peaks = []
    for rounds in (2000, 20_000):
        tracemalloc.start()
        rolin.simulate(policies, world, rounds=rounds, runs=1, progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1_000_000


def test_errors_name_the_policy_and_the_run() -> None:
    """A policy with the wrong number of features is named together with the run."""
    wrong = {"wrong": functools.partial(rolin.RoLinTS, n_features=3)}
    with pytest.raises(rolin.errors.ShapeError, match="wrong, run 0: contexts has shape"):
        rolin.simulate(wrong, WORLD, rounds=5, runs=1, progress=False)


@dataclasses.dataclass(frozen=True)
class Broken(Synthetic):
    """An environment that violates the protocol."""

    how: str = ""

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Any]:
        """Violate the protocol."""
        for block in super().play(rounds, generator):
            if self.how == "too few":
                yield Rounds(*(part[:-3] for part in block))
            elif self.how == "too many":
                yield from (block, block)
            elif self.how == "not a block":
                yield tuple(block)
            elif self.how == "lists":
                yield Rounds(*(part.tolist() for part in block))
            elif self.how == "wrong shape":
                yield block._replace(means=block.means[:, :-1])
            elif self.how == "not finite":
                yield block._replace(means=np.full_like(block.means, np.nan))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("nothing", "ended after 0 rounds, expected 50"),
        ("too few", "ended after 47 rounds, expected 50"),
        ("too many", "more than 50 rounds"),
        ("not a block", "gave a tuple, expected Rounds"),
        ("lists", "gave a Rounds, expected Rounds of arrays"),
        ("wrong shape", r"shape \(50, 3\), expected \(50, 4\)"),
        ("not finite", "not finite"),
    ],
)
def test_environments_that_violate_the_protocol_are_rejected(how: str, message: str) -> None:
    """Regret is never computed from wrong blocks."""
    world = Broken(n_arms=4, n_features=2, how=how)
    with pytest.raises(rolin.errors.InputError, match=message):
        rolin.simulate(POLICIES, world, rounds=50, runs=1, progress=False)


@pytest.mark.parametrize("arm", [-1, 4, "a", None, 1.0, True])
def test_policies_that_pull_unknown_arms_are_rejected(arm: Any) -> None:
    """The error names the arm, the policy and the run."""

    class Wild(Spy):
        def decide(self, *args: Any, **options: Any) -> rolin.Decision:
            """Pull something else."""
            return super().decide(*args)._replace(arm=arm)

        def __repr__(self) -> str:
            return "Wild()"

    with pytest.raises(rolin.errors.InputError, match="wild, run 0"):
        rolin.simulate({"wild": Wild}, WORLD, rounds=5, runs=1, progress=False)


@pytest.mark.parametrize(
    "edit",
    [
        (b'"run": 1', b'"run": 0'), (b'"run": 1', b'"run": -1'), (b'"run": 1', b'"run": 1e999'),
        (b'"run": 1', b'"run": "1"'), (b'[', b'[NaN, '), (b'"regret": {"RoLinTS": [', b'"regret": {"RoLinTS": ["7", '),
    ],
)  # fmt: skip
def test_edited_runs_are_rejected(tmp_path: Path, edit: tuple[bytes, bytes]) -> None:
    """The error names the line, and the file stays unchanged."""
    path = tmp_path / "runs"
    small_result(checkpoint=path, runs=2)
    lines = path.read_bytes().splitlines(keepends=True)
    assert edit[0] in lines[2]
    lines[2] = lines[2].replace(*edit, 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(DataError, match="line 3"):
        small_result(checkpoint=path, runs=3)
    assert path.read_bytes() == b"".join(lines)


def test_the_bar_shows_the_completed_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar goes to the error stream, with its label, and never to the output."""
    small_result(progress=True)
    captured = capsys.readouterr()
    assert "simulating" in captured.err
    assert "6/6" in captured.err
    assert captured.out == ""
    with reporter(True, "small [/b] world", 6) as advance:  # shown literally, not as markup
        advance(6)
    assert "small [/b] world" in capsys.readouterr().err


def test_progress_can_be_a_function(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is called with the number of newly completed runs; runs of a checkpoint are not reported."""
    steps: list[int] = []
    small_result(progress=steps.append, checkpoint=tmp_path / "runs", runs=2)
    assert sum(steps) == 2
    steps.clear()
    small_result(progress=steps.append, checkpoint=tmp_path / "runs")
    assert sum(steps) == 4
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("progress", ["a label", None, 1])
def test_other_progress_is_rejected(progress: Any, tmp_path: Path) -> None:
    """The error comes before the checkpoint is written."""
    with pytest.raises(ParameterError, match="progress="):
        small_result(progress=progress, checkpoint=tmp_path / "runs")
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a package is missing, the error names the extra that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "joblib", None)
    with pytest.raises(MissingExtra, match=r"joblib.*rolin\[sim\]"):
        small_result()
