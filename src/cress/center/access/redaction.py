"""Redaction: messages about waiting, ends and nodes do not name jobs that their reader may not see."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar

ANOTHER, OTHERS = "another job", "other jobs"

# Returns whether the reader of the present request sees a job; None if all jobs are seen.
_sees: ContextVar[Callable[[int], bool] | None] = ContextVar("sees", default=None)

# A job number with its additions in messages: a name in parentheses, the group. Jobs that a user named in ``after``
# stay visible.
_MENTION = re.compile(r"(?<!dependency failed: )(?<!waiting for )\bjob (\d+)(?: \([^()]*\))?(?: of group [^\s,;:)]+)?")
_MENTIONS = re.compile(r"\bjobs (\d+(?: and \d+)+)")
# Suggestions of similar job names for one that does not exist.
_GUESS = re.compile(r"(\bthere is no job [^,;]*), did you mean [^?]*\?")


def read_by(sees: Callable[[int], bool] | None) -> None:
    """Redact the messages of this request for a reader; None hides nothing."""
    _sees.set(sees)


def redacted(text: str) -> str:
    """Return a message of the scheduler without the jobs that its reader does not see."""
    sees = _sees.get()
    if sees is None or "job" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        return match[0] if sees(int(match[1])) else ANOTHER

    def several(match: re.Match[str]) -> str:
        return match[0] if all(sees(int(word)) for word in match[1].split(" and ")) else OTHERS

    text = _MENTIONS.sub(several, _MENTION.sub(one, text))
    # No job has the number 0, so only readers who see all jobs see it.
    return text if sees(0) else _GUESS.sub(r"\1", text)
