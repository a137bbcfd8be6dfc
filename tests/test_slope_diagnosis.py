"""Do arms differ in slopes? The second question of a diagnosis, and the first one given slopes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.stats import chi2

import rolin
from rolin.model.diagnosis import diagnose
from rolin.model.estimation import with_slope_guess
from rolin.model.moments import Moments
from rolin.model.slope_diagnosis import LikelihoodRatio, likelihood_ratio
from rolin.model.slope_likelihood import SlopeEvidence, SlopeSearch
from rolin.model.slope_report import HOW_TO_ASK
from support.slopes import slope_data, slope_moments

LEARN = {"noise_std", "arm_std", "slope_std"}


def test_the_answers(rng: np.random.Generator) -> None:
    """Clear slopes of one feature are found and named, many rewards without slopes say no, few cannot tell."""
    names = ["age", "price", "color"]
    data = slope_data(rng, 2000, 20, 3, slopes=[1], slope_std=0.8)
    found = diagnose(slope_moments(*data), feature_names=names).slopes
    assert found is not None
    assert found.answer == "yes"
    assert found.features[0].name == "price"
    assert found.features[0].adjusted < 1e-6
    assert "react differently" in found.because
    assert "price" in found.because
    # 20 slopes of 0.8 with a standard error of 1/√40 each: five of them
    assert abs(found.features[0].slope_std - 0.8) < 5 * 0.8 / 40**0.5
    none = diagnose(slope_moments(*slope_data(rng, 5000, 20, 3, slope_std=0.0, noise_std=0.5)))
    assert none.slopes is not None
    assert none.slopes.answer == "no"
    assert "no sign of slopes" in none.slopes.because
    few = diagnose(slope_moments(*slope_data(rng, 30, 10, 3, slope_std=0.0, noise_std=3.0))).slopes
    assert few is not None
    assert few.answer == "cannot tell"
    assert "More rewards are needed" in few.because
    single = diagnose(slope_moments(*slope_data(rng, 30, 1, 3))).slopes
    assert single is not None
    assert single.answer == "cannot tell"
    assert "several arms" in single.because
    assert math.isnan(single.p_value)


def ratio_of(data: Any, zero: str) -> LikelihoodRatio:
    """The test of one scale, `"arm"` or `"slope"`, with the others free."""
    moments = slope_moments(*data)
    prior = with_slope_guess(moments, rolin.Scales(intercept_std=1.0))
    search = SlopeSearch(SlopeEvidence(moments, prior), LEARN, "reml")
    return likelihood_ratio(search.best(**{zero: 0.0}).deviance, search.best().deviance)


@pytest.mark.parametrize(
    ("zero", "truth"), [("slope", {"slope_std": 0.0}), ("arm", {"arm_std": 0.0})]
)
def test_each_test_errs_as_often_as_it_says(zero: str, truth: dict[str, float], seed: int) -> None:
    """Of 400 data sets without what is tested, but with the other, 5 % ± 4.4 % and 10 % ± 6 % are rejected.

    These are four standard errors, of 1.09 % and 1.5 %. There are 25 arms.
    """
    p = np.array(
        [
            ratio_of(
                slope_data(np.random.default_rng([seed, i]), 300, 25, 2, **truth), zero
            ).p_value  # type: ignore[arg-type]  # numbers
            for i in range(400)
        ]
    )
    assert abs(np.mean(p < 0.05) - 0.05) < 4 * (0.05 * 0.95 / 400) ** 0.5
    assert abs(np.mean(p < 0.1) - 0.1) < 4 * (0.1 * 0.9 / 400) ** 0.5


def test_with_three_arms_the_test_is_cautious(seed: int) -> None:
    """Of 300 data sets, at most 5 % + 3 s.e. (of 1.26 %) are rejected."""
    p = [
        ratio_of(slope_data(np.random.default_rng([seed, i]), 60, 3, 1, slope_std=0.0), "slope").p_value
        for i in range(300)
    ]  # fmt: skip
    assert np.mean(np.array(p) < 0.05) < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_the_statistics_are_twice_the_rise_of_the_dense_restricted_likelihood(
    rng: np.random.Generator,
) -> None:
    """Those of both questions and of each feature: the density of all contrasts that the coefficients do not change."""
    arms, x, r, h = slope_data(rng, 120, 12, 2, slope_std=0.6)
    contrasts = null_space(np.column_stack([x, np.ones(len(x))]).T)
    same = np.equal.outer(arms, arms).astype(float)

    def lowest(*parts: Any) -> float:
        """The lowest deviance, over the noise and the variances of these parts."""

        def deviance(t: Any) -> float:
            noise, *others = np.exp(2.0 * t)
            v = noise * np.diag(1 / h) + sum(a * p for a, p in zip(others, parts, strict=True))
            v = contrasts.T @ v @ contrasts
            y = contrasts.T @ r
            return float(np.linalg.slogdet(v).logabsdet + y @ np.linalg.solve(v, y))

        found = minimize(
            deviance, np.full(1 + len(parts), -0.3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}
        )  # fmt: skip
        return float(found.fun)

    one = [same * np.outer(x[:, j], x[:, j]) for j in range(2)]
    both = lowest(same, one[0] + one[1])
    report = diagnose(slope_moments(arms, x, r, h))
    assert report.slopes is not None
    level = lowest(same)
    assert report.slopes.statistic == pytest.approx(level - both, abs=1e-5)
    assert report.statistic == pytest.approx(lowest(one[0] + one[1]) - both, abs=1e-5)
    for feature in report.slopes.features:
        j = int(str(feature.name)[1:])
        assert feature.statistic == pytest.approx(max(level - lowest(same, one[j]), 0.0), abs=1e-5)
    for test in (report.slopes, *report.slopes.features):
        expected = 0.5 * chi2.sf(test.statistic, 1) if test.statistic > 0.0 else 1.0
        assert test.p_value == pytest.approx(expected, rel=1e-9)


def test_p_values_of_features_are_corrected_as_by_holm(rng: np.random.Generator) -> None:
    """They are those of statsmodels, the smallest first."""
    from statsmodels.stats.multitest import multipletests

    data = slope_data(rng, 600, 20, 6, slopes=[0, 2], slope_std=0.4)
    found = diagnose(slope_moments(*data)).slopes
    assert found is not None
    p = [feature.p_value for feature in found.features]
    assert p == sorted(p)
    adjusted = [feature.adjusted for feature in found.features]
    assert adjusted == pytest.approx(multipletests(p, method="holm")[1])


def test_slopes_of_some_features_only(rng: np.random.Generator) -> None:
    """Only features with slopes are tested, by their names."""
    arms, x, r, h = slope_data(rng, 800, 15, 4, slopes=[3], slope_std=0.7)
    found = diagnose(slope_moments(arms, x, r, h, [1, 3]), feature_names=list("abcd")).slopes
    assert found is not None
    assert [feature.name for feature in found.features] == ["d", "b"]


# -- the first question -------------------------------------------------------------------------


def test_without_slopes_nothing_changes(rng: np.random.Generator) -> None:
    """The report is that of the same evidence without slopes, with one line that says how to ask for them."""
    arms, x, r, h = slope_data(rng, 300, 12, 2, slope_std=0.0)
    plain = Moments.of(arms, x, r, h)
    report, stripped = diagnose(plain), diagnose(slope_moments(arms, x, r, h).with_slopes(()))
    assert report.slopes is None
    assert str(report).count(HOW_TO_ASK) == report._repr_html_().count("Not asked") == 1
    assert stripped.statistic == pytest.approx(report.statistic, rel=1e-9)
    assert HOW_TO_ASK not in str(diagnose(Moments.of(arms, x[:, :0], r)))
    assert set(report.shares) == {"features", "arms", "noise"}


def test_slopes_of_features_with_a_level_are_no_arm_effects(seed: int) -> None:
    """Arms differ in slopes only, for a feature around 2. Without slopes, these look like arm effects.

    Given slopes, arm_std is rejected in at most 5 % + 4 s.e. (of 2.2 %) of 100 data sets.
    """
    wrong = without = 0
    for i in range(100):
        rng = np.random.default_rng([seed, i])
        arms, x = rng.integers(20, size=400), rng.normal(2.0, 1.0, size=(400, 1))
        r = x[:, 0] * (1.0 + 0.5 * rng.normal(size=20)[arms]) + rng.normal(size=400)
        wrong += ratio_of((arms, x, r), "arm").p_value < 0.05
        if i < 10:
            without += diagnose(Moments.of(arms, x, r)).answer == "yes"
    assert wrong / 100 < 0.05 + 4 * (0.05 * 0.95 / 100) ** 0.5
    assert without == 10


def test_effects_and_shares_are_those_of_the_model_with_slopes(rng: np.random.Generator) -> None:
    """Shares add up to 1, intervals of effects hold the truth, and the model with slopes predicts best."""
    k, d, n = 25, 2, 3000
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, d))
    effects, own = rng.normal(size=k), rng.normal(size=(k, d))
    r = x @ [2.0, -1.0] + effects[arms] + (x * own[arms]).sum(axis=1) + rng.normal(size=n)
    report = diagnose(slope_moments(arms, x, r))
    assert sum(report.shares.values()) == pytest.approx(1.0)
    # features 5, arms 1, slopes 2, noise 1; variances of 25 draws have a standard error of 28 %
    assert report.shares["slopes"] == pytest.approx(2 / 9, abs=0.15)
    assert max(report.log_scores, key=report.log_scores.__getitem__) == "slopes (features, arms)"
    held = sum(arm.low <= effects[int(arm.name)] <= arm.high for arm in report.arms)
    # Of 25 intervals of 95 %: four standard errors of 1.1 below 24, and their common level.
    assert held >= 19
    assert report.gain is not None


def test_a_perfect_fit_is_not_a_verdict(rng: np.random.Generator) -> None:
    """Rewards without noise cannot tell."""
    arms, x, _, _ = slope_data(rng, 200, 10, 2)
    report = diagnose(slope_moments(arms, x, x @ [1.0, 2.0]))
    assert report.slopes is not None
    assert report.answer == report.slopes.answer == "cannot tell"


# -- the report ---------------------------------------------------------------------------------


def test_the_report_as_text_html_json_and_frame(rng: np.random.Generator) -> None:
    """All of them have the answer, the scale, the test and the features; many features are cut."""
    data = slope_data(rng, 900, 12, 22, slopes=[4], slope_std=1.0)
    names = [f"<{j}>" for j in range(22)]
    report = diagnose(slope_moments(*data), feature_names=names)
    text, html = str(report), report._repr_html_()
    assert report.slopes is not None
    for part in ("Do arms differ in slopes? YES.", "test of slope_std = 0", "slope_std  "):
        assert part in text
    assert "… 2 more" in text
    assert "<4>" not in html
    assert "&lt;4&gt;" in html
    assert "2 more features are not shown" in html
    plain = json.loads(report.to_json())
    assert plain["slopes"]["answer"] == "yes"
    assert plain["slopes"]["features"][0]["name"] == "<4>"
    frame = report.slopes.to_frame()
    assert list(frame.columns) == ["name", "slope_std", "statistic", "p_value", "adjusted"]
    assert len(frame) == 22
    assert "Do arms differ in slopes? YES." in str(report.slopes)
    assert "\n" not in repr(report.slopes)
    report.plot()


def test_a_policy_a_bandit_and_a_state_file_are_diagnosed(
    rng: np.random.Generator, tmp_path: Path, run_rolin: Callable[..., CompletedProcess[str]]
) -> None:
    """Each of them asks for slopes if its arms have slopes."""
    arms, x, r, _ = slope_data(rng, 600, 10, 2, slope_std=1.0)
    policy = rolin.RoLinTS(n_features=2, slope_std="learn", slopes=[0], seed=0)
    policy.update_many(arms, x, r)
    slopes = policy.diagnose().slopes
    assert slopes is not None
    assert slopes.answer == "yes"
    assert [feature.name for feature in slopes.features] == ["x0"]
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=1, slope_std="learn", seed=0))
    for _ in range(40):
        decision = bandit.decide(rng.normal(size=(4, 1)))
        bandit.reward(decision.id, float(rng.normal()))
    assert bandit.diagnose().slopes is not None
    policy.save(tmp_path / "state.rolin")
    shown = run_rolin("diagnose", str(tmp_path / "state.rolin")).stdout
    assert "Do arms differ in slopes? YES." in shown
