"""Files in the formats of other projects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd


def open_bandit_files(folder: Path, rng: np.random.Generator, n: int = 400) -> Path:
    """Make a campaign of 6 items in the format of the Open Bandit Dataset."""
    folder.mkdir(parents=True)
    items = pd.DataFrame(
        {"item_id": range(6), "item_feature_0": rng.normal(size=6)}
        | {f"item_feature_{i}": rng.choice(["1f3a9c", "77b0de"], 6) for i in (1, 2, 3)}
    )
    items.to_csv(folder / "item_context.csv")
    rows = pd.DataFrame({
        "timestamp": "2019-11-24 00:00:34.762830+00:00", "item_id": rng.integers(0, 6, n),
        "position": rng.integers(1, 4, n), "click": rng.integers(0, 2, n), "propensity_score": 1 / 6,
        **{f"user_feature_{i}": rng.choice(["81ce12", "03a564"], n) for i in range(4)},
    })  # fmt: skip
    for item in range(6):
        rows[f"user-item_affinity_{item}"] = rng.integers(0, 3, n).astype(float)
    rows.to_csv(folder / "all.csv")
    return folder
