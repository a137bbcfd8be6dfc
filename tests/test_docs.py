"""Everything that README and docs show is true: their code runs, their commands exist."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rolin
from rolin import policies
from test_offline import open_bandit_files

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LANGUAGES = {"python", "sh", "text"}


def blocks(page: Path, language: str) -> list[tuple[int, str]]:
    """The code blocks of a page in one language, with the line where each starts."""
    text = page.read_text()
    return [
        (text[: found.start()].count("\n") + 2, found[2])
        for found in BLOCK.finditer(text)
        if found[1] == language
    ]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run in order, as if pasted into one session."""
    monkeypatch.chdir(tmp_path)
    if page.name == "features.md":
        made_data(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + code, page, "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    """Every `make` target that a page names is in the Makefile, and every language is known."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    named = set(re.findall(r"`make ([a-z]+)`", text))
    for _, code in blocks(page, "sh"):
        named |= set(re.findall(r"^(?:[A-Z_]+=\S+ )?make ([a-z]+)", code, re.MULTILINE))
    assert named <= targets
    assert {found[1] for found in BLOCK.finditer(text)} <= LANGUAGES
    assert not re.findall(r"^[A-Z]{5,}$", text, re.MULTILINE)  # a place that was to be filled


def test_links_lead_somewhere() -> None:
    """Relative links of the README and the contributor guide point at files that exist."""
    for page in ROOT.glob("*.md"):
        for link in re.findall(r"\]\(([^)#:\s]+)\)", page.read_text()):
            assert (ROOT / link).exists(), f"{page.name}: {link}"


def test_shown_code_passes_a_type_checker(tmp_path: Path) -> None:
    """What we show can be pasted into a typed project."""
    shown = []
    for page in (
        ROOT / "README.md",
        *(ROOT / "docs" / f"{n}.md" for n in ("tutorial", "simulate", "audit", "features")),
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


def test_documented_parameters_exist() -> None:
    """Every parameter that a docstring describes is one of the signature, one by one."""
    for thing in (*policies.find().values(), rolin.Policy.decide, rolin.Policy.update,
                  rolin.Policy.decide_many, rolin.load, rolin.merge, rolin.Scales, rolin.simulate,
                  rolin.Result.compare, rolin.Result.plot, rolin.environments.Synthetic,
                  rolin.environments.Clicks, rolin.environments.Drifting,
                  rolin.model.diagnose, rolin.LinearPolicy.diagnose, rolin.LinearPolicy.decay,
                  rolin.Bandit, rolin.Bandit.decide, rolin.Bandit.decide_many, rolin.Bandit.reward,
                  rolin.Bandit.expire, rolin.Bandit.import_log, rolin.Bandit.erase,
                  rolin.offline.read, rolin.offline.evaluate, rolin.offline.replay, rolin.offline.DecisionLog,
                  rolin.offline.check_propensities, rolin.model.bayes_regret_bound,
                  rolin.FeatureMap, rolin.FeatureMap.infer, rolin.FeatureMap.with_fields,
                  rolin.FeatureMap.contexts, rolin.FeatureMap.transform, rolin.features.Number,
                  rolin.features.Category, rolin.features.Tags, rolin.features.Boolean,
                  rolin.features.HashedFeatures, rolin.features.Transformed, rolin.Bandit.explain,
                  rolin.Bandit.change_feature_map, rolin.Policy.change_feature_map):  # fmt: skip
        doc = inspect.cleandoc(thing.__doc__ or "")
        if "Parameters\n---" not in doc:
            assert "options are those of" in doc
            continue
        section = doc.split("Parameters\n----------\n")[1].split("\n\n")[0]
        described = re.findall(r"^(\S.*)$", section, re.MULTILINE)
        assert set(described) == set(inspect.signature(thing).parameters) - {"self"}, thing


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The ten lines are ten lines, and find that recipes are worth about one more."""
    ((_, code),) = blocks(ROOT / "README.md", "python")
    statements = [line for line in code.splitlines() if line and not line.startswith("import")]
    assert len(statements) <= 10
    exec(code, {})
    effects = {name: float(value) for name, value in re.findall(
        r"'(\w+)': (?:np\.float64\()?(-?[\d.]+)", capsys.readouterr().out
    )}  # fmt: skip
    assert 0.6 < effects["recipes"] - effects["election"] < 1.4


def test_every_policy_and_option_is_documented() -> None:
    """Every policy is on its page and in the tutorial's table."""
    page = (ROOT / "docs/api/policies.md").read_text()
    tutorial = (ROOT / "docs/tutorial.md").read_text()
    for name in policies.find():
        assert f"::: rolin.{name}\n" in page
        assert f"(api/policies.md#rolin.{name})" in tutorial


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """`mkdocs build --strict` fails on any warning: broken links, missing pages, bad references."""
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    html = (tmp_path / "site/maths/index.html").read_text()
    assert "<math" in html
    assert "FORMULA" not in html
    # the pages load nothing from elsewhere
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.findall(r'(?:src|href)="https?://[^"]+\.(?:js|css|woff2?)"', page.read_text())


def test_the_summary_says_what_the_runs_said() -> None:
    """Every verdict on the paper's page is the one in the ledger of a run that the page links to."""
    folder = ROOT / "docs/paper"
    verdict = re.compile(r"^\| ([^|]+) \| [^|]+ \| \*\*([a-z ]+)\*\* \|", re.MULTILINE)
    row = re.compile(r"^\| ([^|]+) \| ((?:holds|fails|cannot)[a-z ]*) \| [^|]+ \|$")
    linked: list[str] = []
    checked = 0
    for line in (folder / "index.md").read_text().splitlines():
        if names := re.findall(r"\((\w[\w-]*)\.md\)", line):
            linked = names
        if found := row.match(line):
            ledgers = [(folder / "runs" / name / "claims.md").read_text() for name in linked]
            said = {pair for ledger in ledgers for pair in verdict.findall(ledger)}
            assert (found[1], found[2]) in said, f"{line} is not in {linked}"
            checked += 1
    assert checked > 25


@pytest.mark.parametrize("study", ["noise", "clicks", "drift"])
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
    kept = (ROOT / f"docs/how-to/runs/{study}.md").read_text().splitlines()
    # the tables in the documentation have the rows that the study has now
    assert [row.split("|")[1:3] for row in table] == [row.split("|")[1:3] for row in kept]


def test_the_offline_studies_run(tmp_path: Path) -> None:
    """With few logs, and on made files of the format; the kept tables have the same rows."""
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
        kept = (ROOT / f"docs/how-to/runs/offline-{study}.md").read_text().splitlines()
        assert [line.split("|")[:3] for line in made if "|" in line] == [
            line.split("|")[:3] for line in kept if "|" in line
        ]


def test_the_features_page_runs_on_a_download(tmp_path: Path) -> None:
    """From a folder of data to the outputs that the page shows, every one of which is kept."""
    made_data(tmp_path)
    run = subprocess.run(
        [sys.executable, ROOT / "examples/features.py", "--data", tmp_path, "--out", tmp_path / "out"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    kept = {file.name for file in (ROOT / "docs/how-to/runs").glob("features-*")}
    assert {file.name for file in (tmp_path / "out").iterdir()} == kept
    shown = set(re.findall(r'--8<-- "(.*)"', (ROOT / "docs/features.md").read_text()))
    assert shown == {name for name in kept if name.endswith(".txt")}


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
