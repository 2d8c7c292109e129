"""``cress explain`` and ``cress why``: why a job waits, when it will start, and what would change that."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.common import Data, Json, connect, count, duration, moment, print_json
from cress.cli.errors import told
from cress.cli.job_names import job_named
from cress.cli.tables import Cell, TableColumn, clean, facts, show
from cress.cli.waiting_page import what_to_do
from cress.model.errors import InputError
from cress.model.explanation import why_unknown

if TYPE_CHECKING:
    from cress.client import EndedView, ExpectedStartView, ExplanationView, JobView
    from cress.model.explanation import NearNode, Remedy

EXPLAIN = """\
\b
Examples:
  cress explain 12
  cress explain train     by its name
  cress why 12            the same in three lines
  cress explain --group web    why the group does not get more
  cress explain --node n7      why the node is empty or not fuller

\b
For a running job it shows the best nodes for one of its tasks; for attempts that have ended, why they ended.
The remedies are single changes. Each was tried on a copy of the scheduler, and let the job start at once.
The expected start is that of a run of the same scheduler forward, with the estimates of all runs and without new jobs.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 no center reachable.
"""
WHY = """\
\b
Example:
  cress why 12

\b
`cress explain` shows the details: clauses, nearest nodes, and every remedy.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 no center reachable.
"""

CLAUSES = (TableColumn("CLAUSE", gives=True), TableColumn("EXCLUDES", right=True), TableColumn("ONLY IT", right=True))
NEAREST = (TableColumn("NODE"), TableColumn("WHAT IS MISSING", gives=True))

# Kinds of reasons of jobs that may have no task in the scheduler yet, or have one that is placed.
NOT_TRIED = ("held", "after", "uses")
# Kinds of remedies that change keys of the job.
OF_THE_JOB = frozenset({"amount", "clause", "group", "max_running", "priority", "time_limit"})

Job = Annotated[str, typer.Argument(metavar="JOB", help="Job (id or name).", autocompletion=completion.jobs)]
ENDED = (
    TableColumn("TASK", right=True),
    TableColumn("NODE", gives=True),
    TableColumn("ENDED"),
    TableColumn("AFTER", right=True),
    TableColumn("HOW"),
    TableColumn("WHY", gives=True),
)


def explain(
    job: Annotated[str, typer.Argument(metavar="[JOB]", help="Job (id or name).")] = "",
    group: Annotated[str, typer.Option("--group", metavar="NAME", help="Why this group does not get more.")] = "",
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="Why this node is empty or not fuller.")] = "",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Explain why a job waits, or a group or node has no more.

    For a running job: the best nodes. For ended attempts: why they ended.
    """
    with told("explain"):
        if sum(map(bool, (job, group, node))) != 1:
            raise InputError("one of JOB, --group and --node is needed", hint="such as `cress explain 12`")
        if group or node:
            _explain_other(group, node, as_json=as_json, data=data)
            return
        view, found = _asked(job, data)
        if as_json:
            print_json(found)
            return
        facts(_facts(view, found, time.time()))
        if found.best:
            _tell_best(found)
        if found.ended:
            _tell_ended(found)
        if found.clauses:
            print()
            show(
                CLAUSES,
                [(clean(one.clause), f"{one.excludes:,} of {one.of:,}", f"{one.alone:,}") for one in found.clauses],
            )
        if found.nearest:
            print()
            show(NEAREST, [(clean(near.node), clean("; ".join(_missing(near)))) for near in found.nearest])
        if _was_tried(found):
            print()
            print("It would start now:" if found.remedies else "No single change that was tried lets it start now.")
            for remedy in found.remedies:
                print("  " + clean(remedy.text + command_of(view, found, remedy)))


def _explain_other(group: str, node: str, *, as_json: bool, data: Data) -> None:
    """Print why a group does not get more, or why a node is not fuller."""
    from cress.client import calls

    with connect(data) as client:
        if group:
            of_group = client.ask(calls.group_explanation(group))
            if as_json:
                print_json(of_group)
                return
            facts([("Group", clean(of_group.group)), ("Uses", of_group.uses)])
            reasons = of_group.reasons
        else:
            of_node = client.ask(calls.node_explanation(node))
            if as_json:
                print_json(of_node)
                return
            free = ", ".join(f"{name} {amount}" for name, amount in of_node.free.items())
            facts([("Node", clean(of_node.node)), ("Tasks", f"{of_node.tasks:,}"), ("Free", free or "nothing")])
            reasons = of_node.reasons
    print()
    for reason in reasons:
        print(f"- {clean(reason.text)}")


def _tell_best(found: ExplanationView) -> None:
    """Print the best nodes for a running task, term by term."""
    print()
    print("The best nodes for its task now, if it did not run yet:")
    terms = [text for text, _ in found.best[0].terms]
    order = found.best[0].order
    columns = [TableColumn("NODE", gives=True), *(TableColumn(clean(text), right=True) for text in terms)]
    columns += [TableColumn(order.upper(), right=True)] if order else []
    rows: list[list[Cell]] = []
    for one in found.best:
        values = [f"{value:g}" for _, value in one.terms] + ([f"{one.value:.3f}"] if one.value is not None else [])
        rows.append([clean(one.node) + (" (runs here)" if one.here else ""), *values])
    show(columns, rows)


def _tell_ended(found: ExplanationView) -> None:
    """Print the attempts that ended early."""
    print()
    print("Attempts that ended early:")
    show(
        ENDED,
        [
            [
                str(one.task),
                clean(one.node),
                moment(one.at),
                duration(one.ran),
                one.outcome,
                "; ".join(_whys(one)) or "-",
            ]
            for one in found.ended
        ],
    )


def _whys(one: EndedView) -> Iterator[str]:
    if one.why:
        yield clean(one.why)
    if one.rule:
        yield clean(one.rule)


def why(job: Job, as_json: Json = False, data: Data = None) -> None:
    """Tell why a job waits, in three lines.

    These are the reason, the expected start and the smallest change.
    """
    with told("why"):
        view, found = _asked(job, data)
        if as_json:
            print_json(found)
            return
        pairs = _facts(view, found, time.time())
        smallest = ""
        if found.remedies:
            smallest = found.remedies[0].text + command_of(view, found, found.remedies[0])
        facts([*pairs, ("Starts now", clean(smallest))])


def command_of(view: JobView, found: ExplanationView, remedy: Remedy) -> str:
    """Return the command that makes a change of the job, in parentheses; empty if ``cress update`` does not make it."""
    from cress.model.changeable import CHANGEABLE, When

    names = ["resource" if remedy.kind == "amount" else key for key in remedy.change]
    rows = [CHANGEABLE[name] for name in names if name in CHANGEABLE]
    updates = view.type == "batch" and view.family is None and found.job == view.id and remedy.kind in OF_THE_JOB
    if not updates or not rows or len(rows) < len(names):
        return ""
    if view.tasks.running and any(row.when is When.WAITING for row in rows):
        return ""
    words = [
        f"resource.{key}={value}" if remedy.kind == "amount" else f"{key}={value}"
        for key, value in remedy.change.items()
    ]
    return f" (cress update {view.id} {shlex.join(words)})"


def _asked(job: str, data: Data) -> tuple[JobView, ExplanationView]:
    """Return the view and the explanation of a job."""
    from cress.client import calls

    with connect(data) as client:
        number = job_named(client, job)
        return client.job(number), client.ask(calls.explanation(number))


def _facts(view: JobView, found: ExplanationView, now: float) -> list[tuple[str, str]]:
    member = f" (member {found.job})" if found.reason and found.job != view.id else ""
    return [
        ("Job", f"{view.id}" + (f" ({clean(view.name)})" if view.name else "") + member),
        ("State", view.state),
        ("Reason", clean(found.reason or view.reason)),
        ("What to do", what_to_do(found.kind or view.reason_kind) if found.kind or view.reason_kind else ""),
        ("Waits", _waits(view, now) if found.reason else ""),
        ("Expected start", when(found.start, now, found.job, found.kind) if _was_tried(found) else ""),
        ("Ran" if view.ended else "Runs", _runs(view, now) if not found.reason else ""),
        ("Starting", clean(found.starting)),
        ("Late", clean(found.late)),
        ("Node", clean(found.chosen)),
        ("Preempted", count(view.preempted, "time") if view.preempted else ""),
    ]


def _was_tried(found: ExplanationView) -> bool:
    """Return whether changes were tried: whether a task waits for the scheduler."""
    return bool(found.reason) and (found.kind not in NOT_TRIED or bool(found.remedies or found.nearest))


def _waits(view: JobView, now: float) -> str:
    return f"since {moment(view.submitted)}, for {duration(now - view.submitted)}" if view.started is None else ""


def _runs(view: JobView, now: float) -> str:
    if view.started is None:
        return ""
    return f"since {moment(view.started)}, for {duration((view.ended or now) - view.started)}"


def when(start: ExpectedStartView, now: float, job: int = 0, kind: str = "") -> str:
    """Return the expected start of a ``job`` for people: the likely moment, its bounds, and the end that it waits
    for. ``kind`` is that of the reason why the job waits.
    """
    if start.likely is None:
        return f"not known: {why_unknown(kind)}"
    told = f"{moment(start.likely)}, in {duration(start.likely - now)}"
    if start.earliest is not None and start.latest is not None and start.latest - start.earliest >= 1:
        told += f" (in {duration(start.earliest - now)} to {duration(start.latest - now)})"
    elif start.latest is None:
        told += " or later"
    if start.behind:
        group = f"{' of' if start.behind == 1 else ', most of'} {clean(start.ahead)}" if start.ahead else ""
        told += f", behind {count(start.behind, 'job')}{group}"
    if start.because is None:
        return told
    return f"{told}, when {'another task of it' if start.because == job else f'job {start.because}'} ends"


def _missing(near: NearNode) -> Iterator[str]:
    """Yield what keeps a task from a node."""
    if near.closed:
        yield "is closed to new tasks"
    for text in near.excluded_by:
        yield f"does not satisfy {text}"
    if near.lacks:
        yield f"lacks {', '.join(near.lacks)}"
    if not (near.closed or near.excluded_by or near.lacks):
        yield "has room for one task"
