"""Seeds, as they are given on the command line."""

from __future__ import annotations

from cress.model.errors import InputError


def seeds_of(text: str) -> tuple[int, ...]:
    """Return the seeds of ``42..51`` or ``1,2,7``."""
    first, dots, last = text.partition("..")
    words = [first, last] if dots else text.split(",")
    if not all(word.strip().isascii() and word.strip().isdigit() and len(word.strip()) < 10 for word in words):
        raise InputError(f"{text!r} names no seeds", hint="42..51 or 1,2,3", field="--seeds")
    numbers = [int(word) for word in words]
    if dots:
        numbers = list(range(numbers[0], numbers[1] + 1))
    if not numbers or len(numbers) > 1000:
        raise InputError(f"{text!r} are {len(numbers)} seeds", hint="1 to 1,000, such as 42..51", field="--seeds")
    return tuple(dict.fromkeys(numbers))
