"""Each framed file that a release before this one wrote is read, and goes on in the form of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.center.keeping import event_log
from cress.center.keeping.event_log import EventLog, files, read
from cress.executor import journal
from cress.executor.journal import JournalFile
from cress.formats.framed import FileFormat, framed
from cress.model.errors import InputError
from cress.shell.executor.records import Epoch
from cress.store import commit_journal
from cress.store.base import Batch
from cress.store.commit_journal import CommitJournal, StoredCommit, read_commits
from tests.protocol import recorded

# Written by commit f90aa695: floor 3, commits 4 and 5, floor 5, commit 6.
COMMITS = bytes.fromhex(
    "6372657373636f6d6d697473310abe98b3709d39bf4a03000000000000003231f458070000000400000000000000b24500279502c0a163c0"
    "c05700000005000000000000007a333728950288a77265636f72647391c4036f6e65a472756e7390a974656d706c6174657390a46a6f6273"
    "90a8617474656d70747390a46d65746180aa6d6f7665645f6a6f627390ae6d6f7665645f617474656d70747390a0c0c00600000005000000"
    "00000000b9e4e24e9500c0a0c0050600000006000000000000008a8ca6879502c0a007c0"
)
# Written by commit f90aa695: records 8 and 9 behind a state.
EVENTS = bytes.fromhex(
    "4a0000000366af2f87a6666f726d617401a772656c65617365a5302e312e30a76d616368696e6506a47a6f6e65a3555443a7637265617465"
    "6405a66265666f726507a57374617465c600000005737461746505000000863e0a666569676874040000007d7c1d7b6e696e65"
)


def test_a_commit_journal_of_old_is_read_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "cress.db.commits"
    path.write_bytes(COMMITS)
    found = read_commits(path)
    assert found is not None
    assert (found.version, found.floor, found.last, found.end) == (1, 5, 6, len(COMMITS))
    assert found.commits == {
        4: StoredCommit(2, cluster="c"),
        5: StoredCommit(2, Batch(records=[b"one"])),
        6: StoredCommit(2, covered=7),
    }
    assert found.missing(5) == [StoredCommit(2, covered=7)]
    assert found.missing(4) is None, "it has pages of commits up to 5"
    written = CommitJournal(path)
    written.resume(found)
    written.append(7, StoredCommit(2))
    written.close()
    assert path.read_bytes().startswith(commit_journal.FORMAT.first_line)
    again = read_commits(path)
    assert again is not None
    assert (again.version, again.floor, again.last) == (2, 5, 7)
    assert again.missing(5) == [StoredCommit(2, covered=7), StoredCommit(2)]


@pytest.mark.parametrize(("cut", "last"), [(1, 5), (20, 5), (60, 4), (140, 4), (150, 3)])
def test_a_commit_journal_of_old_is_read_up_to_a_cut(tmp_path: Path, cut: int, last: int) -> None:
    path = tmp_path / "cress.db.commits"
    path.write_bytes(COMMITS[:-cut])
    found = read_commits(path)
    assert found is not None
    assert found.last == last


def test_a_commit_journal_of_old_with_a_damaged_beginning_is_none(tmp_path: Path) -> None:
    path = tmp_path / "cress.db.commits"
    path.write_bytes(COMMITS[:20] + b"!" + COMMITS[21:])
    assert read_commits(path) is None


def test_an_event_log_of_old_is_read_and_a_new_file_follows_it(tmp_path: Path) -> None:
    (tmp_path / "00000001.events").write_bytes(EVENTS)
    log = EventLog(tmp_path)
    log.open(9, [b"nine"], lambda: b"after nine", utc=5)
    assert not log.gap
    log.append(b"ten")
    log.close()
    old, new = files(tmp_path)
    assert (old.read_bytes(), list(read(old).raw())) == (EVENTS, [(8, b"eight"), (9, b"nine")])
    assert (read(old).header.format, read(old).header.state) == (1, b"state")
    assert new.read_bytes().startswith(event_log.FORMAT.first_line)
    assert (read(new).header.state, list(read(new).raw())) == (b"after nine", [(10, b"ten")])


def test_damage_in_an_event_log_of_old_is_told_and_a_cut_is_not(tmp_path: Path) -> None:
    path = tmp_path / "00000001.events"
    path.write_bytes(EVENTS.replace(b"eight", b"Eight"))
    with pytest.raises(InputError, match="is damaged at byte 82"):
        list(read(path).raw())
    path.write_bytes(EVENTS[:-1])
    assert list(read(path).raw()) == [(8, b"eight")]


def test_a_journal_of_old_is_read_and_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(recorded.journal())
    opened = JournalFile(path)
    assert list(opened.known.running) == [7]
    opened.write([Epoch(99)])
    opened.close()
    assert path.read_bytes().startswith(journal.FORMAT.first_line)
    again = JournalFile(path)
    assert (list(again.known.running), again.known.epoch, again.damage) == ([7], 99, "")
    again.close()


def test_an_event_log_of_a_newer_release_is_left_alone(tmp_path: Path) -> None:
    # Even if its frames look as those of today: nobody knows what they mean.
    newer = FileFormat("events", 3).first_line + framed(EVENTS[8:82])
    path = tmp_path / "00000001.events"
    path.write_bytes(newer)
    with pytest.raises(InputError, match="was written by a newer release of Cress"):
        read(path)
    log = EventLog(tmp_path)
    log.open(9, [], lambda: b"after nine", utc=5)
    log.close()
    assert path.read_bytes() == newer
    assert len(files(tmp_path)) == 2
