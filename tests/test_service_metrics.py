"""What `/metrics` says is what happened, in a form that Prometheus reads."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import rolin
from rolin.bandit import Written
from rolin.journal import LoggedDecision
from rolin.service.bandit_metrics import BANDIT_METRICS, BanditMetrics
from rolin.service.exposition import Histogram, Metric, Sample, text_of
from rolin.service.metrics import METRICS, metrics_table
from support.service import client

V1 = "/v1/bandits/default"
ROOT = Path(__file__).parent.parent


class Scraped:
    """The samples of a text, as Prometheus reads them."""

    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        """Return the value of a sample, or `None` if there is none."""
        return self.values.get((name, frozenset(labels.items())))

    def of(self, name: str, **labels: str) -> float | None:
        """Return the value of a sample of the default bandit."""
        return self(name, bandit="default", **labels)


async def scraped(http: Any) -> Scraped:
    """Return what a service counts."""
    found = await http.get("/metrics")
    assert found.status_code == 200
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Scraped(found.text)


def question(id: str | None = None, **more: Any) -> dict[str, Any]:
    """A request for a decision."""
    return {"id": id, "arms": ["red", "blue"], **more}


def test_a_life_of_decisions_and_rewards_is_counted(tmp_path: Path) -> None:
    """Every decision once, by arm and by who decided, and every reward by what became of it."""

    async def live() -> Scraped:
        async with client(tmp_path) as http:

            async def reward(id: str, value: float) -> None:
                await http.post(f"{V1}/decisions/{id}/reward", json={"value": value})

            chosen = (await http.post(f"{V1}/decisions", json=question("a"))).json()["arm"]
            await asyncio.gather(
                *(http.post(f"{V1}/decisions", json=question("a")) for _ in range(9))
            )
            await http.patch(V1, json={"settings": {"mode": "apprentice"}})
            batch = {"decisions": [question("b", baseline="blue"), question("b", baseline="blue")]}
            await http.post(f"{V1}/decisions/batch", json=batch)
            await http.patch(V1, json={"settings": {"mode": "online", "control_share": 1.0}})
            await http.post(f"{V1}/decisions", json=question("c"))
            await reward("a", 2.0)
            await reward("a", 2.0)
            await reward("a", 3.0)
            await reward("early", 1.0)
            await reward("early-too", 1.0)
            await http.post(f"{V1}/decisions", json=question("early"))
            await reward("b", -0.5)
            (engine,) = http.service.bandits.opened()
            engine.bandit.bandit.expire(0.0, default_reward=0.25)
            await reward("c", 1.0)
            found = await scraped(http)
            arms = [found.of("rolin_decisions_total", arm=arm, by="policy") for arm in (chosen,)]
            assert arms == [1]
            return found

    found = asyncio.run(live())
    assert found.of("rolin_decisions_total", arm="blue", by="baseline") == 1
    control = [
        found.of("rolin_decisions_total", arm=a, by="control") or 0.0 for a in ("red", "blue")
    ]
    assert sum(control) == 2
    rewards = {
        status: found.of("rolin_rewards_total", status=status)
        for status in ("learned", "recorded", "repeated", "early", "late", "conflicting", "unknown")
    }
    assert rewards == {
        "learned": 2, "recorded": None, "repeated": 1, "early": 2, "late": 1, "conflicting": 1, "unknown": 1,
    }  # fmt: skip
    assert found.of("rolin_outcomes_total", by="policy", kind="reward") == 1
    assert found.of("rolin_outcomes_total", by="control", kind="reward") == 1
    assert found.of("rolin_outcomes_total", by="control", kind="default") == 1
    assert found.of("rolin_reward_value_total", by="policy", sign="positive") == 2.0
    assert found.of("rolin_reward_value_total", by="baseline", sign="negative") == 0.5
    assert found.of("rolin_reward_value_total", by="control", sign="positive") == 1.25
    assert found.of("rolin_reward_delay_seconds_count") == 3  # of a, b and c
    assert found("rolin_reward_delay_seconds_bucket", bandit="default", le="60.0") == 3
    assert found.of("rolin_bandit_ready") == 1
    assert found.of("rolin_queue_requests") == found.of("rolin_unfolded_events") == 0
    assert (found.of("rolin_journal_bytes") or 0) > 4096
    assert (found.of("rolin_journal_log_bytes") or 0) > 4096
    assert found.of("rolin_commits_flushed") == 1
    commits, size = found.of("rolin_commit_seconds_count"), found.of("rolin_commit_requests_count")
    assert commits is not None
    assert size is not None
    assert 10 <= commits < size  # batches of repeated requests write nothing


def test_the_text_follows_the_rules(tmp_path: Path) -> None:
    """Help, type, names by the conventions, cumulative histograms; all declared metrics exist, and no others."""

    async def live() -> Scraped:
        async with client(tmp_path) as http:
            for i in range(130):
                await http.post(f"{V1}/decisions", json=question(str(i)))
                await http.post(f"{V1}/decisions/{i}/reward", json={"value": i % 2})
            await http.post(f"{V1}/snapshots")
            (engine,) = http.service.bandits.opened()
            engine.bandit.bandit.learn_scales()
            await scraped(http)  # which is counted, too
            return await scraped(http)

    found = asyncio.run(live())
    declared = {metric.name.removesuffix("_total"): metric for metric in METRICS}
    names = {family.name for family in found.families}
    assert names <= set(declared)
    # The first decisions may vary too little for a z; only a database is shared with others.
    assert set(declared) - names <= {"rolin_calibration_z", "rolin_stale_seconds"}
    assert len(names) == len(found.families)  # every metric stands together
    for family in found.families:
        metric = declared[family.name]
        assert (family.type, family.documentation) == (metric.kind, metric.meaning)
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert re.fullmatch(r"(rolin|process)_[a-z_]+", metric.name)
        if metric.kind == "histogram":
            assert re.search(r"_(seconds|requests)$", metric.name)
            check_histograms(family)
    z = found.of("rolin_calibration_z")
    top = [
        found.of(f"rolin_top_arm_{what}_total") for what in ("chosen", "probability", "variance")
    ]
    if z is not None:
        assert z == pytest.approx((top[0] - top[1]) / math.sqrt(top[2]))  # type: ignore[operator,arg-type]
    assert found.of("rolin_effective_sample_window") == 130
    assert found("rolin_build_info", version=rolin.__version__, python=_python()) == 1


def _python() -> str:
    import platform

    return platform.python_version()


def check_histograms(family: Any) -> None:
    """Buckets never decrease, and the last one is the count."""
    counts: dict[Any, list[float]] = {}
    for sample in family.samples:
        own = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "le"))
        if sample.name.endswith("_bucket"):
            counts.setdefault(own, []).append(sample.value)
        elif sample.name.endswith("_count"):
            assert sorted(counts[own]) == counts[own]
            assert counts[own][-1] == sample.value


HOSTILE = [
    'a"b', "a\\", "a\nb", '"} 1\nrolin_ready 0\n', "\u2028", "a\r\nb", "{}", "ü😀", "#", "\\n", " ",
]  # fmt: skip


def test_hostile_arms(tmp_path: Path) -> None:
    """Their names arrive at Prometheus as they are, and only so many get a label."""

    async def live() -> Scraped:
        async with client(tmp_path, metrics_arms=len(HOSTILE)) as http:
            for name in HOSTILE:
                made = await http.post(f"{V1}/decisions", json={"arms": [name]})
                assert made.status_code == 201, made.text
            for i in range(20):
                await http.post(f"{V1}/decisions", json={"arms": [f"more-{i}"]})
            await http.post(f"{V1}/decisions", json={"arms": ["x" * 101]})
            return await scraped(http)

    found = asyncio.run(live())
    for name in HOSTILE:
        assert found.of("rolin_decisions_total", arm=name, by="policy") == 1, name
    assert found.of("rolin_decisions_total", arm="other", by="policy") == 21
    (decisions,) = [family for family in found.families if family.name == "rolin_decisions"]
    assert len(decisions.samples) == len(HOSTILE) + 1
    assert found("rolin_ready") == 1


def test_requests_that_fit_no_route_are_counted_together(tmp_path: Path) -> None:
    """However many paths and methods somebody makes up."""

    async def live() -> Scraped:
        async with client(tmp_path) as http:
            for i in range(5):
                assert (await http.get(f"/nothing/{i}")).status_code == 404
                assert (await http.request(f"ODD{i}", V1)).status_code == 405
            return await scraped(http)

    found = asyncio.run(live())
    assert found("rolin_requests_total", method="GET", route="other", status="404") == 5
    assert found("rolin_requests_total", method="other", route="other", status="405") == 5


def decided(bandit: rolin.Bandit[Any], n: int, k: int, rng: np.random.Generator) -> None:
    """Decide n times among k arms; learn from some rewards, so that the probabilities differ."""
    for i in range(n):
        made = bandit.decide(rng.normal(size=(k, 2)))
        if i < 50:
            bandit.reward(made.id, float(rng.normal(made.context[0])))


def test_calibration_and_effective_sample_size() -> None:
    """Probabilities that are true give a small z, and false ones a large one; both by formulas written out here."""
    rng = np.random.default_rng(5)
    metrics, wrong = BanditMetrics(100), BanditMetrics(100)
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=3), floor=0.02)
    seen: list[Written] = []

    class Wrong:
        """Sees the propensities of a policy that is surer of itself."""

        def written(self, batch: Written) -> None:
            seen.append(batch)
            events = [_surer(e) if hasattr(e, "propensities") else e for e in batch.events]
            wrong.written(batch._replace(events=events))

    bandit.watch(metrics)
    bandit.watch(Wrong())
    decided(bandit, 1500, 4, rng)
    found, other = (dict(values(each, bandit)) for each in (metrics, wrong))
    assert abs(found["rolin_calibration_z"]) < 4  # standard deviations
    assert other["rolin_calibration_z"] < -4
    decisions = [batch.finished[0].answer[0] for batch in seen if len(batch.events) == 1]
    p = np.array([d.propensities for d in decisions if hasattr(d, "propensities")])
    assert len(p) == 1500
    assert found["rolin_effective_sample_window"] == 1000
    expected = 1000 / np.mean(np.sum(0.25**2 / p[-1000:], axis=1))
    assert found["rolin_effective_sample_size"] == pytest.approx(expected)
    assert 1 < expected < 1000
    top = p.max(axis=1)
    assert found["rolin_top_arm_variance_total"] == pytest.approx(np.sum(top * (1 - top)))


def _surer(decision: Any) -> Any:
    q = decision.propensities**2
    return decision._replace(propensities=q / q.sum())


def values(metrics: BanditMetrics, bandit: rolin.Bandit[Any]) -> Iterator[tuple[str, float]]:
    """Yield the plain values of a bandit, by name."""
    for metric, labels, value in metrics.samples("b", bandit, ready=True):
        if not isinstance(value, Histogram) and labels == ("b",):
            yield metric.name, value


def test_all_threads_are_counted() -> None:
    """Eight threads decide, reward and read at once: nothing is lost or counted twice."""
    metrics = BanditMetrics(3)
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=1, seed=1))
    bandit.watch(metrics)
    texts: list[str] = []

    def work(k: int) -> None:
        for i in range(40):
            bandit.decide({f"arm-{k}": [1.0]}, id=f"{k}-{i}")
            bandit.decide({f"arm-{k}": [1.0]}, id=f"{k}-{i}")
            bandit.reward(f"{k}-{i}", 0.5)
            if i % 10 == 0:
                texts.append(text_of(BANDIT_METRICS, metrics.samples("b", bandit, ready=True)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Scraped(text_of(BANDIT_METRICS, metrics.samples("b", bandit, ready=True)))
    made = [v for (name, _), v in found.values.items() if name == "rolin_decisions_total"]
    assert (len(made), sum(made)) == (4, 320)
    assert found("rolin_rewards_total", bandit="b", status="learned") == 320
    assert found("rolin_reward_value_total", bandit="b", by="policy", sign="positive") == 160
    assert found("rolin_commit_requests_sum", bandit="b") == 960
    for text in texts:
        Scraped(text)


def test_an_observer_that_fails_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    """The decision is made, and the log says what happened."""

    class Failing:
        def written(self, batch: Written) -> None:
            raise RuntimeError("no")

    bandit = rolin.Bandit(rolin.RoLinTS(n_features=1, seed=1))
    bandit.watch(Failing())
    assert bandit.decide({"a": [1.0]}).arm == "a"
    assert "an observer of a bandit failed" in caplog.text


def test_imported_decisions_are_not_counted(tmp_path: Path) -> None:
    """They were made elsewhere; nor do their rewards count for an average."""
    old = rolin.Bandit(rolin.RoLinTS(n_features=1, seed=1))
    old.reward(old.decide({"a": [1.0]}).id, 1.0)
    old.export_log(tmp_path / "log.csv")
    metrics, bandit = BanditMetrics(3), rolin.Bandit(rolin.RoLinTS(n_features=1, seed=1))
    bandit.watch(metrics)
    assert bandit.import_log(tmp_path / "log.csv") == 1
    text = text_of(BANDIT_METRICS, metrics.samples("b", bandit, ready=True))
    assert "rolin_decisions_total" not in text
    assert "rolin_outcomes_total" not in text


def test_numbers_and_help_are_written_exactly() -> None:
    """Large counts and times keep all digits, and a help text is one line."""
    metric = Metric("rolin_x", "gauge", ("l",), "two\nlines \\ here")
    text = text_of([metric], [Sample(metric, ("v",), 1763451600.123), Sample(metric, ("w",), 1)])
    assert text == (
        "# HELP rolin_x two\\nlines \\\\ here\n# TYPE rolin_x gauge\n"
        'rolin_x{l="v"} 1763451600.123\nrolin_x{l="w"} 1\n'
    )


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    """Names, kinds, labels and meanings."""
    assert metrics_table() in (ROOT / "docs/how-to/monitoring.md").read_text()


@pytest.mark.parametrize("least", [1e-307, 5e-324])
def test_probabilities_close_to_zero(least: float) -> None:
    """The inverse of the smallest ones is infinite, and so is the sum of many that are hardly larger."""
    metrics = BanditMetrics(10)
    p = np.array([1.0 - least, least])
    made = LoggedDecision("x", 0.0, ("a", "b"), np.eye(2), (0,), p, None)
    for _ in range(300):
        metrics.written(Written([], [made], lambda _: made, 0.0, None))
    bandit = rolin.Bandit(rolin.RoLinTS(n_features=1, seed=1))
    text = text_of(BANDIT_METRICS, metrics.samples("b", bandit, ready=True))
    assert 'rolin_effective_sample_size{bandit="b"} 0.0\n' in text
