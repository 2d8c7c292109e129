"""The warm state of a standby: it applies the leader's commits as they come, so taking over needs milliseconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from cress.center.process.clock import Clock
from cress.center.process.garbage import no_collection
from cress.lifecycle.follower import Follower
from cress.lifecycle.record import decode_record, has_facts
from cress.shell.center.commit import Opened
from cress.shell.center.log_entries import unpack
from cress.store.base import StoreError
from cress.store.commit_journal import StoredCommit


class Warm:
    """A loaded state to which commits are applied, without decisions.

    ``took`` is the duration of the last ``take`` in seconds.
    """

    def __init__(self, opened: Opened, clock: Clock) -> None:
        machine = opened.machine
        self._follower = Follower(machine.tables, machine.core, machine.now, machine.utc, more=machine.more)
        self._clock = clock
        self._sizes = deque(map(len, opened.records))
        self._begins = False  # an epoch has begun, and its first state is not known yet
        self.opened = opened
        self.took = 0.0

    def take(self, commits: Iterable[StoredCommit]) -> bool:
        """Apply commits in order; return False if the state must be loaded anew, since it came without records.

        Raises StoreError for a record that this release cannot apply; the state is unusable then.
        """
        begin = time.perf_counter()
        opened, saved_clock = self.opened, None
        with no_collection():
            for commit in commits:
                opened.epoch, opened.cluster = max(opened.epoch, commit.epoch), commit.cluster or opened.cluster
                if commit.covered is not None and self._begins:
                    return False
                self._begins = bool(commit.cluster) or (self._begins and not (commit.batch and commit.batch.records))
                if commit.batch is not None:
                    saved_clock = commit.batch.meta.get("clock", saved_clock)
                    for record in commit.batch.records:
                        self._apply(record)
                if commit.covered is not None:
                    while self._sizes and len(self._sizes) > opened.number - commit.covered:
                        self._sizes.popleft()
                    # The size is unknown; it only determines when the next snapshot is due.
                    opened.snapshot_size = max(1, opened.snapshot_size)
            opened.machine = self._follower.machine()
        opened.records = []
        opened.log_size, opened.log_count = sum(self._sizes), len(self._sizes)
        self._clock.resume(saved_clock, max(opened.machine.now, 0))
        self.took = time.perf_counter() - begin
        return True

    def _apply(self, data: bytes) -> None:
        opened = self.opened
        opened.number += 1
        try:
            entry = unpack(data)
            record = decode_record(entry.record)
            if not has_facts(record):
                raise ValueError("it was written by an older release")  # noqa: TRY301 – told as the others
            self._follower.apply(record)
            opened.events.replay(entry.events)
        except Exception as error:
            raise StoreError(f"record {opened.number} cannot be taken in: {error}") from error
        self._sizes.append(len(entry.record))
