"""What results look like in a notebook and in a terminal."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import rolin
from rolin.features import Number

HOSTILE = '<script>alert("1")</script>'


class Tags(HTMLParser):
    """Collects the tags of a text, and checks that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Open a tag."""
        self.seen.add(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that was opened last."""
        assert self._open.pop() == tag


def displayed() -> dict[str, Any]:
    """One object of each kind, with hostile names."""
    feature_map = rolin.FeatureMap(arm={HOSTILE: Number(), "price": Number()})
    policy = rolin.RoLinTS(n_features=feature_map.n_features, seed=7)
    bandit = rolin.Bandit(policy, feature_map=feature_map)
    arms = {f"{HOSTILE}{i}": {HOSTILE: float(i), "price": 1.0} for i in range(30)}
    decision = bandit.decide(arms, id=HOSTILE, top_k=2)
    bandit.reward(decision.id, 1.0)
    contexts = {name: np.ones(feature_map.n_features) for name in arms}
    return {
        "Decision": policy.decide(contexts, top_k=5, key=HOSTILE),
        "LoggedDecision": decision,
        "without propensities": decision._replace(propensities=None),
        "Explanation": bandit.explain(decision),
        "difference": bandit.explain(decision, against=decision.ranking[1]),
    }


@pytest.mark.parametrize("kind", displayed())
def test_displays_are_short_and_escaped(kind: str) -> None:
    """Notebooks show a table without foreign tags; `repr` fits one line."""
    shown = displayed()[kind]
    html = shown._repr_html_()
    assert Tags(html).seen <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;script&gt;" in html
    assert "\n" not in repr(shown)


def test_displays_by_hand() -> None:
    """The texts of two small decisions."""
    policy = rolin.RoLinTS(n_features=1, seed=7)
    decision = policy.decide({"a": [1.0], "b": [2.0]}, key="k")
    assert repr(decision) == f"<Decision: arm {decision.arm!r}, key 'k'>"
    bandit = rolin.Bandit(rolin.Uniform(n_features=1, seed=7))
    logged = bandit.decide({name: [0.0] for name in "abcdef"}, id="visit", top_k=5)
    first, second, third, *_ = logged.ranking
    assert repr(logged) == (
        f"<LoggedDecision 'visit': arm {first!r}, {second!r}, {third!r}, … 2 more of 6 offered, "
        "propensity 0.167>"
    )
    assert logged._repr_html_().count("<tr>") == 1 + 6
    wide = bandit.decide({str(i): [0.0] for i in range(100)}, id="wide")
    assert "… 80 more arms" in wide._repr_html_()
