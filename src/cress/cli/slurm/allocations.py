"""``salloc``: hold nodes while a command or a shell runs here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cress.cli.slurm.batch import check_order
from cress.cli.slurm.common import FAILED, center, say, surroundings
from cress.cli.slurm.layout import AllocatedPlace, places_of, step_folder
from cress.model.errors import InputError
from cress.slurm.command_line import Given, parse, without_components
from cress.slurm.jobs import SlurmRequest, Translated, allocation, head, read_request
from cress.slurm.nodelist import compressed
from cress.slurm.option_table import STEP

if TYPE_CHECKING:
    from cress.client import Client

# Seconds between two looks for the start: short at first.
SOON, SELDOM = 0.02, 0.5


class Held(NamedTuple):
    """An allocation that runs: its job, its places, the variables of Slurm for it, and the folder of its steps."""

    id: int
    places: tuple[AllocatedPlace, ...]
    variables: dict[str, str]
    steps: Path


def salloc(name: str, words: Sequence[str]) -> int:
    """Wait for nodes, run the command, and return the nodes."""
    given, command = parse(words, STEP)
    without_components(command[:1])
    request = read_request(given, time.time())
    with center() as client:
        held = allocate(name, client, request, given, "interactive")
        if held is None:
            return FAILED
        say(name, f"Nodes {compressed(place.node for place in held.places)} are ready for job")
        if "no-shell" in request.values:
            return 0
        try:
            return _run(name, command or [os.environ.get("SHELL", "/bin/sh")], held.variables)
        finally:
            release(client, held.id, [place.task for place in held.places])
            shutil.rmtree(held.steps, ignore_errors=True)
            say(name, f"Relinquishing job allocation {held.id}")


def allocate(
    name: str,
    client: Client,
    request: SlurmRequest,
    given: Sequence[Given],
    title: str,
    *,
    tells: bool = True,
) -> Held | None:
    """Return an allocation once it runs; ``None``, with a message, if it ended before."""
    around = surroundings(client, given)
    translated = allocation(request, around, default_name=title)
    check_order(client, translated)
    for note in translated.notes if "quiet" not in request.values else ():
        say(name, note)
    translated.job["command"] = head(request, translated, "hold")
    (submitted,) = client.submit([translated.job]).jobs
    id = submitted.id
    if tells:
        say(name, f"Pending job allocation {id}")
    try:
        places = _places(name, client, id)
        steps = step_folder(client.job(id)) if places else None
    except KeyboardInterrupt:
        client.cancel(id)
        say(name, f"Job allocation {id} has been revoked.")
        raise
    except (InputError, OSError):
        client.cancel(id)
        raise
    if steps is None:
        say(name, f"error: Job allocation {id} has ended before it was used: {client.job(id).reason}")
        return None
    if tells:
        say(name, f"Granted job allocation {id}")
    return Held(id, places, _variables(id, translated, places), steps)


def _places(name: str, client: Client, id: int) -> tuple[AllocatedPlace, ...]:
    from cress.client.waiting import TELL_AFTER, Waiting

    waiting, pause = Waiting(TELL_AFTER), SOON
    while True:
        job = client.job(id)
        if job.ended is not None:
            return ()
        if job.state == "running" and (places := places_of(client, job)):
            return places
        if job.state == "waiting" and waiting.is_due() and waiting.tells(job.reason):
            say(name, f"job {id} queued and waiting for resources: {job.reason}")
        time.sleep(pause)
        pause = min(pause * 1.5, SELDOM)


def release(client: Client, id: int, tasks: Sequence[int], *, failed: bool = False) -> None:
    """End the waiting tasks of an allocation: at SIGTERM with success, at SIGUSR1 as failed."""
    from cress.client import NotFound, Refused

    for task in tasks[:1] if failed else tasks:
        try:
            client.signal(id, "USR1" if failed else "TERM", task)
        except (NotFound, Refused):
            continue


def _variables(id: int, translated: Translated, places: Sequence[AllocatedPlace]) -> dict[str, str]:
    nodes = compressed(place.node for place in places)
    environment = translated.job["environment"]
    assert isinstance(environment, dict)
    known = {name: str(value) for name, value in environment.items() if name.startswith("SLURM_")}
    return known | {
        "SLURM_JOB_ID": str(id),
        "SLURM_JOBID": str(id),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len({place.node for place in places})),
        "SLURM_NNODES": str(len({place.node for place in places})),
    }


def _run(name: str, command: Sequence[str], variables: dict[str, str]) -> int:
    # Ctrl-C is for the command.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 – there are no threads
        )
    except OSError as error:
        say(name, f"error: Unable to exec command {command[0]!r}: {error.strerror}")
        return FAILED
    finally:
        signal.signal(signal.SIGINT, before)
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:
            continue
