"""Answers to submits with a key."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a submit with a key, and its time (the machine's clock)."""

    digest: str
    ids: tuple[int, ...]
    at: int
