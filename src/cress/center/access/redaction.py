"""Redaction: sentences about waiting, ends and nodes do not name jobs that their reader does not see."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar

ANOTHER, OTHERS = "another job", "other jobs"

# Return whether the reader of the present request sees a job; None: all of them are seen.
_sees: ContextVar[Callable[[int], bool] | None] = ContextVar("sees", default=None)

# A number with what sentences add to it: a name in parentheses, the group. Jobs that a user named in ``after`` are not
# hidden.
_MENTION = re.compile(r"(?<!dependency failed: )(?<!waiting for )\bjob (\d+)(?: \([^()]*\))?(?: of group [^\s,;:)]+)?")
_MENTIONS = re.compile(r"\bjobs (\d+(?: and \d+)+)")
# Names of jobs that are like one that does not exist.
_GUESS = re.compile(r"(\bthere is no job [^,;]*), did you mean [^?]*\?")


def read_by(sees: Callable[[int], bool] | None) -> None:
    """Redact the sentences of this request for a reader; None: nothing is hidden."""
    _sees.set(sees)


def redacted(text: str) -> str:
    """Return a sentence of the scheduler without the jobs that its reader does not see."""
    sees = _sees.get()
    if sees is None or "job" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        return match[0] if sees(int(match[1])) else ANOTHER

    def several(match: re.Match[str]) -> str:
        return match[0] if all(sees(int(word)) for word in match[1].split(" and ")) else OTHERS

    text = _MENTIONS.sub(several, _MENTION.sub(one, text))
    # No job has the number 0: only readers who see all jobs see it.
    return text if sees(0) else _GUESS.sub(r"\1", text)
