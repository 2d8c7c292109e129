"""Random stories of a cluster for the property tests: a setting (``settings``), and operations that are played against
the core.

An operation is a kind and a number from which its details follow, so any part of a list of operations is a story
again: hypothesis shrinks a failing one to the few that matter. The player knows nothing of the core but its events and
decisions; beside it, it keeps a plain account of what runs where and what waits, which is compared after every call.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from cress.core.advance.choice import find
from cress.core.invariants import INVARIANTS
from cress.core.placing.vetoes import Verdict
from cress.core.scheduler import Scheduler
from cress.core.tables.devices import device_use
from cress.model.advance import AdvanceReservation
from cress.model.decisions import Decision, Preempt, Start, Stop
from cress.model.devices import devices_of
from cress.model.errors import InputError
from cress.model.events import (
    AdvanceReservationRemoved,
    AdvanceReserved,
    ClockSet,
    Event,
    ForeignUse,
    GroupsApplied,
    JobAfter,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobSubmitted,
    LeaseUsed,
    LoadSeen,
    NodeAdded,
    NodeChanged,
    NodeCordoned,
    NodeLost,
    Outcome,
    PortsSeen,
    RacksSet,
    RunEstimated,
    TaskAdopted,
    TaskEnded,
)
from cress.model.job import Job, JobType
from cress.model.node import Allocated, Load
from cress.model.resources import Dimensions, ResourceVector
from cress.model.times import DAY, HOUR, MINUTE, SECOND
from tests.core.plain import Account
from tests.core.selective import choosing
from tests.core.settings import (
    EVERYTHING,
    GROUPS,
    RACKS,
    SIZES,
    Operation,
    Setting,
    described,
    in_a_tree,
    random_estimate,
    random_group,
    random_job,
    seeded_operations,
    seeded_setting,
)
from tests.later_checks import is_checked

Call = tuple[int, list[Event]]
# Looks at an answer of the core before it enters the account; what it returns is called after that.
Watch = Callable[["Player", list[Decision]], Callable[[], None]]


def digest(seeds: Iterable[int], count: int) -> str:
    """A fingerprint of every decision of seeded stories."""
    told = hashlib.sha256()
    for seed in seeds:
        player = Player(seeded_setting(seed), check=False).play(seeded_operations(seed, count, EVERYTHING))
        told.update(repr(player.decisions).encode())
    return told.hexdigest()


def replay(core: Scheduler, calls: list[Call], budget: int = 2**31) -> list[list[Decision]]:
    """The same calls to another scheduler; its decisions call by call."""
    answers = []
    for now, events in calls:
        core.observe(now, events)
        items: list[Decision] = []
        more = True
        while more:
            answer = core.decide(now, budget)
            items += answer.items
            more = answer.more
        answers.append(items)
    return answers


def sent_away(core: Scheduler) -> Scheduler:
    """The scheduler after its state was written as bytes and read again."""
    return Scheduler.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(core.export())))


class Player:
    """Plays operations against a core: ``calls`` are the calls, ``answers`` the decisions call by call.

    ``twins`` are other schedulers that must answer every call alike.
    """

    def __init__(
        self,
        setting: Setting,
        core: Scheduler | None = None,
        *,
        budget: int = 2**31,
        check: bool = True,
        watch: Watch | None = None,
    ) -> None:
        self.setting = setting
        self.core = core or setting.make()
        self.budget = budget
        self.check = check
        self.check_vetoes = True
        self.watch = watch
        self.twins: list[Scheduler] = []
        self.now = 0
        self.account = Account(setting.options.get("accounting", "cpu"), Dimensions(setting.custom))
        for node in setting.nodes:
            self.account.add_node(node)
        self.groups = setting.groups
        self.strangers: dict[str, tuple[int, ...]] = {}
        self.neighbours: tuple[tuple[str, str], ...] = ()
        self.due: dict[int, tuple[int, Outcome]] = {}
        self.told: set[int] = set()
        self.next_job = 1
        self.next_node = len(setting.nodes)
        self.calls: list[Call] = []
        self.answers: list[list[Decision]] = []
        # How often its state could be checked, and whether it was the last time.
        self._states = 0
        self._is_checked = True

    @property
    def decisions(self) -> list[Decision]:
        """All decisions so far."""
        return [decision for answer in self.answers for decision in answer]

    # --- calls -----------------------------------------------------------------------------------------------

    def happen(self, *events: Event) -> None:
        """Events reach the core, which decides then."""
        self.calls.append((self.now, list(events)))
        for core in (self.core, *self.twins):
            core.observe(self.now, events)
        self.account.follow_leases(self.core)
        self._validate()
        self.answers.append([])
        more, rounds = True, 0
        while more:
            rounds += 1
            assert rounds < 2_000, f"it does not come to rest: {self.answers[-1][-4:]}"
            self.account.note_idle(self.core)
            answer = self.core.decide(self.now, self.budget)
            more = answer.more
            for twin in self.twins:
                other = twin.decide(self.now, self.budget)
                assert other == answer
                assert twin.next_wakeup() == self.core.next_wakeup()
            self.answers[-1] += answer.items
            for decision in answer.items:
                # When these end was known to what was decided with them.
                if isinstance(decision, Stop):
                    self.account.stop(decision)
            then = self.watch(self, answer.items) if self.watch else None
            self.account.follow_leases(self.core)
            for decision in answer.items:
                self._carry_out(decision)
            if then:
                then()
            self.account.check_gangs(answer.items)
            self._validate(pending=not more)
        wakeup = self.core.next_wakeup()
        assert wakeup is None or wakeup > self.now, f"wakes at {wakeup}, which is not after {self.now}"

    def decide(self) -> None:
        """Let the core decide although nothing happened."""
        self.happen()

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Start):
            self.account.start(decision, self.now)
            self._runs(decision.attempt, self.account.jobs[decision.job])
        elif isinstance(decision, Preempt):
            self.account.preempt(decision, self.core, self.now)
            self._stop_soon(decision.attempt, decision.grace, Outcome.PREEMPTED)
        elif isinstance(decision, Stop) and decision.job not in self.account.cancelled:
            # The rest of a gang that lost a task.
            self._stop_soon(decision.attempt, SECOND, Outcome.FAILED)

    def _runs(self, attempt: int, job: Job) -> None:
        """An attempt runs from now on, for as long as follows from its number."""
        rng = Random(attempt)
        limit = job.time_limit if job.time_limit is not None else rng.choice((10, 100, 1000)) * SECOND
        share = rng.choice((0.3, 0.8, 1.0, 1.0, 1.5 if self.setting.overrun else 1.0))
        self.due[attempt] = (self.now + max(1, int(limit * share)), Outcome.SUCCEEDED)

    def _stop_soon(self, attempt: int, grace: int, outcome: Outcome) -> None:
        end = self.now + Random(attempt).choice((0, grace // 2, grace))
        if end < self.due[attempt][0]:
            self.due[attempt] = (end, outcome)
        self.told.add(attempt)

    def _validate(self, pending: bool = False) -> None:
        self._states += 1
        self._is_checked = not self.check or is_checked(self._states)
        if self.check and self._is_checked:
            self.check_whole(pending=pending)

    def check_whole(self, *, pending: bool) -> None:
        """Check all invariants, and that the account is the same; ``pending``: after the last pass, also vetoes."""
        # Vetoes are asked for below, once a call.
        broken = [what for check in INVARIANTS.values() for what in check(self.core.books)]
        assert not broken, broken
        self.account.compare(self.core)
        if pending:
            self._sides_by_load()
        if pending and self.check_vetoes:
            self._vetoes()

    def _sides_by_load(self) -> None:
        """After the last pass, clauses that the load relaxes are on its side, those of units of several jobs, too."""
        load = self.core.books.balance.utilisation()
        for job in self.core.jobs.values():
            if job.queued and any(each.by_load for each in job.asked()):
                own = job.constraints
                assert own is None or job.foreseen.soft == own.soft_now(self.core.now - job.since, load), job.job.id
                assert job.shape is self.core.books.shapes.shape_of(job, job.shape.size), job.job.id

    def _vetoes(self) -> None:
        """What the core says of a waiting job is true by the account."""
        for job in self.core.waiting():
            veto = self.core.veto(job.job.id)
            assert veto is not None
            fits = self.account.nodes_with_room(job.job.request)
            assert veto.kind not in (Verdict.UNVISITED, Verdict.PLACED), veto
            if veto.kind is Verdict.NO_ROOM and not self.setting.fragments:
                by_device = any(self.core.cluster.devices)
                excluded = sum(count for _, count in veto.clauses)
                assert len(fits) <= excluded or job.companions or by_device, veto
            if veto.kind is Verdict.RESERVED:
                assert fits, veto
                assert veto.behind in self.core.jobs, veto
                assert veto.behind != job.job.id, veto

    # --- time ------------------------------------------------------------------------------------------------

    def wait_until(self, time: int) -> None:
        """Time passes; tasks end when they are due, and the core is woken when it wants to be."""
        while True:
            ends = min(((end, attempt) for attempt, (end, _) in self.due.items()), default=None)
            wakeup = self.core.next_wakeup()
            if ends is not None and ends[0] <= time and (wakeup is None or ends[0] <= wakeup):
                self.now = max(self.now, ends[0])
                self.end(ends[1])
            elif wakeup is not None and wakeup <= time:
                self.now = max(self.now, wakeup)
                self.decide()
            else:
                break
        self.now = max(self.now, time)

    def end(self, attempt: int, outcome: Outcome | None = None, again: bool = False, after: int = 0) -> None:
        """An attempt is over; with ``again`` its task is tried again ``after`` µs."""
        happened = outcome or self.due[attempt][1]
        victim = attempt in self.told and happened is not Outcome.SUCCEEDED
        again_really = again or victim or happened in (Outcome.PREEMPTED, Outcome.LOST)
        told = attempt in self.told or happened in (Outcome.PREEMPTED, Outcome.LOST)
        self._forget(attempt)
        self.account.end(attempt, again_really, 0 if told else self.now + after)
        self.happen(TaskEnded(attempt, happened, again, after))

    def _forget(self, attempt: int) -> None:
        del self.due[attempt]
        self.told.discard(attempt)

    # --- operations ------------------------------------------------------------------------------------------

    def add_twin(self) -> None:
        """A copy of the scheduler as it is now, sent away as text, goes on beside it; so does the twin before."""
        twin = sent_away(self.core)
        assert twin.validate() == []
        assert twin.export() == self.core.export()
        self.twins = [*self.twins[-1:], twin]

    def play(self, operations: list[Operation]) -> Player:
        """One operation after the other."""
        for kind, number in operations:
            getattr(self, f"_op_{kind}")(Random(number))
        if not self._is_checked:
            self._is_checked = True
            self.check_whole(pending=True)
        return self

    def submit(self, *jobs: Job) -> None:
        """These jobs are submitted at once."""
        for job in jobs:
            self.next_job = max(self.next_job, job.id + 1)
            self.account.submit(job)
        self.happen(*(JobSubmitted(job, None, random_estimate(Random(job.id)) if job.id % 3 else None) for job in jobs))

    def _op_estimate(self, rng: Random) -> None:
        """The history tells more of a job that is alive, or was."""
        if self.next_job > 1:
            self.happen(RunEstimated((rng.randrange(1, self.next_job),), random_estimate(rng)))

    def _op_rest(self, rng: Random) -> None:
        """Nothing happens."""

    def _group(self, rng: Random) -> str:
        names = [group.name for group in self.groups if group.name in GROUPS]
        # A setting with one group is about what happens inside it.
        return names[0] if len(names) == 1 else rng.choice([*names * 4, "", "default"])

    def _op_use(self, rng: Random) -> None:
        """The holder of a lease uses more or less of it, perhaps nothing."""
        leases = [lease for _, lease in sorted(self.core.pool.leases.items()) if lease.holder is not None]
        if leases:
            lease = rng.choice(leases)
            assert lease.holder is not None
            share = rng.choice((0, 0, 0.5, 1))
            self.happen(LeaseUsed(lease.id, tuple(int(share * each) for each in lease.holder.job.job.request)))

    def _op_submit(self, rng: Random) -> None:
        self.submit(random_job(rng, self.next_job, self._group(rng), self.setting))

    def _op_burst(self, rng: Random) -> None:
        group = self._group(rng)
        self.submit(*(random_job(rng, self.next_job + i, group, self.setting) for i in range(4)))

    def _op_end(self, rng: Random) -> None:
        if self.due:
            self.end(rng.choice(sorted(self.due)))

    def _op_fail(self, rng: Random) -> None:
        untold = sorted(self.due.keys() - self.told)
        if untold:
            self.end(rng.choice(untold), Outcome.FAILED, rng.random() < 0.7, rng.choice((0, 1, 2, 20)) * SECOND)

    def _op_cancel(self, rng: Random) -> None:
        alive = sorted(self.account.alive())
        if not alive:
            return
        job = rng.choice(alive)
        for attempt in self.account.running_of(job):
            self._stop_soon(attempt, 5 * SECOND, Outcome.CANCELLED)
        self.account.cancel(job)
        self.happen(JobCancelled(job))

    def _op_update(self, rng: Random) -> None:
        """A job gets other values of some keys: of its place only while nothing of it runs."""
        account = self.account
        alive = [job for job in sorted(account.alive()) if account.jobs[job].type is JobType.BATCH]
        if not alive:
            return
        number = rng.choice(alive)
        # It may have moved since its submission.
        old = msgspec.structs.replace(account.jobs[number], group=account.group_of[number])
        running = account.running_of(number)
        values: dict[str, Any] = {"priority": rng.randint(-3, 3), "time_limit": rng.choice((None, 20, 400))}
        if values["time_limit"] is not None:
            values["time_limit"] *= SECOND
        if not old.gang:
            values["max_running"] = rng.choice((0, 1, 3))
        if not running and not old.parts:
            other = random_job(rng, number, self._group(rng), self.setting)
            values |= {"requirement": other.requirement, "rank": other.rank}
            if (other.group or "default") in self.core.groups.by_name:
                values["group"] = other.group
            if not old.workload and not old.is_lease and not other.parts and other.type is JobType.BATCH:
                values["request"] = other.request
            values = {key: value for key, value in values.items() if key != "requirement" or not old.gang}
        keys = rng.sample(sorted(values), rng.choice((1, 1, 2)))
        new = msgspec.structs.replace(old, **{key: values[key] for key in keys})
        account.jobs[number], account.group_of[number] = new, new.group or "default"
        for attempt in running:
            entry = account.running[attempt]
            entry.job = new
            end, outcome = self.due[attempt]
            if new.time_limit != old.time_limit and not entry.told and new.time_limit is not None:
                self.due[attempt] = (max(self.now + 1, min(end, entry.since + new.time_limit)), outcome)
        self.happen(JobChanged(new))

    def _op_hold(self, rng: Random) -> None:
        alive = sorted(self.account.alive())
        if alive:
            job = rng.choice(alive)
            self.account.on_hold.add(job)
            self.happen(JobHeld(job))

    def _op_release(self, rng: Random) -> None:
        if self.account.on_hold:
            job = rng.choice(sorted(self.account.on_hold))
            self.account.on_hold.discard(job)
            self.happen(JobHeld(job, False))

    def _op_come_after(self, rng: Random) -> None:
        alive = sorted(self.account.alive())
        if len(alive) > 1:
            job, behind = rng.sample(alive, 2)
            self.account.behind[job] = behind
            self.happen(JobAfter(job, behind))

    def _op_free(self, rng: Random) -> None:
        if self.account.behind:
            job = rng.choice(sorted(self.account.behind))
            del self.account.behind[job]
            self.happen(JobAfter(job))

    def _op_wait(self, rng: Random) -> None:
        self.wait_until(self.now + rng.choice((1, SECOND, 3 * SECOND, 15 * SECOND, 40 * SECOND)))
        if rng.random() < 0.5:
            self.decide()

    def _op_wake(self, rng: Random) -> None:
        wakeup = self.core.next_wakeup()
        if wakeup is not None and wakeup < self.now + HOUR:
            self.wait_until(wakeup)

    def _op_lose(self, rng: Random) -> None:
        names = [name for name in self.account.nodes if name not in self.account.lost]
        if names:
            name = rng.choice(names)
            for attempt in self.account.running_on(name):
                self._forget(attempt)
            self.account.lose(name)
            self.strangers.pop(name, None)
            self.happen(NodeLost(name))

    def _op_back(self, rng: Random) -> None:
        if self.account.lost:
            name = rng.choice(sorted(self.account.lost))
            node = self.account.nodes[name]
            if rng.random() < 0.3:
                node = msgspec.structs.replace(self.setting.random_node(rng, 0), name=name)
            self.account.add_node(node)
            self.happen(NodeAdded(node))

    def _op_add(self, rng: Random) -> None:
        if self.next_node < 8:
            node = self.setting.random_node(rng, self.next_node)
            self.next_node += 1
            self.account.add_node(node)
            self.happen(NodeAdded(node))

    def _op_strangers(self, rng: Random) -> None:
        names = [name for name in self.account.nodes if name not in self.account.lost]
        if names:
            name = rng.choice(names)
            self.strangers[name] = tuple(rng.sample((80, 81, 100, 101, 102, 103), rng.randint(0, 4)))
            self.happen(PortsSeen(name, self.strangers[name]))

    def _op_neighbours(self, rng: Random) -> None:
        pairs = [(a, b) for a in RACKS for b in RACKS if a < b]
        self.neighbours = tuple(rng.sample(pairs, rng.randint(0, 3)))
        self.happen(RacksSet(self.neighbours))

    def _op_change(self, rng: Random) -> None:
        names = [name for name in self.account.nodes if name not in self.account.lost]
        if names:
            node = described(self.account.nodes[rng.choice(names)], rng)
            node = choosing(node, rng) if self.setting.selective else node
            self.account.nodes[node.name] = node
            self.account.measure(node.name, self.account.loads.get(node.name), self.core)
            self.happen(NodeChanged(node))

    def _op_resize(self, rng: Random) -> None:
        """A node has another capacity and other devices, whatever runs there."""
        names = [name for name in self.account.nodes if name not in self.account.lost]
        if names:
            old = self.account.nodes[rng.choice(names)]
            new = self.setting.random_node(rng, 0)
            node = msgspec.structs.replace(new, name=old.name, rack=old.rack, ports=old.ports)
            self.account.nodes[node.name] = node
            self.account.measure(node.name, self.account.loads.get(node.name), self.core)
            self.happen(NodeChanged(node))

    def _op_foreign_use(self, rng: Random) -> None:
        """Somebody else uses amounts of a node, which may be more than it has left; or uses none any more."""
        if self.account.nodes:
            name = rng.choice(list(self.account.nodes))
            amounts = {"cpu": 500 * rng.choice((0, 0, 1, 2, 4, 9)), "memory": rng.choice((0, 0, 1, 4))}
            use = Dimensions(self.setting.custom).vector(**amounts)
            self.account.foreign.pop(name, None)
            if any(use) and name not in self.account.lost:
                self.account.foreign[name] = use
            self.happen(ForeignUse(name, use))

    def _op_adopt(self, rng: Random) -> None:
        """A task is found running: of a job that is known, or of nobody here, or one of those ends."""
        account = self.account
        names = [name for name in account.nodes if name not in account.lost]
        if account.strangers and rng.random() < 0.3:
            attempt = rng.choice(sorted(account.strangers))
            del account.strangers[attempt]
            self.happen(TaskEnded(attempt))
        elif names:
            fact = self._found(rng, rng.choice(names))
            account.adopt(fact, self.now)
            if fact.job is not None:
                self._runs(fact.attempt, account.jobs[fact.job])
            self.happen(fact)

    def _found(self, rng: Random, node: str) -> TaskAdopted:
        """A task that runs on a node, with devices that no other task has; its port is perhaps on its way to another
        one.
        """
        account = self.account
        jobs = [job for job, tasks in account.waiting.items() if tasks]
        job = account.jobs[rng.choice(jobs)] if jobs and rng.random() < 0.7 else None
        cores, memory = rng.choice(SIZES)
        amounts = Dimensions(self.setting.custom).vector(cpu=int(1000 * cores), memory=memory)
        if job is not None and rng.random() < 0.8:
            amounts = job.request
        return TaskAdopted(
            self.core.books.next_attempt + rng.randrange(3),
            node,
            amounts,
            None if job is None else job.id,
            0 if job is None else rng.choice(sorted(account.waiting[job.id])),
            "" if job else "backup",
            self.now - rng.randrange(10) * SECOND,
            None if rng.random() < 0.7 else self.now + rng.randrange(60) * SECOND,
            devices=self._devices_for(rng, node, amounts),
            ports=tuple(rng.sample((80, 100, 101, 102), rng.choice((0, 0, 0, 1)))) if self.setting.placed else (),
        )

    def _devices_for(self, rng: Random, node: str, amounts: ResourceVector) -> tuple[Allocated, ...]:
        """Devices that nobody has for these amounts, as far as there are some."""
        dimensions, core = Dimensions(self.setting.custom), self.core
        unused = {
            (device.kind, device.id)
            for device, _, users in device_use(core.cluster, core.cluster.index[node])
            if not users
        }
        has = devices_of(self.account.nodes[node], dimensions)
        found: list[Allocated] = []
        for kind in sorted({device.kind for device in has}):
            free = [device for device in has if device.kind == kind and (kind, device.id) in unused]
            if kind == "disk":
                if free and (amounts[dimensions.index["disk_read"]] or rng.random() < 0.1):
                    found.append(Allocated(kind, free[0].id, rng.choice((0, 1000))))
                continue
            amount = amounts[dimensions.index[kind]]
            number = -(-amount // 1000)
            if amount and number <= len(free):
                found += (Allocated(kind, device.id, amount // number) for device in free[:number])
        return tuple(found)

    def _op_load(self, rng: Random) -> None:
        names = [name for name in self.account.nodes if name not in self.account.lost]
        if names:
            name = rng.choice(names)
            load = None
            if rng.random() < 0.9:
                cpu = rng.choice((0, 300, 750, 800, 850, 900, 950, 1000))
                disk, free = rng.randrange(1001), rng.choice((0, 1, 3, 4, 5, 6, 16))
                load = Load(cpu=cpu, disk=disk, free_memory=free)
            self.account.measure(name, load, self.core)
            self.happen(LoadSeen(name, load))

    def _op_cordon(self, rng: Random) -> None:
        if self.account.nodes:
            name = rng.choice(list(self.account.nodes))
            self.account.cordoned.add(name)
            self.happen(NodeCordoned(name, True, "repair"))

    def _op_uncordon(self, rng: Random) -> None:
        if self.account.cordoned:
            name = rng.choice(sorted(self.account.cordoned))
            self.account.cordoned.discard(name)
            self.happen(NodeCordoned(name, False))

    def _op_groups(self, rng: Random) -> None:
        kept = [name for name in GROUPS if rng.random() < 0.7] or [GROUPS[0]]
        old = {group.name: group for group in self.groups if group.name in GROUPS}
        fresh = tuple(
            old[name] if name in old and rng.random() < 0.5 else random_group(rng, name, self.setting) for name in kept
        )
        for name, each in list(self.core.advance_reservations.by_name.items()):
            if each.spec.group not in ("", "default", *kept):
                self.happen(AdvanceReservationRemoved(name))
        target = rng.choice([*kept, "default"])
        moves = tuple((name, target) for name in old if name not in kept)
        if self.setting.trees:
            fresh = in_a_tree(fresh, rng, limited=self.setting.limited)
        self.groups = fresh
        self.account.move(dict(moves))
        self.happen(GroupsApplied(fresh, moves))

    def _op_reserve(self, rng: Random) -> None:
        """Somebody reserves nodes or amounts for a group, or for maintenance; if that cannot be, nothing happens."""
        if self.core.groups.wall_offset is None:
            self.happen(ClockSet(10 * DAY + self.now))
        wall = self.now + (self.core.groups.wall_offset or 0)
        start = wall + rng.choice((-5, 0, 10, 30, 60, 300)) * SECOND
        end = start + rng.choice((10, 30, 120)) * SECOND
        names = [name for f, name in enumerate(self.core.cluster.names)]
        chosen = rng.random() < 0.5
        size = len(self.core.dimensions)
        amounts: ResourceVector = ()
        if rng.random() < 0.5:
            amounts = (1000 * rng.choice((1, 2, 4)), rng.choice((0, 2, 4)), *(0 for _ in range(size - 2)))
        some = rng.sample(names, rng.randint(1, len(names)))
        spec = AdvanceReservation(
            name=f"r{rng.randrange(4)}",
            start=start,
            end=end,
            group=rng.choice(("", *(group.name for group in self.groups))),
            days=rng.choice(((), (), tuple(range(7)))),
            places=() if chosen else tuple((name, rng.choice((1, 1, 2)) if amounts else 1) for name in some),
            amounts=amounts,
            count=rng.randint(1, 3) if chosen else 0,
            at_end=rng.choice(("keep", "stop")),
        )
        try:
            found = find(self.core.books, spec)
        except InputError:
            return
        self.happen(AdvanceReserved(found.reservation))

    def _op_unreserve(self, rng: Random) -> None:
        known = sorted(self.core.advance_reservations.by_name)
        if known:
            self.happen(AdvanceReservationRemoved(rng.choice(known)))

    def _op_clock(self, rng: Random) -> None:
        self.happen(ClockSet(10 * DAY + rng.choice((59, 60, 119, 120)) * MINUTE + rng.choice((0, 30 * SECOND))))
