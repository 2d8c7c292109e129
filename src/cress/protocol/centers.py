"""Centers that share a store: headers of their answers, and the views of them."""

from __future__ import annotations

from cress.protocol.views import View

# Headers of a standby's answers: their greatest age in seconds, and the address of the leader.
AGE, LEADER = "Cress-Age", "Cress-Leader"
# The query parameter: ``ok`` lets a standby answer, ``no`` does not.
STALE = "stale"


class CenterView(View, frozen=True):
    """A center: its ``address``, whether it leads, and whether it gave this answer."""

    address: str
    leads: bool = False
    here: bool = False


class CentersPage(View, frozen=True):
    """The centers that share a store; ``age`` is the greatest age of the answering center's state in seconds."""

    centers: tuple[CenterView, ...]
    age: float = 0.0


class HandedOver(View, frozen=True):
    """The address of the new leader."""

    leader: str


class HistoryBlock(View, frozen=True):
    """The finished work of the jobs with ids from ``number`` thousand on: how many jobs and attempts, and checksums of
    their ids.
    """

    number: int
    jobs: int = 0
    job_ids: int = 0
    attempts: int = 0
    attempt_ids: int = 0


class HistoryRowsView(View, frozen=True):
    """The history of one center: its ``blocks``; or ``rows`` of one block, and ``next`` if there are more."""

    blocks: tuple[HistoryBlock, ...] = ()
    rows: bytes = b""
    next: int | None = None
