"""The examples of docs/answers.md, repeated; and the exit codes of the verbs about the past."""

from __future__ import annotations

import os
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.forked import run_cress
from tests.past.recorder import busy_day
from tests.past.test_replaying import elsewhere, rewritten

PAGE = (Path(__file__).parents[2] / "docs" / "answers.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recorded cluster of the page, and its other groups."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "cluster").mkdir()
    busy_day(folder / "cluster")
    (folder / "new.conf").write_text("Name: ads\nResourceQuota: 2\n\nName: web\nResourceQuota: 6\n")
    return folder


def cress(place: Path, *words: str) -> CompletedProcess[str]:
    """Run a command in the folder, in UTC."""
    return run_cress(words, environment={**os.environ, "TZ": "UTC", "COLUMNS": "120"}, folder=place)


def examples() -> list[tuple[str, str]]:
    """The commands of the page with what they print."""
    blocks = re.findall(r"^```console\n\$ cress (.*)\n((?:.*\n)*?)```", PAGE, re.MULTILINE)
    assert len(blocks) >= 6
    return blocks


def test_every_example_of_the_page_prints_what_it_shows(place: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda block: cress(place, *shlex.split(block[0])), examples()))
    for (command, shown), told in zip(examples(), done, strict=True):
        assert (told.returncode, told.stderr) == (0, ""), command
        assert re.sub(r"(?m)^(took +).*", r"\1…", told.stdout).strip() == shown.strip(), command


def test_a_different_decision_ends_with_1_and_is_shown(place: Path, tmp_path: Path) -> None:
    number = rewritten(place / "cluster" / "events" / "00000001.events", tmp_path, elsewhere)
    told = cress(place, "replay", str(tmp_path))
    assert told.returncode == 1
    assert f"record {number} (" in told.stdout
    assert "the state before it:" in told.stdout


def test_the_own_history_under_other_groups_side_by_side(place: Path) -> None:
    words = ("simulate", "--history", "9000d", "--groups", "new.conf", "--compare", "--out", "results")
    told = run_cress(
        words, environment={**os.environ, "CRESS_DATA": str(place / "cluster"), "COLUMNS": "120"}, folder=place
    )
    assert told.returncode == 0, told.stderr
    assert re.search(r"^ +own +new$", told.stdout, re.MULTILINE)
    assert re.search(r"^wait of web +[\d.]+s +[\d.]+s$", told.stdout, re.MULTILINE)
    assert (place / "results" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["replay", "nowhere"], "cress replay: nowhere: no such file or directory"),
        (["replay", "cluster", "--explain", "2"], "cress replay: --at: is missing"),
        (["replay", "cluster", "--from", "soon"], "cress replay: --from: 'soon' is not a moment"),
        (["story", "nobody", "--data", "cluster"], "cress story: the log knows no job, node or group 'nobody'"),
        (["export", "cluster", "--out", "x.txt"], "cress export: --out: x.txt does not say the format"),
        (["simulate", "new.conf"], "cress simulate: new.conf: unknown trace format"),
        (["top"], "cress top: standard output is not a terminal"),
        (["simulate"], "cress simulate: TRACE: is missing"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(place: Path, words: list[str], sentence: str) -> None:
    told = cress(place, *words)
    assert told.returncode == 2
    assert told.stderr.startswith(sentence)
