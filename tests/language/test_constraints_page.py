"""docs/constraints.md says what the language does: every example is run on the page's own nodes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cress.language.clauses import MOST_CLAUSES, Kind
from cress.language.columns import Columns
from cress.language.functions import ALL
from cress.language.parser import parse_rank, parse_requirement
from cress.language.program import Program
from cress.language.regular import MOST_POSITIONS
from cress.language.syntax import MOST_CHARACTERS, MOST_LEVELS
from cress.language.tree import conjunction
from cress.model.attributes import parse_label
from cress.model.errors import InputError
from cress.model.node import Node
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.model.units import parse_dimension

PAGE = (Path(__file__).parents[2] / "docs" / "constraints.md").read_text(encoding="utf-8")
DIMENSIONS = Dimensions()
K = len(DIMENSIONS)


def blocks(kind: str) -> list[str]:
    """The lines of all blocks of one kind."""
    found = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return [line for block in found for line in block.splitlines()]


def section(title: str) -> str:
    """The text below a heading, up to the next one."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def examples(kind: str) -> list[tuple[str, str]]:
    """Text and what stands behind its arrow."""
    split = [line.partition("→") for line in blocks(kind)]
    return [(text.strip(), answer.strip()) for text, arrow, answer in split if arrow]


def nodes() -> tuple[list[str], Columns, np.ndarray[tuple[int, int], np.dtype[np.int64]]]:
    """The nodes of the page, and the table of their amounts."""
    columns = Columns(DIMENSIONS)
    names: list[str] = []
    table = np.zeros((10, 2 * K), np.int64)
    for f, line in enumerate(blocks("nodes")[1:]):
        name, rack, address, cores, memory, network, *labels = line.split()
        amounts = {"cpu": cores, "memory": memory, "network": network}
        idle, total = (
            DIMENSIONS.vector(
                **{key: parse_dimension(text.split("/")[side], key, DIMENSIONS) for key, text in amounts.items()}
            )
            for side in (0, 1)
        )
        attributes = tuple(map(parse_label, labels))
        columns.set_node(f, Node(name=name, capacity=total, rack=rack, address=address, attributes=attributes))
        table[f] = (*idle, *total)
        names.append(name)
    return names, columns, table


@pytest.mark.parametrize(("text", "answer"), examples("requirement"))
def test_the_nodes_behind_the_arrow_satisfy_the_requirement(text: str, answer: str) -> None:
    names, columns, table = nodes()
    out = np.zeros(len(table), np.int8)
    clauses = parse_requirement(text).clauses
    assert {clause.kind for clause in clauses} <= {Kind.CONDITION, Kind.NODES, Kind.RESOURCE}
    Program(columns, conjunction(tuple(clause.expression for clause in clauses))).truths(table, out)
    assert " ".join(name for f, name in enumerate(names) if out[f] == 1) == answer


@pytest.mark.parametrize(("text", "answer"), examples("rank"))
def test_the_nodes_have_the_rank_behind_the_arrow(text: str, answer: str) -> None:
    names, columns, table = nodes()
    out = np.zeros(len(table), np.float32)
    Program(columns, parse_rank(text)).values(table, out)
    assert ", ".join(f"{name} {out[f]:g}" for f, name in enumerate(names)) == answer


@pytest.mark.parametrize(("text", "answer"), examples("relaxation"))
def test_clauses_turn_soft_at_the_times_behind_the_arrow(text: str, answer: str) -> None:
    times: list[int] = []
    for clause in parse_requirement(text).clauses:
        assert clause.relaxation
        at: int | None = 0
        soft = False
        while at is not None:
            if clause.relaxation.holds(at, 0.5) is not soft:
                soft = not soft
                times.append(at)
            at = clause.relaxation.next_change(at)
    assert ", ".join(f"{at / SECOND:.6f}".rstrip("0").rstrip(".") + "s" for at in times) == answer


def test_the_mistakes_are_told_as_the_page_has_it() -> None:
    lines = [line for line in blocks("mistake") if line]
    for text, sentence in zip(lines[::2], lines[1::2], strict=True):
        with pytest.raises(InputError) as caught:
            parse_requirement(text)
        assert str(caught.value) == sentence


def test_every_placement_clause_is_in_the_table() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", section("Placement"), re.MULTILINE)
    kinds = {parse_requirement(text).clauses[0].kind for text in rows}
    assert kinds == set(Kind) - {Kind.CONDITION}


def test_every_function_is_in_the_table() -> None:
    rows = "".join(re.findall(r"^\|([^|]+)\|", section("Functions"), re.MULTILINE))
    assert set(re.findall(r"`(\w+)\(", rows)) == set(ALL)
    assert f"at most {MOST_POSITIONS} characters" in PAGE


def test_the_limits_are_those_of_the_language() -> None:
    assert f"at most {MOST_CHARACTERS:,} characters, {MOST_LEVELS} levels of nesting and {MOST_CLAUSES} clauses" in PAGE


def test_what_stands_between_the_blocks_is_read_too() -> None:
    assert parse_rank("IdleCPU/8 + 2 * (ExclusiveDisk = True)").terms
    assert "`IdleCPU/8 + 2 * (ExclusiveDisk = True)`" in PAGE
