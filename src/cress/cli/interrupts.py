"""Ctrl-C during a call that changes the cluster: it waits for the answer, which says what has changed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cress.cli.errors import Interrupted

# Most seconds from Ctrl-C to the answer of the center.
ANSWER_WITHIN = 3.0


class DelayedInterrupt:
    """Ctrl-C during a call; ``came`` is true from then on."""

    def __init__(self) -> None:
        self.came = False

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal: the first Ctrl-C limits the time for the answer, the second one ends the call."""
        if self.came:
            signal.default_int_handler(number, frame)
        self.came = True
        signal.setitimer(signal.ITIMER_REAL, ANSWER_WITHIN)

    def deliver(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C came during the call."""
        if self.came:
            raise KeyboardInterrupt


@contextmanager
def delayed_interrupt(unknown: str) -> Iterator[DelayedInterrupt]:
    """Make Ctrl-C wait for the end of the body, a call that changes the cluster.

    Without an answer, ``unknown`` is the end of the message: a sentence about what the call may have changed. The
    caller delivers a Ctrl-C that came during the body, or keeps it. A handler that the body itself installs stays.
    """
    interrupt = DelayedInterrupt()
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.default_int_handler:
        # Ctrl-C is ignored, or somebody else handles it.
        yield interrupt
        return
    previous_alarm = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.signal(signal.SIGINT, interrupt.note)
    try:
        yield interrupt
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted before the center had answered; {unknown}") from None
    finally:
        if interrupt.came:
            signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_alarm)
        if signal.getsignal(signal.SIGINT) == interrupt.note:
            signal.signal(signal.SIGINT, previous)
