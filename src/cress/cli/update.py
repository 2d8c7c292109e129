"""``cress update`` and ``cress requeue``: change submitted jobs, and let running ones wait again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli import completion
from cress.cli.chosen_jobs import HELP, DryRun, JobChoice, choosing, list_only
from cress.cli.common import Data, Json, connect, print_json
from cress.cli.errors import told
from cress.cli.tables import clean
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Client

UPDATE = f"""\
\b
Examples:
  cress update 12 time_limit=2h priority=5
  cress update 12-40 group=research
  cress update 12 resource.memory=48G     the rest of the request stays
  cress update --state waiting --name 'train-*' requirement='Memory >= 64G'
  cress update 12 deadline=               without a value: the default, here no deadline
  cress update 12 resource.gpu=           the entry is removed

\b
While the job waits or runs: time_limit, priority, deadline, max_running, retries, backoff.
While none of its tasks runs: group, resource, requirement, rank, max_per_node, max_per_rack, licences, tolerates,
labels.
{HELP}
Values are written as in job files. A time limit counts from the start of each task, also of running ones.
A requirement replaces all conditions on nodes, also those of keys such as nodes and near.
All of the jobs get all of the values, or none gets any.
Exit codes: 0 done, 2 bad input (such as an unknown key), 3 not accepted (such as a job that has ended), or no center
reachable.
"""
REQUEUE = f"""\
\b
Examples:
  cress requeue 12
  cress requeue --group research --state running --dry-run
  cress requeue --hold 12

\b
Running tasks get SIGTERM, and SIGKILL after the job's stop_grace. Then they wait again, in their old place in the
queue. This is no failure and uses up no retry.
{HELP}
All of the given jobs are requeued, or none.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as a job that waits), or no center
reachable.
"""
RETRY = """\
\b
Examples:
  cress retry 12
  cress retry 12 --failed     tasks keep the index that they had in CRESS_TASK_INDEX

\b
The job is submitted as it was submitted or last changed, without its dependencies. It is a new job with an id of its
own.
Exit codes: 0 done, 2 bad input (such as an unknown job), 3 not accepted (such as a job that has not ended), or no
center reachable.
"""
# Most jobs whose earlier requirements are shown.
MOST_TOLD = 20
# Most jobs of which one entry is changed: each is asked for, since all must have the same entries.
MOST_COMPARED = 100
_WORDS = typer.Argument(
    metavar="JOB… KEY=VALUE…", help="Jobs (ids, ranges such as 12-40, names), and new values.", show_default=False
)


@partial(choosing, words=_WORDS)
def update(choice: JobChoice, dry_run: DryRun = False, as_json: Json = False, data: Data = None) -> None:
    """Change time limit, priority, group and more of submitted jobs."""
    with told("update"):
        pairs = [word.partition("=")[::2] for word in choice.words if "=" in word]
        given = [(_named(key), text) for key, text in pairs]
        values = _values(given)
        choice = replace(choice, words=[word for word in choice.words if "=" not in word])
        with connect(data) as client:
            from cress.client import calls

            ids = choice.ids(client)
            if dry_run:
                list_only(client, ids, "changed")
                return
            entries = {key.partition(".")[0] for key, _ in given if "." in key}
            if entries:
                values = _values(given, _present(client, ids, entries))
            # A new requirement replaces all conditions on nodes, so people see which ones go.
            asked = ids[:MOST_TOLD] if "requirement" in values else ()
            before = {id: client.job(id).requirement for id in asked}
            changed = client.ask(calls.update_jobs(ids, values))
        if as_json:
            print_json(changed)
            return
        said = ", ".join(f"{key}={'default' if value is None else value}" for key, value in values.items())
        for view in changed.jobs:
            print(f"job {view.id} ({clean(view.name)}) has {clean(said)}")
            if before.get(view.id, view.requirement) != view.requirement:
                print(f"  in place of all conditions on nodes: {clean(before[view.id]) or 'none'}")


@choosing
def requeue(
    choice: JobChoice,
    hold: Annotated[bool, typer.Option("--hold", help="Hold the jobs too, until they are released.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Stop the running tasks of jobs, which then wait again."""
    with told("requeue"):
        with connect(data) as client:
            from cress.client import calls

            ids = choice.ids(client)
            if dry_run:
                list_only(client, ids, "requeued")
                return
            requeued = client.ask(calls.requeue_jobs(ids, hold=hold))
        if as_json:
            print_json(requeued)
            return
        for view in requeued.jobs:
            waits = "waits until it is released" if hold else "stops its running tasks, which wait again"
            print(f"job {view.id} ({clean(view.name)}) {waits}")


def retry(
    job: Annotated[
        str,
        typer.Argument(metavar="JOB", help="Batch job that has ended (id or name).", autocompletion=completion.jobs),
    ],
    failed: Annotated[bool, typer.Option("--failed", help="Only the tasks that did not succeed.")] = False,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Submit an ended job once more, or its failed tasks."""
    with told("retry"), connect(data) as client:
        from cress.cli.job_names import job_named
        from cress.client import calls

        id = job_named(client, job)
        page = client.ask(calls.retry(id, failed=failed))
        if as_json:
            print_json(page)
            return
        (made,) = page.jobs
        note = f"; {clean(made.note)}" if made.note else ""
        what = "repeats the tasks" if failed else "repeats"
        which = f" of job {id} that did not succeed" if failed else f" job {id}"
        print(f"job {made.id} ({clean(made.name)}) submitted: {what}{which}{note}")


def _named(key: str) -> str:
    """Return a key, or a path such as ``resource.cpu``, by the name of its key: ``licenses.m`` is ``licences.m``."""
    from cress.model.jobfile.keys import ALIASES, KEYS
    from cress.model.jobfile.reader import plain

    spellings = {plain(name): name for name in KEYS} | {plain(alias): name for alias, name in ALIASES.items()}
    outer, dot, entry = key.partition(".")
    return spellings.get(plain(outer), outer) + dot + entry


def _values(
    given: Sequence[tuple[str, str]], present: Mapping[str, Mapping[str, object]] | None = None
) -> dict[str, object]:
    """Return the values of keys; ``KEY.ENTRY`` sets, or without a value removes, one entry of those that are
    ``present``, if these are known. Raises InputError.
    """
    from cress.cli.job_options import KeyValue, with_values

    found: dict[str, object] = dict(present or {})
    seen: set[str] = set()
    for key, text in given:
        if key in seen:
            raise InputError("is given twice", hint="once", field=key)
        seen.add(key)
        outer, dot, entry = key.partition(".")
        if text.strip().lower() not in ("", "none"):
            found = with_values(found, [KeyValue(key, text, key)])
            continue
        if dot and present is not None and entry not in present[outer]:
            hint = f"one of {', '.join(present[outer])}" if present[outer] else f"the job has no {outer}"
            raise InputError("there is no such entry to remove", hint=hint, field=key)
        whole = found.get(outer)
        rest = {name: value for name, value in whole.items() if name != entry} if isinstance(whole, Mapping) else {}
        # A key without entries has its default.
        found[outer] = (rest or None) if dot else None
    if not found:
        from cress.model.changeable import CHANGEABLE

        raise InputError("no value is given", hint=f"KEY=VALUE, with one of the keys {', '.join(CHANGEABLE)}")
    return found


def _present(client: Client, ids: Sequence[int], keys: Collection[str]) -> dict[str, Mapping[str, object]]:
    """Return the entries that all jobs have under keys, of which one is to be changed. Raises InputError."""
    if len(ids) > MOST_COMPARED:
        what = f"one entry of {len(ids):,} jobs cannot be changed in one call"
        raise InputError(what, hint=f"at most {MOST_COMPARED} jobs, or all of {', '.join(sorted(keys))}")
    found: dict[str, Mapping[str, object]] = {}
    for id in ids:
        view = client.job(id)
        for key in keys:
            entries = getattr(view, key, None) or {}
            if found.setdefault(key, entries) != entries:
                raise InputError(
                    "the jobs differ in it, so no entry can be changed for all",
                    hint=f"one job, or all of {key}",
                    field=key,
                )
    return found
