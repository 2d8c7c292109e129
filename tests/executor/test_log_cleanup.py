"""What tasks wrote goes when it is old, too much, or the disk nearly full; never what is still needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.executor.log_cleanup import nearly_full, remove_old_output
from tests.executor.centers import Center
from tests.executor.harness import shell, until
from tests.executor.test_agent import Start, above, start  # noqa: F401 – fixtures

NOW = 1_000_000.0
MB = 2**20


def write(folder: Path, attempt: int, age: float, size: int = 0) -> None:
    """What an attempt wrote so long ago."""
    path = folder / str(attempt)
    path.mkdir(parents=True)
    (path / "stdout").write_bytes(b"x" * size)
    (path / "work").mkdir()
    (path / "work" / "result").write_text("deep")
    for each in (path / "work" / "result", path / "work", path / "stdout", path):
        os.utime(each, (NOW - age, NOW - age))


def left(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


def never(_: Path) -> bool:
    return False


def test_what_is_old_goes(tmp_path: Path) -> None:
    for attempt, age in ((1, 900), (2, 500), (3, 100)):
        write(tmp_path, attempt, age)
    assert remove_old_output(tmp_path, (), age=600, size=10**9, now=NOW, is_full=never) == [1]
    assert left(tmp_path) == [2, 3]


def test_beyond_the_size_the_oldest_go(tmp_path: Path) -> None:
    for attempt, age in ((5, 300), (1, 200), (3, 100)):
        write(tmp_path, attempt, age, MB)
    assert remove_old_output(tmp_path, (), age=10**9, size=2 * MB + MB // 2, now=NOW, is_full=never) == [5]
    assert left(tmp_path) == [1, 3]


def test_on_a_full_disk_the_oldest_go_until_there_is_room(tmp_path: Path) -> None:
    for attempt, age in ((1, 300), (2, 200), (3, 100)):
        write(tmp_path, attempt, age)
    full: Callable[[Path], bool] = lambda folder: len(left(folder)) > 1  # noqa: E731 – it stands for a disk
    assert remove_old_output(tmp_path, (), age=10**9, size=10**9, now=NOW, is_full=full) == [1, 2]
    assert left(tmp_path) == [3]


def test_what_runs_is_unconfirmed_or_new_stays(tmp_path: Path) -> None:
    for attempt, age in ((1, 10**6), (2, 10**6), (3, 30), (4, -100)):
        write(tmp_path, attempt, age, MB)
    (tmp_path / "7").write_text("no folder")
    (tmp_path / "notes").mkdir()
    assert remove_old_output(tmp_path, {1, 2}, age=0, size=0, now=NOW, is_full=lambda _: True) == []
    assert len(list(tmp_path.iterdir())) == 6


def test_what_a_task_has_locked_goes_too(tmp_path: Path) -> None:
    write(tmp_path, 1, 900)
    (tmp_path / "1" / "work").chmod(0)
    (tmp_path / "1" / "link").symlink_to("/")
    os.utime(tmp_path / "1", (NOW - 900, NOW - 900))
    os.utime(tmp_path / "1" / "link", (NOW - 900, NOW - 900), follow_symlinks=False)
    remove_old_output(tmp_path, (), age=1, size=0, now=NOW, is_full=never)
    assert left(tmp_path) == []


def test_without_any_output_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert remove_old_output(tmp_path / "none", (), age=0, size=0, now=NOW, is_full=never) == []
    assert not nearly_full(Path("/dev/shm"))


@pytest.mark.long
def test_an_agent_tidies_by_itself(start: Start, above: Center, tmp_path: Path) -> None:  # noqa: F811
    start(keep_logs=0.0)
    session = above.session()
    for attempt in (5, 6):
        session.launch(shell("echo out"), attempt)
        session.wait_ended(attempt)
    from cress.protocol.messages import Durable

    session.send(Durable(epoch=1, attempts=(5,)))
    folder = tmp_path / "executor" / "attempts"
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
    for attempt in (5, 6):
        os.utime(folder / str(attempt), (1, 1))
    until(lambda: left(folder) == [6])
    threading.Event().wait(1)
    assert left(folder) == [6], "the center has not said that it knows of this one"
