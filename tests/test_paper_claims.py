"""Claims of the paper can hold, fail and be inconclusive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rolin
from rolin.paper import claims
from rolin.paper.claims import Check, verdict
from rolin.paper.movielens import CLAIMS
from rolin.paper.perturbed import perturbed
from rolin.paper.readings import readings
from rolin.paper.runtime import _claims as run_time_claims
from rolin.paper.setting import ROLIN_TS
from rolin.paper.trends import figure_1
from rolin.paper.ucb import ucb


def result(regrets: dict[str, tuple[float, float]], growth: float = 1.0) -> rolin.Result:
    """Twenty paired runs of given mean and spread; regret up to 3/4 of the rounds sets the growth."""
    settings = {
        "policies": dict.fromkeys(regrets, "P()"), "environment": "E()", "rounds": 100, "seed": 0,
        "checkpoints": [50, 75, 100], "bound": None,
    }  # fmt: skip
    wobble = np.linspace(-1, 1, 20)
    found = {}
    for name, (mean, spread) in regrets.items():
        final = mean + spread * wobble
        # third quarter q, last quarter g q, first half 2 q
        q = final / (3 + growth)
        found[name] = np.column_stack([2 * q, 3 * q, final])
    return rolin.Result(settings, tuple(range(20)), found)


def test_checks_can_hold_fail_and_be_inconclusive() -> None:
    """Every kind of check has numbers that confirm it, refute it and leave it open."""
    clear = result({"a": (10, 1), "b": (20, 1)})
    assert claims.lower(clear, "", "a", "b").outcome is True
    assert claims.lower(clear, "", "b", "a").outcome is False
    assert claims.not_lower(clear, "", "b", "a").outcome is True
    assert claims.not_lower(clear, "", "a", "b").outcome is False
    even = result({"a": (10, 1), "b": (10, -5)})
    assert claims.lower(even, "", "a", "b").outcome is None
    assert claims.not_lower(even, "", "a", "b").outcome is None
    assert claims.at_least(clear, "", "b", "a", 1.5).outcome is True
    assert claims.at_least(clear, "", "b", "a", 3.0).outcome is False
    assert claims.at_least(clear, "", "b", "a", 2.0).outcome is None
    assert claims.at_most(clear, "", "b", "a", 3.0).outcome is True
    assert claims.at_most(clear, "", "b", "a", 1.5).outcome is False
    assert claims.similar(clear, "", "a", "b").outcome is False
    assert claims.similar(result({"a": (10, 1), "b": (10.5, 1)}), "", "a", "b").outcome is True
    assert claims.similar(result({"a": (10, 1), "b": (12, -6)}), "", "a", "b").outcome is None
    for growth, straight in ((1.0, True), (0.84, False)):
        grown = result({"a": (10, 1)}, growth)
        assert claims.linear(grown, "", "a").outcome is straight
        assert claims.sublinear(grown, "", "a").outcome is not straight


def test_checks_show_their_numbers() -> None:
    """The evidence has both means, their difference and its interval."""
    check = claims.lower(result({"a": (10, 1), "b": (20, 1)}), "here", "a", "b")
    assert check.where == "here: a against b"
    assert "regrets 10 ± 0.14 and 20 ± 0.14, difference -10" in check.evidence
    assert "100% of the runs" in check.evidence


def test_verdicts_summarize_checks() -> None:
    """A verdict distinguishes refuted checks from inconclusive ones."""

    def of(*outcomes: bool | None) -> str:
        return verdict([Check("", outcome, "") for outcome in outcomes])

    assert of(True, True) == "holds"
    assert of(True, False) == of(True, False, None) == "holds in part"
    assert of(True, None) == "holds where conclusive"
    assert of(False, False) == "fails"
    assert of(False, None) == "fails where conclusive"
    assert of(None, None) == of() == "inconclusive"


def world(
    numbers: dict[str, Any],
    growths: dict[str, float],
    *,
    ours: str = "RoLinTS",
    linear: str = "LinTS",
) -> rolin.Result:
    """One panel: regrets of the three robust policies, the linear one and the baselines, with their growths."""
    regrets = {
        f"{ours}, s₀ = {s}": r for s, r in zip(("0.25", "0.5", "1"), numbers["ours"], strict=True)
    }
    regrets |= {
        linear: numbers["linear"],
        "hLinUCB": numbers["hidden"],
        "Safe-FALCON": numbers["falcon"],
    }
    parts = [
        result({name: (mean, 0.05 * mean)}, growths["linear" if name == linear else "ours"])
        for name, mean in regrets.items()
    ]
    settings = {**parts[0].settings, "policies": dict.fromkeys(regrets, "P()")}
    found = {name: part.regret[name] for name, part in zip(regrets, parts, strict=True)}
    return rolin.Result(settings, parts[0].runs, found)


def panels(
    *numbers: tuple[Any, ...], growths: list[tuple[float, float]], titles: list[str], **names: str
) -> Any:
    """Several panels of (ours, linear, hidden, falcon)."""
    keys = ("ours", "linear", "hidden", "falcon")
    return {
        title: world(dict(zip(keys, row, strict=True)), {"ours": g[0], "linear": g[1]}, **names)
        for title, row, g in zip(titles, numbers, growths, strict=True)
    }


TITLES = ["σ₀ = 0", "σ₀ = 0.25", "σ₀ = 0.5"]
AS_PRINTED = (
    ((110, 130, 160), 100, 80, 2500),
    ((150, 170, 200), 400, 405, 2900),
    ((200, 210, 240), 900, 880, 3600),
)
CONTRARY = (
    ((200, 190, 180), 400, 500, 100),
    ((150, 170, 200), 100, 50, 40),
    ((200, 210, 240), 50, 25, 20),
)


@pytest.mark.parametrize("names", [("RoLinTS", "LinTS"), ("RoLinUCB", "LinUCB")])
def test_figure_1_has_claims_that_hold_and_fail(names: tuple[str, str]) -> None:
    """With numbers as in the paper every claim holds; with contrary numbers every claim fails."""
    ours, linear = names
    found = figure_1(ROLIN_TS, "LinTS", "") if ours == "RoLinTS" else ucb().claims[:-1]
    as_printed = panels(
        *AS_PRINTED,
        growths=[(0.7, 0.7), (0.7, 1.0), (0.7, 1.0)],
        titles=TITLES,
        ours=ours,
        linear=linear,
    )
    assert {claim.name: verdict(claim.check(as_printed)) for claim in found} == {
        claim.name: "holds" for claim in found
    }
    contrary = panels(
        *CONTRARY,
        growths=[(1.0, 1.0), (1.0, 0.7), (1.0, 0.7)],
        titles=TITLES,
        ours=ours,
        linear=linear,
    )
    assert {claim.name: verdict(claim.check(contrary)) for claim in found} == {
        claim.name: "fails" for claim in found
    }


def test_figure_2_has_claims_that_hold_and_fail() -> None:
    """The same for the claims about MovieLens."""
    titles = ["1 % of training set", "2 % of training set", "5 % of training set"]
    as_printed = panels(
        ((600, 550, 400), 900, 700, 9000), ((500, 450, 300), 700, 600, 8000),
        ((300, 250, 200), 500, 400, 7000), growths=[(0.9, 1.0)] * 3, titles=titles,
    )  # fmt: skip
    assert {c.name: verdict(c.check(as_printed)) for c in CLAIMS} == {
        c.name: "holds" for c in CLAIMS
    }
    contrary = panels(
        ((400, 450, 500), 300, 350, 200), ((500, 550, 600), 400, 450, 300),
        ((600, 650, 700), 500, 550, 400), growths=[(0.7, 0.7)] * 3, titles=titles,
    )  # fmt: skip
    assert {c.name: verdict(c.check(contrary)) for c in CLAIMS} == {c.name: "fails" for c in CLAIMS}


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.1, "holds"), (0.7, "holds in part"), (1.5, "holds in part")]
)
def test_wrong_scales_must_cost_a_little(factor: float, expected: str) -> None:
    """Regret with wrong scales must be higher, by at most a fifth."""
    experiment = perturbed()
    regrets = {
        name: (100.0 * (1.0 if "true" in name else factor), 5.0) for name in experiment.policies
    }
    results = {title: result(regrets) for title in experiment.environments}
    assert verdict(experiment.claims[0].check(results)) == expected


def test_readings_and_run_times_have_claims_that_hold_and_fail() -> None:
    """Both outcomes are possible for other settings and for run times."""
    experiment = readings()
    name = "hLinUCB, zero, library's exploration"
    (claim,) = [claim for claim in experiment.claims if claim.name == name]
    for rows, growths, expected in (
        (AS_PRINTED, [(0.7, 0.7), (0.7, 1.0), (0.7, 1.0)], "holds"),
        (CONTRARY, [(0.7, 0.7)] * 3, "fails"),
    ):
        results = panels(*rows, growths=growths, titles=TITLES)
        for found in results.values():
            found.regret[name] = found.regret["hLinUCB"]
        assert verdict(claim.check(results)) == expected
    steady = np.array([1.0, 1.01, 0.99])
    fast = {128: steady, 512: 1.0 * steady, 1024: 2.0 * steady}
    for naive, expected in (
        ({128: 14 * steady, 512: 300 * steady, 1024: 2400 * steady}, "holds"),
        ({128: 2 * steady, 512: 2 * steady, 1024: 4 * steady}, "fails"),
    ):
        verdicts = {c.name: verdict(c.check({})) for c in run_time_claims(fast, naive)}
        assert verdicts.pop("linear in K") == "holds"
        assert set(verdicts.values()) == {expected}
    flat = {128: steady, 512: steady, 1024: steady}
    assert verdict(run_time_claims(flat, flat)[0].check({})) == "fails"
