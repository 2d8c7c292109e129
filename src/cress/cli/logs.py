"""``cress logs``: the output of tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from cress.cli.common import Data, connect, count
from cress.cli.errors import Interrupted, told
from cress.cli.job_names import task_named
from cress.model.errors import InputError

EPILOG = """\
\b
Examples:
  cress logs 12              all tasks, one after the other
  cress logs 12.3 --stderr   standard error of task 3
  cress logs 12 --follow     as it is written, until the job is over
  cress logs web.0           of the service web, what its task 0 wrote

\b
Exit codes: 0 done, 2 bad input (no such job, say), 3 no center could be asked, 130 interrupted.
"""


def logs(
    job: Annotated[str, typer.Argument(metavar="JOB[.TASK]", help="A job (id or name), or one of its tasks.")],
    stderr: Annotated[bool, typer.Option("--stderr", help="Standard error instead of standard output.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the tasks are over.")] = False,
    data: Data = None,
) -> None:
    """Show what the tasks of a job wrote."""
    with told("logs"), connect(data) as client:
        id, task = task_named(client, job)
        from cress.cli.relay import MOST_TASKS, Relay, copy, standard

        total = client.job(id).tasks.total
        if task is None and total > MOST_TASKS:
            raise InputError(f"job {id} has {count(total, 'task')}", hint=f"name one, such as cress logs {id}.0")
        if task is not None and task >= total:
            raise InputError(f"job {id} has no task {task}", hint=f"0 to {total - 1}" if total > 1 else "only 0")
        stream = "stderr" if stderr else "stdout"
        output = standard(task is None and total > 1, merged=True)
        relay = Relay(client, id, output, (stream,), 0 if total == 1 else task, "logs")
        if not follow:
            for each in relay.look():
                if each.attempts:
                    copy(client, id, each.index, stream, output, follow=False)
            return
        try:
            relay.follow()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; job {id} is not touched") from None
