"""The event log: what was committed is in its files once, whatever was cut off when; and each file replays."""

from __future__ import annotations

import asyncio
import os
import tempfile
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.center.committing.committer import Committer
from cress.center.keeping import event_log as eventlog
from cress.center.keeping.event_log import EventLog, files, prune, read
from cress.center.settings import CenterSettings
from cress.lifecycle.follower import Follower
from cress.lifecycle.inputs import NodeJoined, Reported, Submit
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import decode_record, inputs_of
from cress.model.errors import InputError
from cress.model.job import Job
from cress.model.options import Options
from cress.model.reports import Report
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.times import DAY, HOUR
from cress.shell.center.commit import CommitLimits
from cress.shell.center.log_entries import unpack
from cress.store.base import Batch
from cress.store.sqlite import SqliteStore
from tests.center.test_committer import Flaky, _submit, run
from tests.core.promises import promised_state
from tests.examples import examples
from tests.lifecycle.builders import ended, node, started

STATE = Machine(Dimensions(), Options()).export()


class Killed(BaseException):
    """The center is gone."""


class Store(SqliteStore):
    """Remembers what was committed; dies before or behind a commit when it is told to."""

    committed: list[bytes]
    die_before = die_behind = False

    def commit(self, batch: Batch, epoch: int) -> None:
        if self.die_before:
            raise Killed
        super().commit(batch, epoch)
        self.committed += [unpack(entry).record for entry in batch.records]
        if self.die_behind:
            raise Killed


async def _life(
    folder: Path, committed: list[bytes], submits: int, end: str, limits: CommitLimits | None = None
) -> None:
    """A center with one node that takes so many submits, half of which end, and ends in this way."""
    store = Store(folder / "cress.db")
    store.committed = committed
    committer = Committer(store, CenterSettings(data=folder), limits=limits)
    await committer.start()
    alive = tuple(started(each) for each in committer.machine.attempts)
    committer.post(NodeJoined(node=node("n1", 4), boot="b", reports=alive))
    for _ in range(submits):
        job = Job(id=0, group="default", request=(1000, 0, 0, 0, 0, 0, 0), user="u")
        await committer.submit(Submit(jobs=(job,)), [Run(job=0, command=("true",))])
    running = sorted(committer.machine.attempts)
    reports: list[Report] = [*(started(each) for each in running), *(ended(each) for each in running[::2])]
    committer.post(Reported(node="n1", reports=tuple(reports)))
    if end == "clean":
        await committer.stop()
        return
    store.die_before, store.die_behind = end == "before the commit", end == "behind the commit"
    assert committer._task is not None
    if end != "killed":
        # A commit that is killed ends the committer, as kill -9 does.
        job = Job(id=0, group="default", request=(1000, 0, 0, 0, 0, 0, 0), user="u")
        committer.post(Submit(jobs=(job,)))
        await asyncio.wait({committer._task}, timeout=60)
    committer._task.cancel()
    await asyncio.gather(committer._task, return_exceptions=True)
    committer._thread.shutdown()
    committer.log.close()
    store.close()


def _all_records(folder: Path) -> list[tuple[int, bytes]]:
    return [each for path in files(folder / "events") for each in read(path).raw()]


ENDS = st.sampled_from(["clean", "killed", "before the commit", "behind the commit"])
ZEROS = st.sampled_from([0, 0, 3, 8, 100])
LIVES = st.lists(st.tuples(st.integers(0, 12), ENDS, st.integers(0, 2_000), ZEROS), min_size=1, max_size=5)


@given(lives=LIVES, snapshot=st.integers(2, 9), new_file=st.booleans())
@examples(5)
def test_what_was_committed_is_there_once_after_any_crash(
    lives: list[tuple[int, str, int, int]], snapshot: int, new_file: bool
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        synced: dict[int, int] = {}
        patch.setattr(os, "fsync", lambda fd: synced.update({os.fstat(fd).st_ino: os.fstat(fd).st_size}))
        patch.setattr(eventlog.EventLog, "wants_new_file", lambda *_: new_file)
        committed: list[bytes] = []
        for submits, end, cut, zeros in lives:
            asyncio.run(_life(folder, committed, submits, end, CommitLimits(most_records=snapshot)))
            if end != "clean":
                # The power went too: what was not synced is lost, and a record may be half there.
                newest = files(folder / "events")[-1]
                size = newest.stat().st_size
                os.truncate(newest, max(size - cut, synced[newest.stat().st_ino]))
                if zeros:
                    os.truncate(newest, newest.stat().st_size + zeros)
        asyncio.run(_life(folder, committed, 1, "clean"))
        found = _all_records(folder)
        assert [number for number, _ in found] == list(range(1, len(committed) + 1))
        assert [record for _, record in found] == committed
        for one, following in zip(files(folder / "events"), files(folder / "events")[1:], strict=False):
            assert _promised(_followed(one)) == _promised(Machine.restore(read(following).header.state))


def _followed(path: Path) -> Machine:
    file = read(path)
    follower = Follower.restore(file.header.state)
    for _, record in file:
        follower.apply(record)
    return follower.machine()


def _promised(machine: Machine) -> dict[str, object]:
    """All that a machine promises: every row of every table, the clocks, and the scheduler but for what is foreseen."""
    assert machine.validate() == []
    tables = {name: msgspec.to_builtins(dict(table.items())) for name, table in machine.tables.by_name().items()}
    return {**tables, "core": promised_state(machine.core), "now": machine.now, "utc": machine.utc}


def _replayed(path: Path) -> bytes:
    file = read(path)
    machine = Machine.restore(file.header.state)
    for _, record in file:
        machine.step(record.now, record.utc, inputs_of(record))
    return machine.export()


def test_a_machine_that_is_stepped_through_a_file_is_the_one_that_ran(tmp_path: Path) -> None:
    async def story(committer: Committer, _: SqliteStore) -> bytes:
        for _each in range(20):
            job = Job(id=0, group="default", request=(1000, 0, 0, 0, 0, 0, 0), user="u", tasks=3)
            await committer.submit(Submit(jobs=(job,)), [Run(job=0, command=("true",))])
        return committer.machine.export()

    state = run(tmp_path, story)
    (path,) = files(tmp_path / "events")
    assert _replayed(path) == state
    assert path.stat().st_mode & 0o077 == 0


def test_a_new_file_begins_when_the_old_one_is_old(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events", file_age=HOUR)
    log.open(0, [], lambda: STATE, utc=DAY)
    assert not log.is_old(DAY + HOUR)
    assert log.is_old(DAY + HOUR + 1)
    log.append(b"one")
    assert log.sync()
    log.begin(STATE, DAY + 2 * HOUR)
    log.append(b"two")
    log.close()
    assert _all_records(tmp_path) == [(1, b"one"), (2, b"two")]
    assert [read(path).header.before for path in files(tmp_path / "events")] == [0, 1]


def test_a_new_leader_begins_a_file_beside_its_commits(tmp_path: Path) -> None:
    """The slow part is done by another thread: what is committed meanwhile is in the file, behind the state."""
    log = EventLog(tmp_path / "events")
    log.begin_later(7)
    log.mark()
    log.append(b"eight")
    prepared = log.prepare(STATE, DAY)
    assert files(tmp_path / "events") == [], "no file has its name before it is complete"
    log.append(b"nine")
    log.begin(STATE, DAY, prepared)
    log.append(b"ten")
    assert log.sync()
    log.close()
    assert _all_records(tmp_path) == [(8, b"eight"), (9, b"nine"), (10, b"ten")]


def test_a_store_that_went_back_gets_a_file_of_its_own(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.open(0, [], lambda: STATE, utc=DAY)
    for _ in range(5):
        log.append(b"x")
    log.open(3, [b"x", b"x"], lambda: STATE, utc=DAY)
    log.append(b"y")
    log.close()
    assert [list(read(path).raw()) for path in files(tmp_path / "events")][1] == [(4, b"y")]


def test_a_gap_in_the_log_begins_a_new_file(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.open(0, [], lambda: STATE, utc=DAY)
    log.append(b"x")
    log.open(9, [b"8", b"9"], lambda: STATE, utc=DAY)
    log.append(b"10")
    log.close()
    assert _all_records(tmp_path) == [(1, b"x"), (10, b"10")]


def test_a_disk_that_is_full_costs_the_center_nothing_and_the_log_a_gap_at_most(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.open(0, [], lambda: STATE, utc=DAY)
    assert log._file
    fd, log._file.fd = log._file.fd, os.open("/dev/full", os.O_WRONLY)
    log.append(b"one")
    assert not log.sync()
    assert "No space left" in log.problem
    os.close(log._file.fd)
    log._file.fd = fd
    log.append(b"two")
    assert log.sync()
    assert log.problem == ""
    log.close()
    assert _all_records(tmp_path) == [(1, b"one"), (2, b"two")]


def test_old_files_go_and_the_newest_stays(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.open(0, [], lambda: STATE, utc=DAY)
    for _ in range(3):
        log.append(b"x" * 1000)
        log.begin(STATE, DAY)
    log.close()
    folder = tmp_path / "events"
    paths = files(folder)
    for path, age in zip(paths, (9, 5, 1, 9), strict=True):
        os.utime(path, (age * 86400, age * 86400))
    now = 12 * DAY
    size = sum(path.stat().st_size for path in paths[1:])
    assert prune(folder, now=now, keep_age=20 * DAY, keep_size=size) == paths[:1]
    assert prune(folder, now=now, keep_age=8 * DAY, keep_size=10 * size) == paths[2:3]
    assert prune(folder, now=now + 99 * DAY, keep_age=DAY, keep_size=0) == paths[1:2]
    assert files(folder) == paths[3:]


def test_damage_in_the_middle_is_told_with_its_place(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events")
    log.open(0, [], lambda: STATE, utc=DAY)
    for _ in range(3):
        log.append(b"x" * 100)
    log.close()
    (path,) = files(tmp_path / "events")
    data = bytearray(path.read_bytes())
    data[-150] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"is damaged at byte \d+ \(the part before it can be read\)"):
        list(read(path).raw())
    path.write_bytes(b"something else")
    with pytest.raises(InputError, match="is not a file of an event log"):
        read(path)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(tmp_path / "00000009.events")


def test_what_is_damaged_in_the_newest_file_comes_from_the_store_again(tmp_path: Path) -> None:
    records = [b"one" * 20, b"two" * 20, b"three" * 20]
    log = EventLog(tmp_path / "events")
    log.open(0, [], lambda: STATE, utc=DAY)
    for record in records:
        log.append(record)
    log.close()
    (path,) = files(tmp_path / "events")
    path.write_bytes(path.read_bytes().replace(b"twotwo", b"twotow"))
    log.open(3, records, lambda: STATE, utc=DAY)
    assert not log.gap
    log.close()
    assert _all_records(tmp_path) == list(enumerate(records, 1))


def test_records_that_are_read_are_those_that_were_written(tmp_path: Path) -> None:
    async def story(_: Committer, store: SqliteStore) -> list[bytes]:
        return [unpack(entry).record for entry in store.load().records]

    run(tmp_path, story)
    records = run(tmp_path, story)
    assert len(records) == 1
    last = [record for path in files(tmp_path / "events") for _, record in read(path)][-1]
    assert last == decode_record(records[0])


@pytest.mark.parametrize(("least", "several"), [(3 * len(STATE), True), (2**20, False)])
def test_a_file_that_is_large_enough_is_followed_by_another_one(tmp_path: Path, least: int, several: bool) -> None:
    """Nobody forces it: the size of the file and the snapshots of the log decide."""

    async def story(committer: Committer, _: Flaky) -> int:
        committer.log._file_size = least
        for number in range(40):
            await committer.submit(*_submit(f"job{number}"))
            if len(files(tmp_path / "events")) > 3:
                break
            # A snapshot is taken beside the steps.
            await asyncio.sleep(0.01)
        return committer.loop.number

    # The clean stop takes a snapshot too.
    last = run(tmp_path, story, CommitLimits(most_records=4))
    known = files(tmp_path / "events")
    assert (len(known) > 2) is several
    assert [number for number, _ in _all_records(tmp_path)] == list(range(1, last + 1))
    for path, following in pairwise(known):
        assert _promised(_followed(path)) == _promised(Machine.restore(read(following).header.state))
