"""What an attempt leaves in its folder for others: values for later steps, and the times of its output."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.executor import handed_on, log_times
from cress.model.log_times import MOST_RECORDS, SIZE, LogTimes
from cress.model.reports import Cause


def test_the_values_of_an_attempt(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    assert handed_on.read(folder) == ((), None)
    (tmp_path / "values").write_bytes(b"rows=12\nname=a b\n")
    assert handed_on.read(folder) == ((("rows", "12"), ("name", "a b")), None)


def _link(path: Path) -> None:
    (path.parent / "secret").write_text("x=1\n")
    path.symlink_to(path.parent / "secret")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes(b"rows"), "line 1: 'rows' is not KEY=VALUE (lines such as rows=120, in UTF-8)"),
        (lambda path: path.write_bytes(b"x" * 9_000), "is longer than 8,192 bytes (large results belong in files"),
        (_link, "cannot be read: Too many levels of symbolic links"),
        (lambda path: path.mkdir(), "it is no longer a file of the task"),
        (os.mkfifo, "it is no longer a file of the task"),
    ],
)
def test_values_that_nobody_can_use_fail_the_attempt(tmp_path: Path, make: Callable[[Path], None], said: str) -> None:
    make(tmp_path / "values")
    values, failure = handed_on.read(os.fsencode(tmp_path))
    assert values == ()
    assert failure is not None
    assert failure.cause is Cause.OUTPUTS
    assert failure.error.startswith(f"$CRESS_OUTPUT: {said}")


def test_the_times_of_output_are_kept_and_bounded(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    for number in range(MOST_RECORDS + 1):
        log_times.note(folder, number, (10 * number, 0))
    data = (tmp_path / "times").read_bytes()
    assert len(data) == (MOST_RECORDS // 2 + 1) * SIZE
    times = LogTimes(data, "stdout", 10**6)
    assert times.at(10 * MOST_RECORDS - 1) == MOST_RECORDS
    assert times.at(10 * MOST_RECORDS) == 10**6
    (tmp_path / "times").unlink()
    (tmp_path / "times").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        log_times.note(folder, 1, (1, 1))
    assert not (tmp_path / "elsewhere").exists()
