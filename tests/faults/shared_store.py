"""A store that several centers share, in memory: its servers, the log as one center reaches it, and a center's replica.

What a center does with them is the program's (``ReplicatedStore``): only the servers and the file of rows are
simulated.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from cress.model.records import JobRecord
from cress.model.times import SECOND
from cress.store.base import Batch, Checkpoint, Fenced, Saved, StoreError
from cress.store.checkpoint import CheckpointPiece, state_in
from cress.store.commit_journal import StoredCommit
from cress.store.lead import Lead
from cress.store.replicated import ReplicatedStore
from cress.store.shared_log import Head, LogUnreachable, SharedLog, Trimmed, another, decode_entry
from tests.faults.store import SimulatedStore
from tests.faults.world import Mortal, Violation, World

if TYPE_CHECKING:
    from tests.faults.rules import Rules

NAME = "shared://servers"


class Servers:
    """The servers of a shared store. ``store`` has the rows of all entries, for those who check what is stored.

    ``owner`` has the lead until its session, of ``session`` µs, is over.
    """

    def __init__(self, world: World, rules: Rules, store: SimulatedStore) -> None:
        self.world = world
        self.rules = rules
        self.store = store
        self.session = world.aside.choice((2 * SECOND, 4 * SECOND, 10 * SECOND))
        self.epoch = self.last = 0
        self.entries: dict[int, bytes] = {}
        self.uploads: dict[str, list[bytes]] = {}  # pieces of checkpoints by their places
        self.checkpoint: Checkpoint | None = None
        self.owner: Mortal | None = None
        self._chain = 0
        self._expires = 0

    # --- the log -------------------------------------------------------------------------------------------------

    def append(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None = None) -> None:
        """See ``SharedLog``."""
        if self.rules.no_store_fence:
            # What comes is put behind what is there.
            number, entry = self.last + 1, chained(entry, self._chain)
        elif epoch < self.epoch:
            raise Fenced(epoch, self.epoch)
        if number <= self.last:
            raise another(NAME, number)
        if number > self.last + 1:
            raise StoreError(f"entry {number} does not follow entry {self.last}")
        commit, chain = decode_entry(entry, self._chain, f"entry {number}")
        if commit.epoch < self.epoch:
            raise Violation(f"an entry of epoch {commit.epoch} is stored after epoch {self.epoch} has begun")
        write(self.store, commit, None if checkpoint is None else memoryview(state_in(self.uploads[checkpoint.place])))
        self.store.commits += 1
        self.entries[number], self._chain = entry, chain
        self.last, self.epoch = number, max(self.epoch, epoch)
        if checkpoint is not None:
            self._shorten(msgspec.structs.replace(checkpoint, entry=number))

    def _shorten(self, newest: Checkpoint) -> None:
        """Keep the entries from the last checkpoint but one on."""
        if self.checkpoint is not None:
            for number in [each for each in self.entries if each <= self.checkpoint.number]:
                del self.entries[number]
        self.checkpoint = newest
        self.uploads = {newest.place: self.uploads[newest.place]}

    # --- the lead ------------------------------------------------------------------------------------------------

    def leader(self) -> Mortal | None:
        """The center that has the lead."""
        if self.owner is not None and self.world.now >= self._expires:
            self.owner = None
        return self.owner

    def claim(self, center: Mortal) -> bool:
        """Give or leave the lead to a center, unless another one has it."""
        if self.leader() not in (None, center):
            return False
        self.owner = center
        # Servers take their time to end a session.
        self._expires = self.world.now + int(self.session * (1 + 0.5 * self.world.aside.random()))
        return True

    def release(self, center: Mortal) -> None:
        """Take the lead from a center that gives it away."""
        if self.owner is center:
            self.owner = None


class Line:
    """What lies between a center and the servers; a way (there, back) that is ``cut`` opens at a time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.opens = [0, 0]

    def cut(self, way: int, length: int) -> None:
        """Let nothing pass for so long."""
        self.opens[way] = max(self.opens[way], self.world.now + length)

    def closed(self, way: int) -> int:
        """The time until something passes, 0 if it does."""
        return max(0, self.opens[way] - self.world.now)

    def mend(self) -> None:
        """Let everything pass."""
        self.opens = [0, 0]


class CenterLog:
    """A ``SharedLog`` as one center reaches it. What becomes of the requests of a call is known before (``fate``):

    ``""``: all is well; ``dead``: they do not arrive; ``late``: a change is carried out after it was given up;
    ``unanswered``: it is carried out, and the answer is lost.
    """

    name = NAME

    def __init__(self, servers: Servers, owner: str) -> None:
        self.servers = servers
        self.owner = owner
        self._uploads = 0
        self.fate = ""
        self.point: Callable[[str], None] = lambda _where: None

    def _ask(self) -> None:
        if self.fate:
            raise LogUnreachable(f"{NAME} does not answer")

    def head(self) -> Head:
        """See ``SharedLog``."""
        self._ask()
        servers = self.servers
        checkpoint = servers.checkpoint
        return Head("the log", servers.epoch, servers.last, checkpoint.number if checkpoint is not None else 0)

    def entries(self, after: int) -> Iterator[bytes]:
        """See ``SharedLog``."""
        self._ask()
        for number in range(after + 1, self.servers.last + 1):
            entry = self.servers.entries.get(number)
            if entry is None:
                raise Trimmed(f"{NAME} does not go back to entry {number}")
            yield entry

    def append(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None = None) -> None:
        """See ``SharedLog``."""
        servers = self.servers
        store, fate = servers.store, self.fate
        self.point("before an entry")
        if fate == "late":
            later = servers.world.aside.randint(1, 3 * SECOND)
            servers.world.after(later, None, self._append_late, number, entry, epoch, checkpoint)
        if fate in ("dead", "late"):
            self._ask()
        if store.full:
            raise StoreError("the disks of the servers are full")
        if not fate:
            fault, store.fault = store.fault, ""
            if fault == "refused":
                raise StoreError("the servers refuse it")
            # From here on nothing of this call is answered.
            self.fate = fault
        servers.append(number, entry, epoch, checkpoint)
        self._ask()
        self.point("after an entry")

    def _append_late(self, number: int, entry: bytes, epoch: int, checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None and checkpoint.place not in self.servers.uploads:
            return
        try:
            self.servers.append(number, entry, epoch, checkpoint)
        except StoreError:
            return
        self.servers.world.tell("servers", "store entry", number, "after it was given up")

    def put_checkpoint(self, number: int, pieces: Iterable[bytes]) -> Checkpoint:
        """See ``SharedLog``."""
        self._ask()
        self._uploads += 1
        made = Checkpoint(number, f"{self.owner} {self._uploads}", 1)
        self.servers.uploads[made.place] = list(pieces)
        return made

    def checkpoint(self) -> tuple[Checkpoint, Iterator[bytes]]:
        """See ``SharedLog``."""
        self._ask()
        found = self.servers.checkpoint
        assert found is not None
        return found, iter(self.servers.uploads[found.place])

    def wait(self, after: int, seconds: float) -> bool:
        """See ``SharedLog``."""
        raise NotImplementedError

    def lead(self, address: str) -> Lead:
        """See ``SharedLog``."""
        raise NotImplementedError

    def close(self) -> None:
        """See ``SharedLog``."""


class Replica:
    """As ``cress.store.replica.Replica``, in memory. It stays when its center ends."""

    def __init__(self) -> None:
        self.begin("")

    def begin(self, log: str) -> None:
        """See ``Replica``."""
        self.log = log
        self.last = self.chain = 0
        self.store = SimulatedStore()

    @property
    def epoch(self) -> int:
        """See ``Replica``."""
        return self.store.epoch

    @property
    def number(self) -> int:
        """See ``Replica``."""
        return self.store.number

    def note(self, key: str) -> bytes | None:
        """See ``Replica``."""
        return self.store.note(key)

    @contextmanager
    def applied(self, commit: StoredCommit, chain: int, state: memoryview | None = None) -> Iterator[None]:
        """See ``Replica``."""
        before = _copy(self.store)
        try:
            write(self.store, commit, state)
            yield
        except BaseException:
            self.store = before
            raise
        self.last, self.chain = self.last + 1, chain

    def checkpoint(
        self, state: memoryview, number: int, put: Callable[[int, Iterator[bytes]], Checkpoint]
    ) -> Checkpoint:
        """See ``Replica``."""
        store = self.store
        covered = store.number - len(store.records)
        first = CheckpointPiece(self.chain, store.epoch, store.cluster, number, len(state))
        rows = Batch(
            records=store.records[number - covered :],
            runs=list(store.runs.items()),
            jobs=list(store.finished_jobs.values()),
            attempts=list(store.finished.values()),
            meta=store.meta,
        )
        pieces = (first, CheckpointPiece(state=bytes(state)), CheckpointPiece(batch=rows))
        return put(self.last, map(msgspec.msgpack.encode, pieces))

    def restore(self, log: str, last: int, pieces: Iterable[bytes]) -> None:
        """See ``Replica``."""
        self.begin(log)
        pieces = list(pieces)
        first, *others = (msgspec.msgpack.decode(piece, type=CheckpointPiece) for piece in pieces)
        store = self.store
        store.epoch, store.cluster, store.number = first.epoch, first.cluster, first.number
        store.state = state_in(pieces) or None
        for piece in others:
            if piece.batch is not None:
                store.put(piece.batch)
        self.last, self.chain = last, first.chain

    def load(self) -> Saved:
        """See ``Replica``."""
        return self.store.load()

    def run(self, job: int) -> bytes | None:
        """See ``Replica``."""
        return self.store.run(job)

    def job(self, job: int) -> JobRecord | None:
        """See ``Replica``."""
        return self.store.job(job)


class SharedStore(ReplicatedStore):
    """The store of one center: the program's, with the replica in memory."""

    def __init__(self, log: CenterLog, replica: Replica) -> None:
        checked: SharedLog = log
        self.log = checked
        self.warnings = []
        self.leaving = None
        self._replica: Any = replica
        self._behind = True
        self._servers = log.servers
        self.loop_epoch: Callable[[], int] = lambda: 0

    @property
    def replaced(self) -> bool:
        """Whether another center has begun an epoch since this one did."""
        return 0 < self.loop_epoch() < self._servers.epoch

    def end(self) -> None:
        """The center is gone: what is carried out of its requests from here on does not reach the file of rows."""
        self._replica = copy.deepcopy(self._replica)

    @property
    def last(self) -> int:
        """The number of the last entry that is applied."""
        return int(self._replica.last)


def write(store: SimulatedStore, commit: StoredCommit, state: memoryview | None) -> None:
    """Write the rows of an entry."""
    if commit.batch is not None:
        store.check(commit.batch)
        store.put(commit.batch)
    if commit.covered is not None:
        assert state is not None
        store.cover(commit.covered, state)
    store.epoch = max(store.epoch, commit.epoch)
    store.cluster = commit.cluster or store.cluster


def _copy(store: SimulatedStore) -> SimulatedStore:
    other = SimulatedStore()
    for name, value in vars(store).items():
        setattr(other, name, value.copy() if isinstance(value, list | dict) else value)
    return other


def chained(entry: bytes, chain: int) -> bytes:
    """The entry as one that follows ``chain``."""
    return zlib.crc32(entry[4:], chain).to_bytes(4, "little") + entry[4:]
