"""Random stories with services that start as a whole: a set starts together or not at all, whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
from hypothesis import given

from cress.model.decisions import Decision, Start
from cress.model.events import JobSubmitted, TaskAdopted
from cress.model.job import JobType
from tests.core.settings import EVERYTHING, Operation, Setting, operations, random_job, settings_of_any_kind
from tests.core.stories import Player

WITH_SETS = {**EVERYTHING, "whole": 14}
LATER = "IssueAsWhole = 2 && f(x) = (Waittime > 20s)"


class WholePlayer(Player):
    """Submits members of services that start together as well; ``begun`` are those that start by
    themselves by now."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, watch=watch)
        self.check_vetoes = False
        self.begun: set[int] = set()

    def _op_whole(self, rng: Random) -> None:
        """The tasks of a service are made; some may start in part later."""
        first, count = self.next_job, rng.choice((2, 2, 3, 5))
        like = random_job(rng, first, self._group(rng), self.setting)
        requirement = like.requirement
        if rng.random() < 0.3:
            requirement = f"({requirement}) && {LATER}" if requirement else LATER
        members = [
            msgspec.structs.replace(
                like, id=first + i, name=f"job{first}", tasks=1, gang=False, parts=(), minimum=0, is_lease=False,
                min_time=0, family=10_000 + first, starts_with=first, type=JobType.SERVICE, max_running=0,
                requirement=requirement, labels=(),
            )
            for i in range(count)
        ]  # fmt: skip
        for member in members:
            self.next_job = member.id + 1
            self.account.submit(member)
        self.happen(*(JobSubmitted(member) for member in members))

    def may_start(self, first: int) -> set[int]:
        """The members of a set that wait, and that nothing but room keeps from starting."""
        return {
            number
            for number, job in self.core.jobs.items()
            if job.job.starts_with == first
            and number not in self.begun
            and not (job.held or job.behind is not None or job.cancelled)
        }


def watch(player: Player, items: list[Decision]) -> Callable[[], None]:
    """Compare the first starts of a set with its members; one that was adopted is none any more."""
    assert isinstance(player, WholePlayer)
    player.begun |= {event.job for event in player.calls[-1][1] if isinstance(event, TaskAdopted) and event.job}
    started: dict[int, set[int]] = {}
    for item in items:
        if (
            isinstance(item, Start)
            and item.job not in player.begun
            and (first := player.account.jobs[item.job].starts_with)
        ):
            started.setdefault(first, set()).add(item.job)
    for first, jobs in started.items():
        wanted = player.may_start(first)
        player.begun |= wanted
        in_part = any("IssueAsWhole" in player.account.jobs[number].requirement for number in jobs)
        assert jobs >= wanted or in_part, (jobs, wanted)
    return lambda: None


@given(setting=settings_of_any_kind(), story=operations(WITH_SETS))
def test_a_set_starts_together_or_not_at_all(setting: Setting, story: list[Operation]) -> None:
    player = WholePlayer(setting)
    player.play(story[: len(story) // 2])
    player.add_twin()
    player.play(story[len(story) // 2 :])
