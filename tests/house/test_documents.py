"""What people read first holds: links lead somewhere, commands have the options that they are shown with."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.forked import run_cress
from tools.house.counts import doubled_names

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CRESS = [sys.executable, "-c", "from cress.cli.main import main; main()"]


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(page: Path) -> list[str]:
    """The links and pictures of a page that stay inside the repository."""
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    return [link for link in found if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def commands(page: Path) -> list[list[str]]:
    """The ``cress`` command lines that a page shows."""
    lines = re.findall(r"^\$ (cress .*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def options_of(verb: tuple[str, ...]) -> set[str]:
    """The options that a verb has by its help."""
    told = run_cress([*verb, "--help"])
    assert told.returncode == 0, told.stderr
    return set(re.findall(r"--[a-z][a-z0-9-]*", told.stdout))


def test_commands_in_the_documents_have_known_options_and_files() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    assert len(shown) > 5
    asked = []
    for command in shown:
        # Verbs below a verb; what comes behind -- is not ours.
        words = command[1 : command.index("--") if "--" in command else None]
        if words[0] == "-C":  # a cluster of the configuration file
            words = words[2:]
        below = len(words) > 1 and words[0] in {"groups", "nodes", "config", "store"} and not words[1].startswith("-")
        asked.append((command, words, tuple(words[: 2 if below else 1])))
    verbs = list(dict.fromkeys(verb for _, _, verb in asked))
    # Each asks a program, which takes a while.
    with ThreadPoolExecutor(4) as threads:
        known = dict(zip(verbs, threads.map(options_of, verbs), strict=True))
    for command, words, verb in asked:
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known[verb], command
        assert all((ROOT / word).is_file() for word in words if word.startswith("examples/")), command
        assert words[0] != "simulate" or "--out" in words


def test_the_readme_shows_the_message_that_a_typing_error_gets() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    line, message = re.search(r"\$ cress (simulate .*Backfil .*)\n(.*)\n", readme).groups()  # type: ignore[union-attr]
    told = subprocess.run([*CRESS, *shlex.split(line)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (told.returncode, told.stderr) == (2, message + "\n")


def test_every_page_and_example_is_in_the_index() -> None:
    listed = {link.partition("#")[0] for link in links(ROOT / "docs" / "README.md")}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= listed
    assert {f"../examples/{example.name}" for example in (ROOT / "examples").iterdir()} <= listed
    assert "docs/README.md" in set(links(ROOT / "README.md"))


def mentioned(page: Path) -> list[str]:
    """The files and directories of the package, tests and tools that a page names in code font: ``core/ledger.py``."""
    words = re.findall(r"`([a-z_]+(?:/[a-z_.0-9]+)*/(?:[a-z_0-9]+\.py)?)`", page.read_text(encoding="utf-8"))
    rooms = {path.name for path in (ROOT / "src" / "cress").iterdir() if path.is_dir()} | {"tests", "src"}
    return [word for word in words if word.split("/")[0] in rooms]


# Design notes tell what was true when they were written.
@pytest.mark.parametrize("name", ["contributing.md", "glossary.md", "operations.md", "sources.md", "core.md"])
def test_files_that_a_page_names_are_there(name: str) -> None:
    page = ROOT / "docs" / name
    for word in mentioned(page) if page.exists() else ():
        assert any((root / word).exists() for root in (ROOT, ROOT / "src" / "cress")), f"{name}: {word} is not there"


def test_contributing_names_the_files_that_its_examples_touch() -> None:
    named = set(mentioned(ROOT / "docs" / "contributing.md"))
    assert {
        "model/jobfile/keys.py",
        "core/groups/policies/__init__.py",
        "executor/runtimes/engines/__init__.py",
    } <= named


def test_the_glossary_defines_each_word_once_and_names_classes_that_exist() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*(.+?) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    words = [row[0].partition("**")[0] for row in rows if "of capacity" not in row[0]]
    assert len(words) > 80
    assert len(set(words)) == len(words)
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "cress").rglob("*.py"))
    for _, _, place in rows:
        for name in re.findall(r"`([A-Z][A-Za-z]+)`", place):
            assert re.search(rf"^class {name}\b", source, re.MULTILINE), name


def test_the_glossary_has_each_name_of_two_classes_and_no_other() -> None:
    section = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Names of two classes")[2]
    first_cells = re.findall(r"^\| (`.+?) \|", section, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(first_cells))) == doubled_names(ROOT)


def test_the_glossary_names_modules_that_exist() -> None:
    rows = re.findall(
        r"^\| \*\*.*\| (.*) \|$", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {each for row in rows for each in re.findall(r"`([a-z_.]+)`", row)}
    assert len(named) > 20
    places = {each: ROOT / "src" / "cress" / each.replace(".", "/") for each in named}
    assert [each for each, place in places.items() if not (place.is_dir() or place.with_suffix(".py").exists())] == []


def test_every_design_note_has_its_own_number() -> None:
    notes = sorted((ROOT / "docs" / "design").glob("*.md"))
    assert len({note.name[:4] for note in notes}) == len(notes) > 10
    assert [note.name for note in notes if not note.read_text(encoding="utf-8").startswith(f"# {note.name[:4]} ")] == []
