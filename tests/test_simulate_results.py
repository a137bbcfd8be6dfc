"""Results of simulations: statistics, tables, files and plots."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import rolin
from rolin.errors import ParameterError
from support.simulations import WORLD, same, small_result

mpl.use("Agg")


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
