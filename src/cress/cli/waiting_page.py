"""The page about the reasons of waiting jobs."""

from __future__ import annotations

# It has a row for each reason: what it means, until when, what to do.
REASONS = "docs/waiting.md"


def what_to_do(kind: str) -> str:
    """Return the place of the row about a kind of reason."""
    return f"{REASONS}#{kind or 'reasons'}"
