"""Signed positions: what a store never came to is told from what it came to, and nobody else can sign."""

from __future__ import annotations

import pytest

from cress.shell.center.witness import KEY_LENGTH, MOST_BEGUN, Lineage, LogPosition

KEY = b"k" * KEY_LENGTH


def at(epoch: int, record: int, cluster: str = "c") -> LogPosition:
    return LogPosition(cluster, epoch, record, 7, 9)


# Epoch 1 had the records 1 to 10, epoch 2 those to 50, and epoch 3 goes on.
STORE = Lineage(KEY, "c", [(1, 0), (2, 10), (3, 50)])


@pytest.mark.parametrize(
    ("position", "lacks"),
    [
        (at(1, 10), False),
        (at(1, 11), True),
        (at(2, 50), False),
        (at(2, 51), True),  # although the new copy has come to 80 by itself
        (at(3, 80), False),
        (at(3, 81), True),
        (at(4, 1), True),
        (at(2, 99, "another"), False),
    ],
)
def test_a_position_is_lacking_if_its_epoch_ended_before(position: LogPosition, lacks: bool) -> None:
    assert STORE.lacks(STORE.sign(position), 80) == (position if lacks else None)


def test_only_a_center_can_sign() -> None:
    signed = STORE.sign(at(9, 9))
    for forged in (b"", b"x", signed[:-1], signed[1:], bytes([signed[0] ^ 1]) + signed[1:], signed[:-1] + b"\x0a"):
        assert STORE.lacks(forged, 80) is None
    assert Lineage(b"o" * KEY_LENGTH, "c", []).lacks(signed, 80) is None


def test_notes_keep_it_and_stay_small() -> None:
    lineage = Lineage(KEY, "c", [])
    for epoch in range(1, 5 * MOST_BEGUN):
        lineage = lineage.begin(epoch, 10 * epoch)
    notes = lineage.notes()
    again = Lineage.of(lambda key: notes[key], "c")
    assert again is not None
    assert (again.key, again.begun, len(again.begun)) == (KEY, lineage.begun, MOST_BEGUN)
    # Of an epoch that is no longer listed, only what is beyond the oldest listed one is lacking.
    assert again.lacks(lineage.sign(at(3, 31)), 10**6) is None
    assert Lineage.of(lambda _: None, "c") is None
