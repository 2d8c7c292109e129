"""Sentences for vetoes: the reasons why jobs wait, for people."""

from __future__ import annotations

from cress.core.accounts import AtBound
from cress.core.advance.telling import say_reserved
from cress.core.diagnostics.unresolved_names import say
from cress.core.placing.vetoes import Verdict, Veto
from cress.core.tables.measured_load import say_busy
from cress.model.units import rounded_duration


def sentence(veto: Veto) -> str:
    """Return the sentence for a veto."""
    return _with_whom(veto) + _sentence(veto) + (f": {sentence(veto.because)}" if veto.because else "")


def _with_whom(veto: Veto) -> str:
    """Return the beginning of the sentence for a unit of several jobs."""
    if not veto.together:
        return ""
    several = len(veto.together) > 1
    jobs = f"job{'s' if several else ''} {' and '.join(map(str, veto.together))}"
    depend = f"which depend{'' if several else 's'} on job {veto.shown}"
    if veto.beside:
        return f"on {veto.together_on}, beside {jobs}, {depend}: "
    runs = f" and run{'' if several else 's'} on {veto.together_on}" if veto.together_on else ""
    return f"together with {jobs}, {depend}{runs}: "


def _sentence(veto: Veto) -> str:
    if not veto.nodes and veto.kind in (Verdict.NO_ROOM, Verdict.NO_ROOM_TOGETHER, Verdict.UNSATISFIED):
        return "; ".join(("every node is closed to new tasks", *say_busy(veto.overloaded)))
    blocker = f"job {veto.behind_shown} of group {veto.behind_group}" if veto.behind is not None else "an earlier unit"
    counts = _counts(veto)
    added = veto.clauses and veto.kind in (Verdict.NO_ROOM_TOGETHER, Verdict.NEVER_TOGETHER, Verdict.LICENCE)
    with_ = ", with {bound}" if veto.bound and veto.kind in (Verdict.NO_ROOM_TOGETHER, Verdict.NEVER_TOGETHER) else ""
    template = _SENTENCES[veto.kind]
    if veto.kind is Verdict.NO_ROOM and veto.clauses:
        template = _NO_ROOM_AMONG
    elif veto.kind is Verdict.NO_ROOM_TOGETHER and not veto.lacking:
        template = _ROOM_FOR_SOME
    elif veto.kind is Verdict.NO_ROOM_TOGETHER and veto.clauses:
        template = _NO_ROOM_FOR_ALL
    told = (template + with_ + " ({counts})" * bool(added)).format(
        group=f"{veto.level}, in which group {veto.group} is," if veto.level else veto.group,
        bounded=veto.bounded,
        blocker=blocker,
        # Of its own group, mostly, which is named before.
        first=blocker.removesuffix(f" of group {veto.group}"),
        places=", ".join(veto.places),
        nodes=_nodes(veto.nodes),
        lacking=_lacking(veto) or "none lacks one dimension alone",
        clauses=" and ".join(text for text, _ in veto.clauses),
        counts=counts,
        bound=" and ".join(veto.bound),
        licences=too_few(veto.at_bound, never=veto.never),
        reached="".join(map(_running, veto.at_bound)),
        job=veto.shown,
        whole=veto.whole,
        user="".join(found.user for found in veto.at_bound),
        most="".join(str(found.most) for found in veto.at_bound),
        until=f" until {veto.ends}" if veto.ends else "",
        latest=f", until {veto.ends} at the latest" if veto.ends else "",
        later=f"at {veto.ends}" if veto.ends else "later",
        preempted_for="" if veto.preempted_for is None else f" for job {veto.preempted_for}",
        kept_free=f"{', '.join(veto.places)} {'is' if len(veto.places) == 1 else 'are'}",
        reservations=f"reservation{'s' * (len(veto.places) > 1)} {', '.join(veto.places)}",
        closed=", ".join(f"{count} {why}" for why, count in veto.closed),
        reserved=say_reserved(veto.reserved) if veto.reserved is not None else "",
        gap=rounded_duration(veto.gap),
    )
    return "; ".join((told, *veto.details, *map(say, veto.missing), *say_busy(veto.overloaded)))


def _running(limit: AtBound) -> str:
    """Return the sentence about a limit on running jobs."""
    of = f"{limit.has:,} of at most {limit.most:,} job{'' if limit.most == 1 else 's'}"
    if limit.user:
        return f"{limit.user} runs {of} in group {limit.account} (MaxRunningJobsPerUser)"
    return f"group {limit.account} runs {of} (MaxRunningJobs)"


def too_few(licences: tuple[AtBound, ...], *, never: bool) -> str:
    """Return the sentence about licences with too few free, or (``never``) with a total that is too small."""
    if never:
        told = (
            f"{licence.asks} of licence {licence.account} are needed, but only {licence.most} exist"
            if licence.most
            else f"there is no licence {licence.account}"
            for licence in licences
        )
    else:
        told = (
            f"waiting for {f'{licence.asks} of ' * (licence.asks > 1)}licence {licence.account}: "
            f"{licence.has} of {licence.most} in use"
            for licence in licences
        )
    return "; ".join(told)


def _counts(veto: Veto) -> str:
    """Return the numbers of nodes excluded by clauses, and of the other nodes that lack something."""
    lacking = _lacking(veto)
    named = veto.kind in (Verdict.UNSATISFIED, Verdict.NEVER_SATISFIED, Verdict.NO_ROOM)
    if named and len(veto.clauses) == 1:
        it = " satisfy it" if veto.kind is Verdict.NO_ROOM else ""
        count = veto.clauses[0][1]
        unmet = f"{count} of {_nodes(veto.nodes)} {_do(count)} not{it}"
    elif named and len(veto.clauses) <= len(_ORDINALS):
        counts = [f"{count} the {word}" for (_, count), word in zip(veto.clauses, _ORDINALS, strict=False)]
        do = _do(veto.clauses[0][1]) if veto.clauses else ""
        unmet = f"of {_nodes(veto.nodes)} " + ", ".join(counts).replace(" the", f" {do} not satisfy the", 1)
    else:
        unmet = f"of {_nodes(veto.nodes)} " + ", ".join(
            f"{count} {_do(count)} not satisfy {text}" for text, count in veto.clauses
        )
    return "; ".join(part for part in (unmet, lacking) if part)


def _lacking(veto: Veto) -> str:
    return ", ".join(f"{count} {'lacks' if count == 1 else 'lack'} {name}" for name, count in veto.lacking)


def _do(count: int) -> str:
    return "does" if count == 1 else "do"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


_ORDINALS = ("first", "second", "third")
# For NO_ROOM, if clauses exclude some of the nodes.
_NO_ROOM_AMONG = "no node that satisfies {clauses} has enough free ({counts})"
# For NO_ROOM_TOGETHER, if the counts of clauses also say what nodes lack.
_NO_ROOM_FOR_ALL = "not enough nodes have enough free for all tasks of the {whole}"
# The same, if no node lacks anything for one task.
_ROOM_FOR_SOME = f"{_NO_ROOM_FOR_ALL}; there is room for some of them only"
_SENTENCES = {
    Verdict.PLACED: "job {job} was placed",
    Verdict.HELD: "held until it is released (cress release {job})",
    Verdict.FULL: "limit reached: max_running = {most}",
    Verdict.AFTER: "waiting for {blocker} to end",
    Verdict.AFTER_TASKS: "waiting for the same tasks of another job to succeed",
    Verdict.BACKOFF: "a task of job {job} failed and is retried {later}",
    Verdict.TOGETHER: "job {job} starts again on one node with {blocker}",
    Verdict.AS_WHOLE: "all tasks of the service start together",
    Verdict.MOVING: (
        "{blocker}, which depends on job {job}, is being stopped on {places}; then both start on another node"
    ),
    Verdict.NEVER: "no node of this cluster is large enough for job {job}, even when empty",
    Verdict.NEVER_SATISFIED: "no node of this cluster could ever satisfy {clauses} ({counts})",
    Verdict.NEVER_TOGETHER: "all nodes of this cluster together are too small for all tasks of the {whole} at once",
    Verdict.VICTIMS: "preempted tasks are making room for job {job} on {places}{until}",
    Verdict.GANG_RUNS: "some tasks of the gang still run; the gang starts again as a whole when they have ended",
    Verdict.COOLING: (
        "group {group} may start nothing beyond its quota{until} while others wait for room: "
        "its tasks were preempted{preempted_for} (cooling-off)"
    ),
    Verdict.QUOTA: "{blocker} is blocked, and group {group} is not below its quota",
    Verdict.UNVISITED: "not yet considered by the scheduler",
    Verdict.MAX_QUOTA: "{bounded}",
    Verdict.KEPT: "{bounded}",
    Verdict.FORBIDDEN: "{bounded}",
    Verdict.RUNNING_LIMIT: "{reached}",
    Verdict.USER_LIMIT: "user {user} already uses the most that one user may in group {group} (user_limit_factor)",
    Verdict.GATE: (
        "starting job {job} now would leave unusable resources on every node, and another waiting job fits better "
        "(balance_gate{latest})"
    ),
    Verdict.BEHIND: "the policy of group {group} puts {first} first",
    Verdict.PLANNED: "job {job} is planned to start {later}; starting now would delay a job planned before job {job}",
    Verdict.DRAINING: "no running task is due to end in time; {kept_free} being kept free for job {job}",
    Verdict.LICENCE: "{licences}",
    Verdict.UNSATISFIED: "no node satisfies {clauses} ({counts})",
    Verdict.NO_ROOM: "no node has enough free; of {nodes} {lacking}",
    Verdict.NO_NODE: "every node that could run job {job} is closed to new tasks ({closed})",
    Verdict.NO_ROOM_TOGETHER: f"{_NO_ROOM_FOR_ALL}; of {{nodes}} {{lacking}}",
    Verdict.RESERVED_AHEAD: "{reserved}",
    Verdict.NO_GAP: "job {job} is longer than every gap between repetitions of {reservations} ({gap} at most)",
    Verdict.OWED: (
        "job {job} fits, but group {group} would be above its quota, and {blocker} could take the room back at once"
    ),
    Verdict.RESERVED: "job {job} fits, but would delay {blocker}",
}
