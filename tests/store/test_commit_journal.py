"""The commit journal: what is read is an unbroken run of the commits that were appended, whatever is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.store.base import Batch
from cress.store.commit_journal import FORMAT, CommitJournal, StoredCommit, read_commits


def written(path: Path, floor: int, commits: list[StoredCommit]) -> list[int]:
    """Write commits behind a floor; where the beginning and each commit end in the file."""
    path.unlink(missing_ok=True)
    journal = CommitJournal(path)
    journal.begin(floor)
    ends = [path.stat().st_size]
    for number, commit in enumerate(commits, floor + 1):
        assert journal.append(number, commit)
        ends.append(path.stat().st_size)
    journal.close()
    return ends


COMMITS = st.lists(
    st.builds(
        lambda epoch, records: StoredCommit(epoch, Batch(records=records)),
        st.integers(0, 9),
        st.lists(st.binary(max_size=20), max_size=2),
    ),
    max_size=5,
)


@given(commits=COMMITS, floor=st.integers(0, 99), where=st.integers(0, 10_000), bit=st.none() | st.integers(0, 7))
def test_a_cut_or_a_flipped_bit_ends_the_commits_before_it(
    tmp_path_factory: pytest.TempPathFactory, commits: list[StoredCommit], floor: int, where: int, bit: int | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "commits"
    ends = written(path, floor, commits)
    data = bytearray(path.read_bytes())
    where %= len(data)
    if bit is None:
        del data[where:]
    else:
        data[where] ^= 1 << bit
    path.write_bytes(data)
    found = read_commits(path)
    whole = sum(end <= where for end in ends)
    if not whole:
        assert found is None
        return
    assert found is not None
    assert found.commits == dict(enumerate(commits[: whole - 1], floor + 1))
    assert (found.floor, found.last, found.end) == (floor, floor + whole - 1, ends[whole - 1])
    # It goes on from there.
    journal = CommitJournal(path)
    journal.resume(found)
    journal.append(found.last + 1, StoredCommit(7))
    journal.close()
    again = read_commits(path)
    assert again is not None
    assert again.missing(found.last) == [StoredCommit(7)]


def test_frames_of_an_earlier_life_of_the_file_are_not_taken(tmp_path: Path) -> None:
    """A file system may show old blocks behind a new end: the same floor, the same numbers, other contents."""
    path = tmp_path / "commits"
    ends = written(path, 3, [StoredCommit(1), StoredCommit(1)])
    before = path.read_bytes()
    assert written(path, 3, [StoredCommit(2)]) == ends[:2]
    path.write_bytes(path.read_bytes() + before[ends[1] :])
    found = read_commits(path)
    assert found is not None
    assert (found.last, found.commits) == (4, {4: StoredCommit(2)})


def test_another_life_with_the_same_contents_does_not_fit_either(tmp_path: Path) -> None:
    path = tmp_path / "commits"
    ends = written(path, 3, [StoredCommit(1), StoredCommit(1)])
    before = path.read_bytes()
    written(path, 3, [])
    path.write_bytes(path.read_bytes() + before[ends[0] :])
    found = read_commits(path)
    assert found is not None
    assert found.last == 3


def test_a_file_that_does_not_begin_with_a_floor_is_none(tmp_path: Path) -> None:
    path = tmp_path / "commits"
    ends = written(path, 3, [StoredCommit(1)])
    data = path.read_bytes()
    path.write_bytes(FORMAT.first_line + data[ends[0] :])
    assert read_commits(path) is None
    path.write_bytes(FORMAT.first_line)
    assert read_commits(path) is None
