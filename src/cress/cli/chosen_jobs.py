"""Jobs chosen for a change: by ids, ranges of ids, names, and filters."""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from cress.cli import completion
from cress.cli.common import duration_of
from cress.cli.job_names import job_named
from cress.cli.tables import clean
from cress.model.errors import InputError
from cress.model.records import JobState, canonical_state

if TYPE_CHECKING:
    from cress.client import Client, JobView

HELP = """\
Filters choose jobs that wait or run: all of those given must hold. Without --user they choose your own jobs; --user '*'
chooses those of all users. --name may be a pattern, such as 'train-*'. --dry-run lists the jobs and changes nothing."""
PAGE = 1_000
EVERYBODY = "*"

_RANGE = re.compile(r"([1-9]\d{0,17})-([1-9]\d{0,17})")
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the jobs; change nothing.")]


@dataclass(frozen=True, kw_only=True)
class JobChoice:
    """Jobs as the command line names them: words, and filters that are empty if not given."""

    words: list[str]
    user: str = ""
    group: str = ""
    state: str = ""
    name: str = ""
    label: str = ""
    before: str = ""

    @property
    def has_filters(self) -> bool:
        """Return whether a filter is given."""
        return any(getattr(self, name) for name in FILTERS)

    def ids(self, client: Client) -> list[int]:
        """Return the chosen jobs, each once, in the order of the words, then by id.

        Raises InputError if nothing is given, or if a word or the filters choose no job.
        """
        if not self.words and not self.has_filters:
            raise InputError("no job is given", hint="ids or names of jobs, or a filter such as --state waiting")
        if self.words and self.has_filters:
            raise InputError("jobs and filters are given", hint="either ids and names, or filters")
        found: list[int] = []
        for word in self.words:
            between = _RANGE.fullmatch(word)
            found += [job_named(client, word)] if between is None else _between(client, *map(int, between.groups()))
        if self.has_filters:
            found = self._filtered(client)
        return list(dict.fromkeys(found))

    def _filtered(self, client: Client) -> list[int]:
        state = canonical_state(self.state)
        states = [JobState.WAITING.value, JobState.RUNNING.value]
        if state and state not in states:
            raise InputError(
                f"{self.state!r} is no state of a job that goes on", hint="waiting or running", field="--state"
            )
        latest = time.time() - duration_of(self.before, "--before") / 1e6 if self.before else None
        user = "" if self.user == EVERYBODY else self.user or _own_name(client)
        exact = "" if re.search(r"[*?\[]", self.name) else self.name
        found = [
            view.id
            for view in _alive(client, [state] if state else states, user=user, group=self.group, name=exact)
            if (not self.name or fnmatchcase(view.name, self.name))
            and (latest is None or view.submitted < latest)
            and has_label(view, self.label)
        ]
        if not found:
            raise InputError("no job that waits or runs passes the filters", hint="`cress jobs` lists jobs")
        return sorted(found)


# The options that choose jobs, besides the words: each is a field of ``JobChoice``.
FILTERS: dict[str, Any] = {
    "user": typer.Option("--user", metavar="USER", help="Jobs of this user; '*': of all users."),
    "group": typer.Option("--group", metavar="GROUP", help="Jobs of this group."),
    "state": typer.Option("--state", metavar="STATE", help="Jobs in this state: waiting or running."),
    "name": typer.Option("--name", metavar="PATTERN", help="Jobs with this name, such as 'train-*'."),
    "label": typer.Option("--label", metavar="NAME[=VALUE]", help="Jobs with this label."),
    "before": typer.Option(
        "--before", metavar="DURATION", help="Jobs that were submitted longer ago than this, such as 2h."
    ),
}
assert {"words", *FILTERS} == {field.name for field in fields(JobChoice)}
_WORDS = typer.Argument(
    metavar="JOB",
    help="Jobs: ids, ranges such as 12-40, or names.",
    show_default=False,
    autocompletion=completion.jobs,
)


def choosing(verb: Callable[..., None], words: Any = _WORDS) -> Callable[..., None]:
    """Give a verb the words and the options that choose jobs; it gets them as ``choice``, a ``JobChoice``."""
    own = inspect.signature(verb).parameters
    hints = get_type_hints(verb, include_extras=True)
    given = [_parameter("jobs", Annotated[list[str] | None, words], None)]
    given += [_parameter(name, Annotated[str, option], "") for name, option in FILTERS.items()]
    given += [_parameter(name, hints[name], own[name].default) for name in own if name != "choice"]

    @functools.wraps(verb)
    def chosen(*, jobs: list[str] | None, **options: Any) -> None:
        filters = {name: options.pop(name) for name in FILTERS}
        verb(choice=JobChoice(words=jobs or [], **filters), **options)

    chosen.__signature__ = inspect.Signature(given)  # type: ignore[attr-defined]
    chosen.__annotations__ = {parameter.name: parameter.annotation for parameter in given}
    return chosen


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def has_label(view: JobView, label: str) -> bool:
    """Return whether a job has a label, given as ``NAME`` or ``NAME=VALUE``; an empty text: any job."""
    name, equals, value = label.partition("=")
    return not label or (view.labels.get(name) == value if equals else name in view.labels)


def _own_name(client: Client) -> str:
    from cress.client import calls

    return client.ask(calls.whoami()).user


def _between(client: Client, first: int, last: int) -> list[int]:
    """Return the jobs of a range of ids that wait or run."""
    if first > last:
        raise InputError(f"{first}-{last} is no range", hint=f"{last}-{first}")
    states = [JobState.WAITING.value, JobState.RUNNING.value]
    found = [view.id for view in _alive(client, states, before=last + 1) if view.id >= first]
    if not found:
        raise InputError(f"no job of {first}-{last} waits or runs", hint="`cress jobs` lists jobs")
    return sorted(found)


def _alive(client: Client, states: list[str], *, before: int | None = None, **filters: Any) -> list[JobView]:
    found: dict[int, JobView] = {}
    for state in states:
        next_page = before
        while True:
            page = client.jobs(limit=PAGE, before=next_page, state=state, **filters)
            found |= {view.id: view for view in page.jobs}
            if page.next is None:
                break
            next_page = page.next
    return list(found.values())


def list_only(client: Client, ids: list[int], what: str) -> None:
    """Print what would become of each job."""
    for id in ids:
        print(f"job {id} ({clean(client.job(id).name)}) would be {what}")
