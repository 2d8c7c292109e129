"""The warm state of a standby: at any moment it is the state that a load gives."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from cress.center.keeping.recovery import load_machine
from cress.center.leader.warm_replica import Warm
from cress.center.process.clock import Clock
from cress.center.settings import CenterSettings
from cress.lifecycle.machine import Machine
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.shell.center.commit import Opened
from cress.shell.center.events import Events
from cress.store.base import Batch, StoreError
from cress.store.commit_journal import StoredCommit
from cress.store.opening import open_store
from cress.store.replicated import ReplicatedStore
from tests.center.program import Center
from tests.servers.logs import empty_place
from tests.servers.zookeeper import Ensemble


def test_what_is_followed_is_what_is_loaded(zookeeper: Ensemble, tmp_path: Path) -> None:
    place = empty_place(zookeeper)
    settings = CenterSettings(data=tmp_path)
    with (
        Center(tmp_path / "one", forked=True, store=place) as center,
        closing(open_store(place, tmp_path / "follower")) as store,
        closing(open_store(place, tmp_path / "loader")) as other,
    ):
        assert isinstance(store, ReplicatedStore)
        warm = Warm(load_machine(store, settings, Clock()), Clock())
        with center.executor() as executor:
            for name in ("a", "b"):
                center.submit(name=name, tasks=2)
                executor.ended(executor.launches()[0].attempt)
                commits = store.follow()
                assert commits
                assert warm.take(commits)
                assert content(warm.opened) == content(load_machine(other, settings, Clock()))
                assert warm.opened.machine.validate() == []
        assert center.stop() == 0
        # The last words of the center are a snapshot.
        commits = store.follow()
        assert commits
        assert warm.take(commits)
        loaded = load_machine(other, settings, Clock())
        # Only whether there is more to decide is foreseen differently.
        assert content(warm.opened)[1:] == content(loaded)[1:]
        assert (warm.opened.log_count, warm.opened.log_size) == (loaded.log_count, loaded.log_size) == (0, 0)


def content(opened: Opened) -> tuple[object, ...]:
    events = [event.number for event in opened.events.after(0, 1000)]
    return opened.machine.export(), opened.number, opened.epoch, opened.cluster, events


def empty() -> Warm:
    machine = Machine(Dimensions(), Options())
    opened = Opened(
        machine=machine,
        events=Events(),
        records=[],
        number=0,
        epoch=0,
        cluster="",
        snapshot_size=0,
        log_size=0,
        log_count=0,
    )
    return Warm(opened, Clock())


def test_a_first_state_comes_without_records_and_must_be_loaded() -> None:
    assert not empty().take([StoredCommit(1, cluster="c"), StoredCommit(1, Batch(), covered=0)])


def test_a_record_that_cannot_be_read_is_told() -> None:
    with pytest.raises(StoreError, match="record 1 cannot be taken in"):
        empty().take([StoredCommit(1, Batch(records=[b"\x01"]))])
