"""Rules are broken on purpose, one at a time: the histories notice each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.history import play
from tests.faults.rules import Rules

# So many histories at most; those of the test suite are more.
SEEDS = 400

BROKEN = {
    "answers and orders before the commit": Rules(acknowledges_first=True),
    "a supervisor begins without its journal": Rules(forgets_journal=True),
    "what is ordered again is another attempt": Rules(renames_resent=True),
    "a center that was replaced goes on, and is obeyed": Rules(no_fencing=True),
    "a supervisor does not care for terms": Rules(no_deadline=True),
    "a supervisor starts programs before their intents are durable": Rules(late_intents=True),
    "a supervisor does not tell a new agent what it knows": Rules(silent_inventory=True),
    # Little is reported in so short a time: the agents take longer, so that not only one history of 400 notices.
    "an agent drops what is reported before the center has answered": Rules(drops_early=True, slow_looks=True),
}
# The histories that noticed something when this was written: they are played first.
KNOWN_SEEDS = {
    "what is ordered again is another attempt": 6,
    "a center that was replaced goes on, and is obeyed": 13,
    "a supervisor does not care for terms": 66,
    "a supervisor starts programs before their intents are durable": 11,
    "an agent drops what is reported before the center has answered": 5,
    "a database task is begun anew before it is known to be gone": 6,
    "everybody has the same GPU": 1,
    "everybody has the same disk": 41,
    "there are as many licences as anybody wants": 6,
    "data lies where it was": 6,
    "a moment makes two runs": 2,
}
# What is noticed is what really happens on the computers, not what the machine believes.
FAMILIES = {
    "a database task is begun anew before it is known to be gone": (Rules(hasty_lives=True), "has two lives"),
    "a step begins however those before it ended": (Rules(any_condition=True), "begins after job"),
    "everybody has the same GPU": (Rules(same_device=True), "is given more than once"),
    "everybody has the same disk": (Rules(same_device=True), "is one attempt's own"),
    "there are as many licences as anybody wants": (Rules(too_many_licences=True), "licences"),
    "busy nodes get tasks": (Rules(busy_nodes=True), "which is overloaded"),
    "data lies where it was": (Rules(stale_places=True), "wants hdfs://"),
    "a moment makes two runs": (Rules(moments_twice=True), "made 2 runs"),
}
# With two or three centers, each within this many histories.
SHARED_SEEDS = 100
SHARED = {
    "the servers of a shared store take entries of any epoch": (Rules(no_store_fence=True), "is stored after epoch"),
    "a center that stands by decides": (Rules(standby_decides=True), "has another state than"),
    "a term is confirmed after the session has ended": (Rules(late_terms=True), "confirms a term after its session"),
}


def seeds(name: str) -> Iterator[int]:
    """The known one, then all."""
    if name in KNOWN_SEEDS:
        yield KNOWN_SEEDS[name]
    yield from range(SEEDS)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_noticed(name: str) -> None:
    assert any(play(seed, BROKEN[name]).violation for seed in seeds(name))


def test_slow_looks_alone_are_not_noticed() -> None:
    known = KNOWN_SEEDS["an agent drops what is reported before the center has answered"]
    assert not play(known, Rules(slow_looks=True)).violation


@pytest.mark.parametrize("name", FAMILIES)
def test_a_broken_rule_is_noticed_by_what_happens(name: str) -> None:
    rules, said = FAMILIES[name]
    assert any(said in play(seed, rules).violation for seed in seeds(name))


@pytest.mark.parametrize("name", SHARED)
def test_a_broken_rule_of_centers_that_share_a_store_is_noticed(name: str) -> None:
    rules, said = SHARED[name]
    assert any(said in play(seed, rules, centers=2 + seed % 2).violation for seed in range(SHARED_SEEDS))


def test_a_violation_is_told_with_what_led_to_it() -> None:
    outcome = next(outcome for seed in range(SEEDS) if (outcome := play(seed, Rules(forgets_journal=True))).violation)
    story = outcome.story(30).splitlines()
    assert story[-2] == f"seed {outcome.seed}: {outcome.violation}"
    assert story[-1] == f"the whole story: python -m tests.faults {outcome.seed}"
    assert len(story) <= 32
