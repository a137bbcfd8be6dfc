"""Sections f and g: time to start, and memory."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import time

import numpy as np
from compare import arm_names
from known import SAMPLING
from report import Section, Target, number, table

import rolin

Step = Callable[[], None]

# Each program prints the time at its end. The time at its start is taken before the process is created.
_PROGRAMS = {
    "an empty program": "",
    "import numpy": "import numpy",
    "import numba": "import numba",
    "import rolin": "import rolin",
    "first decision": (
        "import numpy, rolin\n"
        "policy = rolin.RoLinTS(n_features=10, seed=0)\n"
        "decision = policy.decide(numpy.ones((50, 10)), [f'a{i}' for i in range(50)])"
    ),
    "first decision and update": (
        "import numpy, rolin\n"
        "policy = rolin.RoLinTS(n_features=10, seed=0)\n"
        "decision = policy.decide(numpy.ones((50, 10)), [f'a{i}' for i in range(50)])\n"
        "policy.update(decision.arm, decision.context, 1.0)"
    ),
}


def start_up(repeats: int, step: Step) -> Section:
    """Section f: new processes, with compiled kernels in the cache on disk."""
    for program in _PROGRAMS.values():
        _seconds(program)  # compiles what is not compiled yet, and reads the files once
    found: dict[str, list[float]] = {name: [] for name in _PROGRAMS}
    for _ in range(repeats):
        for name, program in _PROGRAMS.items():
            found[name].append(_seconds(program))
        step()
    medians = {name: float(np.median(times)) for name, times in found.items()}
    importing = medians["import rolin"] - medians["an empty program"]
    rows = [[name, number(1000 * seconds)] for name, seconds in medians.items()]
    return Section(
        "f. Process start, kernel cache warm",
        [
            f"From the start of a new process to the end of the program, median of {repeats}. "
            "The target for `import rolin` is its time minus that of an empty program."
        ],
        [table(["program", "ms"], rows)],
        [
            Target("import rolin", 1, importing, at_least=False, unit="s"),
            Target("process start to first decision", 2, medians["first decision"], False, "s"),
        ],
        dict(found),
    )


def _seconds(program: str) -> float:
    code = f"{program}\nimport time\nprint(time.time())"
    # Users have bytecode caches. Without them, every start would compile all sources.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time()
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env
    )
    return float(done.stdout.split()[-1]) - start


def memory(step: Step) -> Section:
    """Section g: deciding among new names takes no memory; an update of a new arm adds a row."""
    decisions, n_arms, d = 2000, 50, 10
    policy = rolin.RoLinTS(n_features=d, seed=0, **SAMPLING)
    contexts = np.random.default_rng(0).uniform(-1, 1, (n_arms, d))

    def decide(first: int, last: int) -> None:
        for t in range(first, last):
            policy.decide(contexts, [f"new-{t}-{k}" for k in range(n_arms)])

    decide(0, 200)
    gc.collect()
    resident = _resident()
    tracemalloc.start()
    decide(200, 400)  # tracing allocates its own memory here
    before = _traced()
    decide(400, 400 + decisions)
    grown = _traced() - before
    tracemalloc.stop()
    resident = _resident() - resident
    step()

    many = 100_000
    names, contexts = arm_names(many), np.random.default_rng(0).uniform(-1, 1, (many, d))
    tracemalloc.start()
    before = _traced()
    policy = rolin.RoLinTS(n_features=d, seed=0, **SAMPLING)
    for i, name in enumerate(names):
        policy.update(name, contexts[i], 1.0)
    per_arm = (_traced() - before) / many
    tracemalloc.stop()
    step()

    rows = [
        [
            f"growth in {decisions:,} decisions among {n_arms} new names each, traced",
            f"{grown:,} B",
        ],
        ["the same, resident memory of the process (rough)", f"{resident / 1024:,.0f} KiB"],
        [
            f"per arm, {many:,} arms updated, d = {d}, without the names themselves",
            f"{per_arm:.0f} B",
        ],
    ]
    per_name = grown / (decisions * n_arms)
    return Section(
        "g. Memory",
        [
            "Arrays double when they are full, so an arm takes up to twice its 12 d + 20 bytes "
            f"({12 * d + 20} B at d = {d}), plus its entry in the index of names."
        ],
        [table(["what", "measured"], rows)],
        [Target("deciding among new names takes no memory", 1, per_name, False, "B per new name")],
        {"grown": grown, "resident": resident, "per_arm": per_arm},
    )


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _resident() -> int:
    """Return the resident bytes of this process, or 0 if the system does not tell."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
