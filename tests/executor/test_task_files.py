"""Files in the directory of a task, for its submitter: listed in pages, read in parts, never outside of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cress.executor import task_files
from cress.executor.brought import note_brought
from cress.executor.bulk import BulkService
from cress.executor.exec.helper_process import HelperProcess
from cress.executor.task_files import list_files, read_file
from cress.protocol.messages import FileList, ListFiles, LogData, ReadFile

NOBODY = 65534


def never(_: str) -> bool:
    return False


@pytest.fixture
def attempts() -> Iterator[Path]:
    """The attempts of an executor; the task of attempt 7 has an account of its own, where there is one."""
    home = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    work = home / "attempts/7/work"
    (work / "out/deep").mkdir(parents=True)
    (work / "empty").mkdir()
    (work / "a.txt").write_text("first")
    (work / "out/b.txt").write_text("second")
    (work / "out/deep/c").write_text("third")
    (work / "out.txt").write_text("beside")
    (work / "link").symlink_to("a.txt")
    (work / "away").symlink_to("/etc")
    if os.geteuid() == 0:
        for path in (work.parent, *work.parent.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    yield home / "attempts"
    shutil.rmtree(home)


def listed(attempts: Path, **more: object) -> list[str]:
    found = list_files(attempts, ListFiles(id=1, attempt=7, **more), never)  # type: ignore[arg-type]
    assert not found.error, found.error
    return [file.path for file in found.files]


ALL = ["a.txt", "away", "empty", "link", "out/b.txt", "out/deep/c", "out.txt"]


def test_files_are_listed_by_path_and_in_pages(attempts: Path) -> None:
    assert listed(attempts) == ALL
    for size in (1, 2, 3):
        found: list[str] = []
        while page := listed(attempts, limit=size, after=found[-1] if found else ""):
            found += page
        assert found == ALL
    assert listed(attempts, path="out") == ["out/b.txt", "out/deep/c"]
    assert listed(attempts, path="./out//deep/c") == ["out/deep/c"]
    assert list_files(attempts, ListFiles(id=1, attempt=7, limit=2), never).more
    (away,) = list_files(attempts, ListFiles(id=1, attempt=7, path="away"), never).files
    assert (away.link, away.size) == ("/etc", 0)


def test_what_was_brought_is_told_from_what_was_written(attempts: Path) -> None:
    note_brought(os.fsencode(attempts / "7"))
    marked = (attempts / "7/brought").stat().st_mtime_ns
    new = attempts / "7/work/out/new"
    while not new.exists() or new.stat().st_ctime_ns <= marked:
        new.write_text("written")
    (attempts / "7/work/a.txt").chmod(0o600)
    assert listed(attempts, written=True) == ["a.txt", "out/new"]


def test_a_file_is_read_in_parts(attempts: Path) -> None:
    first = read_file(attempts, ReadFile(id=3, attempt=7, path="out/b.txt", limit=4), never)
    rest = read_file(attempts, ReadFile(id=3, attempt=7, path="out/b.txt", offset=4), never)
    assert (first.data, first.over, rest.data, rest.over) == (b"seco", False, b"nd", True)


# By case: a path, and what is told about it.
REFUSED = {
    "../../8/work/x": "is not a path in the directory of the task",
    "/etc/passwd": "is not a path in the directory of the task",
    "away/passwd": "away is not a folder, or a link to one",
    "link": "link is a link, which is not followed",
    "out": "out is not a file",
    "out\0/b.txt": "is not a path in the directory of the task",
    "no": "no does not exist there",
    "fifo": "fifo is not a file",
}


@pytest.mark.parametrize("path", REFUSED)
def test_nothing_leads_out_of_the_directory(attempts: Path, path: str) -> None:
    os.mkfifo(attempts / "7/work/fifo")
    found = read_file(attempts, ReadFile(id=1, attempt=7, path=path), never)
    assert REFUSED[path] in found.error
    assert not found.data


def test_the_directory_itself_may_not_be_a_link(attempts: Path) -> None:
    shutil.rmtree(attempts / "7/work")
    (attempts / "7/work").symlink_to("/etc")
    assert "left no files" in list_files(attempts, ListFiles(id=1, attempt=7), never).error
    assert "nothing is kept of attempt 9" in list_files(attempts, ListFiles(id=1, attempt=9), never).error


def test_names_that_are_not_utf8_are_shown_with_their_bytes_and_can_be_read(attempts: Path) -> None:
    work = attempts / "7/work/out"
    odd = work / os.fsdecode(b"d\xe9")
    odd.mkdir()
    for place, text in ((odd / os.fsdecode(b"f\xff"), "bytes"), (odd / r"f\xff", "written so"), (work / "é", "proper")):
        place.write_text(text)
    (work / "odd").symlink_to(os.fsdecode(b"to\xff"))
    if os.geteuid() == 0:
        for path in work.rglob("*"):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    found = list_files(attempts, ListFiles(id=1, attempt=7, path="out"), never)
    assert not found.error
    # As on the wire.
    shown = {
        file.path: file.link for file in msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=FileList).files
    }
    assert shown["out/odd"] == r"to\xff"
    assert {r"out/d\xe9/f\xff", "out/é"} <= set(shown)
    assert listed(attempts, path=r"out/d\xe9", after=r"out/d\xe9/f") == [r"out/d\xe9/f\xff"] * 2
    read = [read_file(attempts, ReadFile(id=1, attempt=7, path=path), never).data for path in shown if r"\xe9" in path]
    assert read == [b"written so"]
    (odd / r"f\xff").unlink()
    assert read_file(attempts, ReadFile(id=1, attempt=7, path=r"out/d\xe9/f\xff"), never).data == b"bytes"


def test_trees_without_bounds_are_refused_with_the_place(attempts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = os.open(attempts / "7/work/out", os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    found = list_files(attempts, ListFiles(id=1, attempt=7, path="out"), never)
    assert "out/d/d has folders below it on more than 100 levels" in found.error
    subprocess.run(["rm", "-rf", attempts / "7/work/out/d"], check=True)
    # A path that no message holds.
    deep = os.open(attempts / "7/work/out", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("x" * 250, dir_fd=deep)
        below = os.open("x" * 250, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=deep))
    os.close(deep)
    assert "has more than 4,096 bytes" in list_files(attempts, ListFiles(id=1, attempt=7, path="out"), never).error
    subprocess.run(["rm", "-rf", attempts / "7/work/out"], check=True)
    # A target that is four times as long where it is shown, and a hole that is longer than any message may say.
    (attempts / "7/work/long").symlink_to(os.fsdecode(b"\xff" * 3_000))
    assert "or where it leads, has more" in list_files(attempts, ListFiles(id=1, attempt=7, path="long"), never).error
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as hole:
        os.truncate(hole.fileno(), 2**63 - 1)
        Path(hole.name).chmod(0o644)
        order = ListFiles(id=1, attempt=7, directory="/dev/shm", path=Path(hole.name).name)
        found = list_files(attempts, order, never)
        msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=FileList)
    assert [file.size for file in found.files] == [2**62]
    (attempts / "7/work/empty/inner").mkdir()
    (attempts / "7/work/empty/inner/x").touch()
    monkeypatch.setattr(task_files, "MOST_HELD", 7)
    found = list_files(attempts, ListFiles(id=1, attempt=7), never)
    assert found.error == "empty/inner and the folders above it have more than 7 entries; pack them"
    monkeypatch.setattr(task_files, "MOST_ENTRIES", 3)
    assert "the directory has more than 3 entries" in list_files(attempts, ListFiles(id=1, attempt=7), never).error


def test_a_question_always_has_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("something that nobody thought of")

    async def ask() -> dict[int, object]:
        answers: asyncio.Queue[Any] = asyncio.Queue()
        agent: Any = SimpleNamespace(first={})
        service = BulkService(tmp_path, agent, HelperProcess(str(tmp_path)), answers.put, never)
        service.obey(ListFiles(id=1, attempt=7))
        service.obey(ReadFile(id=2, attempt=7, path="x"))
        found = [await answers.get(), await answers.get()]
        return {answer.id: answer for answer in found}

    for name in ("list_files", "read_file"):
        monkeypatch.setattr(task_files, name, fails)
    why = "the files cannot be read: something that nobody thought of"
    assert asyncio.run(ask()) == {1: FileList(id=1, error=why), 2: LogData(id=2, over=True, error=why)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root reads files as another account")
def test_files_are_read_with_the_rights_of_the_account(attempts: Path, tmp_path: Path) -> None:
    secret = attempts / "7/work/secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    # A task may have made a second name of a file that it cannot read.
    assert "may not read secret" in read_file(attempts, ReadFile(id=1, attempt=7, path="secret"), never).error
    os.chown(secret, NOBODY, NOBODY)
    assert read_file(attempts, ReadFile(id=1, attempt=7, path="secret"), never).data == b"of root"
    # This thread and this process keep their own rights.
    (tmp_path / "mine").write_text("x")
    (tmp_path / "mine").chmod(0o600)
    assert (tmp_path / "mine").read_text() == "x"
    named = ReadFile(id=1, attempt=7, path="mine", directory=str(tmp_path))
    assert "may not" in read_file(attempts, named, never).error
    # Nor is there a way to the processes of others, of which the task itself sees none.
    for directory, path in (
        ("/proc", "1/cmdline"),
        ("/", "proc/1/cmdline"),
        ("/proc/self", "maps"),
        ("/proc/1", "stat"),
    ):
        shown = read_file(attempts, ReadFile(id=1, attempt=7, path=path, directory=directory), never)
        assert "shows processes of the node" in shown.error, directory
        assert (
            "shows processes"
            in list_files(
                attempts, ListFiles(id=1, attempt=7, directory=directory, path=path.partition("/")[0]), never
            ).error
        ), directory
    contained = read_file(attempts, named, lambda _: True)
    assert "ran in a container" in contained.error
