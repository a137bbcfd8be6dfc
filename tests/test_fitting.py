"""Logs of any length: the fold against one `Moments.of` of all rows, and what a fit is good for."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rolin
from rolin import fitting
from rolin._support.parallel import worker_count
from rolin.errors import ParameterError, StateFileError, Unsupported
from rolin.logs import batches, files
from rolin.model.moments import Moments
from support.fitting_logs import FEATURES, PARTS, Command, folder_of, log, oracle, same

# -- the fold --------------------------------------------------------------------------------------


@given(data=st.data())
def test_batches_of_any_size_sum_to_all_rows(data: st.DataObject) -> None:
    """However a log is cut, its moments are those of all rows at once."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    n, k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 5))
    columns = log(rng, n, 4, k)
    table = pa.table(columns)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=5)))
    bounds = [0, *cuts, n]
    fold = fitting.Fold.of(table, weight="weight", features=FEATURES)
    parts = [fold(table.slice(a, b - a)) for a, b in pairwise(bounds)]
    same(Moments.sum(parts), oracle(columns))
    same(Moments.sum(parts), sum(parts, Moments.zero(4)))


@given(
    offset=st.sampled_from([0.0, 1e3, 1e6]),
    fixed=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_batch_is_as_exact_as_longdouble(offset: float, fixed: bool, seed: int) -> None:
    """Around the first row of an arm, sums lose no more than their own rounding."""
    rng = np.random.default_rng(seed)
    n, k = 200, 4
    codes = rng.integers(k, size=n)
    x = rng.normal(size=(k, 3))[codes] if fixed else rng.normal(size=(n, 3))
    x = x + offset
    r, h = rng.normal(size=n) + offset, rng.uniform(0.1, 3.0, size=n)
    found = Moments.of(codes, x, r, h)
    wide = np.column_stack([r, x]).astype(np.longdouble)
    total = np.zeros((4, 4), dtype=np.longdouble)
    for arm in set(codes.tolist()):
        rows = codes == arm
        weight = h[rows].astype(np.longdouble)
        centred = wide[rows] - (weight[:, None] * wide[rows]).sum(0) / weight.sum()
        total += (weight[:, None] * centred).T @ centred
    # what the rounding of the numbers themselves allows, and no more
    scale = float(total[0, 0]) + n * (offset * 1e-15) ** 2
    np.testing.assert_allclose(found.reward_scatter, float(total[0, 0]), rtol=1e-9)
    np.testing.assert_allclose(found.scatter, total[1:, 1:].astype(float), atol=1e-9 * scale)
    if fixed:
        assert (found.scatter == 0.0).all()


def test_a_fold_can_be_sent_to_another_process(rng: np.random.Generator) -> None:
    """Pickled and back, it does the same."""
    table = pa.table(log(rng))
    fold = fitting.Fold.of(table, weight="weight", features=FEATURES)
    assert pickle.loads(pickle.dumps(fold)) == fold
    same(pickle.loads(pickle.dumps(fold))(table), fold(table), 0.0)


def test_the_sum_takes_parts_of_one_width_only() -> None:
    """Moments of other features are another model's."""
    with pytest.raises(rolin.errors.MergeError, match=r"2 features cannot be combined with .* 3"):
        Moments.sum([Moments.zero(2), Moments.zero(3)])
    with pytest.raises(ParameterError, match="no moments to add up"):
        Moments.sum([])


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_do_not_change_a_bit(
    n_jobs: int, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces are added in their order, whoever is first."""
    monkeypatch.setattr(batches, "_BYTES", 1)  # every row group is a partition
    path = folder_of(log(rng), tmp_path / "log")
    one = rolin.fit(path, features=FEATURES, n_jobs=1, progress=False).moments
    many = rolin.fit(path, features=FEATURES, n_jobs=n_jobs, progress=False).moments
    for name in PARTS:
        assert np.array_equal(getattr(one, name), getattr(many, name))


# -- what a fit is good for ------------------------------------------------------------------------


def test_any_policy_starts_from_one_state_file(rng: np.random.Generator, tmp_path: Path) -> None:
    """All policies with moments; those without are told apart."""
    columns = log(rng, 2000)
    found = rolin.fit(
        folder_of(columns, tmp_path / "log"), features=FEATURES, intercept_std=2.0, progress=False
    )
    found.save(tmp_path / "state")
    for name, kind in rolin.policies.find().items():
        if name.startswith("Logistic") or name in (
            *("HLinUCB", "HybridLinUCB", "DisjointLinUCB", "SafeFALCON"),
        ):
            for start in (found, tmp_path / "state", found.moments):
                with pytest.raises(Unsupported, match=f"{name} cannot start from a fit: "):
                    kind.from_fit(start)
            with pytest.raises(Unsupported, match=f"{name} cannot start from a fit: "):
                found.policy(kind)
            continue
        with pytest.raises(StateFileError, match=rf"a fit, not a policy: {name}\.from_fit\("):
            rolin.load(tmp_path / "state", kind)
        policy: Any = kind.from_fit(tmp_path / "state", seed=7)
        assert type(policy) is kind
        assert policy.seed == 7
        same(policy.moments, found.moments, 1e-9)
        again = found.policy(kind, seed=7)
        x = rng.normal(size=(7, 4))
        arms = list(found.moments.arms)
        if hasattr(policy, "predict"):
            for a, b in zip(policy.predict(x, arms), again.predict(x, arms), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
        assert policy.decide(x, arms).arm == again.decide(x, arms).arm
    joint = rolin.RoLinTS.from_fit(tmp_path / "state", sampling="joint", arm_std=0.3)
    assert (joint.sampling, joint.scales.arm_std) == ("joint", 0.3)
    with pytest.raises(StateFileError, match=r"holds a fit, not a policy: RoLinTS\.from_fit\("):
        rolin.load(tmp_path / "state")
    joint.save(tmp_path / "saved")
    with pytest.raises(StateFileError, match=r"holds a RoLinTS, not a fit: rolin\.load\("):
        rolin.RoLinTS.from_fit(tmp_path / "saved")
    with pytest.raises(rolin.errors.UnknownOption, match="n_features is 4"):
        found.policy(n_features=3)
    with pytest.raises(rolin.errors.ParameterError, match="expected a Fit, its file, or Moments"):
        rolin.RoLinTS.from_fit(3)  # type: ignore[arg-type]
    with pytest.raises(
        Unsupported, match=r"LinearPolicy cannot start from a fit: it is a base class"
    ):
        rolin.LinearPolicy.from_fit(found)


@pytest.mark.parametrize("intercept_std", ["learn", 2.0, None])
def test_the_scales_are_those_of_a_default_policy(
    intercept_std: float | Literal["learn"] | None, rng: np.random.Generator
) -> None:
    """A policy learns the same scales and coefficients from the same log, with the same intercept; it goes on learning.

    The rewards are far from 0, so that scales estimated without the intercept would be others.
    """
    columns = log(rng, 3000)
    columns["reward"] = columns["reward"] + 100.0
    options: Any = {"features": FEATURES, "intercept_std": intercept_std, "progress": False}
    found = rolin.fit(pa.table(columns), **options)
    policy = rolin.RoLinUCB(n_features=4, intercept_std=intercept_std)
    x = np.column_stack([columns[name] for name in FEATURES])
    policy.update_many(columns["arm"], x, columns["reward"])
    policy.learn_scales()
    # -2 log likelihood is about 8500 and known to 1e-11. So the logarithm of a scale with a curvature of 8 is known to
    # (1e-11 / 8)^½ = 1e-6 only; the order of the sums differs between the two.
    for name, value in policy.scales.to_dict().items():
        given = getattr(found.scales, name)
        assert given is value if value is None else given == pytest.approx(value, rel=1e-5)
    expected_mean = policy.posterior.coefficients.mean
    np.testing.assert_allclose(found.coefficients.mean, expected_mean, rtol=1e-6)
    without = rolin.fit(pa.table(columns), **{**options, "intercept_std": None})
    assert (without.scales.arm_std > 10.0 * found.scales.arm_std) == (intercept_std is not None)


def test_a_policy_keeps_the_scales_that_it_is_given(rng: np.random.Generator) -> None:
    """Others are learned; the frame of coefficients has the intercept last."""
    columns = log(rng, 3000)
    found = rolin.fit(pa.table(columns), features=FEATURES, progress=False)
    assert found.policy(rolin.RoLinUCB, horizon=100).learns_scales
    fixed = found.policy(
        rolin.RoLinTS, noise_std=1.5, arm_std=0.1, coef_std=2.0, intercept_std=None
    )
    assert not fixed.learns_scales
    assert fixed.scales.noise_std == 1.5
    frame = found.to_frame()
    assert frame["feature"].tolist() == [*found.feature_names, "intercept"]
    assert (frame["std"] > 0.0).all()
    assert "3,000 rewards of 7 arms, 4 features" in str(found)


def test_a_linear_policy_learns_its_own_noise(rng: np.random.Generator) -> None:
    """Without arm effects, what they are is noise."""
    n = 4000
    arms = rng.integers(40, size=n)
    r = 2.0 * rng.normal(size=40)[arms] + rng.normal(size=n)
    found = rolin.fit(pa.table({"arm": arms, "reward": r, "x": rng.normal(size=n)}), progress=False)
    assert found.policy(rolin.RoLinTS).scales.noise_std < 1.1
    assert found.policy(rolin.LinTS).scales.noise_std > 1.6


# -- memory and precision --------------------------------------------------------------------


def test_memory_does_not_grow_with_the_rows(tmp_path: Path, rng: np.random.Generator) -> None:
    """Ten times as many rows take as much memory, to a few megabytes."""
    table = pa.table(log(rng, 100_000, d=16))
    peaks = []
    for times in (2, 20):
        path = tmp_path / f"{times}"
        path.mkdir()
        for i in range(times):
            pq.write_table(table, path / f"{i}.parquet", row_group_size=20_000)
        code = (
            f"import rolin, resource; rolin.fit({str(path)!r}, n_jobs=1, progress=False); "
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        peaks.append(int(out.stdout) / 1024)
    assert peaks[1] < peaks[0] + 40.0  # megabytes; the rows of the larger log are 240


def test_a_first_row_far_out_costs_no_precision(rng: np.random.Generator) -> None:
    """The same rows in any order, to 1e-12: an outlier that comes first is no centre."""
    n = 20_000
    x, r = rng.normal(size=(n, 2)), rng.normal(size=n)
    x[0] = 1e7
    arms = np.zeros(n, dtype=int)
    first, last = Moments.of(arms, x, r), Moments.of(arms, x[::-1], r[::-1])
    np.testing.assert_allclose(first.scatter, last.scatter, rtol=1e-12)
    np.testing.assert_allclose(first.cross, last.cross, rtol=1e-10)


def test_sums_that_overflow_are_refused() -> None:
    """Within a batch, and of two."""
    one, other = (Moments.of(["a"], [[v]], [0.0]) for v in (1e200, -1e200))
    with pytest.raises(rolin.errors.NotFiniteError, match="too large to add up"):
        one + other
    with pytest.raises(rolin.errors.MergeError, match="a part is 1, expected Moments"):
        Moments.sum([1])  # type: ignore[list-item]


# -- how a fit is shown ----------------------------------------------------------------------


def test_a_fit_is_shown(rng: np.random.Generator) -> None:
    """One line for the interpreter, an escaped table for notebooks."""
    columns = log(rng, 300)
    columns["<b>&age"] = columns.pop("x0")
    found = rolin.fit(pa.table(columns), features=["<b>&age", "x1"], progress=False)
    assert repr(found) == "<Fit: 300 rewards of 7 arms, 2 features>"
    html = found._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;age, x1" in html
    assert [html.count(name) for name in ("noise_std", "arm_std", "coef_std")] == [1, 1, 1]
    empty = rolin.fit(pa.table(columns).slice(0, 0), features=["x1"], progress=False)
    assert "0 rewards of 0 arms" in empty._repr_html_()


def test_progress_of_a_fit(rng: np.random.Generator, tmp_path: Path) -> None:
    """A function is told all bytes; a label is no longer taken."""
    path = folder_of(log(rng), tmp_path / "log")
    steps: list[int] = []
    rolin.fit(path, features=FEATURES, progress=steps.append)
    assert min(steps) > 0
    assert len(steps) == len(batches.partitions_of(files.look(files.files_of(path, {}), {})))
    with pytest.raises(ParameterError, match="progress='folding', expected True, False or a func"):
        rolin.fit(path, features=FEATURES, progress="folding")  # type: ignore[arg-type]


def test_n_jobs_is_that_of_joblib() -> None:
    """None is one, -1 all cores, -2 all but one."""
    for n_jobs in (None, 1, 3, -1, -2, -1000):
        assert worker_count(n_jobs) == joblib.effective_n_jobs(n_jobs)


# -- the command -----------------------------------------------------------------------------------


def test_the_command_writes_a_state(
    rng: np.random.Generator,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rolin_command: Command,
) -> None:
    """`rolin fit LOG --out STATE`, as a user types it."""
    columns = log(rng, 2000)
    path, out = folder_of(columns, tmp_path / "log"), tmp_path / "state"
    command = [str(Path(sys.executable).with_name("rolin")), "fit", str(path), "--out", str(out)]
    done = subprocess.run(
        [*command, "--features", "x0,x1, x2,x3", "--weight", "weight", "--intercept-std", "1"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert "2,000 rewards of 7 arms, 4 features" in done.stdout
    assert "noise_std = " in done.stdout
    assert "folding" in done.stderr
    policy = rolin.RoLinTS.from_fit(out)
    same(policy.moments, oracle(columns))
    assert policy.scales.has_intercept
    assert sorted(os.listdir(tmp_path)) == ["log", "state"]
    assert rolin_command("diagnose", out)[0] == 0
    for arguments, message in (
        (["--missing", "maybe"], "--missing maybe, expected refuse, drop or a number"),
        (["--storage", "anon"], "--storage anon, expected NAME=VALUE"),
        (["--feature-map", tmp_path / "no.json"], "there is no feature map"),
        (["--reward", "money"], "there is no column 'money'"),
        (["--out", path / "part-0.parquet"], "is, or would be, a part of the log"),
        (["--out", path / "state.parquet"], "is, or would be, a part of the log"),
        (["--out", tmp_path / "nowhere" / "state"], "there is no folder"),
    ):
        code, text = rolin_command("fit", path, "--out", out, *arguments)
        assert (code, message in text) == (2, True)
    assert rolin_command("fit", path, "--out", tmp_path)[0] == 2
    same(rolin.RoLinTS.from_fit(out).moments, oracle(columns))


def test_the_state_says_what_it_is(rng: np.random.Generator, tmp_path: Path) -> None:
    """A state of moments, damaged or of parts that do not fit, is refused."""
    found = rolin.fit(pa.table(log(rng, 50)), features=FEATURES, progress=False)
    found.save(tmp_path / "state")
    state = rolin.model.state_file.read(tmp_path / "state")
    assert json.loads(json.dumps(state.settings))["feature_names"] == FEATURES
    arrays = {**state.arrays, "weight": np.ones(3)}
    rolin.model.state_file.write(tmp_path / "other", state._replace(arrays=arrays))
    with pytest.raises(StateFileError, match="do not fit together: weight has shape"):
        rolin.RoLinTS.from_fit(tmp_path / "other")
