"""The pages about a day of a user or operator, and the tutorial: each command is typed, each line of output is seen.

A page has files (blocks whose first line is ``# NAME``) and commands (lines that begin with ``$`` in blocks of the kind
``console``). The lines below a command are lines of its output, in this order; ``…`` stands for anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.system.cluster import Cluster

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("tutorial", "day-slurm", "day-nomad", "day-science", "day-airflow", "day-admin")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# The exit code that a command is said to have: ``$ cress run -- false  # exit code 1``.
_CODE = re.compile(r"\s+# exit code (\d+)$")


class Typed(NamedTuple):
    """A command with its exit code and the lines of its output that the page shows."""

    command: str
    code: int
    lines: list[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        cluster.start_center()
        cluster.start_executor("n1", "<8, 8G>")
        yield cluster
    finally:
        cluster.stop()


def steps_of(page: str) -> Iterator[tuple[str, str] | Typed]:
    """Yield the files (name and text) and the commands of a page, in their order."""
    for kind, text in _BLOCK.findall(page):
        first, _, rest = text.partition("\n")
        if kind != "console":
            if first.startswith("# "):
                yield first[2:].strip(), rest
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            code = _CODE.search(command)
            yield Typed(_CODE.sub("", command), int(code[1]) if code else 0, [line for line in lines if line.strip()])


def seen(lines: list[str], output: str) -> str:
    """Return the first line that is not in the output, behind the lines before it; empty if all are."""
    left = [" ".join(line.split()) for line in output.splitlines()]
    for line in lines:
        wanted = ".*".join(re.escape(part) for part in " ".join(line.split()).split("…"))
        while left and not re.fullmatch(wanted, left[0]):
            left.pop(0)
        if not left:
            return line
        left.pop(0)
    return ""


@pytest.mark.parametrize("page", PAGES)
def test_each_command_of_the_page_does_what_the_page_says(cluster: Cluster, page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    count = 0
    for step in steps_of(text):
        if not isinstance(step, Typed):
            cluster.file(*step)
            continue
        program, *words = shlex.split(step.command)
        assert program == "cress", step.command
        done = cluster.cress(*words)
        output = done.stdout + done.stderr
        assert done.returncode == step.code, f"{step.command}\n{output}"
        missing = seen(step.lines, output)
        assert not missing, f"{step.command} does not say: {missing}\n{output}"
        count += 1
    assert count >= 6


def test_a_line_that_is_not_there_is_found() -> None:
    output = "job 3 (sweep) submitted\nNAME   STATE\nsweep  succeeded\n"
    assert seen(["job … (sweep) submitted", "sweep …"], output) == ""
    assert seen(["sweep …", "NAME STATE"], output) == "NAME STATE"
    assert [*steps_of("```sh\n# a.sh\necho\n```\n```console\n$ cress x  # exit code 2\n…y\n$ cress z\n```\n")] == [
        ("a.sh", "echo\n"),
        Typed("cress x", 2, ["…y"]),
        Typed("cress z", 0, []),
    ]
