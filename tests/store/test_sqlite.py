"""The SQLite store: whole batches or nothing, on a real file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from cress.model.events import Outcome
from cress.model.records import AttemptRecord, JobRecord, JobState
from cress.store.base import Batch, Damaged, JobFilter, StateSnapshot, StoreError
from cress.store.finished import SqliteReader
from cress.store.sqlite import SqliteStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "cress.db")
    yield store
    store.close()


@pytest.fixture
def reader(store: SqliteStore) -> Iterator[SqliteReader]:
    reader = store.reader()
    yield reader
    reader.close()


def record(number: int, **changes: object) -> JobRecord:
    fixed = JobRecord(
        id=number,
        name=f"job{number}",
        group="lab",
        user="ann",
        type="batch",
        tasks=2,
        gang=False,
        priority=0,
        time_limit=None,
        request=(1000, 2**30, 0),
        state=JobState.SUCCEEDED,
        submitted=1,
        started=2,
        ended=3,
        succeeded=2,
        failed=0,
        cancelled=0,
        requirement="GCC >= 4.5",
        rank="CPU",
        application="shop",
    )
    return msgspec.structs.replace(fixed, **changes)


def attempt(number: int, job: int, task: int, outcome: Outcome = Outcome.SUCCEEDED) -> AttemptRecord:
    return AttemptRecord(
        attempt=number,
        job=job,
        task=task,
        node="n1",
        outcome=outcome,
        final=True,
        placed=1,
        started=2,
        ended=3,
        code=0,
        ports=(80, 20_000) if task else (),
        devices=("gpu:0", "gpu:1:460", "disk:sda:0") if task else (),
    )


def test_a_new_store_is_empty(store: SqliteStore, reader: SqliteReader) -> None:
    saved = store.load()
    assert (saved.snapshot, saved.records, saved.meta) == (None, [], {})
    assert (store.run(1), store.job(1), reader.jobs(limit=5), reader.attempts(1, 0, 9)) == (None, None, [], [])


def test_what_was_committed_is_seen_at_once_while_another_thread_looks_up(store: SqliteStore) -> None:
    store.commit(Batch(runs=[(9_999, b"run" * 50)]), 1)
    over = threading.Event()

    def look_up() -> None:
        while not over.is_set():
            store.run(9_999)

    other = threading.Thread(target=look_up)
    other.start()
    try:
        for number in range(1, 201):
            store.commit(Batch(jobs=[record(number)]), 1)
            assert store.job(number) is not None
    finally:
        over.set()
        other.join()


def test_what_was_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "cress.db"
    store = SqliteStore(path)
    store.commit(Batch(records=[b"one", b"two"], runs=[(1, b"run")], meta={"clock": b"1"}), 1)
    store.commit(Batch(records=[b"three"], meta={"clock": b"2"}, jobs=[record(1)], attempts=[attempt(1, 1, 0)]), 1)
    store.close()
    again = SqliteStore(path)
    saved = again.load()
    assert (saved.records, saved.meta) == ([b"one", b"two", b"three"], {"clock": b"2"})
    reader = again.reader()
    assert (again.run(1), again.job(1), reader.attempts(1, 0, 0)) == (b"run", record(1), [attempt(1, 1, 0)])
    reader.close()
    again.close()


def test_a_batch_that_fails_leaves_nothing_behind(store: SqliteStore) -> None:
    store.commit(Batch(jobs=[record(1)]), 1)
    with pytest.raises(StoreError, match=r"cress\.db cannot be written: UNIQUE"):
        store.commit(Batch(records=[b"lost"], runs=[(5, b"lost")], jobs=[record(2), record(1)]), 1)
    assert store.load().records == []
    assert (store.run(5), store.job(2)) == (None, None)
    store.commit(Batch(records=[b"fine"]), 1)
    assert store.load().records == [b"fine"]


def test_jobs_are_found_newest_first_page_by_page_and_by_filter(store: SqliteStore, reader: SqliteReader) -> None:
    store.commit(
        Batch(jobs=[record(i, group="lab" if i % 2 else "web", user="bob" if i == 4 else "ann") for i in range(1, 8)]),
        1,
    )
    assert [job.id for job in reader.jobs(limit=3)] == [7, 6, 5]
    assert [job.id for job in reader.jobs(limit=3, before=5)] == [4, 3, 2]
    assert [job.id for job in reader.jobs(JobFilter(group="web"), limit=9)] == [6, 4, 2]
    assert [job.id for job in reader.jobs(JobFilter(group="web", user="ann"), limit=9, before=6)] == [2]
    assert [job.id for job in reader.jobs(JobFilter(name="job3", state="succeeded"), limit=9)] == [3]
    assert reader.jobs(JobFilter(state="failed"), limit=9) == []


def test_a_page_of_jobs_is_full_however_many_younger_ones_were_submitted_later(
    store: SqliteStore, reader: SqliteReader
) -> None:
    store.commit(Batch(jobs=[record(i, submitted=i * 10) for i in range(1, 8)]), 1)
    assert [job.id for job in reader.jobs(JobFilter(since=20, until=50), limit=2)] == [4, 3]
    assert [job.id for job in reader.jobs(JobFilter(since=20, until=50), limit=2, before=3)] == [2]


def test_attempts_of_some_tasks(store: SqliteStore, reader: SqliteReader) -> None:
    rows = [attempt(1, 1, 0, Outcome.PREEMPTED), attempt(2, 1, 1), attempt(9, 1, 0), attempt(3, 2, 0)]
    store.commit(Batch(attempts=rows), 1)
    assert [each.attempt for each in reader.attempts(1, 0, 0)] == [1, 9]
    assert [each.attempt for each in reader.attempts(1, 0, 5)] == [1, 9, 2]


@pytest.mark.parametrize(
    "content", [b"this is no database, whatever its name says" * 40, b"SQLite format 3\0" + b"\xff" * 4000]
)
def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "cress.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"cress\.db is damaged: .* \(`cress store check` shows details"):
        SqliteStore(path).load()
    assert path.read_bytes() == content


def test_a_store_of_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cress.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="another version of Cress"):
        SqliteStore(path)


def fill(store: SqliteStore) -> None:
    for _ in range(100):
        store.commit(Batch(records=[b"y" * 20_000]), 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="a full disk is made by mounting a small one, which needs root")
def test_a_full_disk_refuses_a_batch_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        store = SqliteStore(disk / "cress.db")
        store.commit(Batch(records=[b"kept"]), 1)
        (disk / "hog").write_bytes(b"x" * 700_000)
        with pytest.raises(StoreError, match="full"):
            fill(store)
        before = store.load().records
        assert before[0] == b"kept"
        (disk / "hog").unlink()
        store.commit(Batch(records=[b"after"]), 1)
        store.close()
        again = SqliteStore(disk / "cress.db")
        assert again.load().records == [*before, b"after"]
        again.close()
    finally:
        subprocess.run(["umount", disk], check=True)


# --- damage -----------------------------------------------------------------------------------------------------------


def left_by_a_kill(path: Path) -> None:
    """A store as a killed center leaves it: open, the last batches in the write-ahead file only."""
    original = path.with_name("original.db")
    store = SqliteStore(original)
    store.commit(Batch(runs=[(1, b"run")]), 1)
    store.snapshot(StateSnapshot(0, b"state"), 1)
    store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.commit(Batch(records=[b"two"]), 1)
    for ending in ("", "-wal", ".mark"):
        path.with_name(path.name + ending).write_bytes(original.with_name(original.name + ending).read_bytes())
    store.close()


def test_what_a_kill_leaves_is_whole(tmp_path: Path) -> None:
    left_by_a_kill(path := tmp_path / "cress.db")
    store = SqliteStore(path)
    assert store.load().records == [b"two"]
    store.close()
    assert (tmp_path / "cress.db.mark").read_text() == "open\n"
    store = SqliteStore(path)
    store.commit(Batch(records=[b"three"]), 1)
    assert store.load().records == [b"two", b"three"]
    store.close()
    assert (tmp_path / "cress.db.mark").read_text() == "closed\n"
    SqliteStore(path).close()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (
            lambda path: path.with_name("cress.db-wal").unlink(),
            "cress.db-wal is missing, and with it the last changes",
        ),
        (lambda path: (path.with_name("cress.db-wal").unlink(), path.unlink()), "cress.db is gone; to begin"),
        (lambda path: (path.with_name("cress.db-wal").unlink(), path.write_bytes(b"")), "cress.db is empty; to begin"),
        (lambda path: (path.with_name("cress.db-wal").write_bytes(b""), path.write_bytes(b"")), "cress.db is empty; "),
        (lambda path: os.truncate(path, 5000), "is damaged: "),
        (lambda path: (path.unlink(), path.mkdir()), "cress.db is a directory"),
    ],
    ids=["no write-ahead file", "gone", "truncated to nothing", "both truncated", "cut off", "a directory"],
)
def test_a_store_that_lost_something_is_not_taken_for_another_one(
    tmp_path: Path, harm: Callable[[Path], object], says: str
) -> None:
    left_by_a_kill(path := tmp_path / "cress.db")
    harm(path)
    with pytest.raises(Damaged) as told:
        SqliteStore(path).load()
    assert says in str(told.value)
    assert "`cress store restore" in str(told.value)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE log SET record = x'00000000616263'", "record 1 of the log is not as it was stored"),
        ("UPDATE log SET record = 'text'", "record 1 of the log is not as it was stored"),
        ("UPDATE snapshot SET state = x''", "the snapshot is not as it was stored"),
        ("UPDATE meta SET value = x'0000000032' WHERE key = 'epoch'", "the note 'epoch' is not as it was stored"),
    ],
)
def test_what_is_not_as_it_was_stored_is_noticed(tmp_path: Path, sql: str, says: str) -> None:
    left_by_a_kill(path := tmp_path / "cress.db")
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    store = SqliteStore(path)
    with pytest.raises(Damaged, match=says):
        store.load()
    connection.close()
    store.close()


def test_what_was_moved_goes_with_its_run_and_the_rest_stays(store: SqliteStore, reader: SqliteReader) -> None:
    attempts = [attempt(number, job, 0) for number, job in ((1, 1), (2, 1), (3, 2))]
    store.commit(
        Batch(jobs=[record(1), record(2)], attempts=attempts, runs=[(1, b"one"), (2, b"two"), (3, b"three")]), 1
    )
    assert reader.finished(2) == ([], attempts[:2])
    assert reader.finished(9) == ([record(1), record(2)], attempts)
    store.commit(Batch(moved_jobs=[1], moved_attempts=[(1, 0, 1), (1, 0, 2)]), 1)
    assert reader.finished(9) == ([record(2)], attempts[2:])
    assert [store.run(job) for job in (1, 2, 3)] == [None, b"two", b"three"]


def test_runs_of_a_family_stay_until_it_is_moved(store: SqliteStore, reader: SqliteReader) -> None:
    """Its members, which are moved before it, need them for as long."""
    store.commit(Batch(runs=[(1, b"first"), (9, b"other")], templates=[(4, 1, b"second"), (7, 1, b"third")]), 1)
    store.commit(Batch(jobs=[record(1, type="service"), record(2, family=1, type="service"), record(3)]), 1)
    assert [job.id for job in reader.finished(10)[0]] == [2, 1, 3]
    store.commit(Batch(moved_jobs=[2]), 1)
    assert [store.run(number) for number in (1, 4, 7)] == [b"first", b"second", b"third"]
    store.commit(Batch(moved_jobs=[1]), 1)
    assert [store.run(number) for number in (1, 4, 7, 9)] == [None, None, None, b"other"]


def test_members_of_services_are_found_by_their_family_alone(store: SqliteStore, reader: SqliteReader) -> None:
    members = [record(2, family=1, index=3, template=1, type="service"), record(3, family=1, type="service")]
    runs = [record(5, family=4), record(6)]
    store.commit(Batch(jobs=[record(1, type="service"), *members, *runs]), 1)
    assert [job.id for job in reader.jobs(limit=10)] == [6, 5, 1]
    assert reader.jobs(JobFilter(family=1), limit=10)[1] == members[0]
    assert [job.id for job in reader.jobs(JobFilter(family=4), limit=10)] == [5]
    assert [job.id for job in reader.jobs(JobFilter(type="service"), limit=10)] == [1]


def test_attempts_on_nodes_are_those_that_ran_in_the_span(store: SqliteStore, reader: SqliteReader) -> None:
    ended = [
        msgspec.structs.replace(attempt(number, 1, number), placed=number, ended=number + 5) for number in range(9)
    ]
    other = msgspec.structs.replace(attempt(9, 1, 9), node="n2", placed=1, ended=99)
    store.commit(Batch(attempts=[*ended, other]), 1)
    found = reader.attempts_on(["n1", "n2"], since=7, until=4, limit=9)
    assert [(one.node, one.attempt) for one in found] == [("n2", 9), ("n1", 3), ("n1", 2)]
    assert reader.attempts_on(["n1"], since=7, until=4, limit=1) == [ended[3]]
