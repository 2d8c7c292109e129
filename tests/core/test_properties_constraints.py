"""Random stories with constrained jobs: what starts satisfies its hard clauses, and no decision depends on a cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from cress.language.clauses import Clause
from cress.language.columns import attributes_of
from cress.language.parser import parse_requirement
from cress.model.decisions import Claim, Decision, Start
from cress.model.events import Event, JobSubmitted, TaskAdopted
from cress.model.job import Job
from cress.model.node import Load, Node
from cress.model.times import DAY
from tests.core.plain import Account
from tests.core.settings import CONSTRAINED, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player
from tests.examples import examples, fixed
from tests.language import plain


def world_of(account: Account, node: Node) -> plain.World:
    """The node as the plain evaluator sees it, by the account alone."""
    names, load = account.dimensions.names, account.loads.get(node.name)
    return plain.World(
        attributes_of(node),
        dict(zip(names, account.free(node.name), strict=True)),
        dict(zip(names, node.capacity, strict=True)),
        {} if load is None else _measured(load),
    )


def _measured(load: Load) -> dict[str, float]:
    shares = {"cpuload": load.cpu, "memoryload": load.memory, "networkload": load.network, "diskload": load.disk}
    return {key: share / 1000 for key, share in shares.items()} | {"freememory": float(load.free_memory)}


def load_of(account: Account, balanced: tuple[str, ...]) -> float:
    """Mean over the balanced dimensions of used / total."""
    there = [node for name, node in account.nodes.items() if name not in account.lost]
    mean, have = 0.0, 0
    for k in [account.dimensions.index[name] for name in balanced]:
        total = sum(node.capacity[k] for node in there)
        if total:
            mean += (total - sum(account.free(node.name)[k] for node in there)) / total
            have += 1
    return mean / have if have else 0.0


def hard_now(job: Job, waited: int, load: float) -> list[Clause]:
    """The clauses of a job that must hold."""
    clauses = parse_requirement(job.requirement, stored=True).clauses
    return [each for each in clauses if each.relaxation is None or not each.relaxation.holds(waited, load)]


def checked(seen: Counter[str]) -> Callable[[Player, list[Decision]], Callable[[], None]]:
    """Looks at the starts of one pass before they enter the account: the nodes are as the pass found them."""
    # Of claimed tasks the clauses that were hard when their place was chosen: what was soft then may be hard at the
    # start.
    claimed: dict[tuple[int, int], list[Clause]] = {}

    def watch(player: Player, items: list[Decision]) -> Callable[[], None]:
        account, core = player.account, player.core
        load = load_of(account, core.cluster.balanced)
        for each in items:
            if not isinstance(each, Claim | Start):
                continue
            job = account.jobs[each.job]
            hard = hard_now(job, player.now - core.jobs[job.id].since, load)
            if isinstance(each, Claim):
                claimed.update(((each.job, task), hard) for task in each.tasks)
                continue
            if each.claimed:
                hard = [clause for clause in claimed.pop((job.id, each.task), hard) if clause in hard]
            world = world_of(account, account.nodes[each.node])
            for clause in hard:
                assert plain.truth(clause.expression, world) is True, f"{each}: {clause}"
                seen["hard"] += 1
            seen["soft"] += len(parse_requirement(job.requirement, stored=True).clauses) - len(hard)
        return lambda: None

    return watch


def test_what_starts_satisfies_its_hard_clauses_of_that_moment() -> None:
    seen: Counter[str] = Counter()

    @fixed(5)
    @given(settings_of_any_kind(constrained=True, selective=False), operations(CONSTRAINED, 30, 80))
    def check(setting: Setting, story: list[Operation]) -> None:
        Player(setting, budget=1, watch=checked(seen)).play(story)

    check()
    assert seen["hard"] > 20
    assert seen["soft"] > 5


@examples(4)
@given(settings_of_any_kind(constrained=True), operations(CONSTRAINED), st.booleans())
def test_restored_at_any_moment_it_goes_on_alike(setting: Setting, story: list[Operation], often: bool) -> None:
    """A copy has worked out every row from nothing; that it decides alike means that no row was left behind."""
    player = Player(setting, check=False)
    for number, operation in enumerate(story):
        if often or number == len(story) // 2:
            player.add_twin()
        player.play([operation])


@examples(4)
@given(settings_of_any_kind(constrained=True, selective=False, drain_after=DAY), operations(CONSTRAINED))
def test_clauses_that_always_hold_change_nothing(setting: Setting, story: list[Operation]) -> None:
    """Jobs whose requirement every node satisfies are placed as jobs without one."""
    player = Player(setting, check=False).play(story)
    bare, sure = (
        [
            # What was adopted is an attempt of the decisions that were made with the requirements.
            (now, [_with(event, requirement) for event in events if not isinstance(event, TaskAdopted)])
            for now, events in player.calls
        ]
        for requirement in ("", "CPU >= 0 && IdleCPU >= 0")
    )  # fmt: skip
    cores = setting.make(), setting.make()
    for (now, plain_events), (_, sure_events) in zip(bare, sure, strict=True):
        answers = []
        for core, events in zip(cores, (plain_events, sure_events), strict=True):
            core.observe(now, events)
            answers.append(core.decide(now))
        assert answers[0] == answers[1]
        assert cores[0].next_wakeup() == cores[1].next_wakeup()


def _with(event: Event, requirement: str) -> Event:
    if isinstance(event, JobSubmitted):
        return JobSubmitted(msgspec.structs.replace(event.job, requirement=requirement, rank=""), event.behind)
    return event
