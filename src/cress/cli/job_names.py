"""Job names in place of ids: ``web`` for 5 and ``web.2`` for 5.2, where unambiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.cli.common import job_id, task_id
from cress.model.errors import InputError
from cress.model.jobfile.values import READS_AS_ID

if TYPE_CHECKING:
    from cress.client import Client, JobView

# Most jobs of one name that a message lists.
MOST_TOLD = 5


def job_named(client: Client, text: str) -> int:
    """Return the job with an id or a name: the only live one of this name, otherwise the latest that has ended.

    ``GROUP/NAME`` is a job of that group. Raise ``InputError`` if there is none, or several are alive.
    """
    if READS_AS_ID.fullmatch(text) and "." not in text:
        return job_id(text)
    found = _find(client, text)
    if found is None:
        hint = "an id such as 12, or the name of a job; `cress jobs` lists them"
        raise InputError(f"there is no job {text!r}", hint=hint)
    return found


def task_named(client: Client, text: str) -> tuple[int, int | None]:
    """Return job and task in ``12.3`` or ``web.3``; ``None`` for the task in ``12`` and ``web``.

    Names may contain dots.
    """
    head, _, tail = text.rpartition(".")
    if READS_AS_ID.fullmatch(text):
        return task_id(text)
    found = _find(client, text)
    if found is not None:
        return found, None
    if not head or not tail.isdigit():
        return job_named(client, text), None
    return job_named(client, head), task_id(f"1.{tail}")[1]


def _find(client: Client, text: str) -> int | None:
    group, slash, name = text.rpartition("/")
    alive: list[JobView] = []
    for state in ("waiting", "running"):
        alive += client.jobs(name=name, group=group if slash else "", state=state, limit=MOST_TOLD + 1).jobs
    known = {view.id for view in alive}
    # The runs of a cron job have its name, which means the cron job itself.
    ids = sorted({view.id for view in alive if view.family not in known}, reverse=True)
    if len(ids) > 1:
        listed = ", ".join(map(str, ids[:MOST_TOLD])) + (" …" if len(ids) > MOST_TOLD else "")
        raise InputError(f"several jobs are called {name}", hint=f"one of the ids {listed}")
    if ids:
        return ids[0]
    over = client.jobs(name=name, group=group if slash else "", limit=1).jobs
    return over[0].id if over else None
