"""Everything that README and docs show is true: their code runs, their commands exist."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import rolin
from rolin import policies
from rolin.model import sparse
from support.files import open_bandit_files

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    # what is written from docstrings runs as doctests
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"),
]
# The reference and the stored results are written by programs; people write the rest.
WRITTEN = [page for page in PAGES if not {"reference", "runs"} & set(page.relative_to(ROOT).parts)]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "pycon", "sh", "text", "ts"}
# Its Python and TypeScript need a service: see tests/test_clients_page.py and tests-clients/test_typescript.py.
NEEDS_SERVICE = ROOT / "docs/how-to/clients.md"
INSERTED = re.compile(r"<!-- begin: \S+ -->.*?<!-- end -->", re.DOTALL)


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The code blocks of a page in one language, with the line where each starts."""
    text = page.read_text()
    return [
        (text[: found.start()].count("\n") + 2, found[2])
        for found in BLOCK.finditer(text)
        if found[1] == language
    ]


def prose(page: Path) -> list[tuple[int, str]]:
    """The lines of a page that are sentences, with their numbers: no code, tables, headings.

    What is inserted into the pages of the paper is checked where it is made.
    """
    text = page.read_text().partition("\n## References\n")[0]
    inserted = [INSERTED] if page.parent.name == "paper" else []
    for hidden in (*inserted, BLOCK, re.compile(r"^\$\$.*?\$\$", re.MULTILINE | re.DOTALL)):
        text = hidden.sub(lambda found: "\n" * found[0].count("\n"), text)
    lines = enumerate(text.splitlines(), 1)
    shown = [(i, line) for i, line in lines if line and not line.startswith(("#", "|", "<", "!["))]
    return [(i, re.sub(r"^ *(?:-|\d+\.) ", "", line)) for i, line in shown]


def load_script(path: str) -> ModuleType:
    """A script of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made_data(folder: Path) -> None:
    """Small files in the formats of MovieLens 1M and the Open Bandit Dataset."""
    rng = np.random.default_rng(0)
    open_bandit_files(folder / "obd/random/all", rng)
    (folder / "ml-1m").mkdir()
    files: dict[str, list[str]] = {"movies": [], "users": [], "ratings": []}
    for movie in range(1, 41):
        genres = "|".join(rng.choice(["Drama", "Comedy", "Children's", "War"], 2, replace=False))
        files["movies"].append(f"{movie}::Movie no. {movie}, Le Café ({1950 + movie})::{genres}")
    for user in range(1, 31):
        age = rng.choice([1, 18, 25])
        files["users"].append(f"{user}::{rng.choice(['F', 'M'])}::{age}::{user % 5}::0{user:04}")
        for movie in rng.choice(np.arange(1, 41), 20, replace=False):
            files["ratings"].append(f"{user}::{movie}::{rng.integers(1, 6)}::978300760")
    for name, lines in files.items():
        (folder / f"ml-1m/{name}.dat").write_text("\n".join(lines) + "\n", encoding="latin-1")


@pytest.mark.parametrize(
    "page",
    [page for page in WRITTEN if page != NEEDS_SERVICE],
    ids=lambda page: str(page.relative_to(ROOT)),
)
# Pages show what a policy without slopes cannot learn, of which it warns.
@pytest.mark.filterwarnings("ignore::rolin.errors.SharedContextWarning")
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run in order, in one session, and print what the page shows."""
    outputs = load_script("docs/outputs.py")
    monkeypatch.chdir(tmp_path)
    if page.name == "features.md":
        made_data(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in outputs.blocks_of(page.read_text()):
        said = outputs.printed(block, page, namespace)
        if block.shown is not None:
            assert said == block.shown, f"run: python docs/outputs.py {page.relative_to(ROOT)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    """Every `make` target that a page names is in the Makefile, and every language is known."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    named = set(re.findall(r"`(?:[A-Z_]+=\S+ )?make ([a-z-]+)`", text))
    for _, code in blocks(page, "sh"):
        named |= set(re.findall(r"^(?:[A-Z_]+=\S+ )?make ([a-z-]+)", code, re.MULTILINE))
    assert named <= targets
    assert {found[1] for found in BLOCK.finditer(text)} <= LANGUAGES
    assert not re.findall(r"^[A-Z]{5,}$", text, re.MULTILINE)  # a gap that was to be filled


def test_documented_options_exist() -> None:
    """Every command `rolin …` of the pages exists, and has the options that they show."""
    import typer

    from rolin.cli.app import app

    checked = 0
    for page in WRITTEN:
        shown = "\n".join(code for _, code in blocks(page, "sh"))
        text = page.read_text().split("### Upgrading")[0]  # which names old options
        shown += "\n" + "\n".join(re.findall(r"`(rolin [^`\n]+)`", text))
        for line in re.findall(r"(?:^|&& )(rolin [^#&\n]*)", shown, re.MULTILINE):
            command: Any = typer.main.get_command(app)
            words = line.split()[1:]
            while words and hasattr(command, "commands"):
                if words[0].startswith("-"):
                    break
                name = words.pop(0).rstrip(",")
                assert name in command.commands, f"{page.name}: {line}"
                command = command.commands[name]
            known = {name for option in command.params for name in option.opts} | {"--help"}
            options = {word for word in words if word.startswith("--")}
            assert options <= known, f"{page.name}: {line}"
            checked += 1
    assert checked > 20


def slugs(page: Path) -> set[str]:
    """The anchors of a page that work on a code host and on the site alike."""
    text = page.read_text()
    found = set(re.findall(r'<a id="([^"]+)"', text))
    text = BLOCK.sub("", text)
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        hosted = re.sub(r"[^\w\- ]", "", bare.lower()).replace(" ", "-")
        built = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", bare).strip().lower())
        if hosted == built:
            found.add(hosted)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links point at files and headings that exist, on a code host as well as on the site."""
    text = BLOCK.sub("", page.read_text())
    for link in re.findall(r"\]\(([^):\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in slugs(target), link


def test_pages_named_in_the_source_exist() -> None:
    """Comments and docstrings that send the reader to a page name one that exists."""
    for folder in ("src", "tests", "examples", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text()):
                assert (ROOT / page).exists(), f"{file.relative_to(ROOT)}: {page}"


def test_the_readme_is_short() -> None:
    """At most 700 words, code and tables included."""
    assert len((ROOT / "README.md").read_text().split()) <= 700


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_one_sentence_per_line(page: Path) -> None:
    """A line has one sentence, and a sentence is not broken over lines (a heuristic)."""
    lines = page.read_text().splitlines()
    for number, line in prose(page):
        assert not re.search(r"[a-z\d)`*”\"%][.!?] +[A-Z`*]\w", line), f"line {number}: {line}"
        following = next((text for text in lines[number:] if text), "")
        label = re.fullmatch(r"\*\*[^*]+\*\*", line)
        if not label and "·" not in line and not following.startswith("$$"):
            assert re.search(r"[.:;!?)…]\**$", line), f"line {number}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_can_be_read_on_a_code_host(page: Path) -> None:
    """No page includes another when the site is built, and none consists of instructions to a tool."""
    text = page.read_text()
    assert "--8<--" not in text
    assert not re.search(r"^::: ", text, re.MULTILINE)
    assert not re.search(r"\]\[rolin[\w.]*\]", text)  # links that only a plugin resolves


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# The pages of the paper's experiments are edited together with their runs.
SITE = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "runs" not in page.parts and (page.parent.name != "paper" or page.name == "index.md")
]


@pytest.mark.parametrize("page", SITE, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_say_which_extras_they_need(page: Path) -> None:
    """Every page of the site says at its top which extras it needs, and these exist."""
    (line,) = re.findall(r"^Extras: .*", "\n".join(page.read_text().splitlines()[:8]), re.M)
    named = {name for name in re.findall(r"`(?:rolin\[)?(\w+)\]?`", line) if name.islower()}
    assert named <= set(EXTRAS), line


def test_the_start_page_lists_every_extra_with_its_packages() -> None:
    """Extras that are alike share a row."""
    rows = re.findall(r"^\| (`.*) \| (.*) \| .* \|$", (ROOT / "docs/index.md").read_text(), re.M)
    adds = {name: added for names, added in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(adds) == set(EXTRAS)
    for name, requirements in EXTRAS.items():
        for package in re.findall(r"[a-z][\w-]*(?=[],>[])", " ".join(requirements)):
            assert package in f"{adds[name]} rolin binary", (name, package)


def test_every_word_of_the_glossary_is_explained() -> None:
    """No word is a heading without an explanation below it."""
    text = (ROOT / "docs/glossary.md").read_text().partition("## Words that we avoid")[0]
    for entry in text.split("\n### ")[1:]:
        heading, _, rest = entry.partition("\n")
        assert rest.split("\n## ")[0].strip(), heading


def test_shown_code_passes_a_type_checker(tmp_path: Path) -> None:
    """What we show can be pasted into a typed project."""
    shown = []
    for page in (
        ROOT / "README.md",
        ROOT / "docs/tutorial.md",
        *sorted((ROOT / "docs/how-to").glob("*.md")),
    ):
        shown.append(tmp_path / f"{page.stem.lower()}.py")
        shown[-1].write_text("\n".join(code for _, code in blocks(page, "python")))
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", os.devnull, "--cache-dir", tmp_path / "c",
         "--ignore-missing-imports", *shown],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The example has ten lines, and finds that recipes are worth about one more."""
    ((_, code),) = blocks(ROOT / "README.md", "python")
    statements = [line for line in code.splitlines() if line and not line.startswith("import")]
    assert len(statements) <= 10
    exec(code, {})
    effects = {name: float(value) for name, value in re.findall(
        r"'(\w+)': (?:np\.float64\()?(-?[\d.]+)", capsys.readouterr().out
    )}  # fmt: skip
    assert 0.6 < effects["recipes"] - effects["election"] < 1.4


def test_every_policy_and_option_is_documented() -> None:
    """The reference describes every option of every policy, and the tutorial links to every policy."""
    page = (ROOT / "docs/reference/policies.md").read_text()
    tutorial = (ROOT / "docs/tutorial.md").read_text()
    parts = re.split(r'^<a id="rolin\.(\w+)"></a>$', page, flags=re.MULTILINE)
    entries = dict(zip(parts[1::2], parts[2::2], strict=True))
    for name, policy in policies.find().items():
        assert f"(reference/policies.md#rolin.{name})" in tutorial
        # Options are described in the entry itself, or in one that it names: "Its options are those of …".
        texts = [entries[name]]
        for line in entries[name].splitlines():
            if re.search(r"\boptions\b", line):
                texts += [entries[other] for other in re.findall(r"\(#rolin\.(\w+)\)", line)]
        for option in policy(n_features=2, seed=0).settings:
            assert any(f"**`{option}`**" in text for text in texts), f"{name}: {option}"


def tables_of_calls() -> dict[str, dict[str, str]]:
    """What the page on policies says each policy has: by policy, then by column."""
    found: dict[str, dict[str, str]] = {}
    columns: list[str] = []
    for line in (ROOT / "docs/explanation/policies.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "policy":
            columns = [cell.strip("`") for cell in cells[1:]]
        elif line.startswith("| `"):
            row = dict(zip(columns, cells[1:], strict=True))
            found[cells[0].strip("`")] = {**found.get(cells[0].strip("`"), {}), **row}
    return found


def accepts(call: Any, *refusals: type[Exception]) -> str:
    """Whether a call works: "yes", or "no" if it is refused."""
    try:
        call()
    except (rolin.RolinError, *refusals):
        return "no"
    return "yes"


def calls_of(kind: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a policy has, found by trying."""
    policy = kind(n_features=3, seed=0)
    x = np.random.default_rng(0).normal(size=(4, 3))
    joint = (
        kind(n_features=3, seed=0, sampling="joint") if "sampling" in policy.settings else policy
    )
    joint.update_many([0, 1] * 6, np.tile(x, (3, 1)), [1, 0, 0, 1] * 3)  # until scales are learned
    found = {
        name: "yes" if hasattr(policy, name) else "no"
        for name in ("predict", "posterior", "moments", "diagnose", "decay")
    }
    errors = [asked.probabilities_with_error(x).std_error.any() for asked in (policy, joint)]
    first, second = ("Monte Carlo" if error else "exact" for error in errors)
    found["probabilities"] = first if first == second else f"{first}; joint: {second}"
    learned = [
        accepts(lambda scale=scale: kind(n_features=3, **{scale: "learn"}))
        for scale in ("noise_std", "arm_std", "coef_std")
    ]
    found["learns scales"] = "by default" if policy.learns_scales else max(learned)
    found["half_life"] = accepts(lambda: kind(n_features=3, half_life=30.0))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        merged = accepts(
            lambda: rolin.merge(kind(n_features=3, seed=1), kind(n_features=3, seed=2))
        )
    approximate = any(w.category is rolin.errors.ApproximationWarning for w in warned)
    found["rolin.merge"] = "no" if merged == "no" else "approximate" if approximate else "exact"
    fit = ROOT / "tests/data/format-1/fit.rolin"
    found["from_fit"] = accepts(lambda: kind.from_fit(fit), AttributeError)
    found["Catalogue"] = accepts(lambda: rolin.Catalogue(policy, x).decide())

    made_dense: list[bool] = []
    read = sparse.SparseContexts.__getitem__

    def reads(contexts: Any, rows: Any) -> Any:
        made_dense.append(not isinstance(rows, (int, np.integer)) and len(rows) == len(contexts))
        return read(contexts, rows)

    with monkeypatch.context() as patched:
        patched.setattr(sparse.SparseContexts, "__getitem__", reads)
        kinds = []
        for asked in (policy, joint):
            made_dense.clear()
            asked.decide(scipy.sparse.csr_array(x))
            kinds.append("dense" if any(made_dense) else "sparse")
    found["sparse contexts"] = (
        kinds[0] if kinds[0] == kinds[1] else f"{kinds[0]}; joint: {kinds[1]}"
    )
    return found


def test_the_tables_of_calls_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on policies says of every policy what it really has."""
    said = tables_of_calls()
    assert set(said) == set(policies.find())
    for name, kind in policies.find().items():
        assert said[name] == calls_of(kind, monkeypatch), name
    shared = (ROOT / "docs/explanation/policies.md").read_text().split("these methods: ")[1]
    for call in re.findall(r"`(\w+)`", shared.split("\n")[0]):
        for kind in policies.find().values():
            assert callable(getattr(kind, call)), call


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """`mkdocs build --strict` fails on any warning: broken links, missing pages, bad references."""
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    html = (tmp_path / "site/explanation/maths/index.html").read_text()
    assert "<math" in html
    assert "FORMULA" not in html
    # the pages load nothing from elsewhere
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.findall(r'(?:src|href)="https?://[^"]+\.(?:js|css|woff2?)"', page.read_text())


def verdicts_of_runs() -> dict[str, dict[str, str]]:
    """The verdict of every claim, by run and claim; the sentences are a run, too."""
    folder = ROOT / "docs/paper"
    verdict = re.compile(r"^\| ([^|]+) \| [^|]+ \| \*\*([a-z ]+)\*\* \|", re.MULTILINE)
    found = {
        path.parent.name: dict(verdict.findall(path.read_text()))
        for path in (folder / "runs").glob("*/claims.md")
    }
    sentence = re.compile(r"^\| ([^|]+) \| \*\*([a-z ]+)\*\* \| ", re.MULTILINE)
    return {**found, "sentences": dict(sentence.findall((folder / "sentences.md").read_text()))}


def rows_of_the_summary() -> Iterator[tuple[str, str, str, list[str], list[str]]]:
    """Claim, verdict, numbers, runs of the row, and runs named above the table, of the paper's page."""
    row = re.compile(
        r"^\| ([^|]+) \| ((?:holds|fails|inconclusive)[a-z ]*) \| ([^|]+) \|(?: ([^|]+) \|)?$"
    )
    above: list[str] = []
    starts = True  # whether the line begins a paragraph
    for line in (ROOT / "docs/paper/index.md").read_text().splitlines():
        links = re.findall(r"\((\w[\w-]*)\.md\)", line)
        if found := row.match(line):
            own = re.findall(r"\((\w[\w-]*)\.md\)", found[4] or "")
            yield found[1], found[2], found[3], own, above
        elif links:
            above = links if starts else above + links
        starts = not line


def stands_for(cell: str, claim: str) -> bool:
    """Whether a row is about a claim; "hLinUCB, …" is about all claims that begin like it."""
    return cell == claim or (cell.endswith("…") and claim.startswith(cell[:-1]))


def test_the_summary_says_what_the_runs_said() -> None:
    """Every verdict on the paper's page is the one in the ledger of the runs that its row links to."""
    said = verdicts_of_runs()
    checked = 0
    for claim, verdict, _, own, above in rows_of_the_summary():
        for run in own:
            meant = {said[run][name] for name in said[run] if stands_for(claim, name)}
            assert meant == {verdict}, f"{claim}, {run}: {meant}, not {verdict}"
        if not own:
            assert any(said[run].get(claim) == verdict for run in above), f"{claim}: not in {above}"
        checked += 1
    assert checked > 80


def test_the_first_table_has_everything_that_does_not_hold() -> None:
    """A claim or sentence with another verdict than "holds" is in the first table, with its run and verdict."""
    shown = [
        (claim, verdict, run) for claim, verdict, _, own, _ in rows_of_the_summary() for run in own
    ]
    assert all(verdict != "holds" for _, verdict, _ in shown)
    ledger = (ROOT / "docs/paper/sentences.md").read_text()
    for run, claims in verdicts_of_runs().items():
        for claim, verdict in claims.items():
            names, runs = [claim], [run]
            if run == "sentences":  # which repeat claims of the runs
                (line,) = (row for row in ledger.splitlines() if row.startswith(f"| {claim} |"))
                cited = re.findall(r"\[([^]]+)\]\((\w[\w-]*)\.md\)", line.split("|")[4])
                names += [name for name, _ in cited]
                runs += [page for _, page in cited]
            assert verdict == "holds" or any(
                stands_for(cell, name) and said == verdict and page in runs
                for cell, said, page in shown
                for name in names
            ), f"{run}: {claim}: {verdict}"


def test_rows_say_on_which_unstated_setting_they_depend() -> None:
    """What holds, but not with fixed contexts or with another factorization, says so in its row."""
    said = verdicts_of_runs()
    checked = 0
    for claim, verdict, numbers, own, above in rows_of_the_summary():
        for run, other, word in (
            ("synthetic", "fixed", "fixed contexts"),
            ("movielens", "movielens-readings", "factorizations"),
        ):
            differs = claim in said[run] and said[other].get(claim, "holds") != "holds"
            if verdict == "holds" and not own and run in above and differs:
                assert word in numbers, f"{claim}: {numbers}"
                checked += 1
    assert checked > 6


def test_the_sentences_have_the_verdicts_of_the_runs() -> None:
    """Every row of the page names a claim of a run, with its verdict, or tests that exist."""
    folder = ROOT / "docs/paper"
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    checked = 0
    for line in (folder / "sentences.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 6 or not cells[2].startswith("**"):
            continue
        for claim, page in re.findall(r"\[([^]]+)\]\((\w[\w-]*)\.md\)", cells[4]):
            ledger = (folder / "runs" / page / "claims.md").read_text()
            assert re.search(
                rf"^\| {re.escape(claim)} \| [^|]+ \| {re.escape(cells[2])} \|",
                ledger,
                re.MULTILINE,
            ), line
            checked += 1
        for name in re.findall(r"`(test_\w+)`", cells[4]):
            assert f"def {name}(" in tests, name
            checked += 1
    assert checked > 40


@pytest.mark.slow
@pytest.mark.parametrize("study", ["noise", "few-arms", "clicks", "clicks-early", "drift"])
def test_the_studies_run(study: str, tmp_path: Path) -> None:
    """A small one prints its table and saves it with its figure."""
    run = subprocess.run(
        [sys.executable, ROOT / "examples/how_to.py", study, "--runs", "2", "--rounds", "70",
         "--n-jobs", "1", "--out", tmp_path],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "2 runs of 70 rounds" in run.stdout
    assert (tmp_path / f"{study}.png").stat().st_size > 10_000
    table = (tmp_path / f"{study}.md").read_text().splitlines()
    stored = (ROOT / f"docs/how-to/runs/{study}.md").read_text().splitlines()
    # the tables in the documentation have the rows that the study has now
    assert [row.split("|")[1:3] for row in table] == [row.split("|")[1:3] for row in stored]


@pytest.mark.slow
def test_the_study_of_slopes_runs(tmp_path: Path) -> None:
    """A small one saves its tables and its figure; stored problems are not played again; the page has the same rows."""
    command = [
        sys.executable,
        ROOT / "examples/slopes.py",
        "--runs",
        "2",
        "--rounds",
        "40",
        "--n-jobs",
        "1",
    ]
    for _ in range(2):
        run = subprocess.run(
            [*command, "--out", tmp_path], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
    assert "simulating" not in run.stderr
    assert "2 runs of 40 rounds" in run.stdout
    assert (tmp_path / "slopes.png").stat().st_size > 10_000
    made = (tmp_path / "slopes.md").read_text().splitlines()
    stored = (ROOT / "docs/how-to/runs/slopes.md").read_text().splitlines()
    assert [row.split("|")[1:3] for row in made] == [row.split("|")[1:3] for row in stored]


@pytest.mark.slow
def test_the_offline_studies_run(tmp_path: Path) -> None:
    """With few logs, and on made files of the format; the stored tables have the same rows."""
    open_bandit_files(tmp_path / "obd/random/all", np.random.default_rng(1))
    open_bandit_files(tmp_path / "obd/bts/all", np.random.default_rng(2))
    for study, options in (
        ("known", ["--runs", "2", "--n-jobs", "1"]),
        ("obd", ["--data", tmp_path / "obd"]),
    ):
        run = subprocess.run(
            [sys.executable, ROOT / "examples/offline.py", study, "--out", tmp_path, *options],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        made = (tmp_path / f"offline-{study}.md").read_text().splitlines()
        stored = (ROOT / f"docs/how-to/runs/offline-{study}.md").read_text().splitlines()
        assert [line.split("|")[:3] for line in made if "|" in line] == [
            line.split("|")[:3] for line in stored if "|" in line
        ]


def test_the_features_page_runs_on_a_download(tmp_path: Path) -> None:
    """From a folder of data to the outputs that the page shows, every one of which is stored."""
    made_data(tmp_path)
    run = subprocess.run(
        [sys.executable, ROOT / "examples/features.py", "--data", tmp_path, "--out", tmp_path / "out"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    stored = {file.name for file in (ROOT / "docs/how-to/runs").glob("features-*")}
    assert {file.name for file in (tmp_path / "out").iterdir()} == stored
    page = (ROOT / "docs/how-to/features.md").read_text()
    shown = set(re.findall(r"<!-- begin: how-to/runs/(\S+) -->", page))
    assert shown == {name for name in stored if name.endswith(".txt")}


def test_the_demo_runs(tmp_path: Path) -> None:
    """A small demo prints its table and saves its figure where it says."""
    run = subprocess.run(
        [sys.executable, ROOT / "examples/misspecified.py", "--runs", "2", "--rounds", "200",
         "--out", tmp_path / "figures"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "RoLinTS" in run.stdout
    assert "Figure:" in run.stdout
    assert (tmp_path / "figures/misspecified.png").stat().st_size > 10_000
