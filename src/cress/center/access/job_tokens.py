"""Tokens of jobs: the credential of one attempt for its own job.

They are derived from a key of the center and stored nowhere.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from cress.lifecycle.tables.rows import LiveAttempt, LiveJob
from cress.model.start_material import CENTER_OF_STAGE, CenterAccess, StartMaterial
from cress.store.base import StoreError

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer
    from cress.center.connections.start_materials import Starting

PREFIX = "cress_job_"
# The file with the certificate of the center's authority among an attempt's secrets, where the client looks for it.
CA_FILE = "cress-ca.pem"
# Seconds between two queries for the standbys.
LOOK = 5.0
_TEXT = re.compile(r"cress_job_([1-9][0-9]{0,18})_[A-Za-z0-9_-]{43}")


class JobTokens:
    """Makes and checks the tokens of jobs.

    ``secret`` is the secret of the data directory, and ``url`` the address of the center for tasks. ``others`` returns
    the addresses of the standbys, since one of them may become the leader before the task ends. ``ca`` is the
    certificate of the authority by which a task verifies the center; it is empty if the system trusts the authority or
    the connection needs none.
    """

    def __init__(
        self,
        committer: Committer,
        secret: str,
        url: str,
        ca: bytes = b"",
        others: Callable[[], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        self._committer = committer
        self._key = hmac.digest(secret.encode(), b"cress tokens of jobs", hashlib.sha256)
        self._url, self._others = url, others
        self._known: Sequence[str] = ()
        self._look_at = 0.0
        self._files = {CA_FILE: ca} if ca else {}

    async def provide(self, starting: Starting) -> StartMaterial:
        """Return the token of an attempt that is about to start, if its job requests one, or fetches uploads."""
        run = starting.run
        if not (run.job_token or run.has_uploads):
            return StartMaterial()
        token, urls = self.text(starting.attempt, starting.job), ",".join(await self._urls())
        environment: dict[str, bytes] = {}
        if run.has_uploads:
            ca = self._files.get(CA_FILE, b"").decode()
            environment[CENTER_OF_STAGE] = msgspec.json.encode(CenterAccess(urls=urls, token=token, ca=ca))
        if not run.job_token:
            return StartMaterial(environment=environment)
        environment |= {"CRESS_URL": urls.encode(), "CRESS_TOKEN": token.encode()}
        return StartMaterial(environment=environment, files=self._files)

    async def _urls(self) -> list[str]:
        """Return the addresses of the centers for tasks, this one first."""
        now = time.monotonic()
        if self._others is not None and now >= self._look_at:
            self._look_at = now + LOOK
            with contextlib.suppress(StoreError):
                self._known = await self._others()
        return [self._url, *self._known]

    def text(self, attempt: LiveAttempt, job: LiveJob) -> str:
        """Return the token of an attempt."""
        told = "\n".join((str(attempt.id), str(attempt.job), str(attempt.task), attempt.node, job.job.user))
        made = hmac.digest(self._key, told.encode(), hashlib.sha256)
        return f"{PREFIX}{attempt.id}_{base64.urlsafe_b64encode(made).decode().rstrip('=')}"

    def attempt_of(self, text: str) -> LiveAttempt | None:
        """Return the attempt with this token; None if the token is not valid."""
        found = _TEXT.fullmatch(text)
        attempt = None if found is None else self._committer.machine.attempts.get(int(found[1]))
        job = None if attempt is None else self._committer.machine.jobs.get(attempt.job)
        if attempt is None or job is None or not hmac.compare_digest(self.text(attempt, job), text):
            return None
        return attempt
