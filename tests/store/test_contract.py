"""What every store promises: whole batches, a fence between epochs, snapshots beside the commits that go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.store.base import Batch, Changed, Fenced, StateSnapshot, Store, StoreError
from cress.store.replicated import ReplicatedStore
from cress.store.sqlite import SqliteStore
from tests.faults.store import Access, SimulatedStore
from tests.faults.world import Mortal, World
from tests.servers.logs import empty_log


@pytest.fixture(params=["sqlite", "simulated", "simulated access", "zookeeper", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        sqlite = SqliteStore(tmp_path / "cress.db")
        yield sqlite
        sqlite.close()
    elif request.param == "simulated":
        yield SimulatedStore()
    elif request.param in ("zookeeper", "postgresql"):
        replicated = ReplicatedStore(empty_log(request.getfixturevalue(request.param))(), tmp_path / "replica.db")
        yield replicated
        replicated.close()
    else:
        yield Access(SimulatedStore(), Mortal(World(1), "center"))


def snapshot(store: Store, state: bytes, number: int, epoch: int = 1, **meta: bytes) -> None:
    store.snapshot(StateSnapshot(number, state, meta), epoch)


class TestStore:
    def test_a_new_one_has_nothing(self, store: Store) -> None:
        saved = store.load()
        assert (saved.snapshot, saved.records, saved.meta) == (None, [], {})
        assert (saved.number, saved.epoch, saved.cluster) == (0, 0, "")

    def test_records_are_numbered_and_notes_replace_by_key(self, store: Store) -> None:
        epoch = store.take_over(0, 0, "c1")
        store.commit(Batch(records=[b"one", b"two"], meta={"clock": b"1", "version": b"v"}), epoch)
        store.commit(Batch(meta={"clock": b"2"}, runs=[(7, b"run")], templates=[(9, 7, b"new")]), epoch)
        saved = store.load()
        assert store.newest_epoch() == 1
        assert (saved.records, saved.number, saved.epoch, saved.cluster) == ([b"one", b"two"], 2, 1, "c1")
        assert saved.meta == {"clock": b"2", "version": b"v"}
        assert [store.run(job) for job in (7, 9, 8)] == [b"run", b"new", None]

    def test_an_older_epoch_stores_nothing_once_a_newer_one_has_begun(self, store: Store) -> None:
        old = store.take_over(0, 0, "c1")
        store.commit(Batch(records=[b"one"]), old)
        new = store.take_over(old, 1, "c1")
        with pytest.raises(Fenced, match=r"\(epoch 1\) does not lead any more: .* \(epoch 2\)"):
            store.commit(Batch(records=[b"two"], runs=[(1, b"run")], meta={"clock": b"9"}), old)
        with pytest.raises(Fenced):
            snapshot(store, b"state", 1, old)
        saved = store.load()
        assert (saved.snapshot, saved.records, saved.meta, store.run(1)) == (None, [b"one"], {}, None)
        store.commit(Batch(records=[b"two"]), new)
        assert store.load().records == [b"one", b"two"]

    def test_nobody_takes_over_a_state_that_has_changed_since(self, store: Store) -> None:
        epoch = store.take_over(0, 0, "c1")
        store.commit(Batch(records=[b"one"]), epoch)
        for seen in ((0, 1), (1, 0)):
            with pytest.raises(Changed):
                store.take_over(*seen, "c1")
        assert store.take_over(1, 1, "c1") == 2

    def test_a_snapshot_takes_the_place_of_the_records_that_it_covers(self, store: Store) -> None:
        store.commit(Batch(records=[b"one", b"two", b"three"]), 1)
        snapshot(store, b"first", 2, events=b"e")
        saved = store.load()
        assert (saved.snapshot, saved.records, saved.number) == (b"first", [b"three"], 3)
        assert saved.meta == {"events": b"e"}
        store.commit(Batch(records=[b"four"]), 1)
        snapshot(store, b"second", 4)
        assert (store.load().snapshot, store.load().records) == (b"second", [])
        store.commit(Batch(records=[b"five"]), 1)
        assert (store.load().records, store.load().number) == ([b"five"], 5)

    def test_a_snapshot_that_is_older_than_the_last_one_is_refused(self, store: Store) -> None:
        store.commit(Batch(records=[b"one", b"two"]), 1)
        snapshot(store, b"new", 2)
        with pytest.raises(StoreError, match="older"):
            snapshot(store, b"old", 1)
        assert store.load().snapshot == b"new"

    def test_a_snapshot_may_begin_behind_a_gap(self, store: Store) -> None:
        store.commit(Batch(records=[b"one"]), 1)
        snapshot(store, b"state", 1_000, epoch=7)
        saved = store.load()
        assert (saved.records, saved.number, saved.epoch) == ([], 1_000, 7)
        with pytest.raises(Fenced):
            store.commit(Batch(records=[b"two"]), 6)

    def test_a_large_snapshot_comes_back_as_it_was(self, store: Store) -> None:
        state = bytes(range(256)) * 20_000
        store.snapshot(StateSnapshot(0, memoryview(state)), 1)
        assert store.load().snapshot == state

    def test_a_batch_that_fails_leaves_nothing(self, store: Store) -> None:
        store.commit(Batch(runs=[(1, b"run")]), 1)
        with pytest.raises(StoreError, match="UNIQUE"):
            store.commit(Batch(records=[b"lost"], runs=[(2, b"lost"), (1, b"lost")], meta={"clock": b"1"}), 1)
        saved = store.load()
        assert (saved.records, saved.number, saved.meta, store.run(2)) == ([], 0, {}, None)
