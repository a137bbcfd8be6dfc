"""The worlds, in two groups that were fixed before any result was seen.

Defaults of `rolin` may be chosen on `DEVELOPMENT`. `REPORTED` is only for the final comparison.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from bakeoff.worlds import movielens
from bakeoff.worlds.classification import Classification, load_mixtures
from bakeoff.worlds.questions import Probe, Question, Questions, Shape, World
from bakeoff.worlds.simulated import Simulated
from rolin.environments import Clicks, Drifting, Synthetic

__all__ = [
    "ABOUT",
    "DEVELOPMENT",
    "NEED_DATA",
    "REPORTED",
    "Probe",
    "Question",
    "Questions",
    "Shape",
    "World",
    "world",
]

DEVELOPMENT = ("ml-stars", "wine", "iris", "clicks-10", "clicks-2", "synthetic-0.5")
REPORTED = (
    *("ml-clicks", "ml-few-arms", "ml-shared", "digits", "digits-64", "breast-cancer", "mixtures"),
    *("drifting", "synthetic-0"),
)
NEED_DATA = ("ml-stars", "ml-clicks", "ml-few-arms", "ml-shared")
ABOUT = {
    "ml-stars": "MovieLens 1M, even users: 20 rated movies of 500, genres × user; the reward is the rating",
    "ml-clicks": "MovieLens 1M, odd users: 20 rated movies of 500, genres × user; the reward is 1 for 5 stars, else 0",
    "ml-few-arms": "MovieLens 1M, odd users: 20 rated movies of 90, factors from few ratings × user; the reward is the rating",
    "ml-shared": "MovieLens 1M, odd users: 8 rated movies of 20, only the user is known; the reward is the rating",
    "digits": "classification: 10 digits, 20 principal components",
    "digits-64": "classification: 10 digits, 64 pixels",
    "mixtures": "classification, made: 26 classes, each a mixture of 4 Gaussians, 16 features",
    "wine": "classification: 3 wines, 13 features",
    "breast-cancer": "classification: 2 diagnoses, 30 features",
    "iris": "classification: 3 species, 4 features",
    "clicks-10": "simulated: 50 arms, logistic, click rate of 10 %",
    "clicks-2": "simulated: 50 arms, logistic, click rate of 2 %",
    "drifting": "simulated: 50 arms, linear with arm effects that change, half-life of 1000 rounds",
    "synthetic-0.5": "simulated: 50 arms, linear with arm effects",
    "synthetic-0": "simulated: 50 arms, linear without arm effects",
}


@cache
def world(name: str, data: Path | None = None) -> World:
    """Return a world by its name.

    Parameters
    ----------
    name
        One of `DEVELOPMENT` or `REPORTED`.
    data
        Folder that contains the folder `ml-1m`; only the worlds in `NEED_DATA` need it.
    """
    if name in NEED_DATA:
        if data is None:
            raise SystemExit(
                f"the world {name} needs MovieLens 1M: pass --data FOLDER, which contains ml-1m"
            )
        return _movielens(name, Path(data) / "ml-1m")
    return _others()[name]


def _movielens(name: str, folder: Path) -> World:
    if name == "ml-stars":
        return movielens.pages(name, folder, odd=False, clicks=False)
    if name == "ml-clicks":
        return movielens.pages(name, folder, odd=True, clicks=True)
    if name == "ml-few-arms":
        return movielens.few_arms(name, folder, odd=True)
    return movielens.shared(name, folder, odd=True)


def _others() -> dict[str, World]:
    made: list[World] = [
        Classification("digits", load_digits, 20),
        Classification("digits-64", load_digits),
        Classification("mixtures", load_mixtures),
        Classification("wine", load_wine),
        Classification("breast-cancer", load_breast_cancer),
        Classification("iris", load_iris),
        Simulated("clicks-10", Clicks(click_rate=0.1), binary=True),
        Simulated("clicks-2", Clicks(click_rate=0.02), binary=True),
        Simulated("drifting", Drifting(), binary=False),
        Simulated("synthetic-0.5", Synthetic(), binary=False),
        Simulated("synthetic-0", Synthetic(arm_std=0.0), binary=False),
    ]
    return {found.name: found for found in made}
