"""The report of the bake-off as Markdown: who played where, rewards, ranks, times and intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from machine import versions
from report import number, table

from bakeoff.contenders import Contender
from bakeoff.play import HORIZONS
from bakeoff.standings import Standings
from bakeoff.worlds import ABOUT, DEVELOPMENT
from rolin.offline import Evaluation

__all__ = ["offline_report", "report"]

Kinds = Mapping[str, type[Contender]]
_BEHIND = 0.03  # a smaller share of the best mean reward counts as equal


def report(standings: Standings, kinds: Kinds) -> str:
    """Return the report.

    Parameters
    ----------
    standings
        All outcomes.
    kinds
        The contenders by name, in the order of the report.
    """
    worlds = standings.worlds
    kinds = {name: kind for name, kind in kinds.items() if standings.played(name)}
    field = [name for name, kind in kinds.items() if kind.group != "study"]
    study = [name for name, kind in kinds.items() if kind.group in ("rolin", "study")]
    parts = [
        f"{standings.runs} paired runs of {standings.rounds:,} rounds per world: all contenders get the same "
        "questions, and for the same arm the same reward. A cell is the mean reward per round ± the standard error "
        "of its paired difference to the best of the column, which is bold.",
        "`slow`: did not reach this horizon within the time limit. `–`: cannot play this world, see the table of "
        "contenders. Empty: not run.",
        table(["what", "version"], versions()),
        "## Worlds",
        _worlds(worlds),
        "## Contenders",
        _contenders(standings, kinds),
    ]
    for horizon in [h for h in HORIZONS if h <= standings.rounds] or [standings.rounds]:
        parts += [
            f"## After {horizon:,} rounds",
            *_rewards(standings, worlds, field, horizon),
            "Mean rank over the worlds in parentheses; 1 is the best:",
            _ranks(standings, worlds, field, horizon),
            *_against_best(standings, worlds, kinds, field, horizon),
        ]
        if len(study) > 1:
            parts += [
                f"### Settings of rolin after {horizon:,} rounds",
                *_rewards(standings, worlds, study, horizon),
            ]
    parts += [
        "## Time",
        "Median CPU time of decide and update in microseconds, without what a library needs before: text and "
        "parsed examples for Vowpal Wabbit, dictionaries for river.",
        _times(standings, worlds, kinds),
        "## Intervals",
        "Share of true mean rewards inside rolin's 90 % intervals after the last round, in percent. In simulated "
        "worlds these are the means of all arms in the next 16 rounds. In worlds from data they are the mean reward "
        "of every arm over all users or rows, predicted at its mean context.",
        _coverage(standings, worlds, kinds),
    ]
    return "\n\n".join(parts)


def _worlds(worlds: Sequence[str]) -> str:
    return table(
        ["world", "group", "what"],
        [[world, _group(world), ABOUT[world]] for world in worlds],
    )


def _group(world: str) -> str:
    return "development" if world in DEVELOPMENT else "reported"


def _groups(worlds: Sequence[str]) -> dict[str, list[str]]:
    """Return the worlds by group; a table of all of them would be too wide."""
    groups: dict[str, list[str]] = {}
    for world in worlds:
        groups.setdefault(_group(world), []).append(world)
    return groups


def _contenders(standings: Standings, kinds: Kinds) -> str:
    rows = []
    for name, kind in kinds.items():
        about = textwrap.dedent(kind.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        refused = standings.refusals(name)
        reasons = "; ".join(f"{', '.join(where)}: {why}" for why, where in refused.items())
        rows.append([name, kind.models, about, reasons])
    return table(["contender", "model", "settings", "cannot play"], rows)


def _rewards(
    standings: Standings, worlds: Sequence[str], names: Sequence[str], horizon: int
) -> list[str]:
    best = {world: standings.best(world, names, horizon) for world in worlds}

    def cell(name: str, world: str) -> str:
        means, first = standings.means(world, name, horizon), best[world]
        if means is None or first is None:
            return standings.why_not(world, name)
        if name == first:
            return f"**{means.mean():.4f}**"
        _, error = standings.difference(world, first, name, horizon)
        return f"{means.mean():.4f} ± {error:.4f}"

    parts = []
    for group, members in _groups(worlds).items():
        rows = [[name, *(cell(name, world) for world in members)] for name in names]
        parts += [f"In the {group} worlds:", table(["contender", *members], rows)]
    return parts


def _ranks(standings: Standings, worlds: Sequence[str], names: Sequence[str], horizon: int) -> str:
    ranks = standings.ranks(names, horizon)
    columns = {**_groups(worlds), "all": worlds}

    def cell(name: str, members: Sequence[str]) -> str:
        mine = [ranks[world, name] for world in members if (world, name) in ranks]
        return f"{np.mean(mine):.1f} ({len(mine)})" if mine else ""

    rows = [[name, *(cell(name, members) for members in columns.values())] for name in names]
    return table(["contender", *columns], rows)


def _against_best(
    standings: Standings, worlds: Sequence[str], kinds: Kinds, field: Sequence[str], horizon: int
) -> list[str]:
    """Return how rolin with nothing tuned compares with the best of the others, world by world."""
    mine = [name for name in field if kinds[name].group == "rolin"]
    others = [name for name in field if kinds[name].group != "rolin"]
    parts = []
    for name in mine:
        rows, behind = [], []
        for world in worlds:
            best, means = (
                standings.best(world, others, horizon),
                standings.means(world, name, horizon),
            )
            if best is None or means is None:
                continue
            ahead, error = standings.difference(world, name, best, horizon)
            theirs = standings.means(world, best, horizon)
            assert theirs is not None
            share = ahead / abs(theirs.mean())
            verdict = "within 3 %" if abs(share) <= _BEHIND else "ahead" if share > 0 else "BEHIND"
            if verdict == "BEHIND":
                behind.append(world)
            difference = f"{ahead:+.4f} ± {error:.4f}"
            rows.append([world, best, difference, f"{100 * share:+.1f} %", verdict])
        if rows:
            where = f"in {', '.join(behind)}" if behind else "nowhere"
            parts += [
                f"### {name} against the best of the others after {horizon:,} rounds",
                table(["world", "best of the others", "difference", "relative", "verdict"], rows),
                f"{name} is more than {100 * _BEHIND:g} % behind {where}.",
            ]
    return parts


def _times(standings: Standings, worlds: Sequence[str], kinds: Kinds) -> str:
    def cell(world: str, name: str) -> str:
        found = [o.microseconds for o in standings.outcomes(world, name) if o.refused is None]
        return number(float(np.median(found))) if found else standings.why_not(world, name)

    rows = [[name, *(cell(world, name) for world in worlds)] for name in kinds]
    return table(["contender", *worlds], rows)


def _coverage(standings: Standings, worlds: Sequence[str], kinds: Kinds) -> str:
    def cell(world: str, name: str) -> str:
        found = [o.coverage for o in standings.outcomes(world, name) if o.coverage is not None]
        return f"{100 * np.mean(found):.0f}" if found else ""

    rows = [[name, *(cell(world, name) for world in worlds)] for name in kinds]
    return table(["contender", *worlds], [row for row in rows if any(row[1:])])


def offline_report(evaluations: Mapping[str, Evaluation]) -> str:
    """Return the part about the Open Bandit Dataset.

    Parameters
    ----------
    evaluations
        The estimated value of each contender.
    """
    rows = []
    for name, found in evaluations.items():
        values = [
            f"{100 * e.value:.3f} ({100 * e.low:.3f} to {100 * e.high:.3f})"
            for e in (found["SNIPS"], found["DR"])
        ]
        clicks = "" if found.rare_rewards is None else number(found.rare_rewards.effective_n)
        rows.append([name, *values, number(found.effective_n), clicks])
    first = next(iter(evaluations.values()))
    n_clicks = first.rare_rewards.n if first.rare_rewards is not None else 0
    doubtful = sum(bool(found.notes) for found in evaluations.values())
    return "\n\n".join(
        [
            "## Open Bandit Dataset",
            "Each contender learns from the first half of the log of the random policy, and the second half "
            "estimates its click rate, in percent, with 95 % intervals. Contenders without probabilities are left "
            "out. The effective numbers say how many decisions and clicks of the policy itself would be as "
            "informative.",
            table(
                ["contender", "SNIPS", "DR", "effective decisions", "effective clicks"],
                rows,
            ),
            f"The second half has {first.n:,} decisions and {n_clicks} clicks, a rate of "
            f"{100 * first.logged.value:.3f} %. `rolin.offline` warns that {doubtful} of {len(evaluations)} estimates "
            "are inconclusive. This sample is too small to choose between policies.",
        ]
    )
