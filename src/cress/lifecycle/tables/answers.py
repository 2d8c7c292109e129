"""Answers to submits that carry a key."""

from __future__ import annotations

import msgspec


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What a submit with a key was answered, and when (the machine's clock)."""

    digest: str
    ids: tuple[int, ...]
    at: int
