"""Random saturated worlds with all that may be combined: groups in trees of up to four levels with bounds, quotas in
cores, vectors and kinds of nodes, all policies and options, deadlines, gangs, advance reservations, timetables.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from cress.model.decisions import Decision
from cress.model.errors import InputError, NotAccepted
from cress.model.times import HOUR, SECOND
from tests.core.builders import GroupBuilder, JobBuilder, NodeBuilder, World, group, job, node
from tests.core.test_advance_reservations import NOON, at, keep, reservation
from tests.core.test_undone import OPTIONS, POLICIES, Play, undone

SORTS = ("cores", "unequal", "vectors", "kinds")
KINDS = ("A100", "T4")


class Deep:
    """The parts of one random world; ``play`` has its jobs to come."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"deep {seed}")
        self.sort = rng.choice(SORTS)
        self.sizes = self._sizes()
        self.leaves = [f"g{i}" for i in range(rng.choice([2, 3, 4, 6]))]
        groups = self._tree()
        cooling = rng.choice([20, 20, 0, 10, 120]) * SECOND
        options: dict[str, Any] = {
            "drain_after": rng.choice([1, 60, 600]) * SECOND,
            "behind_blocked": rng.choice(["reserve", "reserve", "quota_only"]),
            "max_per_round": rng.choice([0.1, 1.0]),
            "cooling": cooling,
            "cooling_above_quota": cooling * rng.choice([1, 3]),
            "order": rng.choice(["share", "share", "share", "urgency", "deadline"]),
            "accounting": "cpu" if self.sort == "cores" else rng.choice(["cpu", "dominant"]),
            "share_half_life": rng.choice([0, 0, 1]) * HOUR,
        }
        if self.sort in ("vectors", "kinds"):
            options["accounting"] = "dominant"
        dimensions = ("gpu",) if self.sort == "kinds" else ()
        self.world = World(*groups, nodes=self._nodes(), check=False, dimensions=dimensions, **options)
        self.world.set_clock(NOON)
        self.play = Play(self.world)
        self._reserve()
        for name in self.leaves:
            for k in range(rng.choice([1, 1, 2, 3])):
                self._ask(name, k)

    # --- nodes and quotas --------------------------------------------------------------------------------------------

    def _sizes(self) -> list[int]:
        rng = self.rng
        if self.sort == "unequal":
            return [rng.choice([4, 8, 16, 24]) for _ in range(rng.choice([2, 3, 4]))]
        return [rng.choice([8, 10, 16, 20])] * rng.choice([1, 2, 4, 6])

    def _nodes(self) -> list[NodeBuilder]:
        made = [node(f"n{i + 1}").cpu(size).memory(f"{2 * size}G") for i, size in enumerate(self.sizes)]
        if self.sort != "kinds":
            return made
        return [each.has(gpu=4).where(GPUModel=KINDS[i % 2]) for i, each in enumerate(made)]

    def _cut(self, total: int) -> list[int]:
        """Random parts of a sum, one for each leaf, none of them empty."""
        cuts = sorted(self.rng.sample(range(1, total), len(self.leaves) - 1))
        return [end - begin for begin, end in zip([0, *cuts], [*cuts, total], strict=True)]

    def _quotas(self) -> list[str]:
        total = sum(self.sizes)
        if self.sort == "vectors":
            pairs = zip(self._cut(total), self._cut(2 * total), strict=True)
            return [f"<{cpu}, {memory}G>" for cpu, memory in pairs]
        if self.sort == "kinds":
            of_kind = [4 * len(self.sizes[i::2]) for i in range(2)]
            parts = [self._cut(total), *(self._cut(most + len(self.leaves)) for most in of_kind)]
            found = []
            for cpu, *kinds in zip(*parts, strict=True):
                named = [f"gpu({kind})={count - 1}" for kind, count in zip(KINDS, kinds, strict=True) if count > 1]
                found.append(f"<{', '.join([f'cpu={cpu}', *named])}>")
            return found
        return [str(cut) for cut in self._cut(total)]

    def _tree(self) -> list[GroupBuilder]:
        """The leaves, and up to three levels of groups over them whose quotas are the sums of theirs."""
        rng = self.rng
        made: dict[str, GroupBuilder] = {}
        for name, quota in zip(self.leaves, self._quotas(), strict=True):
            one = group(name, quota, rng.choice(POLICIES))
            chosen = {key: rng.choice(values) for key, values in OPTIONS.items() if rng.random() < 0.2}
            one = one.with_options(**chosen) if chosen else one
            if rng.random() < 0.2:
                one = one.preempt_priority(rng.choice([-5, 5]))
            if self.sort == "cores" and rng.random() < 0.15:
                one = one.lends(rng.randint(0, int(quota)))
            if self.sort == "cores" and rng.random() < 0.15:
                one = one.most(int(quota) + rng.randint(0, 8))
            if rng.random() < 0.2:
                one = one.weight(rng.randint(1, 5))
            made[name] = one
        free = list(self.leaves)
        for level in range(rng.choice([0, 1, 2, 3])):
            outer: list[str] = []
            rng.shuffle(free)
            while free:
                inside = [free.pop() for _ in range(min(len(free), rng.randint(1, 3)))]
                if rng.random() < 0.3:
                    outer += inside
                    continue
                name = f"in{level}{len(outer)}"
                made[name] = group(name, 0)
                made.update({each: made[each].inside(name) for each in inside})
                outer.append(name)
            free = outer
        return list(made.values())

    # --- what comes --------------------------------------------------------------------------------------------------

    def _reserve(self) -> None:
        rng = self.rng
        if rng.random() < 0.25:
            begin, place = rng.randint(0, 2), f"n{rng.randint(1, len(self.sizes))}"
            with suppress(InputError, NotAccepted):
                owner = rng.choice(self.leaves)
                keep(self.world, reservation("r", f"{12 + begin}:20", f"{13 + begin}:40", place, group=owner))
                self.play.promise((begin * 60 + 20) * 60 * SECOND, (begin * 60 + 100) * 60 * SECOND)

    def _ask(self, name: str, k: int) -> None:
        rng, most = self.rng, max(self.sizes)
        width = max(1, min(most, round(sum(self.sizes) / len(self.leaves) * rng.uniform(0.1, 0.6))))
        asked = job(f"{name}-{k}").cpu(width).group(name).tasks(rng.randint(2, 12))
        if self.sort in ("vectors", "unequal") and rng.random() < 0.6:
            asked = asked.memory(f"{min(2 * most, rng.choice([1, 2, 4, 8, 12]))}G")
        if self.sort == "kinds":
            asked = asked.cpu(rng.choice([1, 1, 2])).needs(gpu=rng.choice([1, 1, 2, 4]))
            if rng.random() < 0.5:
                asked = asked.requires(f'GPUModel = "{rng.choice(KINDS)}"')
        if rng.random() < 0.2:
            size = rng.randint(2, 4)
            asked = asked.cpu(max(1, width // size) if self.sort != "kinds" else 1).tasks(size).gang()
        run, come = rng.choice([60, 600, 1800, 7200]), rng.choice([0, 1, 60, 300])
        if rng.random() < 0.4:
            asked = asked.deadline(at("12:00") + (come + rng.choice([1, 3, 10]) * run) * SECOND)
        self._submit(come, asked.limit(run).priority(rng.choice([0, 0, 5])))

    def _submit(self, come: float, asked: JobBuilder) -> None:
        self.play.submit(come, asked)


def deep_play(seed: int) -> Play:
    """One of these worlds, with its jobs to come."""
    return Deep(seed).play


# Each of these undid a decision once: a group took room for a group above it, which another one below that one took
# back; or a task started on a node of a kind that others are guaranteed; or a due unit, a claimed one, or one of a
# group outside started where a unit behind the first of its queue could take the room back; or a gang on kinds that
# its group does not have; or the victim of a unit kept the room afterwards.
FOUND = {
    "in a tree": (15, 21, 37, 96),
    "kinds of nodes": (14, 55, 57),
    "due, claimed, for a group above": (60, 123, 153),
    "gangs": (171,),
    "behind others": (205,),
    "urgent": (350,),
    "what groups keep for themselves": (818,),
    "submitted at the time of a start": (540, 641),
}


@pytest.mark.parametrize("seeds", FOUND.values(), ids=FOUND)
def test_a_world_that_undid_a_decision_does_so_no_more(seeds: tuple[int, ...]) -> None:
    _, found = undone(seeds, deep_play)
    assert found == {}


@pytest.mark.parametrize("seed", [58, 84, 89, 92, 110, 115])
def test_questions_leave_the_books_as_they_are(seed: int) -> None:
    """A unit takes room; would its victims' group keep it? This is asked within the question who takes room back."""
    play = deep_play(seed)
    world, decide = play.world, play.world.decide
    assert world.core.groups.tree.keeps

    def check(*budget: int) -> list[Decision]:
        decided = decide(*budget)
        assert world.core.validate() == []
        return decided

    setattr(world, "decide", check)  # noqa: B010 - mypy knows no assignment to a method
    play.play()


@pytest.mark.long
@pytest.mark.parametrize("sort", SORTS)
def test_of_a_thousand_worlds_with_all_that_may_be_combined_few_undo_a_decision(sort: str) -> None:
    seeds = [seed for seed in range(1_000) if Random(f"deep {seed}").choice(SORTS) == sort]
    preempted, found = undone(seeds, deep_play)
    total = sum(found.values(), Counter[str]()).total()
    assert total <= preempted / 200, found
