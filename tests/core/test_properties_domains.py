"""Random clusters with jobs that spread, keep away and stay near: a plain oracle recounts every start."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.language.clauses import Clause
from cress.language.columns import attributes_of
from cress.language.parser import parse_requirement
from cress.model.decisions import Decision, Start
from cress.model.events import Outcome
from cress.model.job import Job
from tests.core.builders import JobBuilder, NodeBuilder, World, group, job, node
from tests.core.domain_oracle import problems
from tests.core.promises import promised_state
from tests.core.selective import ACCEPTS
from tests.core.settings import CONSTRAINED, Operation, Setting, operations, settings_of_any_kind
from tests.core.stories import Player, sent_away
from tests.core.test_facts import Followed
from tests.examples import examples, fixed
from tests.language import plain

CLAUSES = (
    "spread(Zone)",
    "spread(Zone)",
    "spread(Zone, 2)",
    'spread(Zone, "a=50%, b=30%")',
    'spread(Zone, 2, "a=60%")',
    "spread(Switch)",
    'away_from("self", Switch)',
    'away_from("tier=db", Zone)',
    'away_from("j1*", Switch)',
    'away_from("tier=web")',
    'near("tier=db", Zone)',
    'near("self", Zone)',
    'near("j2", Switch)',
    "within(Zone)",
    "within(Switch)",
)
RELAXATIONS = ("", "", "", "", " && f(x) = (Waittime > 20s)", " && f(x) = True")


def random_node(rng: Random, name: str) -> NodeBuilder:
    made = node(name).cpu(rng.choice((1, 2, 4, 8))).where(switch=rng.choice(("s1", "s2", "s3", "s4")))
    made = made.where(ssd=rng.random() < 0.7).rack(rng.choice(("", "r1", "r2")))
    return made.where(zone=rng.choice(("a", "b", "B", "c"))) if rng.random() < 0.9 else made


def random_job(rng: Random, name: str) -> JobBuilder:
    made = (
        job(name).cpu(rng.choice((1, 1, 2))).tasks(rng.choice((1, 2, 3, 5, 8))).group(rng.choice(("lab", "lab", "web")))
    )
    clauses = [each + rng.choice(RELAXATIONS) for each in rng.sample(CLAUSES, rng.choice((0, 1, 1, 2)))]
    if rng.random() < 0.3:
        clauses.append("SSD = True")
    made = (
        made.requires(" && ".join(clauses))
        .limit(rng.choice(("1min", "1h")))
        .labelled(tier=rng.choice(("db", "web", "x")))
    )
    made = made.spread(per_rack=4) if rng.random() < 0.1 else made
    return made.gang() if rng.random() < 0.4 else made


def hard_now(it: Job, waited: int) -> list[Clause]:
    clauses = parse_requirement(it.requirement, stored=True).clauses
    return [each for each in clauses if each.relaxation is None or not each.relaxation.holds(waited, 0.0)]


class Recount:
    """Holds the starts of each pass against the oracle."""

    def __init__(self, core: World) -> None:
        self.core = core
        self.seen: Counter[str] = Counter()

    def decide(self) -> None:
        """Run passes one by one, each of which starts one unit."""
        core = self.core
        while True:
            since = {number: each.since for number, each in core.core.jobs.items()}
            specs = {number: each.job for number, each in core.core.jobs.items()}
            groups = {number: each.group.name for number, each in core.core.jobs.items()}
            before = set(core.running)
            core.decide(1)
            new = [core.running[number] for number in core.running.keys() - before]
            if new:
                self.check(new, since, specs, groups)
            if not core.more:
                return

    def check(self, new: list[Start], since: dict[int, int], specs: dict[int, Job], groups: dict[int, str]) -> None:
        core = self.core
        cluster = core.core.cluster
        nodes = {spec.name: spec for spec in cluster.specs}
        closed = [name for f, name in enumerate(cluster.names) if cluster.lost[f] or cluster.cordoned[f] is not None]
        running = [(specs[start.job], start.node) for start in core.running.values()]
        by_job: dict[int, list[str]] = defaultdict(list)
        for start in new:
            by_job[start.job].append(start.node)
        for number, names in by_job.items():
            it = specs[number]
            hard = hard_now(it, core.now - since[number])
            allowed = [
                name
                for name, spec in nodes.items()
                if all(
                    plain.truth(each.expression, plain.World(attributes_of(spec), {}, {})) is True
                    for each in hard
                    if each.kind.value == "condition"
                )
            ]
            found = problems(it, hard, names, running, nodes, closed, allowed, groups)
            assert not found, f"{it.name} ({it.requirement}) on {names}: {found}"
            for each in hard:
                self.seen[("gang " if it.gang else "") + each.kind.value] += 1


def play(seed: int, seen: Counter[str], rounds: int = 10) -> None:
    rng = Random(seed)
    core = World(
        group("lab", 99),
        group("web", 99, rng.choice(("FIFO", "BackFill"))),
        nodes=[random_node(rng, f"n{i}") for i in range(7)],
    )
    recount = Recount(core)
    recount.seen = seen
    for i in range(rounds):
        what = rng.random()
        if what < 0.25:
            core.change_node(random_node(rng, f"n{rng.randrange(7)}"))
        elif what < 0.4:
            core.cordon(f"n{rng.randrange(7)}", rng.choice(("repair", "")))
        elif what < 0.5:
            core.add_node(random_node(rng, f"m{i}"))
        core.submit(random_job(rng, f"j{i}"))
        again = sent_away(core.core)
        assert promised_state(again) == promised_state(core.core)
        expected = again.decide(core.now, 1).items
        before = len(core.decisions)
        recount.decide()
        assert core.decisions[before : before + len(expected)] == list(expected)
        if rng.random() < 0.6 and core.running:
            some = [each for each in core.running.values() if each.attempt not in core.told]
            core.end(rng.sample(some, min(len(some), rng.choice((1, 3)))), Outcome.SUCCEEDED)
        core.wait(rng.choice((1, 30)))


def test_no_start_violates_a_hard_clause_and_a_restored_core_decides_the_same() -> None:
    seen: Counter[str] = Counter()

    @fixed(25)
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        play(seed, seen)

    check()
    kinds = ("spread", "away", "near", "within", "gang spread", "gang away", "gang within")
    assert all(seen[kind] > 3 for kind in kinds), seen


# --- in the stories in which everything happens ---------------------------------------------------------------------


def watching(seen: Counter[str]) -> Callable[[Player, list[Decision]], Callable[[], None]]:
    """Holds the starts of each pass against the oracle, and against what their nodes accept."""

    def watch(player: Player, items: list[Decision]) -> Callable[[], None]:
        account, core = player.account, player.core
        starts = [each for each in items if isinstance(each, Start)]
        running = [(each.job, each.node) for each in account.running.values()]
        running += [(account.jobs[start.job], start.node) for start in starts]
        for number in dict.fromkeys(start.job for start in starts):
            it, its = account.jobs[number], [start for start in starts if start.job == number]
            for start in its:
                node = account.nodes[start.node]
                assert ACCEPTS[node.accepts](it, account.group_of[number]), start
                assert set(node.repels) <= set(it.tolerates), start
                seen["accepted"] += bool(node.accepts)
                seen["tolerated"] += bool(node.repels)
            if any(start.claimed for start in its):
                # What it was promised holds, whoever came meanwhile.
                continue
            # Both parts of a gang have these clauses.
            requirement = it.parts[0].requirement if it.parts else it.requirement
            clauses = [each for each in parse_requirement(requirement, stored=True).clauses if each.relaxation is None]
            allowed = [
                name
                for name, node in account.nodes.items()
                if ACCEPTS[node.accepts](it, account.group_of[number])
                and set(node.repels) <= set(it.tolerates)
                and name in core.cluster.index
            ]
            closed = account.lost | account.cordoned
            found = problems(
                it, clauses, [start.node for start in its], running, account.nodes, closed, allowed, account.group_of
            )
            assert not found, f"{it.name} ({it.requirement}) on {its}: {found}"
            for each in clauses:
                seen[each.kind.value] += 1
        return lambda: None

    return watch


@pytest.mark.parametrize("parts", ["none", "some"])
def test_in_any_story_every_start_satisfies_the_hard_clauses_and_is_accepted(parts: str) -> None:
    seen: Counter[str] = Counter()

    @fixed(10)
    @given(settings_of_any_kind(selective=True, parts=parts), operations(CONSTRAINED, 30, 80))
    def check(setting: Setting, story: list[Operation]) -> None:
        Player(setting, budget=1, watch=watching(seen)).play(story)

    check()
    assert all(seen[kind] for kind in ("spread", "away", "near", "within", "accepted", "tolerated")), seen


@examples(3)
@given(settings_of_any_kind(selective=True), operations(CONSTRAINED), st.booleans())
def test_restored_at_any_moment_a_story_goes_on_alike(setting: Setting, story: list[Operation], often: bool) -> None:
    player = Player(setting, check=False)
    for number, operation in enumerate(story):
        if often or number == len(story) // 2:
            player.add_twin()
        player.play([operation])


@examples(4)
@given(settings_of_any_kind(selective=True, constrained=True), operations(CONSTRAINED))
def test_a_follower_by_facts_alone_is_in_the_same_state(setting: Setting, story: list[Operation]) -> None:
    Followed(setting).play(story)
