"""Exchange of the history between centers that share a store but no database for it.

A center that did not run for a time, or was added later, lacks finished work that has left the store meanwhile. It is
in the history of another center, which ran. So each center compares its history with that of each other center when
that one appears, and copies what it lacks (design note 0058).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from urllib.parse import urlencode

import httpx
import msgspec

from cress.center.committing.committer import Committer
from cress.center.keeping.file_names import CA, TLS
from cress.center.leader.mover import weight_of
from cress.lifecycle.tables.rows import LiveJob
from cress.model.deadlines import met
from cress.model.records import AttemptRecord, JobRecord
from cress.protocol.calls.cluster_calls import HISTORY_ROWS
from cress.protocol.centers import HistoryBlock, HistoryRowsView
from cress.protocol.proof import HEADER, NONCE, ProofError
from cress.protocol.signatures import PATH, SessionKey, begin
from cress.shell.center.runs import decode_run
from cress.store.base import StoreError
from cress.store.usage import Weight

# Seconds between two looks for other centers, after which all are compared again, and for an answer.
LOOK, AGAIN, PATIENCE = 2.0, 3600.0, 30.0
# Most attempts of a page.
PAGE = 5_000

_log = logging.getLogger("cress.center")


class HistoryRows(msgspec.Struct, array_like=True):
    """Finished work of a block: jobs with their runs, attempts, and the resources of the attempts of each job."""

    jobs: list[tuple[JobRecord, bytes | None]]
    attempts: list[AttemptRecord]
    weights: dict[int, Weight]


async def rows_of(committer: Committer, number: int, *, since: int, after: int) -> HistoryRowsView:
    """Return a page of a block of this center's history."""
    jobs, attempts = await committer.history.block(number, since=since, after=after, limit=PAGE)
    rows = HistoryRows(jobs, attempts, await _weights(committer, jobs, attempts))
    data = await asyncio.to_thread(msgspec.msgpack.encode, rows)
    return HistoryRowsView(rows=data, next=attempts[-1].attempt if len(attempts) == PAGE else None)


async def _weights(
    committer: Committer, jobs: Iterable[tuple[JobRecord, object]], attempts: Iterable[AttemptRecord]
) -> dict[int, Weight]:
    over = {job.id: job for job, _ in jobs}
    weights: dict[int, Weight] = {}
    for attempt in attempts:
        if attempt.job not in weights:
            live = committer.machine.jobs.get(attempt.job)
            found: LiveJob | JobRecord | None = (
                live or over.get(attempt.job) or await committer.finished.job(attempt.job)
            )
            weights[attempt.job] = weight_of(attempt, found or await committer.history.job(attempt.job))
    return weights


async def blocks_of(committer: Committer, since: int) -> tuple[HistoryBlock, ...]:
    """Return how much finished work each block of this center's history has."""
    return tuple(HistoryBlock(*counts) for counts in await committer.history.blocks(since))


class HistoryExchange:
    """Copies what other centers have and this one lacks, while ``run`` runs."""

    def __init__(self, committer: Committer, token: str, others: Callable[[], Awaitable[list[str]]]) -> None:
        """``token`` is the secret of the cluster; ``others`` returns the addresses of the other centers."""
        self._committer = committer
        self._token = token
        self._others = others

    async def run(self) -> None:
        """Work until cancelled; there is nothing to do with a history that all centers share."""
        if self._committer.settings.history or not self._committer.settings.store:
            return
        compared: dict[str, float] = {}
        told = ""
        while True:
            now = asyncio.get_running_loop().time()
            try:
                there = await self._others()
                for address in there:
                    if now >= compared.get(address, 0.0):
                        await self.copy_from(address)
                        compared[address] = now + AGAIN
                # One that goes and comes again may have worked alone meanwhile, as this one may have.
                compared = {address: again for address, again in compared.items() if address in there}
                told = ""
            except (StoreError, ProofError, httpx.HTTPError, msgspec.MsgspecError, OSError) as error:
                sentence = str(error) or type(error).__name__
                if told != sentence:
                    _log.warning("the history of another center cannot be compared with this one's: %s", sentence)
                told = sentence
            except Exception:  # noqa: BLE001 – tried again as long as the center runs
                _log.exception("the history of another center cannot be compared with this one's")
            await asyncio.sleep(LOOK)

    async def copy_from(self, address: str) -> int:
        """Copy the finished work that the center at ``address`` has and this one lacks; return the number of jobs.

        Raises StoreError, ProofError, and errors of httpx and msgspec.
        """
        settings, utc = self._committer.settings, self._committer.clock.utc()
        since = max(0, utc - settings.keep_history)
        count = 0
        # In a thread: the first client imports modules, and reads the certificates of the machine.
        async with await asyncio.to_thread(self._client, address) as http:
            peer = _Peer(http, self._token)
            own = {block.number: block for block in await blocks_of(self._committer, since)}
            for block in (await peer.ask(since=since)).blocks:
                if own.get(block.number) != block:
                    count += await self._copy_block(peer, block.number, since)
        if count:
            _log.warning("copied %d finished jobs from the history of the center at %s", count, address)
        return count

    async def _copy_block(self, peer: _Peer, number: int, since: int) -> int:
        history = self._committer.history
        after: int | None = 0
        count = 0
        while after is not None:
            page = await peer.ask(since=since, block=number, after=after)
            rows = await asyncio.to_thread(msgspec.msgpack.decode, page.rows, type=HistoryRows)
            known = {job.id for job in await history.some([job.id for job, _ in rows.jobs])}
            count += sum(job.id not in known for job, _ in rows.jobs)
            await history.add(rows.jobs, rows.attempts, rows.weights, _met(rows.jobs))
            after = page.next
        return count

    def _client(self, address: str) -> httpx.AsyncClient:
        """Return a client that trusts the authority of the cluster, or else that of the machine."""
        place: Path = self._committer.settings.data / TLS / CA
        trust: ssl.SSLContext | bool = False
        if address.startswith("https:"):
            trust = ssl.create_default_context(cafile=str(place) if place.exists() else None)
        return httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False, verify=trust)


def _met(jobs: Iterable[tuple[JobRecord, bytes | None]]) -> dict[int, bool]:
    verdicts = ((job.id, met(job, decode_run(run))) for job, run in jobs if run is not None)
    return {number: verdict for number, verdict in verdicts if verdict is not None}


class _Peer:
    """Signed calls of another center."""

    def __init__(self, http: httpx.AsyncClient, token: str) -> None:
        self._http = http
        self._token = token
        self._session: SessionKey | None = None
        self._number = 0

    async def ask(self, **query: int) -> HistoryRowsView:
        """Return the answer to the call with these parameters."""
        if self._session is None:
            nonce = secrets.token_bytes(NONCE)
            answer = await self._http.get(f"{PATH}?nonce={nonce.hex()}")
            self._session = begin(self._token, nonce, answer.headers.get(HEADER))
        self._number += 1
        target = f"{HISTORY_ROWS.path}?{urlencode(query)}"
        signed = self._session.sign(self._number, "GET", target, "", b"")
        answer = await self._http.get(target, headers={"Authorization": signed})
        answer.raise_for_status()
        return msgspec.json.decode(answer.content, type=HistoryRowsView)
