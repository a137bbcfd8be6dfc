"""The logged probabilities are right when the service has found the candidates itself: given these, arms are chosen so.

All seeds and ids are fixed, so a test passes or fails always. With other ones, a bound of k = 4 standard errors would be
broken by chance once in 16 000 times.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from support.service import client

pytestmark = pytest.mark.service  # thousands of decisions over HTTP

V1 = "/v1/bandits/vectors"
ARMS = 8
CANDIDATES = 3
DECISIONS = 4000
K = 4.0  # standard errors
MADE = {
    "name": "vectors",
    "features": {"kind": "vectors", "n_features": 2},
    # Fixed scales, so that the model is the same for all decisions. With "auto", most sets of candidates have an arm that is
    # hardly ever chosen, so they cannot be tested.
    "options": {"seed": 5, "arm_std": 1.0, "noise_std": 1.0, "coef_std": 0.5, "exploration": 0.5},
}


class Made(NamedTuple):
    """A decision: the candidates, best first in the search, their probabilities, and the index of the chosen one."""

    arms: tuple[str, ...]
    p: NDArray[np.float64]
    chosen: int


def worth(arm: str) -> float:
    """The mean reward of an arm."""
    return float(np.sin(int(arm[4:])))


@pytest.fixture(scope="module")
def decisions(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """Decisions by a model that has learned a little, and learns no more."""
    rng = np.random.default_rng(3)
    lines = [
        json.dumps({"id": f"arm-{i}", "features": rng.normal(size=2).tolist()}) for i in range(ARMS)
    ]

    async def ask(http: Any, ids: list[str]) -> list[Any]:
        batch = {"decisions": [{"id": id, "candidates": CANDIDATES} for id in ids]}
        answer = await http.post(f"{V1}/decisions/batch", json=batch)
        assert answer.status_code == 200
        found: list[Any] = answer.json()["results"]
        assert {each["status"] for each in found} == {201}
        return found

    async def play() -> list[Made]:
        async with client(tmp_path_factory.mktemp("data")) as http:
            assert (await http.post("/v1/bandits", json=MADE)).status_code == 201
            content = "\n".join(lines)
            assert (await http.put(f"{V1}/catalogue", content=content)).status_code == 200
            for each in await ask(http, [f"first-{i}" for i in range(8)]):
                told = {"value": worth(each["arm"])}
                path = f"{V1}/decisions/{each['id']}/reward"
                assert (await http.post(path, json=told)).status_code == 204
            made = []
            for start in range(0, DECISIONS, 500):
                ids = [f"visit-{i}" for i in range(start, start + 500)]
                for each in await ask(http, ids):
                    names = tuple(each["probabilities"])
                    p = np.array([*each["probabilities"].values()])
                    made.append(Made(names, p, names.index(each["arm"])))
            return made

    return asyncio.run(play())


def z_of(differences: NDArray[np.float64], variances: NDArray[np.float64]) -> float:
    """The sum of differences whose means should be 0, in standard errors."""
    return float(differences.sum() / np.sqrt(variances.sum()))


def chi_square(decisions: list[Made], *, equal: bool = False) -> tuple[float, int]:
    """Compare how often arms were chosen, for each set of candidates; return the statistic and its degrees of freedom.

    With `equal`, the probabilities are taken to be equal, which they are not.
    """
    sets: dict[tuple[str, ...], list[Made]] = defaultdict(list)
    for each in decisions:
        sets[tuple(sorted(each.arms))].append(each)
    total, freedom = 0.0, 0
    for names, same in sets.items():
        expected, observed = np.zeros(CANDIDATES), np.zeros(CANDIDATES)
        for arms, p, chosen in same:
            expected += [1 / CANDIDATES if equal else p[arms.index(name)] for name in names]
            observed[names.index(arms[chosen])] += 1
        if expected.min() >= 5.0:  # the usual rule for this test
            total += float(((observed - expected) ** 2 / expected).sum())
            freedom += CANDIDATES - 1
    return total, freedom


def test_frequencies_are_the_logged_probabilities(decisions: list[Made]) -> None:
    """For every set of candidates that was found, all sets together; other probabilities would be noticed."""
    level = 2 * stats.norm.sf(K)
    total, freedom = chi_square(decisions)
    assert freedom >= 40
    assert stats.chi2.isf(1 - level, freedom) < total < stats.chi2.isf(level, freedom)
    total, freedom = chi_square(decisions, equal=True)
    assert total > 2 * stats.chi2.isf(level, freedom)


@pytest.mark.parametrize("rank", range(CANDIDATES))
def test_the_search_does_not_tell_who_is_chosen(decisions: list[Made], rank: int) -> None:
    """The arm that was best, second or last in the search is chosen as often as its probability says."""
    p = np.array([each.p[rank] for each in decisions])
    chosen = np.array([each.chosen == rank for each in decisions])
    assert abs(z_of(chosen - p, p * (1 - p))) < K


def test_weighting_by_them_estimates_choices_from_the_same_candidates(
    decisions: list[Made],
) -> None:
    """It is unbiased for a policy that draws uniformly from the candidates that were found, not from all arms."""
    rewards = [np.array([worth(arm) for arm in each.arms]) for each in decisions]
    weighted = np.array([
        r[each.chosen] / (CANDIDATES * each.p[each.chosen])
        for each, r in zip(decisions, rewards, strict=True)
    ])  # fmt: skip
    truth = np.array([r.mean() for r in rewards])
    variances = np.array([
        ((r / CANDIDATES) ** 2 / each.p).sum() - r.mean() ** 2
        for each, r in zip(decisions, rewards, strict=True)
    ])  # fmt: skip
    assert abs(z_of(weighted - truth, variances)) < K
    among_all = float(np.mean([worth(f"arm-{i}") for i in range(ARMS)]))
    assert abs(z_of(weighted - among_all, variances)) > 2 * K
