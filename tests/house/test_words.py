"""Docstrings begin with a noun or a verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house.words import check, riddles

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "cress"


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    assert (PACKAGE / "core").is_dir()
    assert check(PACKAGE) == []


@pytest.mark.parametrize(
    "text",
    ['"""What a node is."""', 'class A:\n    """Whether it is so."""', 'def f():\n    """The same for asyncio."""'],
)
def test_riddles_are_found(text: str) -> None:
    (complaint,) = riddles(text, "a.py")
    assert complaint.startswith("a.py:")
    assert "begin with a noun or a verb" in complaint


def test_plain_docstrings_pass() -> None:
    assert not list(riddles('"""Nodes as columns."""\n\ndef f():\n    """Return the nodes that fit."""', "a.py"))
