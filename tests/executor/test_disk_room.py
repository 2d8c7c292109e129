"""The fault for a full disk: of the node, or of a job whose own files fill it."""

from __future__ import annotations

import contextlib
import errno
import os
import tarfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from cress.executor import images, transfer
from cress.executor.addresses import Failed, FileRoot
from cress.executor.disk_turns import alone, opened_turn
from cress.executor.images import TURNS, Images
from cress.executor.source_rules import SourceRules
from cress.model.allowed_sources import AllowedSources
from cress.model.reports import Cause
from cress.model.run import File

SIZE = 100 * 2**20


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A disk of 100 MiB and 1,000 inodes, of which no more are free than a test says."""
    known = SimpleNamespace(f_frsize=4096, f_blocks=SIZE // 4096, f_bavail=0, f_files=1000, f_favail=600)
    monkeypatch.setattr("cress.executor.disk_room.os.statvfs", lambda _: known)
    return known


def brought(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str, size: int) -> tuple[Cause, str]:
    """The failure of a job that brings a file of this size, and then an archive for which there is no room."""

    def full(*_: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("cress.executor.transfer.unpack.unpack", full)
    monkeypatch.setattr(transfer, "AT_ONCE", 1)
    monkeypatch.chdir(folder)
    with (folder.parent / "large").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    with tarfile.open(folder.parent / "a.tar", "w"):
        pass
    files = (
        File(source=str(folder.parent / "large"), path="large"),
        File(source=str(folder.parent / "a.tar"), path=path, unpack=True),
    )
    wrong = transfer.bring(files, FileRoot(Path()), {}, SourceRules(AllowedSources()))
    assert wrong is not None
    return wrong.cause, wrong.error.partition("no room is left on the disk of this node")[2]


@pytest.mark.parametrize(
    ("what", "size", "free", "files", "cause"),
    [
        ("full of the files of others", 1, 0, 1000, Cause.NODE),
        ("full of its own files", 60, 0, 1000, Cause.FILES),
        ("one of four tasks of 15 MiB, of which the others are gone already", 15, 35, 1000, Cause.NODE),
        ("12 MiB were free for 15", 12, 0, 1000, Cause.NODE),
        ("full of its own inodes", 1, 0, 4, Cause.FILES),
        ("without a number of inodes", 1, 0, 0, Cause.NODE),
    ],
)
def test_a_job_whose_own_files_fill_a_disk_is_at_fault(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    disk: SimpleNamespace,
    what: str,
    size: int,
    free: int,
    files: int,
    cause: Cause,
) -> None:
    disk.f_bavail, disk.f_files, disk.f_favail = free * 2**20 // 4096, files, 0
    (tmp_path / "work").mkdir()
    found, behind = brought(monkeypatch, tmp_path / "work", "x", size * 2**20)
    remedy = "this disk has 100M; `requirement: DiskTotal > 100M` asks for a larger one"
    told = f": the files of the job itself take it ({remedy})" if cause is Cause.FILES else ""
    assert (found, behind) == (cause, told), what


@pytest.mark.usefixtures("disk")
def test_what_takes_most_of_a_disk_is_counted_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(new: Path) -> None:
        with new.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 60 * 2**20)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(transfer, "write_text", lambda _, new: full(new))
    monkeypatch.chdir(tmp_path)
    wrong = transfer.bring((File(source="", text="x", path="x"),), FileRoot(Path()), {}, SourceRules(AllowedSources()))
    assert (wrong and wrong.cause, list(tmp_path.iterdir())) == (Cause.FILES, [])


@pytest.mark.usefixtures("disk")
def test_a_place_that_the_job_chose_is_not_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    assert brought(monkeypatch, tmp_path / "work", f"{tmp_path}/elsewhere/x", 1) == (Cause.FILES, "")


@pytest.mark.parametrize(
    ("free", "node"),
    # Full of others, of two images that are unpacked at once, and of this image, which umoci has removed.
    [(0, True), (45, True), (60, False)],
)
def test_an_image_that_takes_most_of_the_disk_is_no_fault_of_the_node(
    tmp_path: Path, disk: SimpleNamespace, free: int, *, node: bool
) -> None:
    disk.f_bavail = free * 2**20 // 4096
    place = tmp_path / "images/archive-0"
    place.mkdir(parents=True)

    def full(_: Path) -> None:
        raise Failed("no room is left on the disk of this node", node=True)

    with pytest.raises(Failed) as caught:
        Images(tmp_path, AllowedSources())._make(place, full)
    assert caught.value.node is node


@pytest.mark.parametrize("ends_first", [True, False])
def test_two_images_that_fill_the_disk_together_are_not_both_blamed(
    tmp_path: Path, disk: SimpleNamespace, *, ends_first: bool
) -> None:
    folder = tmp_path / "images"
    place = folder / "archive-0"
    place.mkdir(parents=True)
    tries: list[str] = []
    with contextlib.ExitStack() as other:

        def full(_: Path) -> None:
            tries.append("try")
            if len(tries) == 1:
                # Another image is made meanwhile, fails, and has removed its files before this one looks.
                other.enter_context(opened_turn(folder / TURNS))
                if ends_first:
                    other.close()
                else:
                    threading.Timer(0.05, other.close).start()
                disk.f_bavail = 60 * 2**20 // 4096
            else:
                disk.f_bavail = 45 * 2**20 // 4096
            raise Failed("no room is left on the disk of this node", node=True)

        with pytest.raises(Failed) as caught:
            Images(tmp_path, AllowedSources())._make(place, full)
    assert caught.value.node
    assert len(tries) == 2


def test_of_two_works_that_look_at_once_none_was_alone(tmp_path: Path) -> None:
    """The first one gave up its lock by looking, and left no mark until its end."""
    with opened_turn(tmp_path / "turns") as first, opened_turn(tmp_path / "turns") as second:
        time.sleep(0.01)  # the kernel's clock for files goes in steps
        assert [first.was_alone(), second.was_alone()] == [False, False]


def test_who_wants_to_be_alone_is_not_passed_by_later_works(tmp_path: Path) -> None:
    turns, order = tmp_path / "turns", []

    def late() -> None:
        with opened_turn(turns):
            order.append("late")

    def single() -> None:
        with alone(turns):
            order.append("alone")

    threads = [threading.Thread(target=work) for work in (single, late)]
    with opened_turn(turns):
        for thread in threads:
            thread.start()
            time.sleep(0.1)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == ["alone", "late"]


@pytest.mark.parametrize(("free", "node"), [(0.5, False), (0.01, True)])
def test_that_there_is_no_room_is_believed_of_a_full_disk_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, *, node: bool
) -> None:
    """A registry can say it as well, whose words are in those of the tool."""
    known = SimpleNamespace(f_frsize=4096, f_blocks=10**9, f_bavail=int(10**9 * free), f_files=0, f_favail=0)
    monkeypatch.setattr("cress.executor.images.os.statvfs", lambda _: known)
    with pytest.raises(Failed) as caught:
        images._run(["sh", "-c", "echo no space left on device >&2; exit 1"], "the image", tmp_path, 10)
    assert caught.value.node is node


def test_nobody_waits_long_for_an_image_that_is_made_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Images(tmp_path, AllowedSources())
    place = tmp_path / "images/archive-0"
    place.mkdir(parents=True)
    monkeypatch.setattr(images, "PATIENCE_ALONE", 0.2)
    tries: list[float] = []

    def copy(new: Path) -> None:
        tries.append(made._patience)
        if len(tries) == 1:
            with opened_turn(tmp_path / "images" / TURNS):
                time.sleep(0.01)
            raise Failed("no room is left on the disk of this node", node=True)
        images._run(["sleep", "10"], "the image", new, made._patience)

    with pytest.raises(Failed, match="no room is left"):
        made._make(place, copy)
    assert tries == [images.PATIENCE, 0.2]
