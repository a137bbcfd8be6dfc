"""Worlds from MovieLens 1M: a user arrives, and the candidates are movies that this user has rated.

Every reward is a rating that the user gave. Users with even ids are in other worlds than users with odd ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from bakeoff.worlds.questions import Blocks, Floats, Ints, Probe, Questions, Shape, World
from rolin.datasets import Ratings, factorize, read_ratings

__all__ = ["MovieLens", "few_arms", "pages", "shared"]

_GENRES = (
    *("Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller"),
    *("War", "Western"),
)
_STUDENTS, _TECHNICAL = (4, 10), (12, 15, 17)  # occupations, by the README of the data


@dataclass(frozen=True)
class Tables:
    """The three files, with users and movies by code."""

    ratings: Ratings
    people: Floats
    """(U, 5): whether female, under 25, 45 or older, a student, in a technical occupation."""
    movies: Floats
    """(I, 19): genres, and the year in units of 15 years from 1985."""


@lru_cache(maxsize=1)
def read_tables(folder: Path) -> Tables:
    """Read the folder `ml-1m`, as published."""
    ratings = read_ratings(folder)
    users = {int(line[0]): line for line in _lines(folder / "users.dat")}
    people = np.array(
        [
            [
                users[user][1] == "F",
                int(users[user][2]) < 25,
                int(users[user][2]) >= 45,
                int(users[user][3]) in _STUDENTS,
                int(users[user][3]) in _TECHNICAL,
            ]
            for user in ratings.user_names.tolist()
        ],
        dtype=np.float64,
    )
    titles = {int(line[0]): line for line in _lines(folder / "movies.dat")}
    movies = np.zeros((ratings.n_items, len(_GENRES) + 1))
    for row, movie in zip(movies, ratings.item_names.tolist(), strict=True):
        _, title, genres = titles[movie]
        row[:-1] = [genre in genres.split("|") for genre in _GENRES]
        year = re.search(r"\((\d{4})\)\s*$", title)
        row[-1] = (float(year.group(1)) - 1985.0) / 15.0 if year else 0.0
    return Tables(ratings, people, movies)


def _lines(file: Path) -> list[list[str]]:
    return [line.split("::") for line in file.read_text(encoding="latin-1").splitlines()]


def crossed(situation: Floats, item: Floats) -> Floats:
    """Return the item, the situation, and the products of the item with sex and the two age groups."""
    products = (situation[..., :3, None] * item[..., None, :]).reshape(*item.shape[:-1], -1)
    return np.concatenate([item, situation, products], axis=-1)


class MovieLens(World):
    """Pages of movies that the user has rated.

    Parameters
    ----------
    name
        Name of the world.
    folder
        The folder `ml-1m`.
    odd
        Whether the users are those with odd ids.
    catalogue
        Number of movies, the most rated ones.
    page
        Number of candidates in a round; only users who rated at least as many movies of the catalogue.
    reward
        The reward of a rating from 1 to 5.
    items_of
        Returns the features of the movies; `None` if the situation is all that is known.
    binary
        Whether rewards are 0 or 1.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        odd: bool,
        catalogue: int,
        page: int,
        reward: Callable[[Floats], Floats],
        items_of: Callable[[Tables, Ints, bool], Floats] | None,
        binary: bool = False,
    ) -> None:
        self.name = name
        self._folder, self._odd, self._catalogue, self._page = folder, odd, catalogue, page
        self._reward, self._items_of, self._binary = reward, items_of, binary

    @cached_property
    def _known(self) -> tuple[Floats, Floats | None, Floats]:
        """The rewards (users, movies), NaN where there is none; the items' features; the people."""
        tables = read_tables(self._folder)
        ratings = tables.ratings
        popular = np.argsort(-np.bincount(ratings.items), kind="stable")[: self._catalogue]
        column = np.full(ratings.n_items, -1)
        column[popular] = np.arange(len(popular))
        rewards = np.full((ratings.n_users, len(popular)), np.nan)
        present = column[ratings.items] >= 0
        rewards[ratings.users[present], column[ratings.items[present]]] = self._reward(
            ratings.values[present]
        )
        enough = np.isfinite(rewards).sum(axis=1) >= self._page
        users = np.flatnonzero(enough & (ratings.user_names % 2 == self._odd))
        items = None if self._items_of is None else self._items_of(tables, popular, self._odd)
        return rewards[users], items, tables.people[users]

    def draw(self, rounds: int, run: int) -> Questions:
        """Return rounds in which a random user sees a random page of the movies that he or she rated."""
        table, items, people = self._known
        visits, order = self.generator(run).spawn(2)
        users = visits.integers(len(table), size=rounds)
        keys = order.random((rounds, table.shape[1]))
        keys[np.isnan(table[users])] = np.inf
        arms = np.argpartition(keys, self._page - 1, axis=1)[:, : self._page]
        # In random order: a partition has an order of its own, from which nothing may be learned.
        arms = np.take_along_axis(
            arms, np.argsort(np.take_along_axis(keys, arms, axis=1), axis=1), axis=1
        )
        situations = people[users]
        blocks = Blocks(arms, situations, table.shape[1])
        probe = self._probe(blocks)
        return Questions(
            shape=Shape(
                table.shape[1],
                probe.contexts.shape[1],
                people.shape[1],
                items,
                items is None,
                self._binary,
            ),
            arms=arms,
            contexts=blocks if items is None else _contexts(situations, items[arms]),
            rewards=table[users[:, None], arms],
            situations=situations,
            probes=[probe],
        )

    def _probe(self, blocks: Blocks) -> Probe:
        """Return the mean reward of every movie that is shown, and the mean of its contexts.

        A user who rated n movies of the catalogue sees each of them with probability page / n.
        """
        table, items, people = self._known
        shown = np.isfinite(table)
        weights = shown / shown.sum(axis=1, keepdims=True)
        means = (weights * np.nan_to_num(table)).sum(axis=0) / weights.sum(axis=0)
        average = weights.T @ people / weights.sum(axis=0)[:, None]
        arms = np.arange(table.shape[1])
        contexts = blocks.of(arms, average) if items is None else crossed(average, items)
        return Probe(arms.tolist(), contexts, means, average if items is None else None)


def _contexts(situations: Floats, items: Floats) -> Floats:
    """Return the (T, K, d) contexts."""
    shape = (*items.shape[:2], situations.shape[1])
    return crossed(np.broadcast_to(situations[:, None, :], shape), items)


def _described(tables: Tables, popular: Ints, odd: bool) -> Floats:
    """Return genres and year."""
    return tables.movies[popular]


def _estimated(tables: Tables, popular: Ints, odd: bool) -> Floats:
    """Return movie vectors of rank 10 from the ratings of a twentieth of the other users.

    They are in the coordinates of their principal axes, and scaled so that a feature is about 1.
    """
    ratings = tables.ratings
    others = np.flatnonzero(ratings.user_names % 2 != odd)
    few = np.random.default_rng(20).permutation(others)[: len(others) // 20]
    rows = np.isin(ratings.users, few) & np.isin(ratings.items, popular)
    sample = Ratings(
        ratings.users[rows],
        ratings.items[rows],
        ratings.values[rows],
        ratings.user_names,
        ratings.item_names,
    )
    vectors = factorize(sample, rank=10).items[popular]
    centered = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    turned = centered @ axes.T
    return turned / np.sqrt(np.mean(turned[:, 0] ** 2))


def _stars(ratings: Floats) -> Floats:
    return (ratings - 1.0) / 4.0


def _loved(ratings: Floats) -> Floats:
    return (ratings == 5.0).astype(np.float64)


def pages(name: str, folder: Path, *, odd: bool, clicks: bool) -> MovieLens:
    """Return pages of 20 movies with genres and year; the reward is the rating, or whether it is 5."""
    return MovieLens(
        name,
        folder,
        odd=odd,
        catalogue=500,
        page=20,
        reward=_loved if clicks else _stars,
        items_of=_described,
        binary=clicks,
    )


def few_arms(name: str, folder: Path, *, odd: bool) -> MovieLens:
    """Return pages of 20 of 90 movies, with features that are estimated from few ratings."""
    return MovieLens(
        name,
        folder,
        odd=odd,
        catalogue=90,
        page=20,
        reward=_stars,
        items_of=_estimated,
    )


def shared(name: str, folder: Path, *, odd: bool) -> MovieLens:
    """Return pages of 8 of 20 movies, of which nothing is known but their names."""
    return MovieLens(
        name,
        folder,
        odd=odd,
        catalogue=20,
        page=8,
        reward=_stars,
        items_of=None,
    )
