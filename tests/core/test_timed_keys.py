"""Queue keys that change with time: the policy says when, and the core wakes for it."""

from __future__ import annotations

from cress.core.groups.policies.base import Policy
from cress.core.jobs import JobEntry
from cress.model.times import NEVER, SECOND
from tests.core.builders import World, group, job, nodes


class Urgent(Policy[JobEntry]):
    """First come, first served; but whoever has a priority goes first from that many seconds after its submission
    on.
    """

    timed = True

    def _turns(self, job: JobEntry) -> int:
        return job.submitted + job.job.priority * SECOND if job.job.priority else NEVER

    def key(self, job: JobEntry) -> tuple[int, int]:
        return (int(self.now < self._turns(job)), job.job.id)

    def key_until(self, job: JobEntry) -> int:
        turns = self._turns(job)
        return turns if self.now < turns else NEVER


def urgent_world() -> World:
    world = World(group("g", 4), nodes=nodes(1, cpu=4), check=False)
    state = world.group("g")
    state.configure(state.spec, state.options, Urgent())
    world.core.groups.refresh_quotas(0)
    return world.run(job("now").cpu(4).group("g"))


def test_a_key_that_changes_puts_its_job_first_at_that_time() -> None:
    world = urgent_world()
    world.submit(job("patient").cpu(4).group("g"), job("urgent").cpu(4).priority(30).group("g")).decide()
    assert [each.job.name for each in world.group("g").policy] == ["patient", "urgent"]
    assert world.core.next_wakeup() == 30 * SECOND
    world.wake()
    assert [each.job.name for each in world.group("g").policy] == ["urgent", "patient"]
    assert world.group("g").policy.next_change() == NEVER
    world.finish("now")
    assert world.jobs_running() == ["urgent"]
    assert world.core.validate() == []


def test_a_job_that_comes_later_has_the_key_of_its_time() -> None:
    world = urgent_world()
    world.submit(job("first").cpu(4).group("g"), job("soon").cpu(4).priority(10).group("g"))
    world.wait(5).submit(job("later").cpu(4).priority(10).group("g"))
    assert world.wake() == 10 * SECOND
    assert world.wake() == 15 * SECOND
    assert [each.job.name for each in world.group("g").policy] == ["soon", "later", "first"]
