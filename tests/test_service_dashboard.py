"""The dashboard and the alerts ask for metrics that exist, with labels that they have."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rolin.service.exposition import Metric
from rolin.service.metrics import METRICS

DEPLOY = Path(__file__).parent.parent / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana/rolin.json").read_text())
ALERTS = (DEPLOY / "prometheus/rolin-alerts.yml").read_text()
# Labels that Prometheus adds.
ADDED = {"instance", "job", "le"}


def queries() -> list[str]:
    """Return all queries of the dashboard."""
    return [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", [])]


def alerts() -> list[str]:
    """Return all queries of the alerts."""
    return re.findall(r"^ +expr: (.*)$", ALERTS, re.MULTILINE)


def named(query: str) -> dict[str, Metric]:
    """Return the metrics that a query names; fail if one of them does not exist."""
    declared = {metric.name: metric for metric in METRICS}
    found = {}
    for name in re.findall(r"\b(?:rolin|process)_[a-z_]+", query):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        metric = declared.get(name) or declared[base]
        assert (metric.kind == "histogram") == (metric.name != name), name
        found[metric.name] = metric
    return found


def test_every_query_names_metrics_that_exist() -> None:
    """And labels that these metrics have."""
    assert len(queries()) > 30
    assert len(alerts()) == ALERTS.count("- alert:") >= 8
    for query in queries() + alerts():
        known = {label for metric in named(query).values() for label in metric.labels} | ADDED
        used = set(re.findall(r"(\w+)(?:=~|!=|!~|=)\"", query))
        for labels in re.findall(r"by \(([^)]*)\)", query):
            used |= set(re.split(r"[,\s]+", labels))
        assert used <= known, query


def test_legends_name_labels_that_exist() -> None:
    """A legend shows only labels that survive its query."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", []):
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            known = {label for m in named(target["expr"]).values() for label in m.labels} | ADDED
            for labels in re.findall(r"by \(([^)]*)\)", target["expr"]):
                known &= set(re.split(r"[,\s]+", labels))
            assert legend <= known, target


def test_every_metric_is_shown() -> None:
    """By the dashboard."""
    shown = {name for query in queries() for name in named(query)}
    assert {metric.name for metric in METRICS} - shown == set()


def test_panels_do_not_overlap() -> None:
    """Every panel has a place, an id, a title and a description of its own."""
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        x, y, w, h = (panel["gridPos"][name] for name in "xywh")
        assert x + w <= 24
        own = {(i, j) for i in range(x, x + w) for j in range(y, y + h)}
        assert not own & cells, panel["title"]
        cells |= own
        assert panel["type"] == "row" or panel["description"]


def test_the_page_names_every_alert() -> None:
    """And no others."""
    page = (DEPLOY.parent / "docs/how-to/monitoring.md").read_text()
    names = re.findall(r"- alert: (\w+)", ALERTS)
    assert re.findall(r"^\| `(Rolin\w+)` \|", page, re.MULTILINE) == names


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_the_alerts() -> None:
    """As its own tool says."""
    command = ["promtool", "check", "rules", str(DEPLOY / "prometheus/rolin-alerts.yml")]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
