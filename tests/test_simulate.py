"""Simulations are paired, reproducible and resumable, and show policies only what they may see."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import joblib
import matplotlib as mpl
import numpy as np
import pytest

import rolin
from rolin import testing
from rolin._support.progress import reporter
from rolin.environments import Block, Clicks, Drifting, Synthetic
from rolin.errors import DataError, MissingExtra, ParameterError

mpl.use("Agg")

WORLD = Synthetic(n_arms=4, n_features=2, arm_std=0.5)
POLICIES = {
    "RoLinTS": functools.partial(rolin.RoLinTS, n_features=2, arm_std=0.5),
    "Uniform": functools.partial(rolin.Uniform, n_features=2),
}


def small_result(**options: Any) -> rolin.Result:
    """Run a small simulation."""
    settings = {"rounds": 50, "runs": 6, "seed": 3, "progress": False, **options}
    return rolin.simulate(POLICIES, WORLD, **settings)


def same(a: rolin.Result, b: rolin.Result) -> bool:
    """Return whether two results have the same runs, bit for bit."""
    return a.runs == b.runs and all((a.regret[n] == b.regret[n]).all() for n in POLICIES)


# -- environments ----------------------------------------------------------------------------


@pytest.mark.parametrize("contexts", ["fresh", "fixed"])
def test_synthetic_environments_keep_the_contract(contexts: str) -> None:
    """The laws of environments hold for both kinds of contexts."""
    testing.check_environment(Synthetic(n_arms=3, n_features=2, contexts=contexts))


@pytest.mark.parametrize(
    "world",
    [Clicks(n_arms=3, n_features=2), Clicks(click_rate=0.9, n_arms=1, n_features=0),
     Drifting(n_arms=3, n_features=2), Drifting(half_life=1.0, n_arms=2, n_features=0)],
)  # fmt: skip
def test_clicks_and_drift_keep_the_contract(world: Any) -> None:
    """The laws of environments hold for binary rewards and for worlds that change."""
    testing.check_environment(world)


def test_clicks_come_at_the_rate_of_their_means(seed: int) -> None:
    """Rewards are 1 with the probability of their mean, ± 5 s.e.; without effects it is the click rate."""
    world = Clicks(click_rate=0.1, n_arms=2, n_features=3, arm_std=0.0, coef_std=1e-9)
    blocks = list(world.play(20_000, np.random.default_rng(seed)))
    clicks = np.concatenate([block.rewards[:, 0] for block in blocks])
    assert set(clicks.tolist()) == {0.0, 1.0}
    assert clicks.mean() == pytest.approx(0.1, abs=5 * (0.09 / 20_000) ** 0.5)
    assert blocks[0].means[0, 0] == pytest.approx(0.1, rel=1e-6)


def test_drift_halves_the_correlation_in_a_half_life(seed: int) -> None:
    """Over 2000 problems an arm's effect keeps its variance; after 128 rounds its correlation is ½."""
    world = Drifting(half_life=128.0, n_arms=1, n_features=0, arm_std=0.7)
    paths = []
    for run in range(2000):
        means = [b.means[:, 0] for b in world.play(129, np.random.default_rng([seed, run]))]
        paths.append(np.concatenate(means)[[0, 128]])
    first, last = np.array(paths).T
    assert first.std() == pytest.approx(0.7, rel=5 / (2 * 2000) ** 0.5)
    assert last.std() == pytest.approx(0.7, rel=5 / (2 * 2000) ** 0.5)
    assert np.corrcoef(first, last)[0, 1] == pytest.approx(0.5, abs=5 * 0.75 / 2000**0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Clicks(click_rate=1.0), "click_rate=1.0, expected a number between 0 and 1"),
        (lambda: Clicks(n_arms=0), "n_arms=0"),
        (lambda: Drifting(half_life=0.0), "half_life=0.0, expected a positive number"),
        (lambda: Drifting(noise_std=-1.0), "noise_std=-1.0"),
    ],
)
def test_impossible_worlds_are_rejected(make: Any, message: str) -> None:
    """The error names what was given and what was expected."""
    with pytest.raises(ParameterError, match=message):
        make()


def test_synthetic_problems_have_the_requested_scales(seed: int) -> None:
    """Over 4000 problems, the spreads of coefficients, effects and noise are as requested, ± 5 s.e.

    With K = 1 and d = 1, two contexts determine θ, and the rest of the mean is the effect.
    """
    world = Synthetic(n_arms=1, n_features=1, arm_std=0.7, coef_std=2.0, noise_std=0.3)
    found = []
    for run in range(4000):
        block = next(world.play(2, np.random.default_rng([seed, run])))
        x, mean = block.contexts[:, 0, 0], block.means[:, 0]
        theta = (mean[1] - mean[0]) / (x[1] - x[0])
        found.append([theta, mean[0] - theta * x[0], block.rewards[0, 0] - mean[0]])
        assert (np.abs(block.contexts) <= 1).all()
    for values, std in zip(np.transpose(found), (2.0, 0.7, 0.3), strict=True):
        assert abs(np.std(values) - std) < 5 * std / np.sqrt(2 * 4000)
        assert abs(np.mean(values)) < 5 * std / np.sqrt(4000)


@pytest.mark.parametrize(
    "options",
    [{"n_arms": 0}, {"n_features": -1}, {"arm_std": -0.1}, {"noise_std": 0}, {"contexts": "stale"}],
)
def test_synthetic_rejects_bad_options(options: dict[str, Any]) -> None:
    """Bad options are rejected when the environment is made."""
    with pytest.raises(ParameterError, match=next(iter(options))):
        Synthetic(**options)


# -- simulating ------------------------------------------------------------------------------


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

    def play(self, rounds: int, generator: np.random.Generator) -> Iterator[Block]:
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
                yield Block(*(part[:-3] for part in block))
            elif self.how == "too many":
                yield from (block, block)
            elif self.how == "not a block":
                yield tuple(block)
            elif self.how == "lists":
                yield Block(*(part.tolist() for part in block))
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
        ("not a block", "gave a tuple, expected a Block"),
        ("lists", "gave a Block, expected a Block of arrays"),
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


# -- results ---------------------------------------------------------------------------------


def hand_made() -> rolin.Result:
    """Two policies, three runs, four recorded rounds, with numbers that can be checked by hand."""
    settings = {
        "policies": {"a": "A()", "b": "B()"}, "environment": "E()", "rounds": 8, "seed": 0,
        "checkpoints": [2, 4, 6, 8], "bound": [10.0, 20.0, 30.0, 40.0],
    }  # fmt: skip
    a = np.array([[1.0, 2, 4, 5], [2, 4, 5, 6], [1, 2, 3, 4]])
    b = np.array([[2.0, 4, 6, 8], [3, 6, 9, 12], [2, 4, 6, 10]])
    return rolin.Result(settings, (0, 1, 2), {"a": a, "b": b})


def test_statistics_by_hand() -> None:
    """Final regrets a = 5, 6, 4 and b = 8, 12, 10.

    Mean of a: 5, s.d. 1, s.e. 1/√3. Differences -3, -6, -6: mean -5, s.d. √3, s.e. 1; Student's
    0.975 quantile with two degrees is 4.3027. Ratio of means 1/2; residuals a - b/2 = 1, 0, -1, s.d.
    1, s.e. (1/√3)/10. Growth of a, rounds 7 and 8 over 5 and 6: (1, 1, 1) over (2, 1, 1), 3/4.
    """
    result = hand_made()
    a = result.final("a")
    assert a.value == 5.0
    assert a.std_error == pytest.approx(3**-0.5)
    comparison = result.compare("a", "b")
    assert comparison.difference.value == -5.0
    assert comparison.difference.std_error == pytest.approx(1.0)
    assert comparison.difference.low == pytest.approx(-5 - 4.302653, abs=1e-6)
    assert comparison.ratio.value == 0.5
    assert comparison.ratio.std_error == pytest.approx(3**-0.5 / 10)
    assert comparison.wins == 1.0
    assert result.compare("a", "a").wins == 0.5
    assert result.growth("a").value == pytest.approx(3 / 4)
    few = dataclasses.replace(result, settings={**result.settings, "checkpoints": [2, 4, 7, 8]})
    assert np.isnan(few.growth("a").value)  # not guessed if the round was not recorded
    with pytest.raises(ParameterError, match=r"policy='c', expected one of \['a', 'b'\]"):
        result.final("c")
    with pytest.raises(ParameterError, match="level=1"):
        result.final("a", level=1)


def test_ratio_intervals_contain_the_truth(rng: np.random.Generator) -> None:
    """Of 2000 ratios of 40 skewed paired runs, 95 % intervals contain the truth in 94 % ± 2.7 %.

    The delta method is approximate: with so skewed runs its coverage is about 94 %. 2.7 % is 5
    standard errors of the share.
    """
    hits = 0
    for _ in range(2000):
        common = rng.exponential(size=40)
        above, below = 2 + common + rng.exponential(size=40), 1 + common
        interval = rolin.simulation.comparison.ratio_over_runs(above, below)
        hits += interval.low <= 4 / 2 <= interval.high
    assert abs(hits / 2000 - 0.94) < 0.027


def test_frames_have_the_numbers() -> None:
    """The long frame and the summary have the numbers of the arrays."""
    result = hand_made()
    frame = result.to_frame()
    assert list(frame.columns) == ["policy", "run", "round", "regret"]
    assert len(frame) == 2 * 3 * 4
    row = frame.query("policy == 'b' and run == 1 and round == 6")
    assert row.regret.item() == 9.0
    summary = result.summary().set_index("policy")
    assert summary.loc["b", "mean"] == 10.0
    assert summary.loc["b", "median"] == 10.0
    assert summary.loc["a", "runs"] == 3


def test_results_are_shown_on_one_line_and_as_a_table() -> None:
    """`repr` fits one line; notebooks show the summary, with names escaped."""
    result = hand_made()
    assert repr(result) == "Result(policies=['a', 'b'], runs=3, rounds=8)"
    many = dict.fromkeys("abcde", result.regret["a"])
    assert repr(dataclasses.replace(result, regret=many)).startswith("Result(policies=<5 policies>")
    html = dataclasses.replace(result, regret={"<b>": result.regret["a"]})._repr_html_()
    assert "3 runs of 8 rounds" in html
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert cells[:3] == ["&lt;b&gt;", "5 ± 0.58", "5"]
    empty = rolin.Result.of(result.settings, {})
    assert "0 runs of 8 rounds" in empty._repr_html_()
    comparison = result.compare("a", "b")
    assert repr(comparison) == "Comparison(difference=-5 ± 1, ratio=0.5 ± 0.058, wins=100%)"
    assert str(comparison).startswith("difference -5 ± 1 (-9.3 to -0.697), ratio 0.5 ± 0.058 (")
    assert "\n" not in f"{comparison}{result}"


def test_results_survive_a_file(tmp_path: Path) -> None:
    """A saved result is loaded bit for bit; a second save replaces the first."""
    result = small_result()
    path = tmp_path / "result"
    hand_made().save(path)
    result.save(path)
    loaded = rolin.Result.load(path)
    assert same(loaded, result)
    assert loaded.settings == json.loads(json.dumps(result.settings))
    assert [f.name for f in tmp_path.iterdir()] == ["result"]


def test_one_run_has_no_standard_error() -> None:
    """A single run gives means and no intervals, and can be drawn."""
    result = small_result(runs=1)
    assert np.isnan(result.final("RoLinTS").std_error)
    result.plot()
    mpl.pyplot.close("all")


def test_plots_show_bound_and_bands() -> None:
    """There is a curve and a band per policy; the bound is a line if it fits, else a number."""
    result = hand_made()
    ax = result.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["a", "b", "Theorem 1: 40"]
    assert ax.get_ylim()[1] < 20
    assert len(ax.collections) == 2
    ax = result.plot(scale="log")
    assert any(line.get_label() == "Theorem 1" for line in ax.get_lines())
    assert ax.get_ylim()[1] > 40
    ax = result.plot(bound=False)
    assert len(ax.get_legend().get_texts()) == 2
    with pytest.raises(ParameterError, match="scale='cubic'"):
        result.plot(scale="cubic")  # type: ignore[arg-type]
    mpl.pyplot.close("all")
    bound = small_result().bound
    assert bound is not None
    assert bound[-1] == pytest.approx(WORLD.regret_bound(50))
