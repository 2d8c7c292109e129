"""The rules that the tests break on purpose, to show that a broken one is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import msgspec

from cress.core.tables import devices, measured_load
from cress.core.tables.cluster import Cluster
from cress.core.tables.data_locations import Locations, Places
from cress.core.tables.licences import Licences
from cress.lifecycle.effects import Launch
from cress.lifecycle.families import crons, databases
from cress.lifecycle.machine import Machine
from cress.lifecycle.submits import dependencies
from cress.lifecycle.tables.family_rows import CronState, Family, ReplicaState
from cress.model.node import Allocated
from cress.shell.executor.agent import Agent, Phase
from cress.shell.executor.agent_effects import Effect
from cress.shell.executor.records import Known, Record
from cress.shell.executor.supervisor import SupervisorLoop
from cress.shell.executor.task_manager import ProcessDriver, TaskManager

# Far above the numbers of attempts of any history.
RENAMED = 1_000_000
# Far above the numbers of tasks of any family.
PLACES = 1_000


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which rules are broken: none, unless said otherwise."""

    acknowledges_first: bool = False  # effects and answers before the commit
    forgets_journal: bool = False  # a supervisor begins without what the one before it wrote
    renames_resent: bool = False  # a launch that is sent again is another attempt
    no_fencing: bool = False  # a center that was replaced goes on, and store and executors obey it
    hasty_lives: bool = False  # a database task whose node is away is begun elsewhere before it is known to be gone
    any_condition: bool = False  # what comes after a job starts however that ended
    moments_twice: bool = False  # a cron job makes two runs for a moment
    same_device: bool = False  # everybody has the first device of a kind
    too_many_licences: bool = False  # whoever wants a licence has one
    busy_nodes: bool = False  # measured load does not matter
    stale_places: bool = False  # where data was said to lie first, it lies for ever
    no_deadline: bool = False  # a supervisor does not care for terms
    late_intents: bool = False  # a supervisor starts programs before their intents are durable
    silent_inventory: bool = False  # a supervisor does not tell a new agent what it knows
    drops_early: bool = False  # an agent drops what the supervisor reports before the center has answered
    slow_looks: bool = False  # breaks no rule: an agent looks at its node for a while before it says hello

    no_store_fence: bool = False  # the servers of a shared store take entries of any epoch
    standby_decides: bool = False  # a center that stands by makes steps
    late_terms: bool = False  # a center confirms terms after its session has ended

    @contextmanager
    def broken(self) -> Iterator[None]:
        """The lifecycle breaks the rules that it is to break."""
        with ExitStack() as patches:
            if self.hasty_lives:
                patches.enter_context(patch.object(databases, "tend", _hasty(databases.tend)))
                # The machine would notice by itself; here its computers are to tell.
                patches.enter_context(patch.object(Machine, "validate", lambda _self: []))
            if self.any_condition:
                patches.enter_context(patch.object(dependencies, "holds", lambda _condition, _state: True))
            if self.moments_twice:
                patches.enter_context(patch.object(crons, "_run", _twice(crons._run)))
            if self.same_device:
                patches.enter_context(patch.object(devices, "allocated", _same(devices.allocated)))
                patches.enter_context(patch.object(Machine, "validate", lambda _self: []))
            if self.too_many_licences:
                patches.enter_context(patch.object(Licences, "free", lambda _self, _name: PLACES))
                patches.enter_context(patch.object(Machine, "validate", lambda _self: []))
            if self.busy_nodes:
                patches.enter_context(patch.object(measured_load, "judged", lambda *_: measured_load.NOT))
            if self.stale_places:
                patches.enter_context(patch.object(Locations, "told", _first(Locations.told)))
            if self.late_intents:
                patches.enter_context(patch.object(SupervisorLoop, "write", _late))
            if self.silent_inventory:
                patches.enter_context(patch.object(TaskManager, "inventory", lambda _self: ()))
            if self.drops_early:
                patches.enter_context(patch.object(Agent, "from_supervisor", _dropping(Agent.from_supervisor)))
            yield

    def renamed(self, launch: Launch, sent: set[int], cores: dict[int, int]) -> Launch:
        """The launch as it is sent, when these were ``sent`` before."""
        if not self.renames_resent:
            return launch
        if launch.attempt not in sent:
            sent.add(launch.attempt)
            return launch
        again = launch.attempt + RENAMED * len(sent)
        sent.add(again)
        cores[again] = cores[launch.attempt]
        return msgspec.structs.replace(launch, attempt=again)

    def stood_by(self, machine: Machine, now: int, utc: int) -> None:
        """A center that stands by has taken in what the leader has stored."""
        if self.standby_decides:
            machine.step(now, utc, ())

    def manager(self, known: Known, driver: ProcessDriver, key: str) -> TaskManager:
        """The task manager of a supervisor."""
        if self.no_fencing:
            return _Obedient(known, driver, key)
        return _Careless(known, driver, key) if self.no_deadline else TaskManager(known, driver, key)


def _hasty(tend: Callable[[Machine, Family], None]) -> Callable[[Machine, Family], None]:
    def broken(machine: Machine, family: Family) -> None:
        for index, number in list(family.members.items()):
            member = machine.jobs.get(number)
            away = member and any(not machine.nodes[each.node].connected for each in member.attempts.values())
            if member and away and isinstance(family.state, ReplicaState):
                # It stays a member, in a place that no task has.
                member.index += PLACES
                family.members[member.index] = family.members.pop(index)
                family.state.nodes.pop(index, None)
        tend(machine, family)

    return broken


def _same(allocated: Callable[[Cluster, int, int], tuple[Allocated, ...]]) -> Callable[..., tuple[Allocated, ...]]:
    def broken(cluster: Cluster, slot: int, f: int) -> tuple[Allocated, ...]:
        first = {each.kind: each.id for each in reversed(cluster.devices[f])}
        return tuple(Allocated(each.kind, first[each.kind], each.amount) for each in allocated(cluster, slot, f))

    return broken


def _first(told: Callable[[Locations, str, Places | None, str], None]) -> Callable[..., None]:
    def broken(locations: Locations, data: str, places: Places | None, problem: str) -> None:
        if data not in locations.places:
            told(locations, data, places, problem)

    return broken


def _twice(run: Callable[[Machine, Family, CronState, int], None]) -> Callable[[Machine, Family, CronState, int], None]:
    def broken(machine: Machine, family: Family, clock: CronState, moment: int) -> None:
        run(machine, family, clock, moment)
        run(machine, family, clock, moment)

    return broken


def _late(supervisor: SupervisorLoop, records: list[Record]) -> None:
    for record in records:
        supervisor.note(record)


def _dropping(hand_on: Callable[[Agent, bytes], list[Effect]]) -> Callable[[Agent, bytes], list[Effect]]:
    def broken(agent: Agent, message: bytes) -> list[Effect]:
        return hand_on(agent, message) if agent.phase is Phase.REGISTERED else []

    return broken


class _Obedient(TaskManager):
    """Takes orders from anybody."""

    def _accepts(self, epoch: int) -> bool:
        return True


class _Careless(TaskManager):
    """Stops nobody at the end of a term."""

    def _watch_term(self) -> None:
        pass
