"""Section l: from raw features to vectors, compared with scikit-learn and with the arithmetic alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from known import SAMPLING
from report import Section, Target, number, table
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from timing import Plan, Task, interleave, loop

import rolin
from rolin.features import Boolean, Category, FeatureMap, HashedFeatures, Number
from rolin.journal import MemoryJournal, SQLiteJournal

K, ROWS, FEW = 50, 1_000_000, 5_000
NUMBERS = [f"n{i}" for i in range(5)]


def declared(genres: int, brands: int) -> FeatureMap:
    """Return a feature map of 5 fields of the situation and 7 fields of the arm."""
    return FeatureMap(
        {
            "device": Category(["phone", "desktop"]),
            "hour": Number(center=12.0, scale=6.0),
            "country": Category(["de", "us", "fr"]),
            "new": Boolean(),
            "age": Number(scale=40.0),
        },
        {
            **{name: Number(center=0.5, scale=0.3) for name in NUMBERS},
            "genre": Category([f"g{i}" for i in range(genres)]),
            "brand": Category([f"b{i}" for i in range(brands)]),
        },
    )


SITUATION = {"device": "phone", "hour": 15, "country": "us", "new": True, "age": 33}


def catalogue() -> dict[str, dict[str, Any]]:
    """Return the arms of a decision."""
    rng = np.random.default_rng(0)
    return {
        f"arm {k}": {
            **{name: float(rng.random()) for name in NUMBERS},
            "genre": f"g{k % 7}",
            "brand": f"b{k % 5}",
        }
        for k in range(K)
    }


def of_a_decision(plan: Plan, step: Callable[[], None]) -> tuple[str, list[Target], dict[str, Any]]:
    """Time the vectors of one decision."""
    arms = catalogue()
    small, large = declared(1, 1), declared(7, 6)
    merged = [{**SITUATION, **row} for row in arms.values()]
    frame = pd.DataFrame(merged)
    columns = make_column_transformer(
        (StandardScaler(), [*NUMBERS, "hour", "age"]),
        (OneHotEncoder(handle_unknown="ignore"), ["device", "country", "genre", "brand"]),
    ).fit(frame)
    vectorizer = DictVectorizer(sparse=False).fit(merged)
    left, right = np.random.default_rng(0).random((2, K, 15))
    hashed = HashedFeatures(256)
    tasks: dict[str, Task] = {
        f"FeatureMap, crossed, d = {small.n_features}": loop(
            lambda: small.contexts(arms, SITUATION)
        ),
        f"FeatureMap, crossed, d = {large.n_features}": loop(
            lambda: large.contexts(arms, SITUATION)
        ),
        "HashedFeatures, crossed, d = 256": loop(lambda: hashed.contexts(arms, SITUATION)),
        f"DictVectorizer, not crossed, d = {len(vectorizer.feature_names_)}": loop(
            lambda: vectorizer.transform([{**SITUATION, **row} for row in arms.values()])
        ),
        "ColumnTransformer, not crossed, with its frame": loop(
            lambda: columns.transform(pd.DataFrame([{**SITUATION, **r} for r in arms.values()]))
        ),
        "K products of 15 numbers with 15, alone": loop(
            lambda: (left[:, :, None] * right[:, None, :]).reshape(K, -1)
        ),
    }
    found = interleave(tasks, plan, step)
    names = list(found)
    target = Target(names[1], 100.0, found[names[1]].micro, at_least=False, unit="µs")
    rows = [[name, number(timing.micro)] for name, timing in found.items()]
    raw = {name: timing.parts.tolist() for name, timing in found.items()}
    return table([f"{K} arms of 7 fields, a situation of 5", "µs"], rows), [target], raw


def of_a_log(step: Callable[[], None]) -> tuple[str, list[Target], dict[str, Any]]:
    """Time a table of a million rows; the fastest of three repetitions counts, because the first allocates."""
    rng = np.random.default_rng(0)
    features = FeatureMap(
        {"device": Category(["phone", "desktop"]), "hour": Number(center=12, scale=6)},
        {
            "price": Number(),
            "year": Number(center=1990, scale=20),
            "genre": Category(list("abcdefg")),
        },
    )
    frame = pd.DataFrame(
        {
            "device": rng.choice(["phone", "desktop", "tv"], ROWS),
            "hour": rng.integers(0, 24, ROWS),
            "price": rng.random(ROWS),
            "year": rng.integers(1950, 2020, ROWS),
            "genre": rng.choice(list("abcdefgh"), ROWS),
        }
    )
    polars = pl.from_pandas(frame)
    arrow = polars.to_arrow()
    columns = make_column_transformer(
        (StandardScaler(), ["hour", "price", "year"]),
        (OneHotEncoder(handle_unknown="ignore"), ["device", "genre"]),
        sparse_threshold=0.0,
    ).fit(frame[:1000])
    left, right = (
        frame[names][:FEW].to_dict("records")
        for names in (["device", "hour"], ["price", "year", "genre"])
    )

    def row_by_row() -> None:
        for situation, arm in zip(left, right, strict=True):
            features.contexts([arm], situation)

    d = features.n_features
    calls: dict[str, tuple[Callable[[], object], int]] = {
        f"pandas, crossed, d = {d}": (lambda: features.transform(frame), ROWS),
        f"polars, crossed, d = {d}": (lambda: features.transform(polars), ROWS),
        f"Arrow, crossed, d = {d}": (lambda: features.transform(arrow), ROWS),
        "Arrow, crossed, sparse": (lambda: features.transform(arrow, sparse=True), ROWS),
        "row by row, crossed": (row_by_row, FEW),
        "ColumnTransformer on pandas, not crossed": (lambda: columns.transform(frame), ROWS),
        f"filling an array of {ROWS:,} × {d}": (lambda: np.full((ROWS, d), 1.0), ROWS),
    }
    found = dict.fromkeys(calls, np.inf)
    for _ in range(3):
        for name, (call, n) in calls.items():
            start = perf_counter()
            call()
            found[name] = min(found[name], (perf_counter() - start) / n * 1e6)
        step()
    names = list(calls)
    targets = [
        Target(f"{name.split(',')[0]} over row by row", 20.0, found[names[4]] / found[name], True)
        for name in names[:3]
    ]
    rows = [[name, number(micro)] for name, micro in found.items()]
    return table([f"{ROWS:,} rows", "µs per row"], rows), targets, dict(found)


def of_a_bandit(plan: Plan, step: Callable[[], None]) -> tuple[str, dict[str, Any]]:
    """Time decisions and rewards with raw features, and with the same vectors."""
    features, arms = declared(7, 6), catalogue()
    names = list(arms)
    vectors = features.contexts(arms, SITUATION)

    def deciding(journal: Any, raw: bool) -> Task:
        policy = rolin.RoLinTS(n_features=features.n_features, seed=0, **SAMPLING)
        bandit = rolin.Bandit(
            policy, feature_map=features if raw else None, journal=journal, snapshot_every=None
        )

        def run(times: int) -> tuple[float, float]:
            decide = reward = 0.0
            for _ in range(times):
                start = perf_counter()
                decision = (
                    bandit.decide(arms, situation=SITUATION)
                    if raw
                    else bandit.decide(vectors, names)
                )
                middle = perf_counter()
                bandit.reward(decision.id, 1.0)
                decide, reward = decide + middle - start, reward + perf_counter() - middle
            return decide, reward

        return run

    with tempfile.TemporaryDirectory(dir=".") as folder_name:
        folder = Path(folder_name)
        tasks = {
            "vectors, in memory": deciding(MemoryJournal(), False),
            "raw features, in memory": deciding(MemoryJournal(), True),
            "vectors, SQLite": deciding(SQLiteJournal(folder / "vectors.db"), False),
            "raw features, SQLite": deciding(SQLiteJournal(folder / "raw.db"), True),
        }
        found = interleave(tasks, Plan(plan.blocks, 0.1, plan.budget, plan.least), step)
        sizes = []
        for raw in (False, True):
            file = folder / f"size-{raw}.db"
            with rolin.Bandit(
                rolin.RoLinTS(n_features=features.n_features, seed=0, **SAMPLING),
                feature_map=features if raw else None,
                journal=file,
            ) as bandit:
                for _ in range(200):
                    if raw:
                        bandit.decide(arms, situation=SITUATION)
                    else:
                        bandit.decide(vectors, names)
            sizes.append(file.stat().st_size / 200 / 1024)
    stored = ["", "", f"{sizes[0]:.0f}", f"{sizes[1]:.0f}"]
    rows = [
        [name, number(t.part(0)), number(t.part(1)), size]
        for (name, t), size in zip(found.items(), stored, strict=True)
    ]
    header = [
        f"Bandit, {K} arms, d = {features.n_features}",
        "decide, µs",
        "reward, µs",
        "KiB stored",
    ]
    return table(header, rows), {name: t.parts.tolist() for name, t in found.items()}


def of_joint_draws(plan: Plan, step: Callable[[], None]) -> tuple[str, dict[str, Any]]:
    """Time joint sampling with a dense and with a sparse matrix of crossed categories."""
    rows, raw = [], {}
    rng = np.random.default_rng(0)
    for k in (100, 1_000, 10_000):
        features = FeatureMap(
            {"s": Category([f"s{i}" for i in range(30)])},
            {"a": Category([f"a{i}" for i in range(30)])},
        )
        arms = [{"a": f"a{i}"} for i in rng.integers(0, 30, k)]
        policy = rolin.RoLinTS(n_features=features.n_features, sampling="joint", seed=0, **SAMPLING)
        for seen in (False, True):
            dense, sparse = (
                f(arms, {"s": "s3"}) for f in (features.contexts, features.sparse_contexts)
            )
            if seen:
                policy.update_many(range(k), dense, rng.normal(size=k))
            names = list(range(k))
            tasks = {
                "dense": loop(lambda p=policy, x=dense, n=names: p.decide(x, n)),
                "sparse": loop(lambda p=policy, x=sparse, n=names: p.decide(x, n)),
            }
            found = interleave(tasks, Plan(plan.blocks // 4 or 1, 0.02, plan.budget, 3), step)
            state = "all seen" if seen else "none seen"
            micro = [number(found[name].micro) for name in tasks]
            rows.append([f"K = {k:,}, {state}", *micro])
            raw[rows[-1][0]] = {name: t.parts.tolist() for name, t in found.items()}
    header = [f"joint sampling, d = {features.n_features}", "dense, µs", "sparse, µs"]
    return table(header, rows), raw


def features(plan: Plan, step: Callable[[], None]) -> Section:
    """Time all uses of raw features."""
    first, targets, raw = of_a_decision(plan, step)
    second, more, raw_log = of_a_log(step)
    third, raw_bandit = of_a_bandit(plan, step)
    fourth, raw_joint = of_joint_draws(plan, step)
    return Section(
        "l. Raw features",
        [
            "`FeatureMap.contexts` and `transform` from dicts and tables, compared with the transformers of scikit-learn, "
            "which do not cross features, and with the arithmetic alone. For a million rows the fastest of three "
            f"repetitions counts; row by row is timed on {FEW:,} of them."
        ],
        [first, second, third, fourth],
        [*targets, *more],
        {"decision": raw, "log": raw_log, "bandit": raw_bandit, "joint": raw_joint},
    )
