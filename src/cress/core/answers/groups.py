"""Reasons why a group does not get more: its bounds, its cooling-off, its quota, and what its waiting jobs wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

from cress.core.advance.telling import time_of_day
from cress.core.books import Books
from cress.core.diagnostics.amounts import say_amount
from cress.core.gates.rights import is_cooling
from cress.core.groups.guarantees import measure_of
from cress.core.jobs import GroupState, JobEntry
from cress.core.placing.vetoes import Veto
from cress.core.tree.amounts import UNBOUNDED, Amounts
from cress.model.explanation import Finding

# Waiting jobs that are asked for their reasons, and the most frequent reasons that are told.
MOST_ASKED, MOST_REASONS = 100, 3


def why_no_more(
    core: Books, group: GroupState, veto: Callable[[int], Veto | None], reason: Callable[[int], str]
) -> tuple[Finding, ...]:
    """Return why a group does not get more, the most general reason first; ``reason`` gives that of a job."""
    return (
        *_bounds(core, group),
        *_cooling(core, group),
        *_beyond_quota(core, group),
        *_demand(core, group, veto, reason),
    )


def use_of(core: Books, node: Amounts) -> str:
    """Return the use of a group and its quota, in each measure that it has or uses."""
    told = []
    for i, (used, quota) in enumerate(zip(node.used, node.quota, strict=True)):
        if used or quota:
            has, may = _amount(core, node, i, used), _amount(core, node, i, quota)
            # A unit that both have is told once.
            number, _, unit = has.partition(" ")
            told.append(
                f"{number if unit.removesuffix('s') == may.partition(' ')[2].removesuffix('s') else has} of {may}"
            )
    return ", ".join(told) or "nothing"


def _amount(core: Books, node: Amounts, i: int, amount: int) -> str:
    return say_amount(core, measure_of(core.groups, node, i), amount)


def _bounds(core: Books, group: GroupState) -> Iterator[Finding]:
    for node in group.path():
        for i, most in enumerate(node.most or ()):
            if most < UNBOUNDED and node.used[i] >= most:
                yield Finding(
                    "max_quota",
                    f"group {node.name} is at its MaxQuota of {_amount(core, node, i, most)} "
                    f"({_amount(core, node, i, node.used[i])} used): until one of its tasks ends, or with a higher "
                    "MaxQuota",
                )
    for counter in group.counters:
        if counter.most is not None and len(counter) >= counter.most:
            yield Finding(
                "running_limit",
                f"group {counter.group} runs {len(counter):,} of at most {counter.most:,} "
                f"job{'' if counter.most == 1 else 's'} (MaxRunningJobs): until one of them ends",
            )
        if counter.most_per_user is not None:
            at_most = sorted(user for user, count in counter.users.items() if count >= counter.most_per_user)
            if at_most:
                named = ", ".join(at_most[:MOST_REASONS]) + (" and others" if len(at_most) > MOST_REASONS else "")
                yield Finding(
                    "running_limit",
                    f"in group {counter.group} {named} may run no further job (MaxRunningJobsPerUser is "
                    f"{counter.most_per_user:,})",
                )


def _cooling(core: Books, group: GroupState) -> Iterator[Finding]:
    if is_cooling(core, group):
        kept = group.kept
        until, since = time_of_day(core, group.cools_until()), time_of_day(core, kept.preempted_at or 0)
        whom = "" if kept.preempted_for is None else f" for job {kept.preempted_for}"
        yield Finding(
            "cooling",
            f"its tasks were preempted{whom}{f' at {since}' if since else ''}: until {until or 'its cooling-off ends'} "
            "it may start nothing beyond its quota while others wait for room",
        )


def _beyond_quota(core: Books, group: GroupState) -> Iterator[Finding]:
    if group.above_quota:
        waiting = [other.name for other in core.groups if other is not group and len(other.policy)]
        others = f"groups below their quotas come first ({', '.join(waiting[:MOST_REASONS])} wait)" if waiting else ""
        yield Finding(
            "above_quota",
            f"it uses more than its quota ({use_of(core, group)})" + (f": {others}" if others else ", as a loan"),
        )


def _demand(
    core: Books, group: GroupState, veto: Callable[[int], Veto | None], reason: Callable[[int], str]
) -> Iterator[Finding]:
    waiting = [job for job in core.waiting() if job.group is group]
    if not waiting:
        yield Finding("no_demand", "no job of the group waits: it has all that it asks for")
        return
    examples: dict[str, JobEntry] = {}
    kinds: Counter[str] = Counter()
    asked = list(islice(waiting, MOST_ASKED))
    for job in asked:
        found = veto(job.job.id)
        kind = "unknown" if found is None else found.kind.value
        kinds[kind] += 1
        examples.setdefault(kind, job)
    of = f"{len(waiting):,}" if len(waiting) == len(asked) else f"the first {len(asked)} of {len(waiting):,}"
    for kind, count in kinds.most_common(MOST_REASONS):
        example = examples[kind].job
        which = f"{count} of {of} waiting jobs, such as job" if len(waiting) > 1 else "job"
        waits = "" if len(waiting) > 1 else " waits"
        yield Finding(kind, f"{which} {example.counted_as}{waits}: {reason(example.id)}")
