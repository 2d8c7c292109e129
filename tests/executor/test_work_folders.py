"""Working directories that are kept for later attempts: only those that are as they were at first."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.executor.work_folders import MOST, WorkFolders, own
from tests.executor.harness import Client, SupervisorProcess, shell

ME = (os.geteuid(), os.getegid())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "attempts").mkdir()
    return tmp_path


def made(place: Path, name: str = "work") -> Path:
    folder = place / "attempts" / name
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    return folder


def test_an_empty_folder_is_given_to_its_owner_once(place: Path) -> None:
    kept = WorkFolders(place)
    folder = made(place)
    kept.give(bytes(folder))
    assert not folder.exists()
    assert kept.take(ME[0] + 1, ME[1]) == b""
    taken = kept.take(*ME)
    assert Path(os.fsdecode(taken)).is_dir()
    assert kept.take(*ME) == b""
    assert own(bytes(folder), taken)
    assert folder.is_dir()


def replaced_by_a_link(folder: Path) -> None:
    folder.rmdir()
    folder.symlink_to("/")


CHANGES: dict[str, Callable[[Path], object]] = {
    "other permissions": lambda folder: folder.chmod(0o777),
    "a file in it": lambda folder: (folder / "result").write_text("mine"),
    "a link in its place": replaced_by_a_link,
}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_folder_that_was_changed_is_not_used_again(place: Path, change: str) -> None:
    kept = WorkFolders(place)
    folder = made(place)
    CHANGES[change](folder)
    kept.give(bytes(folder))
    assert kept.take(*ME) == b""
    # What a task left stays; an empty folder does not.
    assert (folder / "result").exists() == (change == "a file in it")


def test_a_link_is_not_taken_for_a_folder(place: Path) -> None:
    (place / "link").symlink_to("/")
    assert not own(bytes(place / "attempts/work"), bytes(place / "link"))
    assert not os.path.lexists(place / "attempts/work")


def test_so_many_are_kept_and_a_later_supervisor_finds_them(place: Path) -> None:
    kept = WorkFolders(place)
    for number in range(MOST + 2):
        kept.give(bytes(made(place, f"w{number}")))
    assert not list((place / "attempts").iterdir())
    later = WorkFolders(place)
    taken = {later.take(*ME) for _ in range(MOST)}
    assert len(taken - {b""}) == MOST
    assert later.take(*ME) == b""


def test_a_task_gets_the_empty_folder_of_an_earlier_one(client: Client, parent: SupervisorProcess) -> None:
    client.run(shell("ls -id ."), 1)
    client.run(shell("ls -id .; touch left"), 2)
    client.run(shell("ls -id ."), 3)
    inodes = [parent.output(attempt).split()[0] for attempt in (1, 2, 3)]
    assert inodes[0] == inodes[1] != inodes[2]
    assert (parent.directory / "attempts/2/work/left").exists()
