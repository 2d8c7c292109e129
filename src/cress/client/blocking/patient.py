# Written by tools/blocking_client.py: edit aio/patient.py.
"""Calls to a center that may be away for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from cress.client.blocking.http import Http
from cress.client.blocking.runtime import in_thread, sleep
from cress.client.calls import PreparedCall, T
from cress.client.errors import ClientError
from cress.client.retries import CenterOutage, RetryBudget
from cress.protocol.logs import Piece


class PatientHttp:
    """Makes calls over ``http``, and repeats them while a center that has answered before is unreachable."""

    def __init__(self, http: Http, budget: RetryBudget) -> None:
        self.http = http
        self.budget = budget

    def at_most(self, seconds: float) -> PatientHttp:
        """Return a copy with a budget of at most ``seconds``."""
        return PatientHttp(self.http, self.budget.at_most(seconds))

    def ask(self, call: PreparedCall[T]) -> T:
        """Return the answer to a call. Raises ClientError."""
        outage = CenterOutage(self.budget, again=call.row.again)
        while True:
            try:
                answer = self.http.ask(call)
            except ClientError as error:
                pause = outage.pause(error)
                if pause is None:
                    raise
            else:
                self.budget.met = True
                return answer
            self._look(pause)

    def read(self, call: PreparedCall[bytes], *, follow: bool) -> Generator[Piece, None, None]:
        """Yield a log piece by piece; only its beginning is requested again."""
        first, pieces = self._begin(call, follow=follow)
        with closing(pieces):
            if first is not None:
                yield first
                yield from pieces

    def _begin(self, call: PreparedCall[bytes], *, follow: bool) -> tuple[Piece | None, Generator[Piece, None, None]]:
        """Return the first piece of a log, if there is one, and the rest."""
        outage = CenterOutage(self.budget, again=call.row.again)
        while True:
            pieces = self.http.read(call, follow=follow)
            try:
                first = next(pieces, None)
            except ClientError as error:
                pause = outage.pause(error)
                if pause is None:
                    raise
            else:
                self.budget.met = True
                return first, pieces
            self._look(pause)

    def _look(self, pause: float) -> None:
        """Wait for ``pause`` seconds, then look up the present address of the center."""
        sleep(pause)
        in_thread(self.http.look)
