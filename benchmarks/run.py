"""Compare the speed of `rolin` with other libraries and with the floor of the machine.

    python benchmarks/run.py [--quick] [--only a c] [--processor-time] [--out DIRECTORY] [--markdown PATH]

Tables are printed, and also written to a Markdown file with --markdown. Every measured block is written
to `results.json` in the output directory.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

# One thread each. The libraries read these variables when they are imported, below.
for _variable in ("OPENBLAS", "OMP", "MKL", "NUMBA"):
    os.environ[f"{_variable}_NUM_THREADS"] = "1"

import catalogues  # noqa: E402  (after the variables are set)
import compare  # noqa: E402  (the same)
import features  # noqa: E402  (the same)
import footprint  # noqa: E402  (the same)
import journal  # noqa: E402  (the same)
import learning  # noqa: E402  (the same)
import logs  # noqa: E402  (the same)
import propensity  # noqa: E402  (the same)
import scaling  # noqa: E402  (the same)
import simulation  # noqa: E402  (the same)
import slopes  # noqa: E402  (the same)
from machine import versions  # noqa: E402  (the same)
from progress import progress  # noqa: E402  (the same)
from report import Section, table, targets_table  # noqa: E402  (the same)
from timing import Plan, clock_nanoseconds  # noqa: E402  (the same)


def main() -> None:
    """Run the requested sections."""
    parser = argparse.ArgumentParser(description="Compare the speed of rolin with other libraries.")
    parser.add_argument("--quick", action="store_true", help="few repetitions, for rough numbers")
    parser.add_argument(
        "--only", nargs="+", choices="abcdefghijklmno", help="run only these sections"
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="measure section n in processor time, which other processes disturb less",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "out", help="folder for results.json"
    )
    parser.add_argument("--markdown", type=Path, help="also write the report to this file")
    options = parser.parse_args()

    texts, measured = [environment(options.quick)], []
    print(texts[0], flush=True)
    for letter, title, steps, measure in sections(options.quick, options.processor_time):
        if options.only and letter not in options.only:
            continue
        with progress(title, steps) as step:
            section = measure(step)
        measured.append(section)
        texts.append(section.text())
        print("\n" + texts[-1], flush=True)
    targets = [target for section in measured for target in section.targets]
    texts.append("## All targets\n\n" + targets_table(targets))
    print("\n" + texts[-1])
    print(f"\n{sum(t.met for t in targets)} of {len(targets)} targets met.")

    options.out.mkdir(parents=True, exist_ok=True)
    results = {section.title: section.raw for section in measured}
    (options.out / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    if options.markdown is not None:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text("\n\n".join(texts) + "\n", encoding="utf-8")


Measure = Callable[[Callable[[], None]], Section]


def sections(quick: bool, processor_time: bool) -> list[tuple[str, str, int, Measure]]:
    """Return the letter, title, number of steps and function of every section."""
    plan = Plan(blocks=5, budget=2.0) if quick else Plan(blocks=100)
    few = Plan(blocks=5, budget=2.0) if quick else Plan(blocks=40, budget=10.0)
    some = Plan(blocks=3, budget=2.0) if quick else Plan(blocks=11, budget=30.0)
    sizes = [16, 64, 256, 1024]
    return [
        # targets: 3 and 50 times faster at K = 50, 8 and 40 times at K = 1000
        ("a", "a. K = 50", plan.blocks, lambda s: compare.side_by_side(50, 3, 50, plan, s)),
        ("a", "a. K = 1000", few.blocks, lambda s: compare.side_by_side(1000, 8, 40, few, s)),
        ("b", "b. other forms", plan.blocks, lambda s: compare.other_forms(plan, s)),
        ("c", "c. update", 3 * plan.blocks, lambda s: scaling.updates(plan, s)),
        ("d", "d. decide", 2 * plan.blocks, lambda s: scaling.decisions(plan, s)),
        ("e", "e. naive", len(sizes) * few.blocks, lambda s: compare.against_naive(sizes, few, s)),
        ("f", "f. start", 5, lambda s: footprint.start_up(5, s)),
        ("g", "g. memory", 2, footprint.memory),
        ("h", "h. simulation", few.blocks, lambda s: simulation.simulation(few, s)),
        ("i", "i. learning", few.blocks, lambda s: learning.learning(few, s)),
        ("j", "j. probabilities", few.blocks, lambda s: propensity.probabilities(few, s)),
        ("k", "k. journal", few.blocks, lambda s: journal.journals(few, s)),
        ("l", "l. features", 3 + 2 * few.blocks, lambda s: features.features(few, s)),
        ("m", "m. logs", len(logs.CASES) * some.blocks, lambda s: logs.logs(some, s)),
        (
            "n",
            "n. catalogues",
            16 * some.blocks,
            lambda s: catalogues.catalogues(some, processor_time, s),
        ),
        ("o", "o. slopes", few.blocks + 2 * plan.blocks, lambda s: slopes.slopes(plan, few, s)),
    ]


def environment(quick: bool) -> str:
    """Return the heading of the report: versions, machine and method."""
    rows = versions()
    rows.append(
        ["reading the clock", f"{clock_nanoseconds():.0f} ns, included in every timed call"]
    )
    rough = " This was a quick run: the numbers are rough." if quick else ""
    return (
        "# Benchmarks\n\nMedians over blocks of rounds. Contenders take turns, block by block, in "
        f"one process with one thread.{rough}\n\n" + table(["what", "version"], rows)
    )


if __name__ == "__main__":
    main()
