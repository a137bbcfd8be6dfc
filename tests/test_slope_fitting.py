"""Logs whose arms have slopes: the fold, its files, and policies that start from them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rolin
from rolin import Moments, RoLinTS, policies
from rolin.errors import MergeError, ParameterError, StateFileError
from rolin.logs import batches
from rolin.model import state_file
from rolin.model.slopes import SlopePosterior
from support.fitting_logs import FEATURES, PARTS, exported, folder_of, log, same

TRUE = 0.8  # the standard deviation of the slopes in `sloped`


def sloped(rng: np.random.Generator, n: int = 3000, k: int = 12) -> dict[str, Any]:
    """Return a log of arms that differ by a level and by slopes for x0 and x2, with rewards around 50."""
    columns = log(rng, n, 4, k)
    arms = np.array([int(name.removeprefix("item-")) for name in columns["arm"]])
    x = np.column_stack([columns[name] for name in FEATURES])
    own = TRUE * rng.normal(size=(k, 2))
    columns["reward"] = (
        columns["reward"]
        + 50.0
        + 0.5 * rng.normal(size=k)[arms]
        + (own[arms] * x[:, [0, 2]]).sum(axis=1)
    )
    return columns


def rows_of(columns: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return arms, contexts, rewards and weights of a log."""
    x = np.column_stack([columns[name] for name in FEATURES])
    return columns["arm"], x, columns["reward"], columns["weight"]


def same_bits(a: Moments, b: Moments) -> None:
    """Both are the same evidence, bit for bit."""
    assert (a.arms, a.slopes) == (b.arms, b.slopes)
    for name in (*PARTS, "mean_context", "mean_reward", "arm_scatter"):
        assert np.array_equal(getattr(a, name), getattr(b, name))


def options(**more: Any) -> dict[str, Any]:
    """Return the options of a fit of these logs."""
    return {"weight": "weight", "features": FEATURES, "progress": False, **more}


# -- the fold --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slopes", "indices"), [(True, [0, 1, 2, 3]), (["x0", "x2"], [0, 2]), ([2], [2])]
)
def test_a_policy_from_a_fit_is_one_that_saw_every_row(
    slopes: Any,
    indices: list[int],
    rng: np.random.Generator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Row groups of several files, folded apart, give the posterior of updates one by one."""
    monkeypatch.setattr(batches, "_BYTES", 1)  # every row group is a partition
    columns = sloped(rng, 600)
    found = rolin.fit(folder_of(columns, tmp_path / "log"), slopes=slopes, **options())
    assert found.moments.slopes == tuple(indices)
    scales: Any = {
        "noise_std": 1.0, "arm_std": 0.5, "coef_std": 1.0, "intercept_std": 50.0, "slope_std": 0.8
    }  # fmt: skip
    started = found.policy(RoLinTS, **scales)
    one = RoLinTS(n_features=4, slopes=indices, **scales)
    for arm, x, reward, weight in zip(*rows_of(columns), strict=True):
        one.update(arm, x, reward, weight=weight)
    contexts = rng.normal(size=(13, 4)) + 3.0
    arms = [*found.moments.arms, "never seen"]
    for a, b in zip(started.predict(contexts, arms), one.predict(contexts, arms), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert started.posterior.log_evidence == pytest.approx(one.posterior.log_evidence, rel=1e-9)
    same(started.moments, one.moments)
    assert one.moments.arm_scatter is not None
    order = [one.moments.arms.index(arm) for arm in found.moments.arms]
    expected = one.moments.arm_scatter[order]
    np.testing.assert_allclose(found.moments.arm_scatter, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_jobs", [2, 5])
def test_threads_do_not_change_a_bit(
    n_jobs: int, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moments are added in the order of the files, whichever is ready first."""
    monkeypatch.setattr(batches, "_BYTES", 1)
    path = folder_of(sloped(rng, 1000), tmp_path / "log")
    one, many = (rolin.fit(path, slopes=True, n_jobs=n, **options()) for n in (1, n_jobs))
    same_bits(one.moments, many.moments)


def test_an_interrupted_fit_resumes_with_slopes(
    rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that stops in the middle has the same slopes in the end; a fit without slopes is another one."""
    monkeypatch.setattr(batches, "_BYTES", 1)
    path, part = folder_of(sloped(rng, 1000), tmp_path / "log"), tmp_path / "part"
    whole = rolin.fit(path, slopes=["x1"], **options()).moments
    steps: list[int] = []

    def stop(size: int) -> None:
        steps.append(size)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rolin.fit(path, slopes=["x1"], checkpoint=part, **options(n_jobs=1, progress=stop))
    stored = state_file.moments_of(state_file.read(part))
    assert 0.0 < stored.count < 1000.0
    assert stored.slopes == (1,)
    for other in (False, True, [2]):
        with pytest.raises(ParameterError, match="checkpoint of a fit with other slopes"):
            rolin.fit(path, slopes=other, checkpoint=part, **options())
    found = rolin.fit(path, slopes=[1], checkpoint=part, **options())
    same(found.moments, whole, 1e-12)
    np.testing.assert_allclose(found.moments.arm_scatter, whole.arm_scatter, rtol=1e-12)


def test_a_checkpoint_of_an_earlier_version_is_one_without_slopes(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """Its settings do not say anything about slopes."""
    path, part = folder_of(sloped(rng, 300), tmp_path / "log"), tmp_path / "part"
    rolin.fit(path, checkpoint=part, **options())
    state = state_file.read(part)
    del state.settings["fold"]["slopes"]
    state_file.write(part, state)
    assert rolin.fit(path, checkpoint=part, **options()).moments.count == 300.0
    with pytest.raises(ParameterError, match="checkpoint of a fit with other slopes"):
        rolin.fit(path, checkpoint=part, slopes=True, **options())
    state.settings["fold"]["slopes"] = [0]
    state_file.write(part, state)
    with pytest.raises(StateFileError, match=r"damaged: its sums have slopes=\[\], expected \[0\]"):
        rolin.fit(path, checkpoint=part, slopes=[0], **options())


@pytest.mark.parametrize(
    ("slopes", "indices"),
    [
        (False, []), ([], []), (True, [0, 1, 2, 3]), ("v", [1, 2, 3]), (["v[1]", "age"], [0, 2]), ([3, "age"], [0, 3]),
    ],
)  # fmt: skip
def test_features_are_named_by_feature_column_or_index(slopes: Any, indices: list[int]) -> None:
    """A column of lists stands for all its features."""
    table = pa.table(
        {"arm": ["a", "b"], "reward": [1.0, 2.0], "age": [3.0, 4.0], "v": [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]}
    )  # fmt: skip
    assert rolin.fit(table, slopes=slopes, progress=False).moments.slopes == tuple(indices)


@pytest.mark.parametrize(
    ("slopes", "message"),
    [
        ("agee", "slopes has 'agee', expected features of the log: age"),
        (["reward"], "slopes has 'reward', expected features of the log: age"),
        ([1], "index 1, expected indices below the number of features, 1"),
        (["age", 0], "expected a list of different indices"),
        (3, "slopes=3, expected True for all features, or a list"),
        ([None], "expected a list of different indices"),
    ],
)
def test_unknown_features_are_rejected(slopes: Any, message: str) -> None:
    """The error names the feature and lists those that there are."""
    table = pa.table({"arm": ["a", "b"], "reward": [1.0, 2.0], "age": [3.0, 4.0]})
    with pytest.raises(ParameterError, match=message):
        rolin.fit(table, slopes=slopes, progress=False)


def test_slopes_of_a_feature_map_and_of_an_exported_table() -> None:
    """Features have the names that the map gives them; those of a journal are x0, x1, …."""
    fields = {"age": rolin.features.Number(), "city": rolin.features.Category(["rome", "oslo"])}
    features = rolin.features.FeatureMap(arm=fields)
    table = pa.table(
        {"arm": ["a", "b", "a"], "reward": [1.0, 2.0, 3.0], "age": [3.0, 4.0, 5.0], "city": ["rome", "oslo", "oslo"]}
    )  # fmt: skip
    name = features.names[1]
    found = rolin.fit(table, feature_map=features, slopes=[name], progress=False)
    assert found.moments.slopes == (1,)
    policy = found.policy(RoLinTS, slope_std=1.0)
    assert (policy.feature_map, policy.moments.slopes) == (features, (1,))
    assert rolin.fit(exported(), slopes=["x0"], missing="drop", progress=False).moments.slopes == (
        0,
    )


# -- scales ----------------------------------------------------------------------------------------


def test_a_fit_estimates_the_scale_of_slopes(seed: int) -> None:
    """The interval holds the truth, and a default policy with slopes learns the same scales to 2 %.

    The policy stops its search within 0.5 % of a scale. The true slopes are 2 · 40 draws of a normal distribution, so
    that their standard deviation is known to 8 % (one standard error); the bounds are four of them.
    """
    rng = np.random.default_rng(seed)
    columns = sloped(rng, 4000, k=40)
    found = rolin.fit(pa.table(columns), slopes=["x0", "x2"], **options())
    slope_std = found.estimate.slope_std
    assert slope_std is not None
    assert 0.68 * TRUE < slope_std.value < 1.32 * TRUE
    assert slope_std.low < slope_std.value < slope_std.high
    assert "slope_std = " in str(found)
    assert "slope_std" in found._repr_html_()
    policy = RoLinTS(n_features=4, slope_std="learn", slopes=[0, 2])
    policy.update_many(*rows_of(columns))
    policy.learn_scales()
    for name in (
        "noise_std",
        "arm_std",
        "coef_std",
        "slope_std",
        "intercept_mean",
        "intercept_std",
    ):
        assert getattr(found.scales, name) == pytest.approx(getattr(policy.scales, name), rel=0.02)
    assert isinstance(found.posterior, SlopePosterior)
    assert found.posterior.slopes().mean.shape == (40, 2)
    assert found.to_frame()["feature"].tolist() == [*FEATURES, "intercept"]


# -- policies --------------------------------------------------------------------------------------


def test_a_saved_fit_starts_policies_with_and_without_slopes(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """With slopes, those of the fit or fewer; without, as if the log had been fitted without."""
    table, path = pa.table(sloped(rng, 2000)), tmp_path / "fit"
    found = rolin.fit(table, slopes=["x0", "x2"], **options())
    found.save(path)
    same_bits(state_file.moments_of(state_file.read(path)), found.moments)
    x, arms = rng.normal(size=(3, 4)), list(found.moments.arms[:3])
    learned = RoLinTS.from_fit(path, slope_std="learn", seed=3)
    assert learned.settings["slopes"] == (0, 2)
    np.testing.assert_allclose(learned.scales.slope_std, TRUE, rtol=0.7)
    np.testing.assert_array_equal(
        learned.predict(x, arms), found.policy(slope_std="learn").predict(x, arms)
    )
    fewer = RoLinTS.from_fit(path, slope_std=0.5, slopes=[2])
    assert fewer.moments.slopes == (2,)
    plain, expected = RoLinTS.from_fit(path), rolin.fit(table, **options()).policy(RoLinTS)
    assert plain.moments.slopes == ()
    for name in ("bayes", "naive", "plain"):
        kind: Any = {
            "bayes": rolin.BayesRoLinTS,
            "naive": policies.find()["NaiveRoLinTS"],
            "plain": RoLinTS,
        }[name]
        one, other = kind.from_fit(path), rolin.fit(table, **options()).policy(kind)
        np.testing.assert_array_equal(one.predict(x, arms), other.predict(x, arms))
    np.testing.assert_array_equal(plain.predict(x, arms), expected.predict(x, arms))
    learned.update(arms[0], x[0], 50.0)
    learned.save(tmp_path / "policy")
    again: Any = rolin.load(tmp_path / "policy")
    np.testing.assert_array_equal(again.predict(x, arms), learned.predict(x, arms))
    same_bits(again.moments, learned.moments)


@pytest.mark.parametrize(
    "given",
    [
        {"slope_std": "learn"},
        {"slope_std": ("learn", 0.5), "slopes": [0, 2]},
        {"slope_std": ("learn", [0.5, 0.7]), "slopes": [0, 2], "half_life": 500.0},
        {"slope_std": [0.1, 0.2, 0.3, 0.4], "coef_std": 1.0, "arm_std": 0.5, "noise_std": 1.0},
        {"slope_std": 0.5, "slopes": [3], "intercept_std": None, "learn_by": "ml"},
        {"slope_std": "learn", "slopes": [1], "exploration": "auto"},
    ],
    ids=str,
)
def test_a_policy_from_a_fit_is_saved_and_loaded(
    given: Any, rng: np.random.Generator, tmp_path: Path
) -> None:
    """It predicts the same, has the same evidence, and goes on the same way."""
    columns = sloped(rng, 1000)
    found = rolin.fit(pa.table(columns), slopes=True, **options())
    policy = found.policy(RoLinTS, seed=5, **given)
    policy.save(tmp_path / "policy")
    again = rolin.load(tmp_path / "policy", RoLinTS)
    arms, x, r, h = (column[:60] for column in rows_of(columns))
    some = list(found.moments.arms[:5])
    for one in (policy, again):
        one.update_many(arms, x, r, h)
    np.testing.assert_array_equal(again.predict(x[:5], some), policy.predict(x[:5], some))
    same_bits(again.moments, policy.moments)
    assert (again.settings, again.scales) == (policy.settings, policy.scales)


def test_a_fit_without_slopes_cannot_start_a_policy_with_them(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """The error says how to fit."""
    table = pa.table(sloped(rng, 200))
    rolin.fit(table, **options()).save(tmp_path / "fit")
    for start in (tmp_path / "fit", rolin.fit(table, **options()).moments):
        for scale in ("learn", 0.5, ("learn", 0.5)):
            with pytest.raises(
                ParameterError, match="the fit has no slopes: fit the log again with slopes=True"
            ):
                RoLinTS.from_fit(start, slope_std=scale)
    some = rolin.fit(table, slopes=[1], **options())
    with pytest.raises(
        ParameterError, match=r"slopes for \[1\] only: fit the log again with slopes=\[0, 1\]"
    ):
        some.policy(slope_std=0.5, slopes=[1, 0])


def test_policies_with_slopes_are_merged(rng: np.random.Generator) -> None:
    """Two halves, merged, with or without a common start, are the policy that saw everything."""
    arms, x, r, h = rows_of(sloped(rng, 900))
    start = RoLinTS(n_features=4, slope_std="learn", slopes=[0, 2], seed=1)

    def taught(policy: RoLinTS, rows: slice) -> RoLinTS:
        found = copy.deepcopy(policy)
        found.update_many(arms[rows], x[rows], r[rows], h[rows])
        return found

    whole, base = taught(start, slice(900)), taught(start, slice(300))
    whole.learn_scales()
    a, late, b = (
        taught(base, slice(300, 600)),
        taught(start, slice(600, 900)),
        taught(base, slice(600, 900)),
    )
    at = rng.normal(size=(5, 4)) + 3.0
    for merged in (policies.merge(a, late), policies.merge(a, b, base=base)):
        same(merged.moments, whole.moments, 1e-8)
        names = list(merged.arms[:5])
        np.testing.assert_allclose(
            merged.predict(at, names).mean, whole.predict(at, names).mean, rtol=1e-5
        )
    for other, message in (
        (RoLinTS(n_features=4), "slope_std differs: 'learn' and 0.0"),
        (RoLinTS(n_features=4, slope_std="learn"), "slopes differs"),
    ):
        with pytest.raises(MergeError, match=message):
            policies.merge(a, other)
        with pytest.raises(MergeError, match="differs"):
            policies.merge(other, a)


def test_a_policy_without_features_may_have_a_scale_of_slopes() -> None:
    """There is nothing to have slopes for; it learns, merges and starts from moments as without."""
    a, b = (RoLinTS(n_features=0, slope_std=1.0, arm_std=1.0, noise_std=1.0) for _ in range(2))
    a.update("x", [], 1.0)
    b.update("y", [], 2.0)
    merged = policies.merge(a, b)
    assert merged.arms == ["x", "y"]
    started = RoLinTS.from_fit(merged.moments, slope_std=1.0, arm_std=1.0, noise_std=1.0)
    np.testing.assert_allclose(
        started.predict(np.empty((2, 0)), ["x", "y"]), merged.predict(np.empty((2, 0)), ["x", "y"])
    )


# -- files and the command -------------------------------------------------------------------------


def _spoiled(moments: Moments, change: Callable[[dict[str, Any]], None]) -> state_file.State:
    state = state_file.state_of(moments)
    arrays = {name: np.array(array) for name, array in state.arrays.items()}
    change(arrays)
    return state._replace(arrays=arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("slopes"), "slopes"),
        (lambda a: a.pop("arm_scatter"), "arm_scatter is missing"),
        (lambda a: a.update(slopes=np.array([2, 0])), "expected ascending indices"),
        (lambda a: a.update(slopes=np.array([0, 9])), "expected ascending indices"),
        (lambda a: a.update(slopes=np.array([0.0, 2.0])), "numbers of type float64, expected int64"),
        (lambda a: a.update(slopes=np.array([0, 1])), "does not add up to scatter"),
        (lambda a: a["arm_scatter"].__imul__(1.01), "does not add up to scatter"),
        (lambda a: a["arm_scatter"].__setitem__((0, 0, 0), np.nan), "not finite"),
        (lambda a: _move(a, 0, 1, 1e6), "negative sum of squares"),
        (lambda a: _move(a, 0, 3, 1e3), "not symmetric"),
        (lambda a: (_move(a, 0, 3, 1e3), _move(a, 1, 1, 1e3)), "not positive semidefinite"),
        (lambda a: a.update(arm_scatter=a["arm_scatter"][:, :1]), "arm_scatter has shape"),
    ],
)  # fmt: skip
def test_files_with_impossible_slopes_are_rejected(
    change: Callable[[dict[str, Any]], None], message: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """What cannot be the scatter of any arms is damage."""
    moments = rolin.fit(pa.table(sloped(rng, 200)), slopes=[0, 2], **options()).moments
    state_file.write(tmp_path / "fit", _spoiled(moments, change))
    with pytest.raises(StateFileError, match=f"parts do not fit together: .*{message}"):
        RoLinTS.from_fit(tmp_path / "fit", slope_std="learn")


def _move(arrays: dict[str, Any], row: int, column: int, size: float) -> None:
    """Add a number to an entry of one arm, and subtract it from that of another."""
    arrays["arm_scatter"][:2, row, column] += [-size, size]


def test_files_with_rounding_errors_are_not_rejected(seed: int) -> None:
    """Far offsets, collinear and constant features, and nearly all rows subtracted, give valid files."""
    rng = np.random.default_rng(seed)
    for offset in (0.0, 1e3, 1e8):
        x = rng.normal(size=(200, 6)) + offset
        x[:, 3], x[:, 4], x[:, 5] = x[:, 0], x[:, 1] - x[:, 2], offset
        y, arms = x @ rng.normal(size=6), rng.integers(0, 5, 200).tolist()
        slopes = sorted(rng.choice(6, rng.integers(1, 7), replace=False).tolist())
        both, most = (Moments.of(arms[:n], x[:n], y[:n], slopes=slopes) for n in (200, 193))
        for given in (both, both - most, both.decayed(1e-9), Moments.zero(6, slopes=slopes)):
            packed = state_file.pack(state_file.state_of(given))
            same_bits(state_file.moments_of(state_file.unpack(packed, "a fit")), given)


def test_the_command_fits_slopes(
    rng: np.random.Generator, tmp_path: Path, run_rolin: Callable[..., CompletedProcess[str]]
) -> None:
    """`rolin fit LOG --slopes x0,x2`, or all of them."""
    path, out = folder_of(sloped(rng, 1000), tmp_path / "log"), tmp_path / "state"
    plain = ["fit", path, "--out", out, "--features", ",".join(FEATURES)]
    for text, indices in (("x0, x2", (0, 2)), ("all", (0, 1, 2, 3))):
        done = run_rolin(*plain, "--slopes", text)
        assert (done.returncode, "slope_std = " in done.stdout) == (0, True)
        assert RoLinTS.from_fit(out, slope_std="learn").moments.slopes == indices
    done = run_rolin(*plain, "--slopes", "x9")
    assert done.returncode == 2
    assert "slopes has 'x9', expected features of the log: x0, x1, x2, x3" in done.stderr
    done = run_rolin(*plain)
    assert (done.returncode, "slope_std" in done.stdout) == (0, False)
