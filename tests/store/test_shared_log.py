"""A store in a shared log: several centers see the same, an answer that is lost is found out, what nobody needs
goes.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cress.store import zookeeper_log
from cress.store.base import Batch, Changed, Damaged, Fenced, Saved, StateSnapshot, StoreError
from cress.store.postgres_log import PostgresLog
from cress.store.replicated import ReplicatedStore
from cress.store.shared_log import LogUnreachable, SharedLog
from cress.store.zookeeper_log import ZooKeeperLog
from tests.servers.door import Door
from tests.servers.logs import empty_log
from tests.servers.postgresql import PostgreSql
from tests.servers.zookeeper import Ensemble
from tests.store.test_sqlite import attempt, record

Connect = Callable[[], SharedLog]


@contextmanager
def opened(connect: Connect, place: Path) -> Iterator[ReplicatedStore]:
    with closing(ReplicatedStore(connect(), place)) as store:
        yield store


def rows(store: ReplicatedStore) -> tuple[Saved, list[object]]:
    """All that a store knows."""
    saved = store.load()
    with closing(store.reader()) as reader:
        jobs, attempts = reader.finished(1000)
        return saved, [store.run(1), store.run(2), jobs, attempts, reader.jobs(limit=9)]


class TestFollowing:
    def test_another_center_sees_what_is_stored_and_takes_over(self, connect: Connect, tmp_path: Path) -> None:
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            first.load()
            assert second.follow() is None
            epoch = first.take_over(0, 0, "c1")
            batch = Batch(records=[b"one"], runs=[(1, b"run")], jobs=[record(1)], attempts=[attempt(1, 1, 0)])
            first.commit(batch, epoch)
            assert [commit.batch for commit in second.follow() or ()] == [None, batch]
            assert second.follow() == []
            assert rows(second) == rows(first)
            saved = second.load()
            assert first.newest_epoch() == epoch
            newer = second.take_over(saved.epoch, saved.number, saved.cluster)
            assert first.newest_epoch() == newer, "though its replica has not followed"
            with pytest.raises(Fenced, match=r"epoch 1.*epoch 2"):
                first.commit(Batch(records=[b"late"]), epoch)
            second.commit(Batch(records=[b"two"]), newer)
            assert first.load().records == [b"one", b"two"]

    def test_of_two_that_take_over_at_once_one_does(self, connect: Connect, tmp_path: Path) -> None:
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            first.load()
            second.load()
            assert first.take_over(0, 0, "c1") == 1
            with pytest.raises((Fenced, Changed)):
                second.take_over(0, 0, "c2")
            assert (second.load().epoch, second.load().cluster) == (1, "c1")

    def test_a_snapshot_reaches_a_center_that_follows_closely(self, connect: Connect, tmp_path: Path) -> None:
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            first.commit(Batch(records=[b"one", b"two"], runs=[(1, b"run")]), 1)
            second.follow()
            first.snapshot(StateSnapshot(1, b"state", {"events": b"e"}), 1)
            assert [commit.covered for commit in second.follow() or ()] == [1]
            assert rows(second) == rows(first)
            assert second.load().records == [b"two"]

    @pytest.mark.parametrize("snapshots", [1, 2, 3])
    def test_a_center_that_was_away_begins_with_the_checkpoint(
        self, connect: Connect, tmp_path: Path, snapshots: int
    ) -> None:
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            first.commit(Batch(records=[b"0"], runs=[(1, b"run")], templates=[(2, 1, b"new")]), 1)
            second.follow()
            for number in range(snapshots):
                first.commit(Batch(records=[b"x", b"y"], jobs=[record(number + 10)]), 1)
                first.commit(Batch(attempts=[attempt(number, number + 10, 0)], meta={"clock": b"%d" % number}), 1)
                first.snapshot(StateSnapshot(2 + 2 * number, b"state %d" % number), 1)
            first.commit(Batch(records=[b"last"]), 2)
            assert rows(second) == rows(first)
            with opened(connect, tmp_path / "new.db") as third:
                assert rows(third) == rows(first)

    def test_batches_are_committed_while_a_snapshot_is_uploaded(self, connect: Connect, tmp_path: Path) -> None:
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            for number in range(2):
                first.commit(Batch(records=[b"1", b"2", b"3"], runs=[(number + 1, b"run")]), 1)
                if not number:
                    second.follow()
                place = first.upload(StateSnapshot(4 * number + 2, b"state %d" % number))
                first.commit(Batch(records=[b"4"], jobs=[record(number + 10)], meta={"clock": b"c"}), 1)
                second.follow()
                first.snapshot(StateSnapshot(4 * number + 2, b"state %d" % number, {"events": b"e"}), 1, place)
                first.commit(Batch(attempts=[attempt(number, number + 10, 0)]), 1)
                assert (first.load().snapshot, first.load().records) == (b"state %d" % number, [b"3", b"4"])
                assert rows(second) == rows(first)
                with opened(connect, tmp_path / f"new{number}.db") as third:
                    assert rows(third) == rows(first)

    def test_a_snapshot_whose_upload_began_before_the_last_one_was_announced(
        self, connect: Connect, tmp_path: Path
    ) -> None:
        """Found by real faults: who began with the second one looked for the state of the first for ever."""
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            first.commit(Batch(records=[b"1", b"2"], runs=[(1, b"run")]), 1)
            second.follow()
            first.snapshot(StateSnapshot(1, b"old", {"events": b"1"}), 1)
            # As of one center, to which the first snapshot was not confirmed.
            place = second.upload(StateSnapshot(2, b"new", {"events": b"2"}))
            second.follow()
            second.commit(Batch(records=[b"3"], jobs=[record(10)]), 1)
            second.snapshot(StateSnapshot(2, b"new", {"events": b"2"}), 1, place)
            second.commit(Batch(records=[b"4"]), 1)
            with opened(connect, tmp_path / "new.db") as third:
                for each in (first, second, third):
                    assert (each.load().snapshot, each.load().records) == (b"new", [b"3", b"4"])
                    assert rows(each) == rows(second)

    def test_a_snapshot_of_a_center_that_is_replaced_counts_for_nothing(self, connect: Connect, tmp_path: Path) -> None:
        with opened(connect, tmp_path / "a.db") as first, opened(connect, tmp_path / "b.db") as second:
            first.commit(Batch(records=[b"1", b"2"]), 1)
            old = first.upload(StateSnapshot(1, b"old"))
            second.load()
            second.commit(Batch(records=[b"3"]), 2)
            new = second.upload(StateSnapshot(2, b"new"))
            with pytest.raises(Fenced):
                first.snapshot(StateSnapshot(1, b"old"), 1, old)
            second.snapshot(StateSnapshot(2, b"new"), 2, new)
            with opened(connect, tmp_path / "new.db") as third:
                assert (third.load().snapshot, third.load().records) == (b"new", [b"3"])

    def test_an_entry_that_comes_while_the_end_of_the_log_is_looked_for_is_none_that_is_gone(
        self, zookeeper: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Found by real faults: a busy leader kept another center reading the log from its checkpoint on, again and
        again.
        """
        root = f"/cress/end{os.getpid()}"
        log = ZooKeeperLog(zookeeper.hosts, root)
        with (
            opened(lambda: ZooKeeperLog(zookeeper.hosts, root), tmp_path / "a.db") as first,
            closing(ReplicatedStore(log, tmp_path / "b.db")) as second,
        ):
            first.commit(Batch(records=[b"1"]), 1)
            last, late = log._last, iter([b"2", b"3"])

            def look(least: int) -> int:
                for record in late:
                    first.commit(Batch(records=[record]), 1)
                return last(least)

            second.follow()
            first.commit(Batch(records=[b"0"]), 1)
            head = log.head()
            monkeypatch.setattr(log, "_last", look)
            monkeypatch.setattr(log, "head", lambda: head)
            assert [commit.batch.records for commit in second.follow() or () if commit.batch] == [
                [b"0"],
                [b"2"],
                [b"3"],
            ]

    def test_a_center_that_slept_while_it_removed_the_old_spares_what_is_new(
        self, zookeeper: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = f"/cress/slept{os.getpid()}"

        def connect() -> ZooKeeperLog:
            return ZooKeeperLog(zookeeper.hosts, root)

        log = connect()
        wakes: list[Callable[[], None]] = []
        trim = log._trim
        monkeypatch.setattr(log, "_trim", lambda newest: wakes.append(lambda: trim(newest)))
        with closing(ReplicatedStore(log, tmp_path / "a.db")) as first, opened(connect, tmp_path / "b.db") as second:
            first.commit(Batch(records=[b"1", b"2"]), 1)
            first.snapshot(StateSnapshot(1, b"old"), 1)
            second.load()
            second.commit(Batch(records=[b"3"]), 2)
            place = second.upload(StateSnapshot(2, b"new"))
            with suppress(Fenced):
                wakes[0]()
            second.snapshot(StateSnapshot(2, b"new"), 2, place)
            with suppress(Fenced):
                wakes[0]()
            with opened(connect, tmp_path / "new.db") as third:
                assert (third.load().snapshot, third.load().records) == (b"new", [b"3"])


class TestReplica:
    """The file of a replica may be lost, damaged, or that of another log: the log has all."""

    @pytest.mark.parametrize("harm", ["lost", "garbage", "cut", "another log", "ahead"])
    def test_it_begins_anew(self, connect: Connect, tmp_path: Path, harm: str, postgresql: PostgreSql) -> None:
        place = tmp_path / "a.db"
        with opened(connect, place) as store:
            store.commit(Batch(records=[b"one"], runs=[(1, b"run")], jobs=[record(1)]), 1)
            store.snapshot(StateSnapshot(1, b"state"), 1)
            store.commit(Batch(records=[b"two"], attempts=[attempt(1, 1, 0)]), 1)
            expected = rows(store)
        if harm == "lost":
            place.unlink()
        elif harm == "garbage":
            place.write_bytes(os.urandom(5000))
        elif harm == "cut":
            place.write_bytes(place.read_bytes()[:9000])
        else:
            other = empty_log(postgresql) if harm == "another log" else connect
            with opened(other, place) as store:
                for number in range(9):
                    store.commit(Batch(records=[b"foreign"], runs=[(100 + number, b"foreign")]), 1)
                if harm == "ahead":
                    expected = rows(store)
        with opened(connect, place) as store:
            assert rows(store) == expected

    def test_what_was_changed_in_the_log_is_noticed(self, zookeeper: Ensemble, tmp_path: Path) -> None:
        log = ZooKeeperLog(zookeeper.hosts, f"/cress/changed{os.getpid()}")
        with closing(ReplicatedStore(log, tmp_path / "a.db")) as store:
            for each in (b"one", b"two"):
                store.commit(Batch(records=[each]), 1)
            path = f"{log._root}/log/{0:010d}/{1:020d}"
            data = log.client.get(path)[0]
            log.client.set(path, data.replace(b"one", b"eno"))
        with (
            closing(ReplicatedStore(ZooKeeperLog(zookeeper.hosts, log._root), tmp_path / "b.db")) as store,
            pytest.raises(Damaged, match=r"entry 1 of zookeeper://.* is not as it was stored"),
        ):
            store.load()


class TestSize:
    def test_large_batches_and_states_come_back_as_they_were(self, connect: Connect, tmp_path: Path) -> None:
        record, state = os.urandom(2_300_000), os.urandom(3_100_000)
        with opened(connect, tmp_path / "a.db") as store, opened(connect, tmp_path / "b.db") as other:
            store.commit(Batch(records=[record]), 1)
            assert other.load().records == [record]
            store.snapshot(StateSnapshot(0, state), 1)
            store.commit(Batch(records=[b"x"]), 1)
            assert other.load().snapshot == state
            with opened(connect, tmp_path / "c.db") as third:
                assert rows(third) == rows(store)

    def test_the_tree_stays_small(self, zookeeper: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(zookeeper_log, "BUCKET", 50)
        log = ZooKeeperLog(zookeeper.hosts, f"/cress/small{os.getpid()}")
        with closing(ReplicatedStore(log, tmp_path / "a.db")) as store:
            large = os.urandom(600_000)
            for number in range(1, 330):
                store.commit(Batch(records=[b"x"] if number % 80 else [large]), 1)
                if number % 60 == 0:
                    store.snapshot(StateSnapshot(number, b"state"), 1)
            names: list[str] = []

            def walk(path: str) -> None:
                children = log.client.get_children(path)
                assert len(children) <= 50
                for name in children:
                    names.append(name)
                    walk(f"{path}/{name}")

            walk(log._root)
            assert len(names) < 160
            assert store.load().number == 329


@pytest.fixture
def door(zookeeper: Ensemble) -> Iterator[Door]:
    host, _, port = zookeeper.hosts.partition(":")
    with closing(Door(host, int(port))) as door:
        yield door


class TestLostConnections:
    def test_an_answer_that_is_lost_is_found_out(self, door: Door, tmp_path: Path) -> None:
        log = ZooKeeperLog(f"127.0.0.1:{door.port}", f"/cress/lost{os.getpid()}")
        with closing(ReplicatedStore(log, tmp_path / "a.db")) as store:
            epoch = store.take_over(0, 0, "c1")
            for number in range(5):
                door.lose_answers = True
                store.commit(Batch(records=[b"%d" % number]), epoch)
            door.lose_answers = True
            store.snapshot(StateSnapshot(3, b"state"), epoch)
            assert store.load().records == [b"3", b"4"]

    def test_without_the_servers_nothing_is_stored_and_all_goes_on_with_them(self, door: Door, tmp_path: Path) -> None:
        log = ZooKeeperLog(f"127.0.0.1:{door.port}", f"/cress/cut{os.getpid()}", patience=1.5)
        with closing(ReplicatedStore(log, tmp_path / "a.db")) as store:
            store.commit(Batch(records=[b"one"], runs=[(1, b"run")]), 1)
            door.cut()
            before = time.monotonic()
            with pytest.raises(LogUnreachable, match=r"zookeeper://127.0.0.1:\d+/cress/cut\d+ does not answer"):
                store.commit(Batch(records=[b"two"]), 1)
            assert time.monotonic() - before < 30
            assert (store.run(1), store.run(2)) == (b"run", None)
            with pytest.raises(StoreError):
                store.load()
            door.closed = False
            stored = store.load().records
            assert stored in ([b"one"], [b"one", b"two"])
            store.commit(Batch(records=[b"three"]), 1)
            assert store.load().records == [*stored, b"three"]

    def test_an_entry_is_one_question_to_the_database(
        self, postgresql: PostgreSql, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """There were four, and a step of the center waits for each: for the server's processor, on a busy machine."""
        asked: list[str] = []
        send = psycopg.Connection.wait

        def wait(self: psycopg.Connection, *arguments: Any, **named: Any) -> Any:
            asked.append("")
            return send(self, *arguments, **named)

        with closing(PostgresLog(postgresql.database())) as log:
            log.append(1, b"one", 1)
            monkeypatch.setattr(psycopg.Connection, "wait", wait)
            log.append(2, b"two", 1)
            monkeypatch.undo()
            assert len(asked) == 1
            with pytest.raises(StoreError):
                log.append(2, b"other", 1)
            assert list(log.entries(0)) == [b"one", b"two"]

    def test_a_database_that_was_down_is_found_again(self, postgresql: PostgreSql, tmp_path: Path) -> None:
        address = postgresql.database()
        with opened(lambda: PostgresLog(address, patience=1), tmp_path / "a.db") as store:
            store.commit(Batch(records=[b"one"]), 1)
            postgresql.kill()
            with pytest.raises(LogUnreachable, match="does not answer"):
                store.commit(Batch(records=[b"two"]), 1)
            postgresql.start()
            assert store.load().records == [b"one"]
            store.commit(Batch(records=[b"two"]), 1)
            assert store.load().records == [b"one", b"two"]


_WRITER = """
import sys
from pathlib import Path
from cress.store.base import Batch, StateSnapshot
from cress.store.opening import open_store
store = open_store(sys.argv[1], Path(sys.argv[2]))
saved = store.load()
epoch = store.take_over(saved.epoch, saved.number, "c1")
number = saved.number
while True:
    number += 1
    store.commit(Batch(records=[b"%d" % number], runs=[(number, b"run")]), epoch)
    print(number, flush=True)
    if number % 7 == 0:
        store.snapshot(StateSnapshot(number, b"state %d" % number), epoch)
"""


def test_kills_at_any_moment_lose_nothing_that_was_stored(connect: Connect, tmp_path: Path) -> None:
    log = connect()
    address = f"{log.name}?host={postgres_host(log)}" if log.name.startswith("postgresql") else log.name
    log.close()
    told = 0
    dice = random.Random(1)
    for _ in range(4):
        command = [sys.executable, "-P", "-c", _WRITER, address, str(tmp_path / "w")]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert writer.stdout is not None
        wanted = told + dice.randrange(3, 25)
        for line in writer.stdout:
            told = int(line)
            if told >= wanted:
                break
        time.sleep(dice.random() / 50)
        writer.send_signal(signal.SIGKILL)
        told = max([told, *map(int, writer.communicate()[0].split())])
        with opened(connect, tmp_path / "look.db") as store:
            saved = store.load()
            assert told <= saved.number <= told + 1
            assert saved.records == [
                b"%d" % each for each in range(saved.number - len(saved.records) + 1, saved.number + 1)
            ]
            assert all(store.run(each) == b"run" for each in range(1, saved.number + 1))
            told = saved.number


def postgres_host(log: SharedLog) -> str:
    return str(log._url).partition("host=")[2]  # type: ignore[attr-defined]
