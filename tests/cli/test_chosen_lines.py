"""Lines of the output of tasks chosen by a pattern and by their number."""

from __future__ import annotations

import io

import pytest

from cress.cli.chosen_lines import LONGEST, ChosenLines, pattern_of
from cress.cli.relay import Output
from cress.model.errors import InputError


def chosen(*pieces: tuple[int, bytes], grep: str = "", tail: int | None = None) -> bytes:
    """What is written when these pieces of tasks come in, and all tasks end."""
    place = io.BytesIO()
    output = ChosenLines(
        Output({"stdout": place}, prefixed=len({task for task, _ in pieces}) > 1), pattern_of(grep), tail
    )
    for task, piece in pieces:
        output.write(task, "stdout", piece)
    for task in sorted({task for task, _ in pieces}):
        output.end(task, "stdout")
    return place.getvalue()


def test_the_last_lines_of_each_task() -> None:
    assert chosen((0, b"a\nb"), (0, b"c\n\nd"), tail=2) == b"\nd"
    assert chosen((0, b"a\nb\n"), (1, b"x\n"), (0, b"c\n"), tail=2) == b"[0] b\n[0] c\n[1] x\n"
    assert chosen((0, b"a\n"), tail=9) == b"a\n"


def test_lines_that_match_wherever_a_piece_ends() -> None:
    assert chosen((0, b"an er"), (0, b"ror\nfine\nwa"), (0, b"rn"), grep="error|warn") == b"an error\nwarn"
    assert chosen((0, b"error 1\r\nerror 2\r\n"), grep="1$") == b"error 1\r\n"
    assert chosen((0, "müde\nwach\n".encode()), grep="ü") == "müde\n".encode()
    assert chosen((0, b"e1\nx\ne2\ne3\n"), grep="e", tail=2) == b"e2\ne3\n"


def test_without_a_number_of_lines_each_is_written_at_once() -> None:
    place = io.BytesIO()
    ChosenLines(Output({"stdout": place}, prefixed=False), pattern_of("e"), None).write(0, "stdout", b"e1\nx\ne2")
    assert place.getvalue() == b"e1\n"


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    assert chosen((0, b"x" * LONGEST), (0, b"y"), grep="x") == b"x" * LONGEST


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"--grep: '\(' is not a regular expression"):
        pattern_of("(")
