"""The expected starts of waiting jobs as they were last foretold, and what earlier ones were wrong by."""

from __future__ import annotations

import msgspec

from cress.core.answers.start_errors import StartErrors
from cress.lifecycle.foretelling import ForetoldStart, interval_of
from cress.model.explanation import ExpectedStart


class ExpectedStarts:
    """The expected starts, by job. Only a leading center has some."""

    def __init__(self) -> None:
        self.errors = StartErrors()
        self._known: dict[int, ForetoldStart] = {}

    def foretold(self, known: dict[int, ForetoldStart], utc: int, fresh: set[int]) -> None:
        """Replace the expected starts by those of the moment ``utc`` (µs).

        Errors are learned from the jobs among ``fresh``: they have not started before.
        """
        self._known = known
        for number in known.keys() & fresh:
            self.errors.told(number, utc, known[number].wait, interval_of(known[number], utc))

    def of(self, number: int, utc: int) -> ExpectedStart | None:
        """Return the expected start of a job at the moment ``utc`` (µs); ``None`` if it is not known.

        A moment that has passed without a start becomes the present one.
        """
        known = self._known.get(number)
        if known is None:
            return None
        start = known.start
        early, likely, late = (
            None if at is None else max(at, utc) for at in (start.earliest, start.likely, start.latest)
        )
        return msgspec.structs.replace(start, earliest=early, likely=likely, latest=late)
