"""Options that a scheduler takes over in place; the others determine its columns, queues or orders, which are built
anew.
"""

from __future__ import annotations

from dataclasses import fields

from cress.core.scheduler import Scheduler
from cress.model.option_text import resolve_options
from cress.model.options import Options

# Options that are read at each use.
LIVE = frozenset(
    "drain_after preemption preempt_within preempt_below preempt_above cooling cooling_above_quota grace min_runtime "
    "max_per_round reclaim_grace backoff_most start_tries start_backoff start_rest_most start_failures gate_hold "
    "rebalance rebalance_moves rebalance_lost".split()
)


def changed_names(before: Options, options: Options) -> list[str]:
    """Return the names of options with different values."""
    return [each.name for each in fields(Options) if getattr(before, each.name) != getattr(options, each.name)]


def are_live(before: Options, options: Options) -> bool:
    """Return True if all options with different values can be taken over in place."""
    return LIVE.issuperset(changed_names(before, options))


def take_over(core: Scheduler, options: Options) -> None:
    """Take over live options; everything that failed under the old ones is tried again."""
    core.books.options = core.groups.options = options
    for group in core.groups:
        group.configure(group.spec, resolve_options(options, group.spec), group.policy)
    for inner in core.groups.tree.upwards:
        inner.set_options(inner.spec, resolve_options(options, inner.spec))
    core.groups.find_preempting()
    core.books.running.forget()
    # Groups may cool for longer than before.
    core.books.preempted = None
    core.cluster.loosened += 1
