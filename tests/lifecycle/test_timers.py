"""Timers against the plainest thing that does the same: a mapping that is looked at as a whole."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from cress.lifecycle.tables.deadlines import Deadlines
from cress.lifecycle.tables.terms import Terms
from cress.lifecycle.tables.timers import Timers

_WORDS = st.lists(
    st.tuples(st.sampled_from(["set", "drop", "take", "restore"]), st.integers(0, 4), st.integers(0, 50)), max_size=400
)


@given(_WORDS)
def test_the_earliest_comes_first_whatever_was_set_anew_or_dropped(words: list[tuple[str, int, int]]) -> None:
    timers, plain, now = Timers(), dict[tuple[str, str], int](), 0
    for word, name, time in words:
        key = ("rest", f"n{name}")
        if word == "set":
            timers.set(*key, now + time)
            plain[key] = now + time
        elif word == "drop":
            timers.drop(*key)
            plain.pop(key, None)
        elif word == "take":
            now += time
            due = [each for at, each in sorted((at, each) for each, at in plain.items()) if at <= now]
            assert timers.take(now) == due
            for each in due:
                del plain[each]
        else:
            timers = Timers(dict(timers.times))
        assert timers.next() == min(plain.values(), default=None)
        assert timers.times == plain


def test_times_that_were_set_anew_are_not_kept() -> None:
    deadlines = Deadlines[str]()
    for time in range(10_000):
        deadlines.set("n1", time)
    assert len(deadlines._order) < 200


def test_terms_run_out_as_if_all_were_looked_at() -> None:
    random = Random(3)
    terms, plain, now = Terms(), dict[str, int](), 0
    for _ in range(3_000):
        now += random.randrange(5)
        name = f"n{random.randrange(6)}"
        if random.random() < 0.6:
            terms.left(name, now, now + random.randrange(40), 3)
            plain[name] = max(terms.granted[name] + 3, plain.get(name, 0))
        else:
            terms.joined(name)
            plain.pop(name, None)
        due = [each for at, each in sorted((at, each) for each, at in plain.items()) if at <= now]
        assert terms.run_out(now) == due
        for each in due:
            del plain[each]
        assert terms.next() == min(plain.values(), default=None)
