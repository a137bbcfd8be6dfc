"""Compare the rewards of rolin, with nothing tuned, with those of other libraries.

    python benchmarks/bakeoff/run.py [--data FOLDER] [--worlds NAME …] [--contenders NAME …]
        [--runs N] [--rounds N] [--jobs N] [--budget SECONDS] [--again] [--out FOLDER] [--markdown PATH]

Results are stored in the output folder, and an interrupted bake-off resumes. `--again` plays the
contenders that are given again, for example after a change of `rolin`. The report covers all that is stored
for the worlds and runs that are asked for.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# One thread each. The libraries read these variables when they are imported, below.
for _variable in ("OPENBLAS", "OMP", "MKL", "NUMBA"):
    os.environ[f"{_variable}_NUM_THREADS"] = "1"
# Packages are imported from the folder above: `bakeoff`, `peers`, and the modules beside them.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from joblib import Parallel, delayed  # noqa: E402  (after the variables are set)
from progress import progress  # noqa: E402  (the same)

from bakeoff import openbandit  # noqa: E402  (the same)
from bakeoff.contenders import available  # noqa: E402  (the same)
from bakeoff.report import offline_report, report  # noqa: E402  (the same)
from bakeoff.results import Results  # noqa: E402  (the same)
from bakeoff.standings import Standings  # noqa: E402  (the same)
from bakeoff.tasks import evaluate_one, play_one  # noqa: E402  (the same)
from bakeoff.worlds import DEVELOPMENT, NEED_DATA, REPORTED  # noqa: E402  (the same)
from rolin.offline import Evaluation  # noqa: E402  (the same)


def main() -> None:
    """Play what is missing, and report."""
    kinds, missing = available()
    options = _parser(list(kinds)).parse_args()
    for library, error in missing.items():
        print(f"not installed: {library} ({error})", file=sys.stderr)
    names = _worlds(options.worlds, options.data)
    if offline := openbandit.NAME in names:
        names.remove(openbandit.NAME)
    results = Results(options.out, options.rounds, options.budget)
    tasks = [
        (name, run, contender)
        for name in names
        for run in range(options.runs)
        for contender in options.contenders or kinds
        if options.again or results.read(name, contender, run) is None
    ]
    with progress(f"{len(tasks)} runs", len(tasks)) as step:
        work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
            delayed(play_one)(*task, options.data, results) for task in tasks
        )
        for _ in work:
            step()
    parts = []
    if names:
        parts.append(report(Standings(results, names, kinds, options.runs), kinds))
    if offline:
        evaluations = _evaluate(options.contenders or list(kinds), options.data, options.jobs)
        parts.append(offline_report(evaluations))
    text = "\n\n".join(parts)
    print(text)
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(text + "\n", encoding="utf-8")


def _evaluate(contenders: list[str], data: Path | None, jobs: int) -> dict[str, Evaluation]:
    """Estimate the value of contenders on the Open Bandit Dataset; leave out those without probabilities."""
    if data is None:
        raise SystemExit(
            f"{openbandit.NAME} needs a folder: pass --data FOLDER, which contains obd"
        )
    found: dict[str, Evaluation] = {}
    with progress(openbandit.NAME, len(contenders)) as step:
        work = Parallel(n_jobs=jobs, return_as="generator")(
            delayed(evaluate_one)(name, data) for name in contenders
        )
        for name, evaluation in zip(contenders, work, strict=True):
            if evaluation is not None:
                found[name] = evaluation
            step()
    return found


def _worlds(asked: list[str] | None, data: Path | None) -> list[str]:
    """Return the names of worlds; without data, those that need none."""
    groups = {"development": DEVELOPMENT, "reported": (*REPORTED, openbandit.NAME)}
    names = [n for a in asked or groups for n in groups.get(a, (a,))]
    if data is None and not asked:
        needy = (*NEED_DATA, openbandit.NAME)
        print(f"without --data, left out: {', '.join(needy)}", file=sys.stderr)
        names = [name for name in names if name not in needy]
    return list(dict.fromkeys(names))


def _parser(contenders: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compare the rewards of rolin and other libraries."
    )
    worlds = ["development", "reported", *DEVELOPMENT, *REPORTED, openbandit.NAME]
    parser.add_argument("--data", type=Path, help="folder that contains ml-1m and obd")
    parser.add_argument(
        "--worlds", nargs="+", choices=worlds, metavar="NAME", help=f"from: {', '.join(worlds)}"
    )
    parser.add_argument(
        "--contenders",
        nargs="+",
        choices=contenders,
        metavar="NAME",
        help=f"from: {'; '.join(contenders)}",
    )
    parser.add_argument("--runs", type=int, default=20, help="runs per world (20)")
    parser.add_argument("--rounds", type=int, default=5000, help="rounds per run (5000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of CPU per run of a contender (60)"
    )
    parser.add_argument("--again", action="store_true", help="play again what is stored")
    parser.add_argument(
        "--out", type=Path, default=Path("out/bakeoff"), help="folder of the results"
    )
    parser.add_argument("--markdown", type=Path, help="also write the report to this file")
    return parser


if __name__ == "__main__":
    main()
