"""A store in a log that several centers share, with a replica of its rows on this machine (design note 0017)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from cress.model.records import JobRecord
from cress.store.base import Batch, Changed, Checkpoint, Fenced, Saved, StateSnapshot, StoreError
from cress.store.checkpoint import state_in
from cress.store.commit_journal import StoredCommit
from cress.store.finished import SqliteReader
from cress.store.lead import Lead
from cress.store.replica import Replica
from cress.store.shared_log import Head, SharedLog, Trimmed, decode_entry, encode_entry


class ReplicatedStore:
    """A ``Store``: a commit is an entry of ``log``, and is applied to the replica in ``path`` once the log has it.

    The log decides what is stored; the replica answers all queries. ``load`` and ``follow`` bring it up to date.
    """

    def __init__(self, log: SharedLog, path: Path) -> None:
        self.log = log
        self.warnings: list[str] = []
        self._replica = Replica(path)
        # Called before an entry of another center removes finished work; None: before any of it may be removed.
        self.leaving: Callable[[Batch | None], None] | None = None
        # True if the replica is behind: the last commit could not be applied, or its fate is unknown.
        self._behind = True

    def lead(self, address: str) -> Lead:
        """Return the lead of the log, for the center at ``address``."""
        return self.log.lead(address)

    # --- following ---------------------------------------------------------------------------------------------

    def follow(self) -> list[StoredCommit] | None:
        """Apply the new entries of the log, and return them.

        None: the rows come from a checkpoint, since the log does not go back far enough, and the state must be loaded.
        """
        return self._follow(keep=True)

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for new entries; return whether there may be some."""
        return self.log.wait(self._replica.last, seconds)

    def _follow(self, *, keep: bool) -> list[StoredCommit] | None:
        head = self.log.head()
        replica = self._replica
        applied: list[StoredCommit] | None = [] if keep else None
        if replica.log != head.id or replica.last > head.last:
            replica.begin(head.id)
            applied = None
        if not replica.last and head.checkpoint:
            self._restore(head)
            applied = None
        while replica.last < head.last:
            try:
                for commit in self._entries():
                    if applied is not None:
                        applied.append(commit)
            except Trimmed:
                applied, before = None, replica.last
                if self.leaving is not None:
                    self.leaving(None)
                self._restore(head)
                if replica.last <= before:
                    raise
        self._behind = False
        return applied

    def _entries(self) -> Iterator[StoredCommit]:
        """Apply the entries after the last one, and yield them."""
        replica = self._replica
        for entry in self.log.entries(replica.last):
            commit, chain = decode_entry(entry, replica.chain, f"entry {replica.last + 1} of {self.log.name}")
            state = None if commit.covered is None else self._state_at(replica.last + 1)
            if state is None:
                commit = msgspec.structs.replace(commit, covered=None)
            batch = commit.batch
            if self.leaving is not None and batch is not None and (batch.moved_jobs or batch.moved_attempts):
                self.leaving(batch)
            with replica.applied(commit, chain, state):
                pass
            yield commit

    def _restore(self, head: Head) -> None:
        checkpoint, pieces = self.log.checkpoint()
        self._replica.restore(head.id, checkpoint.number, pieces)

    def _state_at(self, number: int) -> memoryview | None:
        """Return the state stored with this entry. Raises ``Trimmed`` if a newer checkpoint covers the entry.

        None: the upload of a newer state began before this entry was known. That state has an entry of its own.
        """
        checkpoint, pieces = self.log.checkpoint()
        if checkpoint.entry == number:
            return memoryview(state_in(pieces))
        if checkpoint.number >= number:
            raise Trimmed(f"there is a newer checkpoint than that of entry {number}")
        return None

    def load(self) -> Saved:
        """Return the data with which a center continues, including the newest entries of the log."""
        self._follow(keep=False)
        return self._replica.load()

    # --- writing -----------------------------------------------------------------------------------------------

    def take_over(self, epoch: int, number: int, cluster: str) -> int:
        """Begin a new epoch after a loaded state; see ``Store.take_over``."""
        if self._behind:
            self._follow(keep=False)
        if (self._replica.epoch, self._replica.number) != (epoch, number):
            raise Changed(f"the store {self.log.name} has changed since it was read")
        self._append(StoredCommit(epoch + 1, cluster=cluster), epoch + 1)
        return epoch + 1

    def newest_epoch(self) -> int:
        """Return the newest epoch of the log, whatever the replica has; see ``Store.newest_epoch``."""
        return self.log.head().epoch

    def note(self, key: str) -> bytes | None:
        """Return a note of the replica: followers of the log must see each entry. See ``Store.note``."""
        return self._replica.note(key)

    def commit(self, batch: Batch, epoch: int) -> None:
        """Store all of the batch durably, or nothing; see ``Store.commit``."""
        self._append(StoredCommit(epoch, batch), epoch)

    def upload(self, snapshot: StateSnapshot) -> Checkpoint:
        """Upload a snapshot for ``snapshot``; see ``Store.upload``."""
        return self._replica.checkpoint(memoryview(snapshot.state), snapshot.number, self.log.put_checkpoint)

    def snapshot(self, snapshot: StateSnapshot, epoch: int, uploaded: Checkpoint | None = None) -> None:
        """Store a snapshot in place of the log that it covers; see ``Store.snapshot``."""
        if self._behind:
            self._follow(keep=False)
        uploaded = uploaded or self.upload(snapshot)
        commit = StoredCommit(epoch, Batch(meta=dict(snapshot.meta)), covered=snapshot.number)
        self._append(commit, epoch, memoryview(snapshot.state), uploaded)

    def _append(
        self, commit: StoredCommit, epoch: int, state: memoryview | None = None, checkpoint: Checkpoint | None = None
    ) -> None:
        replica = self._replica
        if self._behind:
            self._follow(keep=False)
        if epoch < replica.epoch:
            raise Fenced(epoch, replica.epoch)
        entry, chain = encode_entry(commit, replica.chain)
        with replica.applied(commit, chain, state):
            # The fate of the entry is unknown until the append returns; on an error it is found out before the next
            # change.
            self._behind = True
            self.log.append(replica.last + 1, entry, epoch, checkpoint)
        self._behind = False

    # --- looking up --------------------------------------------------------------------------------------------

    def job(self, job: int) -> JobRecord | None:
        """Return a finished job."""
        return self._replica.job(job)

    def run(self, job: int) -> bytes | None:
        """Return the run of this job as stored."""
        return self._replica.run(job)

    def reader(self) -> SqliteReader:
        """Open a reader of finished work."""
        return self._replica.reader()

    def close(self) -> None:
        """Close the replica and the log; without a close nothing is lost."""
        self._replica.close()
        with suppress(StoreError):
            self.log.close()
