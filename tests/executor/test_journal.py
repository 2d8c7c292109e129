"""The journal: what was written is read back, whatever a crash has left of the last of it."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.executor.disk import RealDisk
from cress.executor.journal import HEADER, JournalError, JournalFile
from cress.model.reports import Cause, Ended, Usage
from cress.protocol.messages import Launch
from cress.shell.executor.records import REMEMBERED, Boot, End, Epoch, Forget, Intent, Known, Record, Start
from tests.protocol import recorded


class UnsyncedDisk(RealDisk):
    """The real disk without waiting for it: what is read back is the same."""

    def sync(self, fd: int) -> None:
        """Do nothing."""

    def sync_folder(self, path: Path) -> None:
        """Do nothing."""


DISK = UnsyncedDisk()

ATTEMPTS = st.integers(1, 8)
ENDS = st.builds(
    Ended,
    attempt=ATTEMPTS,
    cause=st.sampled_from(Cause),
    code=st.none() | st.integers(-64, 255),
    started=st.integers(0, 2**50),
    at=st.integers(0, 2**50),
    error=st.text(max_size=20),
    usage=st.builds(Usage, st.integers(0, 2**40), st.integers(0, 2**40)),
)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(Boot, st.sampled_from(["one", "two"])),
    st.builds(Epoch, st.integers(0, 9)),
    st.builds(
        Intent,
        st.builds(Launch, ATTEMPTS, st.integers(1, 3), st.integers(0, 9)),
        st.none() | st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.builds(Start, ATTEMPTS, st.integers(2, 99), st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)),
    st.builds(End, ENDS),
    st.builds(Forget, st.lists(ATTEMPTS, max_size=3).map(tuple)),
)
BATCHES = st.lists(st.lists(RECORDS, min_size=1, max_size=4), max_size=8)


def meaning(known: Known) -> object:
    """All that a supervisor reads from what it knows; the boot of what is over does not matter to it."""
    running = {attempt: (entry.boot, entry.intent, entry.start) for attempt, entry in known.running.items()}
    return known.boot, known.epoch, running, known.ends, list(known.forgotten)


def replayed(batches: list[list[Record]]) -> Known:
    known = Known()
    for batch in batches:
        for record in batch:
            known.apply(record)
    return known


def written(path: Path, batches: list[list[Record]]) -> list[int]:
    """Write the batches; where each ends in the file."""
    path.unlink(missing_ok=True)
    journal = JournalFile(path, disk=DISK)
    ends = [path.stat().st_size]
    for number, batch in enumerate(batches):
        if number % 2:
            journal.write(batch)
        else:
            for record in batch:
                journal.note(record)
            assert journal.flush()
        ends.append(path.stat().st_size)
    journal.close()
    return ends


@given(batches=BATCHES)
def test_what_was_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, batches: list[list[Record]]) -> None:
    path = tmp_path_factory.getbasetemp() / "read-back"
    written(path, batches)
    journal = JournalFile(path, disk=DISK)
    assert meaning(journal.known) == meaning(replayed(batches))
    journal.close()


@given(batches=BATCHES, cut=st.integers(0, 10_000), data=st.data())
def test_a_torn_tail_loses_the_torn_batch_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Record]], cut: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "torn"
    ends = written(path, batches)
    cut %= ends[-1] + 1
    whole = sum(end <= cut for end in ends[1:])
    content = path.read_bytes()[:cut]
    # A crash may also leave zeros where data should be.
    path.write_bytes(content + bytes(data.draw(st.integers(0, max(0, len(HEADER) - cut) or 20))))
    journal = JournalFile(path, disk=DISK)
    assert meaning(journal.known) == meaning(replayed(batches[:whole]))
    # And it goes on from there.
    journal.write([Epoch(10)])
    journal.close()
    again = JournalFile(path, disk=DISK)
    assert again.known.epoch == 10
    assert again.known.ends == replayed(batches[:whole]).ends
    again.close()


@pytest.mark.parametrize("length", [4, 8, 12])
def test_a_mark_with_zeros_behind_it_is_no_frame(tmp_path: Path, length: int) -> None:
    path = tmp_path / "journal"
    (before, end) = written(path, [[Epoch(3)]])
    path.write_bytes(path.read_bytes() + path.read_bytes()[before : before + 4] + bytes(length))
    journal = JournalFile(path, disk=DISK)
    assert journal.known.epoch == 3
    assert path.stat().st_size == end
    journal.close()


@given(batches=BATCHES.filter(lambda batches: len(batches) >= 2), where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_damaged_file_is_set_aside_and_its_whole_records_go_on(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Record]], where: int, bit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged"
    ends = written(path, batches)
    content = bytearray(path.read_bytes())
    where %= ends[-2]
    content[where] ^= 1 << bit
    path.write_bytes(content)
    lost = sum(end <= where for end in ends) - 1  # -1: the first line
    journal = JournalFile(path, disk=DISK)
    whole = [batch for number, batch in enumerate(batches) if number != lost]
    assert meaning(journal.known) == meaning(replayed(whole))
    assert journal.known.until == 1, "whether there was a term is not known"
    aside = path.with_name("damaged.damaged-1")
    place = "does not begin as a journal" if lost < 0 else f"is damaged at byte {ends[lost]}"
    assert journal.damage.startswith(f"{path} {place}")
    assert journal.damage.endswith(f"it was set aside as {aside.name}")
    assert aside.read_bytes() == content
    aside.unlink()
    journal.close()
    again = JournalFile(path, disk=DISK)
    assert again.known.ends == replayed(whole).ends
    assert not again.damage
    again.close()


@given(batches=BATCHES)
def test_compaction_keeps_what_the_journal_adds_up_to(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Record]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "compacted"
    written(path, batches)
    journal = JournalFile(path, disk=DISK)
    before = meaning(journal.known)
    journal.compact()
    assert meaning(journal.known) == before
    journal.note(Epoch(12))
    journal.close()
    again = JournalFile(path, disk=DISK)
    assert again.known.epoch == 12
    assert list(again.known.ends) == list(journal.known.ends)
    assert again.known.running.keys() == journal.known.running.keys()
    again.close()


def test_a_journal_of_finished_work_stays_small(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "journal", compact_from=20_000, disk=DISK)
    largest = 0
    for attempt in range(3_000):
        journal.write([Intent(Launch(attempt, 1, 0), None, 0)])
        journal.note(End(Ended(attempt=attempt, cause=Cause.EXITED, code=0, started=1, at=2)))
        journal.note(Forget((attempt,)))
        journal.flush()
        largest = max(largest, journal.path.stat().st_size)
    # 3,000 remembered numbers are 9 kB; each compaction waits until there is four times as much.
    assert largest < 80_000
    assert not journal.known.running
    assert not journal.known.ends
    journal.close()


def test_what_is_over_is_remembered_up_to_a_number() -> None:
    known = Known()
    known.apply(Forget(tuple(range(REMEMBERED + 5))))
    assert not known.knows(4)
    assert known.knows(5)
    assert len(known.forgotten) == REMEMBERED


@pytest.mark.parametrize("content", [b"hello, world: this is no journal\n", b"\x00" * 60, b"cress journal\n" * 3])
def test_another_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal"
    for number in (1, 2):
        path.write_bytes(content)
        journal = JournalFile(path, disk=DISK)
        assert not journal.known.running
        assert journal.damage == (
            f"{path} does not begin as a journal of Cress does; it was set aside as journal.damaged-{number}"
        )
        journal.close()
        assert (tmp_path / f"journal.damaged-{number}").read_bytes() == content


def test_a_folder_in_its_place_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.mkdir()
    journal = JournalFile(path, disk=DISK)
    assert journal.damage == f"{path} is a folder; it was set aside as journal.damaged-1"
    journal.write([Epoch(3)])
    journal.close()
    assert JournalFile(path, disk=DISK).known.epoch == 3


def test_a_write_that_fails_half_way_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real disk-full case is in test_supervisor; here the write fails after a part, at every place."""
    path = tmp_path / "journal"
    journal = JournalFile(path, disk=DISK)
    journal.write([Epoch(1)])
    real = os.write
    for part in range(1, 24, 4):
        room = [part]

        def write(fd: int, data: memoryview, room: list[int] = room) -> int:
            if room[0] <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            sent = real(fd, data[: room[0]])
            room[0] -= sent
            return sent

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(OSError, match="No space left"):
            journal.write([Intent(Launch(part, 1, 1), None, 0)])
        journal.note(Epoch(part))
        assert not journal.flush()
        assert "No space left" in journal.full
        monkeypatch.setattr(os, "write", real)
        assert journal.flush()
    journal.close()
    again = JournalFile(path, disk=DISK)
    assert not again.known.running
    assert again.known.epoch == 21
    again.close()


# --- versions ---------------------------------------------------------------------------------------------------------


def test_a_journal_of_the_release_before_is_taken_up_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(recorded.journal())
    for _ in range(2):
        journal = JournalFile(path, disk=DISK)
        known = journal.known
        (entry,) = known.running.values()
        assert entry.intent == Intent(Launch(7, 3, 0, (20000,)), 2, 3, True, 6, ("/disk/cress-k/7",))
        assert entry.start == Start(7, 4242, 99, 50, 1_700_000_000_000_000)
        assert (known.ends, list(known.forgotten)) == ({8: recorded.ENDED}, [1, 2])
        assert (known.boot, known.epoch, known.cluster, known.until, known.term) == ("b", 4, "c", 100, 60)
        journal.close()
        assert path.read_bytes().startswith(HEADER), "a release that does not know it refuses it"


def test_a_journal_of_the_release_before_that_cannot_be_written_anew_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(recorded.journal())
    (tmp_path / "journal.new").mkdir()
    with pytest.raises(IsADirectoryError):
        JournalFile(path, disk=DISK)
    assert path.read_bytes() == recorded.journal()


def first_line(version: int) -> bytes:
    """The first line of a journal of a later release."""
    title = b"cress journal %d" % version
    return b"%s %08x\n" % (title, zlib.crc32(title))


def test_a_journal_of_a_newer_release_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert first_line(2) == HEADER
    content = first_line(3) + b"whatever that release writes"
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"was written by a newer release \(journal 3, this release reads 1 to 2\)"):
        JournalFile(path, disk=DISK)
    assert path.read_bytes() == content


def test_a_damaged_version_is_not_a_newer_release(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(recorded.journal().replace(b"journal 1", b"journal 3"))
    journal = JournalFile(path, disk=DISK)
    assert list(journal.known.running) == [7], "its records are read as what they are"
    assert "does not begin as a journal" in journal.damage
