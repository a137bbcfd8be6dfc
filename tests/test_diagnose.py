"""The misspecification report: its test, its numbers, its words, and its command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rolin
from rolin.cli.app import app
from rolin.errors import DataError, ParameterError
from rolin.features import Category, Number
from rolin.logs.frames import read_log
from rolin.model.diagnosis import Diagnosis, diagnose
from rolin.model.moments import Moments
from support.policies import fixed


def log(
    rng: np.random.Generator, n: int = 1500, k: int = 20, arm_std: float = 0.5
) -> tuple[Any, Any, Any]:
    """Arms, contexts and rewards; two features matter and one does not."""
    arms, x = rng.integers(k, size=n), rng.normal(size=(n, 3))
    r = 2 + x @ [1.0, -0.5, 0.0] + (arm_std * rng.normal(size=k))[arms] + rng.normal(size=n)
    return arms, x, r


def report(rng: np.random.Generator, **options: Any) -> Diagnosis:
    """The diagnosis of a log."""
    return diagnose(Moments.of(*log(rng, **options)))


def test_the_answers(rng: np.random.Generator) -> None:
    """Yes where arms differ, no where they do not and the data would show it, else neither."""
    assert report(rng).answer == "yes"
    assert report(rng, arm_std=0.0, n=4000).answer == "no"
    few = report(rng, arm_std=0.0, n=50)
    assert few.answer == "cannot tell"
    assert "cannot be excluded" in few.because
    alone = diagnose(Moments.of(range(30), *log(rng, n=30)[1:]))
    assert alone.answer == "cannot tell"
    assert "Too few rewards" in alone.because
    assert math.isnan(alone.p_value)


@pytest.mark.parametrize("n", [200, pytest.param(800, marks=pytest.mark.slow)])
def test_without_effects_the_test_errs_as_often_as_it_says(seed: int, n: int) -> None:
    """Of 800 logs without arm effects, 5 % have p < 0.05 (± 5 s.e. of 0.8 %), half or more have p = 1.

    Of 200 logs, these standard errors are twice as large: 1.6 %, and 3.5 % of the share with p = 1.
    (Slightly more than half: the estimate of arm_std is zero a little more often than not.)
    """
    p = np.array(
        [report(np.random.default_rng([seed, i]), n=150, arm_std=0.0).p_value for i in range(n)]
    )
    wider = (800 / n) ** 0.5
    assert abs((p < 0.05).mean() - 0.05) < 5 * 0.008 * wider
    assert abs((p == 1.0).mean() - 0.575) < 0.125 * wider


def test_the_statistic_is_twice_the_rise_of_the_restricted_likelihood(seed: int) -> None:
    """Against statsmodels: MixedLM with random intercepts, and ordinary least squares."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    arms, x, r = log(np.random.default_rng(seed), n=400, arm_std=1.0)
    found = diagnose(Moments.of(arms, x, r))
    z = np.column_stack([x, np.ones(400)])
    fit = MixedLM(r, z, groups=arms).fit(reml=True, method=["bfgs"], gtol=1e-8)
    left = r - z @ np.linalg.lstsq(z, r, rcond=None)[0]
    free, variance = 400 - 4, left @ left / (400 - 4)
    without = -0.5 * (
        free * math.log(2 * math.pi * variance) + free + np.linalg.slogdet(z.T @ z)[1]
    )
    # statsmodels leaves out what is constant, as long as the columns are the same
    constant = 2 * (fit.llf - without) - found.statistic
    assert constant == pytest.approx(0.0, abs=0.02)
    assert found.arm_std.value == pytest.approx(float(fit.cov_re[0, 0]) ** 0.5, rel=1e-3)


def test_log_scores_are_those_of_predicting_one_by_one(rng: np.random.Generator) -> None:
    """The score of the robust model is the mean log density of each reward given those before it."""
    arms, x, r = log(rng, n=200)
    moments, prior = Moments.of(arms, x, r), rolin.Scales(intercept_std=3.0)
    found = diagnose(moments, prior=prior)
    scales = rolin.model.estimate_scales(moments, method="ml", prior=prior).scales
    posterior, total = rolin.Posterior(scales, 3), 0.0
    for i in range(200):
        mean, std = posterior.predict(x[i : i + 1], [int(arms[i])])
        variance = std[0] ** 2 + scales.noise_std**2
        total += -0.5 * (math.log(2 * math.pi * variance) + (r[i] - mean[0]) ** 2 / variance)
        posterior.observe(int(arms[i]), x[i], float(r[i]))
    assert found.log_scores["robust (features, arms)"] == pytest.approx(total / 200, rel=1e-9)
    robust, linear, per_arm = found.log_scores.values()
    assert robust > linear
    assert robust > per_arm


def test_shares_add_up_and_tell_who_carries_what(rng: np.random.Generator) -> None:
    """Features carry 1.25, arms 0.25 and noise 1 of a variance of 2.5."""
    shares = report(rng, n=40_000, k=400).shares
    assert sum(shares.values()) == pytest.approx(1.0)
    for name, part in {"features": 0.5, "arms": 0.1, "noise": 0.4}.items():
        assert shares[name] == pytest.approx(part, abs=0.03)


def test_effects_hold_the_truth(seed: int) -> None:
    """Intervals of arm effects and coefficients hold them in 95 % of 40 logs (± 5 s.e. over logs)."""
    shares = []
    for i in range(40):
        rng = np.random.default_rng([seed, i])
        arms, x, effects = (
            rng.integers(25, size=800),
            rng.normal(size=(800, 2)),
            rng.normal(size=25),
        )
        r = x @ [1.0, -1.0] + effects[arms] + rng.normal(size=800)
        found = diagnose(Moments.of(arms, x, r), prior=rolin.Scales())
        held = [e.low <= effects[e.name] <= e.high for e in found.arms]
        held += [c.low <= t <= c.high for c, t in zip(found.coefficients, (1, -1, 0), strict=True)]
        shares.append(np.mean(held))
    assert abs(np.mean(shares) - 0.95) < 5 * np.std(shares) / 40**0.5


def test_intervals_hold_where_there_is_next_to_nothing(seed: int) -> None:
    """Few rewards, small effects: an arm_std that seems to be zero does not make effects certain.

    Intervals of 100 small logs hold at least 90 % of effects and coefficients.
    """
    held: list[bool] = []
    for i in range(100):
        rng = np.random.default_rng([seed, i])
        arms, x, effects = (
            rng.integers(6, size=60),
            rng.normal(size=(60, 2)),
            0.3 * rng.normal(size=6),
        )
        r = x @ [0.15, -0.15] + effects[arms] + rng.normal(size=60)
        found = diagnose(Moments.of(arms, x, r))
        held += [e.low <= effects[e.name] <= e.high for e in found.arms]
        held += [
            c.low <= t <= c.high for c, t in zip(found.coefficients, (0.15, -0.15), strict=False)
        ]
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("offset", [0.0, 5.0, 1e8])
def test_a_level_is_no_arm_effect(offset: float, rng: np.random.Generator) -> None:
    """Of a policy without intercept too: what all arms share does not tell them apart."""
    for arm_std, answer in ((0.0, "no"), (0.5, "yes")):
        arms, x, r = log(rng, n=4000, arm_std=arm_std)
        policy = fixed(rolin.RoLinTS, n_features=3, seed=0)
        policy.update_many(arms.tolist(), x, r + offset)
        found = policy.diagnose()
        assert found.answer == answer
        assert found.noise_std.value == pytest.approx(1.0, rel=0.1)


def test_features_that_explain_nothing_do_not_hide_a_no(rng: np.random.Generator) -> None:
    """Effects below a hundredth of the noise's variance are excluded, whatever features explain."""
    arms, x = rng.integers(20, size=50_000), rng.normal(size=(50_000, 2))
    found = diagnose(Moments.of(arms, x, rng.normal(size=50_000)))
    assert found.answer == "no" or found.p_value < 0.05
    assert "the noise's variance" in found.because or found.p_value < 0.05


def test_a_perfect_fit_is_not_a_verdict(rng: np.random.Generator) -> None:
    """Rewards that features reproduce exactly leave nothing to judge by."""
    arms, x = rng.integers(20, size=500), rng.normal(size=(500, 2))
    found = diagnose(Moments.of(arms, x, x @ [1.0, 2.0]))
    assert found.answer == "cannot tell"
    assert "reproduce the rewards exactly" in found.because


def test_without_features_it_can_say_no(rng: np.random.Generator) -> None:
    """Beside the noise, then."""
    arms = rng.integers(10, size=5000)
    assert diagnose(Moments.of(arms, np.empty((5000, 0)), rng.normal(size=5000))).answer == "no"


def test_the_report_as_text_json_and_figure(rng: np.random.Generator, tmp_path: Path) -> None:
    """All three hold the same; JSON has no NaN, a text of many arms shows the ends."""
    found = report(rng, k=80)
    text = str(found)
    assert text.startswith("Do the features miss something that differs between arms? YES.")
    assert "60 more" in text
    plain = json.loads(found.to_json())
    assert plain["arm_std"]["value"] == found.arm_std.value
    assert len(plain["arms"]) == 80
    assert plain["coefficients"][0]["weight"] is None
    found.plot().savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_report_in_one_line_as_a_frame_and_in_a_notebook(rng: np.random.Generator) -> None:
    """The frame has a row per arm and coefficient; the tables show the ends of many arms."""
    found = report(rng, k=80)
    assert "\n" not in repr(found)
    assert repr(found).startswith("<Diagnosis: yes, arm_std=")
    assert repr(found).endswith("1500 rewards of 80 arms>")
    frame = found.to_frame()
    assert list(frame.columns) == ["kind", "name", "value", "low", "high", "weight", "shrinkage"]
    assert frame["kind"].value_counts().to_dict() == {"arm": 80, "coefficient": 4}
    assert frame["value"].tolist()[:80] == [arm.value for arm in found.arms]
    assert frame["name"].tolist()[80:] == ["x0", "x1", "x2", "intercept"]
    html = found._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 4
    assert "differs between arms? YES." in html
    assert "60 arms between the highest and the lowest are not shown" in html
    assert html.count("<tr>") == (1 + 2) + (1 + 3) + (1 + 4) + (1 + 20)


def test_names_are_escaped_in_a_notebook(rng: np.random.Generator) -> None:
    """Hostile names of arms and features are text, also where they are shortened."""
    arms, x, r = log(rng, k=3)
    hostile = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "<b>" + "&" * 80]
    names = ["<style>*{}</style>", "a & b", "</td></table>"]
    html = diagnose(Moments.of([hostile[a] for a in arms], x, r), feature_names=names)._repr_html_()
    for text in ("<script", "<img", "<b>", "<style>", "a & b", "&&"):
        assert text not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;/td&gt;&lt;/table&gt;" in html
    assert html.count("</table>") == 4


def test_a_policy_diagnoses_itself(rng: np.random.Generator) -> None:
    """From what it has seen, learned scales or not, also of clicks, and with names of features."""
    arms, x, r = log(rng)
    for policy in (
        fixed(rolin.RoLinTS, n_features=3, intercept_std=3.0, seed=0),
        rolin.LinUCB(n_features=3, noise_std="learn", intercept_std=3.0, seed=0),
    ):
        policy.update_many(arms.tolist(), x, r)
        found = policy.diagnose(feature_names=["age", "price", "junk"])
        assert found.answer == "yes"
        assert [c.name for c in found.coefficients] == ["age", "price", "junk", "intercept"]
    clicks = rolin.LogisticRoLinTS(n_features=3, arm_std=1.0, seed=0)
    logit = x @ [1.0, -0.5, 0.0] + 2.0 * rng.normal(size=20)[arms]
    clicks.update_many(arms.tolist(), x, (rng.random(1500) < 1 / (1 + np.exp(-logit))) * 1.0)
    found = clicks.diagnose()
    assert found.answer == "yes"
    assert found.log_scores == {} == found.shares
    assert "noise_std           1   as given\n" in str(found)
    assert found.noise_std.value == 1.0
    with pytest.raises(ParameterError, match="feature_names has 1 names, expected 3"):
        policy.diagnose(feature_names=["age"])
    with pytest.raises(DataError, match="no rewards"):
        rolin.RoLinTS(n_features=1).diagnose()


# -- the command ------------------------------------------------------------------------------


def write_log(path: Path, rng: np.random.Generator) -> pd.DataFrame:
    """A log with a column of text that is no feature."""
    arms, x, r = log(rng)
    table = pd.DataFrame({"arm": [f"item {a}" for a in arms], "reward": r, "age": x[:, 0]})
    table["price"], table["note"] = x[:, 1], "text"
    (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(path, index=False)
    return table


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_log_is_diagnosed(name: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """Text, JSON and figure, from CSV and Parquet."""
    write_log(tmp_path / name, rng)
    options = ["--json", str(tmp_path / "a.json"), "--figure", str(tmp_path / "a.svg")]
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / name), *options])
    assert result.exit_code == 0, result.output
    assert "YES." in result.output
    plain = json.loads((tmp_path / "a.json").read_text())
    assert [c["name"] for c in plain["coefficients"]] == ["age", "price", "intercept"]
    assert "arm effects" in (tmp_path / "a.svg").read_text()


def test_arms_are_read_as_they_are_written(tmp_path: Path) -> None:
    """001 is not 1, NA is a name; a row that is longer than the header is an error, not a shift."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward,x\n001,1,2\n1,0,1\nNA,1,0\n")
    assert read_log(path).arms == ["001", "1", "NA"]
    path.write_text("arm,reward,x\na,1,2,5\nb,0,1,5\n")
    with pytest.raises(DataError, match="cannot be read as a table"):
        read_log(path)
    with pytest.raises(DataError, match="is not a file"):
        read_log(tmp_path)
    path.write_text("arm,reward,x\na,1,2\n")
    with pytest.raises(DataError, match="there is no column ''"):
        read_log(path, weight="")
    pd.DataFrame({"arm": ["a"], "reward": [pd.Timestamp("2020")]}).to_parquet(
        tmp_path / "l.parquet"
    )
    with pytest.raises(DataError, match="column 'reward' holds times, expected numbers"):
        read_log(tmp_path / "l.parquet")


def test_the_reward_is_no_feature(rng: np.random.Generator, tmp_path: Path) -> None:
    """Nor is the arm; a file of another name says how those of logs end."""
    write_log(tmp_path / "log.csv", rng)
    with pytest.raises(DataError, match="'reward' cannot be a feature"):
        read_log(tmp_path / "log.csv", features=["age", "reward"])
    (tmp_path / "log.txt").write_bytes((tmp_path / "log.csv").read_bytes())
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "log.txt")])
    assert "the name of a log ends in .csv" in str(result.exception)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_log_with_raw_features_and_gaps_is_diagnosed(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """The map makes the vectors; rows without a reward are refused, dropped or filled; errors name the row of the file."""
    path, features = (
        tmp_path / name,
        rolin.FeatureMap(arm={"brand": Category(["x", "y"]), "price": Number()}),
    )
    features.save(tmp_path / "map.json")
    n = 40
    table = pd.DataFrame({"arm": [f"a{i % 4}" for i in range(n)], "reward": rng.normal(size=n)})
    table["brand"], table["price"], table["note"] = rng.choice(["x", "y"], n), 0.5, 1.0
    table.loc[3, "reward"] = np.nan

    def write() -> None:
        (table.to_parquet if path.suffix == ".parquet" else table.to_csv)(path, index=False)

    write()
    options = ["diagnose", str(path), "--feature-map", str(tmp_path / "map.json")]
    result = CliRunner().invoke(app, options)
    assert "row 4: column 'reward' is missing" in str(result.exception)
    for missing in ("drop", "0"):
        result = CliRunner().invoke(app, [*options, "--missing", missing])
        assert result.exit_code == 0, result.output
    dropped = read_log(path, feature_map=features, missing="drop")
    assert (len(dropped.arms), dropped.features) == (n - 1, features.names)
    left = table.drop(index=3)
    np.testing.assert_array_equal(dropped.contexts, features.transform(left))
    filled = read_log(path, feature_map=features, missing=0.5)
    assert (len(filled.rewards), filled.rewards[3]) == (n, 0.5)
    table.loc[7, "price"] = np.inf
    write()
    with pytest.raises(DataError, match="row 8: field 'price' is inf"):
        read_log(path, feature_map=features, missing="drop")


def test_a_state_is_diagnosed(rng: np.random.Generator, tmp_path: Path) -> None:
    """As the policy would itself; a state without arm effects is refused."""
    arms, x, r = log(rng)
    policy = rolin.RoLinTS(n_features=3, intercept_std=3.0, seed=0)
    policy.update_many(arms.tolist(), x, r)
    policy.save(tmp_path / "state")
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "state")])
    assert result.output.strip() == str(policy.diagnose()).strip()
    rolin.HLinUCB(n_features=3).save(tmp_path / "other")
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "other")])
    assert "holds a HLinUCB" in str(result.exception)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="reward"), "there is no column 'reward', only 'arm', 'age'"),
        (
            lambda t: t.assign(reward=["x", *t.reward[1:]]),
            "row 1: column 'reward' is 'x', expected a finite",
        ),
        (lambda t: t.assign(age=[*t.age[:-1], np.inf]), "row 1500: column 'age' is inf"),
        (lambda t: t.assign(arm=[None, *t.arm[1:]]), "row 1: column 'arm' is empty"),
        (lambda t: t[:0], "has no rows"),
        (lambda t: t.assign(reward=pd.Timestamp("2020")), "column 'reward' is '2020-01-01'"),
    ],
)
def test_malformed_logs_name_row_and_column(
    change: Any, message: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """And nothing is written."""
    table = write_log(tmp_path / "log.csv", rng)
    change(table).to_csv(tmp_path / "log.csv", index=False)
    out = tmp_path / "out.json"
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "log.csv"), "--json", str(out)])
    assert isinstance(result.exception, DataError)
    assert message in str(result.exception)
    assert not out.exists()


def write_journal(path: Path, rng: np.random.Generator, n: int = 300) -> tuple[Any, Any]:
    """Record decisions among eight of ten arms each; return the arms and contexts that were offered."""
    theta, v = np.array([1.0, -0.5]), 0.8 * rng.normal(size=10)
    policy = rolin.RoLinTS(
        n_features=2, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=1.0, seed=0
    )
    arms, contexts = [], []
    with rolin.Bandit(policy, journal=path) as bandit:
        for i in range(n):
            arms.append(rng.permutation(10)[:8].tolist())
            contexts.append(rng.normal(size=(8, 2)))
            decision = bandit.decide(contexts[-1], arms[-1], id=f"d{i}")
            mean = float(decision.context @ theta + v[decision.arm])
            bandit.reward(decision.id, mean + float(rng.normal()))
        bandit.diagnose(contexts=contexts, arms=arms)
    return arms, contexts


def test_a_journal_is_diagnosed_with_its_candidates(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """What effects are worth among the arms that were offered, and whether the intervals of its policy hold."""
    path, out = tmp_path / "journal.db", tmp_path / "out.json"
    arms, contexts = write_journal(path, rng)
    result = CliRunner().invoke(app, ["diagnose", str(path), "--json", str(out)])
    assert result.exit_code == 0, result.output
    policy = rolin.journal.load_policy(path).policy
    assert isinstance(policy, rolin.LinearPolicy)
    expected = policy.diagnose(contexts=contexts, arms=arms)
    check = rolin.offline.check_intervals(path, policy)
    assert f"{expected}\n\n{check}" in result.output
    assert "more per decision, in these 300 decisions. The choice would differ in" in result.output
    plain = json.loads(out.read_text())
    assert plain["gain"]["value"] == pytest.approx(expected.gain.value)  # type: ignore[union-attr]
    assert plain["gain"]["decisions"] == 300
    assert plain["intervals"] == json.loads(check.to_json())
    for suffix in ("csv", "parquet"):
        table = tmp_path / f"table.{suffix}"
        CliRunner().invoke(app, ["journal", "export", str(path), str(table)])
        result = CliRunner().invoke(app, ["diagnose", str(table), "--json", str(out)])
        assert result.exit_code == 0, result.exception
        again = json.loads(out.read_text())
        # The prior of a policy is not in a table, so the numbers differ a little.
        assert again["gain"]["decisions"] == 300
        assert again["gain"]["value"] == pytest.approx(plain["gain"]["value"], rel=0.1)
        assert again["intervals"]["one_step"]["rewards"] == 267


def test_a_short_log_is_diagnosed_without_its_intervals(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """The report says why they were not checked; a state has no log, and says nothing."""
    path, out = tmp_path / "journal.db", tmp_path / "out.json"
    write_journal(path, rng, n=40)
    result = CliRunner().invoke(app, ["diagnose", str(path), "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "The intervals were not checked: the log has 40 rewards, expected at least 81" in (
        result.output
    )
    assert json.loads(out.read_text())["intervals"] is None


def test_a_log_says_whether_intervals_hold(rng: np.random.Generator, tmp_path: Path) -> None:
    """For a table with one row per reward, in its order: those of a model that learns its scales."""
    write_log(tmp_path / "log.csv", rng)
    result = CliRunner().invoke(app, ["diagnose", str(tmp_path / "log.csv")])
    check = rolin.offline.check_intervals(read_log(tmp_path / "log.csv"))
    assert str(check) in result.output
    assert "among these 20 arms with their average features" in result.output


def test_a_vowpal_wabbit_log_is_diagnosed(rng: np.random.Generator, tmp_path: Path) -> None:
    """Its features have names, its candidates count, and costs are negative rewards."""
    lines = []
    for i in range(200):
        x = rng.normal(size=(3, 2)).round(3).tolist()
        chosen = int(rng.integers(3))
        actions = [{"_tag": f"a{k}", "i": {"age": a, "price": b}} for k, (a, b) in enumerate(x)]
        order = [chosen, *(k for k in range(3) if k != chosen)]
        event = {
            "_label_cost": -x[chosen][0] - chosen + float(rng.normal()), "_label_probability": 1 / 3,
            "_labelIndex": chosen, "EventId": f"e{i}", "a": [k + 1 for k in order], "p": [1 / 3] * 3,
            "c": {"_multi": actions},
        }  # fmt: skip
        lines.append(json.dumps(event))
    (tmp_path / "log.dsjson").write_text("\n".join(lines))
    out = tmp_path / "out.json"
    command = ["diagnose", str(tmp_path / "log.dsjson"), "--json", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.exception
    plain = json.loads(out.read_text())
    assert [c["name"] for c in plain["coefficients"]] == ["i.age", "i.price", "intercept"]
    assert plain["coefficients"][0]["value"] == pytest.approx(1.0, abs=0.4)  # 5 s.e. of 200 rewards
    assert plain["gain"]["decisions"] == 200
    assert plain["intervals"]["policy"] == "RoLinTS"
    result = CliRunner().invoke(app, [*command, "--features", "i.age"])
    assert result.exit_code == 0, result.exception
    assert len(json.loads(out.read_text())["coefficients"]) == 2
