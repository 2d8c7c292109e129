"""The expected starts of waiting jobs as they were last foretold, and what earlier ones were wrong by."""

from __future__ import annotations

from collections.abc import Container

import msgspec

from cress.core.answers.forward import Forecast
from cress.core.answers.start_errors import Interval, StartErrors
from cress.model.explanation import ExpectedStart


class ExpectedStarts:
    """The expected starts, by job. Only a leading center has some."""

    def __init__(self) -> None:
        self.errors = StartErrors()
        self._known: dict[int, ExpectedStart] = {}
        # Jobs up to this one had their chance in the last run forward, which was cut off; 0: it was not.
        self.beyond_reach = 0
        # Seconds that the last run forward took.
        self.seconds = 0.0

    def foretold(
        self, utc: int, by_means: dict[int, Forecast], by_limits: dict[int, Forecast], fresh: set[int]
    ) -> None:
        """Replace the expected starts by those of two runs forward from the moment ``utc`` (µs): waits in µs.

        Errors are learned from the jobs among ``fresh``: they have not started before.
        """
        self._known = {}
        self.add(utc, by_means, by_limits, fresh)

    def add(
        self, utc: int, by_means: dict[int, Forecast], by_limits: dict[int, Forecast], fresh: Container[int] = ()
    ) -> None:
        """Add the expected starts that are not known yet; otherwise as ``foretold``."""
        for number, found in by_means.items():
            if found.start is None or number in self._known:
                continue
            waits = found.start, by_limits[number].start if number in by_limits else None
            # Learned errors must not give a start before a pause or a reservation ends.
            told = Interval(*(max(wait, found.least) for wait in self.errors.interval(*waits)))
            if number in fresh:
                self.errors.told(number, utc, *waits, told)
            self._known[number] = ExpectedStart(
                earliest=utc + told.earliest,
                likely=utc + told.likely,
                latest=utc + told.latest,
                because=found.because,
                behind=found.behind,
                ahead=found.ahead,
            )

    def took(self, seconds: float, most: float, last: int) -> None:
        """Note how long a run forward took, of ``most`` seconds that it had; ``last`` is the newest job in it."""
        self.seconds, self.beyond_reach = seconds, last if seconds >= most else 0

    def of(self, number: int, utc: int, least: int = 0) -> ExpectedStart | None:
        """Return the expected start of a job at the moment ``utc`` (µs); ``None`` if it is not known.

        A moment that has passed without a start becomes the present one, or ``least`` (µs since the epoch) if the job
        has failed since the forecast and pauses until then.
        """
        start = self._known.get(number)
        if start is None:
            return None
        early, likely, late = (
            None if at is None else max(at, utc, least) for at in (start.earliest, start.likely, start.latest)
        )
        return msgspec.structs.replace(start, earliest=early, likely=likely, latest=late)
