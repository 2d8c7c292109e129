"""Memory: when it is worth the trouble to give some back."""

from __future__ import annotations

from types import SimpleNamespace

from cress.center.committing.memory import WORTH, Memory, give_back


def test_memory_is_given_back_when_half_of_a_peak_is_over() -> None:
    machine = SimpleNamespace(jobs={}, attempts={})
    memory = Memory(SimpleNamespace(machine=machine, large_bytes=0))  # type: ignore[arg-type]

    def due(alive: int) -> bool:
        machine.jobs = range(alive)
        return memory.is_due()

    assert [due(each) for each in (0, 4 * WORTH, 3 * WORTH, 2 * WORTH)] == [False, False, False, True]
    # The next peak is counted from there.
    assert [due(each) for each in (2 * WORTH, WORTH + 1, WORTH)] == [False, False, True]
    # A few jobs are not worth it.
    assert [due(each) for each in (WORTH - 1, 0)] == [False, True]
    give_back()
