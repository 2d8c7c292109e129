"""Election of the leader: what a center finds out about the time in which another one may have led."""

from __future__ import annotations

import asyncio

from cress.center.committing.leader_election import Lapses, LeaderElection
from tests.center.leads import Lead
from tests.center.program import PATIENCE


def watched(lead: Lead, *, is_replaced: bool = False) -> tuple[int, str]:
    """How many lapses a center sees until it stops watching, and why it does; one that goes on: within a few claims."""
    lapses: list[None] = []

    async def run() -> str:
        election = LeaderElection(lead, "http://a")
        election.start()
        await election.wait_for_leader(1)
        while not election.is_mine:
            await election.news(1)
        try:
            async with asyncio.timeout(PATIENCE if is_replaced else 0.2):
                return await election.watch(lambda: lapses.append(None), lambda: is_replaced)
        except TimeoutError:
            return ""
        finally:
            await election.end()

    why = asyncio.run(run())
    return len(lapses), why


def test_a_lead_that_is_kept_in_time_does_not_lapse() -> None:
    assert watched(Lead()) == (0, "")


def test_a_center_that_was_replaced_while_it_slept_stands_by_though_the_lead_is_its_own_again() -> None:
    """Found by a history of two centers: it kept the lead for ever, took no input and gave no order."""
    assert watched(Lead(), is_replaced=True)[1] == "another center led meanwhile"


def test_a_lapse_is_noticed_after_the_lead_was_claimed_again() -> None:
    """The timers of a computer that sleeps stand still: the claim may come before the look."""
    lapses = Lapses()
    assert not lapses.noticed(valid=True)
    lapses.claimed(now=10, until=20)
    assert not lapses.noticed(valid=True)
    lapses.claimed(now=30, until=20)
    assert lapses.noticed(valid=True)
    assert not lapses.noticed(valid=True)


def test_a_lapse_is_told_once() -> None:
    lapses = Lapses()
    assert lapses.noticed(valid=False)
    assert not lapses.noticed(valid=False)
    lapses.claimed(now=30, until=20)
    assert not lapses.noticed(valid=True)
    assert lapses.noticed(valid=False)
