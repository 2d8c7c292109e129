"""Job names in place of ids: ``web`` for 5 and ``web.2`` for 5.2, where unambiguous."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.cli.common import job_id, task_id
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import Client, JobView

# Jobs of one name that are told.
MOST_TOLD = 5


def job_named(client: Client, text: str) -> int:
    """The job that an id or a name means: the only one of this name that is alive, else the latest that is over.

    ``GROUP/NAME`` is one of that group. Raises ``InputError`` when there is none, or more than one is alive.
    """
    if text.removeprefix("job-").isdigit():
        return job_id(text)
    found = _find(client, text)
    if found is None:
        hint = "an id such as 12, or the name of a job; `cress jobs` lists them"
        raise InputError(f"there is no job {text!r}", hint=hint)
    return found


def task_named(client: Client, text: str) -> tuple[int, int | None]:
    """Job and task in ``12.3`` or ``web.3``; ``None`` for the task in ``12`` and ``web``.

    Names may have dots in them.
    """
    head, _, tail = text.rpartition(".")
    if text.removeprefix("job-").partition(".")[0].isdigit():
        return task_id(text)
    found = _find(client, text)
    if found is not None:
        return found, None
    if not head or not tail.isdigit():
        return job_named(client, text), None
    return job_named(client, head), task_id(f"1.{tail}")[1]


def jobs_named(client: Client, texts: list[str]) -> list[int]:
    """The jobs that these mean, each once."""
    return list(dict.fromkeys(job_named(client, text) for text in texts))


def _find(client: Client, text: str) -> int | None:
    group, slash, name = text.rpartition("/")
    alive: list[JobView] = []
    for state in ("waiting", "running"):
        alive += client.jobs(name=name, group=group if slash else "", state=state, limit=MOST_TOLD + 1).jobs
    known = {view.id for view in alive}
    # The runs of a cron job are called as it is, and it is what is meant.
    ids = sorted({view.id for view in alive if view.family not in known}, reverse=True)
    if len(ids) > 1:
        listed = ", ".join(map(str, ids[:MOST_TOLD])) + (" …" if len(ids) > MOST_TOLD else "")
        raise InputError(f"several jobs are called {name}", hint=f"one of the ids {listed}")
    if ids:
        return ids[0]
    over = client.jobs(name=name, group=group if slash else "", limit=1).jobs
    return over[0].id if over else None
