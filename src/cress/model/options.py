"""All thresholds of the core, in one validated object, with unit and source.

Sources are named as in the algorithms document: G, B, E are the source papers, "ours" is a choice of this project.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import isnan
from typing import Any

from cress.model.errors import InputError
from cress.model.times import HOUR, MINUTE, SECOND
from cress.model.units import format_duration

# The option ``rebalance``: rounds by a word, by an interval (this is its minimum, in µs), or by a cron expression.
OFF, REBALANCE_WORDS, EVERY_LEAST = "off", ("hourly", "daily", "weekly"), MINUTE
INITIAL, PENDING, UTILISATION = "initial", "pending", "utilisation"


def _option(
    default: Any,
    text: str,
    *,
    unit: str = "",
    source: str = "ours",
    least: float | None = None,
    most: float | None = None,
    choices: tuple[str, ...] = (),
    per_group: bool = False,
    above: float | None = None,
    form: str = "",
) -> Any:
    """Return a field of ``Options`` with its documentation and its bounds."""
    about = {
        "text": text,
        "default": default,
        "unit": unit,
        "source": source,
        "least": least,
        "most": most,
        "above": above,
        "choices": choices,
        "per_group": per_group,
        "form": form,
    }
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of one scheduler. Durations are in µs, ratios are plain numbers."""

    accounting: str = _option(
        "cpu",
        (
            "how used resources are counted: in cores, or in shares of servers; both modes count the "
            "task's dominant resource"
        ),
        source="G; ours (0014)",
        choices=("cpu", "dominant"),
    )
    behind_blocked: str = _option(
        "reserve",
        (
            "when the next job of a group does not fit: reserve room for it and let other groups start "
            "jobs that do not delay it, or let only groups below their quota start jobs"
        ),
        source="ours; quota_only is G",
        choices=("reserve", "quota_only"),
    )
    order: str = _option(
        "share",
        (
            "order of the groups: by used / quota; or groups within their quota first, then by the "
            "urgency of the first job of each; or by the deadline of the first job of each, where a "
            "group within its quota goes first only if that job is more urgent than urgency_threshold "
            "or has no deadline"
        ),
        source="G; urgency is S; deadline is ours (0023)",
        choices=("share", "urgency", "deadline"),
    )
    drain_after: int = _option(
        10 * MINUTE,
        (
            "a job that has been first in line and blocked this long gets a hard reservation: nodes are"
            " kept free for it, and nobody may delay it, unless services leave too little on every node"
        ),
        unit="µs",
        least=0,
    )
    default_group_quota: float = _option(
        0.02, "quota of the default group as a share of the cluster", source="G: 1 to 5 %", least=0.01, most=0.05
    )

    share_half_life: int = _option(
        0,
        (
            "groups within their quota are ordered by current use plus past borrowing, which decays "
            "with this half-life; 0 = current use only"
        ),
        unit="µs",
        source="ours (0030)",
        least=0,
    )

    # Inside a group
    priority_ageing: float = _option(
        1.0, "priority points gained per hour of waiting; 0 = none", unit="1/h", least=0, per_group=True
    )
    user_limit_factor: float = _option(
        0.0,
        "most that one user may use, as a multiple of an equal share of the quota; 0 = no limit",
        least=0,
        per_group=True,
    )
    backfill: str = _option(
        "easy",
        (
            "BackFill reserves for the first waiting job only (easy) or for all of them (conservative);"
            " off: no job starts before a first job that does not fit, also with Urgency and EDF"
        ),
        choices=("easy", "conservative", "off"),
        per_group=True,
    )
    estimates: str = _option(
        "requested",
        ("run times with which BackFill plans: the time limits that users request, or predictions from earlier runs"),
        choices=("requested", "predicted"),
        per_group=True,
    )
    backfill_order: str = _option(
        "submit",
        (
            "order in which BackFill tries jobs: by submit time; the shortest first behind the first "
            "job; or by expansion factor, the first job included"
        ),
        source="ours (0022)",
        choices=("submit", "shortest_first", "expansion_factor"),
        per_group=True,
    )
    overdue_after: int = _option(
        24 * HOUR,
        (
            "with predicted run times or the order expansion_factor: a job is overdue once it has "
            "waited this long plus the time needed by the work ahead of it at submission; overdue jobs "
            "go first, and time limits count instead of predictions"
        ),
        unit="µs",
        source="ours (0022)",
        least=0,
        per_group=True,
    )
    overdue_by: str = _option(
        "work",
        (
            "width: the wider a job is, the less of overdue_after counts until it is overdue, and half of the time "
            "needed by the work ahead of it. It protects the longest waits; use it with overdue_after=36h"
        ),
        source="ours (0074)",
        choices=("work", "width"),
        per_group=True,
    )
    late: str = _option(
        "best_effort",
        (
            "a job that can no longer meet its deadline is treated as one without a deadline, as most "
            "urgent, or is cancelled (not in simulations)"
        ),
        source="S; ours",
        choices=("best_effort", "urgent", "cancel"),
        per_group=True,
    )
    urgency_threshold: float = _option(
        0.8,
        (
            "with the policy Urgency: a job above this urgency that does not fit may preempt less "
            "urgent ones; 1 = never. With order=deadline: a group whose first job is below it yields to"
            " nearer deadlines; 0 = never"
        ),
        source="S; ours",
        least=0,
        most=1,
        per_group=True,
    )
    urgency_margin: float = _option(
        0.1,
        "minimum urgency difference between preemptor and victim",
        source="S; ours",
        least=0,
        most=1,
        per_group=True,
    )
    urgency_cost: float = _option(
        1.0,
        (
            "most work that all victims of an urgent job may lose together, as a multiple of the work of that job; "
            "that of victims without a deadline counts a tenth. More than 1: so many deadlines, less one, may be lost "
            "for it"
        ),
        source="ours (0023)",
        least=0,
        per_group=True,
    )
    backfill_depth: int = _option(
        0, "most jobs behind the first one that BackFill tries; 0 = all", unit="jobs", least=0, per_group=True
    )

    # Preemption
    preemption: str = _option(
        "on",
        (
            "preempt running tasks for groups below their quota and where preempt_within allows it; "
            "observe: only report what would be preempted"
        ),
        choices=("on", "observe", "off"),
    )
    preempt_within: str = _option(
        "off",
        "a job that does not fit may preempt running tasks of lower priority in its own group",
        choices=("off", "lower_priority"),
        per_group=True,
    )
    preempt_below: float = _option(
        0.9,
        "a group may preempt while it uses less than this share of its quota",
        source="G",
        above=0,
        most=1,
        per_group=True,
    )
    preempt_above: float = _option(
        1.1,
        (
            "groups above this share of their quota are preempted first; groups between their quota and"
            " this share only for a group that stays within its own quota"
        ),
        source="G",
        least=1,
        per_group=True,
    )
    cooling: int = _option(
        20 * SECOND,
        ("cooling-off: how long a preempted group starts nothing beyond its quota while others wait for room"),
        unit="µs",
        source="G",
        least=0,
    )
    cooling_above_quota: int = _option(
        60 * SECOND, "cooling-off while the group is still above its quota, at most", unit="µs", source="G", least=0
    )
    grace: int = _option(
        15 * SECOND, "time between the signal to a preempted task and its end", unit="µs", least=0, per_group=True
    )
    min_runtime: int = _option(
        0, "a task can be preempted only after it has run this long", unit="µs", least=0, per_group=True
    )
    max_per_round: float = _option(
        0.1,
        ("most tasks preempted at the same time, as a share of the running tasks (never less than one job needs)"),
        above=0,
        most=1,
    )

    # Fragments
    lending: str = _option(
        "off",
        "lend the idle parts of leases to short tasks",
        source="F",
        choices=("off", "on"),
    )
    lease_idle: int = _option(
        10 * SECOND, "how long a named workload keeps a lease after its last task", unit="µs", source="F; ours", least=0
    )
    reclaim_grace: int = _option(
        2 * SECOND,
        "time between the signal to a borrower and its end, when the owner reclaims its lease",
        unit="µs",
        source="F; ours",
        least=0,
    )
    min_fragment: float = _option(
        0.1,
        "smallest idle part of a lease that is lent: cores, or a share of a device",
        unit="cores",
        source="F; ours",
        least=0,
    )

    # Moving what runs
    rebalance: str = _option(
        OFF,
        (
            "when the center moves running tasks by itself (docs/rebalance.md): hourly, daily or "
            "weekly, after each interval, or at the times of a cron expression"
        ),
        source="ours (0027)",
        form="schedule",
    )
    rebalance_moves: int = _option(
        10, "most tasks moved in one rebalancing round", unit="tasks", source="ours (0027)", least=1
    )
    rebalance_lost: float = _option(
        10.0,
        "most work lost in one rebalancing round, all moved tasks together",
        unit="hours of cores and devices",
        source="ours (0027)",
        least=0,
    )

    # Nodes that are away
    term: int = _option(
        60 * SECOND,
        "how long a node goes on without contact to the center",
        unit="µs",
        least=SECOND,
    )
    term_margin: int = _option(
        5 * SECOND,
        (
            "safety margin: a node without contact stops its tasks this long before the end of term, "
            "and the center replaces them this long after it"
        ),
        unit="µs",
        least=0,
    )

    # What becomes of tasks that fail
    backoff_most: int = _option(
        10 * MINUTE,
        (
            "longest wait before a failed task is retried; the wait starts with the backoff of its job "
            "and doubles each time"
        ),
        unit="µs",
        least=0,
    )
    start_tries: int = _option(
        3, "number of tries after which a task fails whose program cannot be started", unit="tries", least=1
    )
    start_backoff: int = _option(
        SECOND,
        "wait before the next try to start such a program; the node gets no tasks for twice as long",
        unit="µs",
        least=0,
    )
    start_rest_most: int = _option(
        MINUTE, "longest pause of such a node; the pause doubles with every failed start in a row", unit="µs", least=0
    )
    start_failures: int = _option(
        5,
        (
            "number of failed starts in a row that cordons a node if they were of several jobs, and "
            "fails a job that never ran"
        ),
        unit="starts",
        least=1,
    )

    # Nodes that are busy with something else
    overload_cpu: float = _option(
        0.9,
        (
            "a node whose processors are busy for more than this share of the time gets no new tasks "
            "(docs/load.md); 0 = off"
        ),
        source="E: 90 %",
        least=0,
        most=1,
    )
    overload_memory: int = _option(
        2**30,
        "a node with less free memory than this gets no new tasks (docs/load.md); 0 = off",
        unit="bytes",
        source="E: 1 GiB",
        least=0,
    )

    # Choice of nodes
    node_order: str = _option(
        "fragmentation",
        ("order of the nodes that fit; `fragmentation` works as `balance` where no node counts devices one by one"),
        source="FGD and B; best_fit and spread are ours",
        choices=("fragmentation", "balance", "best_fit", "spread", "first"),
    )
    fragmentation_balance: float = _option(
        1.0,
        "weight of the balance measure y in `fragmentation`, as the number of devices made useless",
        unit="devices",
        least=0,
    )
    fragmentation_copies: float = _option(
        0.5,
        (
            "weight of what stays unusable after filling a node with copies of a likely task, relative "
            "to what one more task cannot use"
        ),
        least=0,
    )
    fragmentation_filling: float = _option(
        12.0,
        ("weight of the capacity that the best filling of each device with the likely mix of tasks leaves idle"),
        least=0,
    )
    fragmentation_blend: float = _option(
        2.0,
        ("weight of the idle devices for which cores or memory run out if the likely tasks come in their proportions"),
        least=0,
    )
    mix_tasks: int = _option(
        4096,
        "number of the latest tasks from which the likely mix is learned, beside the waiting ones",
        unit="tasks",
        least=1,
    )
    balance_dimensions: tuple[str, ...] = _option(
        ("cpu", "memory", "network", "disk_read"),
        "dimensions that are balanced; declared custom dimensions are added",
    )
    balance_weights: tuple[str, ...] = _option(
        (INITIAL, PENDING, UTILISATION),
        "the weight of a dimension is the mean of these",
        source="B",
        choices=(INITIAL, PENDING, UTILISATION),
    )
    initial_weights: tuple[tuple[str, float], ...] = _option(
        (), "initial weight by dimension, by price for instance; empty = equal", source="B"
    )
    balance_threshold: float = _option(
        0.5,
        "cluster utilisation from which all nodes are compared",
        source="B",
        least=0,
        most=1,
    )
    balance_gate: str = _option(
        "off",
        "hold back a job that would unbalance every node while another would balance one",
        source="B",
        choices=("off", "on"),
    )
    gate_hold: int = _option(
        60 * SECOND, "longest time for which the balance gate holds back a job", unit="µs", least=0
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            _check(option.name, getattr(self, option.name), option.metadata)
        if self.cooling_above_quota < self.cooling:
            raise InputError(
                (
                    f"{format_duration(self.cooling_above_quota)} is shorter than cooling "
                    f"({format_duration(self.cooling)})"
                ),
                hint="at least as long",
                field="cooling_above_quota",
            )
        if 4 * self.term_margin > self.term:
            raise InputError(
                f"{format_duration(self.term_margin)} is more than a quarter of term ({format_duration(self.term)})",
                hint="at most a quarter of term",
                field="term_margin",
            )
        if len({name for name, _ in self.initial_weights}) < len(self.initial_weights):
            raise InputError("a dimension has two initial weights", hint="each once", field="initial_weights")
        if any(weight < 0 for _, weight in self.initial_weights):
            raise InputError("an initial weight is negative", hint="0 or more", field="initial_weights")
        if not self.balance_weights:
            raise InputError("balance_weights is empty", hint="at least one of initial, pending, utilisation")
        if self.initial_weights and abs(sum(weight for _, weight in self.initial_weights) - 1) > 1e-6:
            raise InputError("the initial weights do not add up to 1", hint="sum 1", field="initial_weights")


def check_option(name: str, value: Any) -> None:
    """Raise InputError unless ``value`` is allowed for the option ``name``, without regard to the other options."""
    about = next(option.metadata for option in fields(Options) if option.name == name)
    _check(name, value, about)


def _check(name: str, value: Any, about: Any) -> None:
    default = about["default"]
    kinds = (int, float) if isinstance(default, float) else type(default)
    if not isinstance(value, kinds) or isinstance(value, bool) or (isinstance(value, float) and isnan(value)):
        kind = {int: "a whole number", float: "a number", str: "a word", tuple: "a list"}[type(default)]
        raise InputError(f"{value!r} is not {kind}", hint=f"such as {default!r}", field=name)
    choices = about["choices"]
    if choices:
        for entry in value if isinstance(value, tuple) else (value,):
            if entry not in choices:
                raise InputError(f"{entry!r} is not known", hint="one of " + ", ".join(choices), field=name)
        return
    if isinstance(value, (int, float)):
        if about["least"] is not None and value < about["least"]:
            raise InputError(f"{value} is too small", hint=f"at least {about['least']:g}", field=name)
        if about["above"] is not None and value <= about["above"]:
            raise InputError(f"{value} is too small", hint=f"above {about['above']:g}", field=name)
        if about["most"] is not None and value > about["most"]:
            raise InputError(f"{value} is too large", hint=f"at most {about['most']:g}", field=name)
