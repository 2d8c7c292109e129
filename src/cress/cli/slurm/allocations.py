"""``salloc``: hold nodes while a command or a shell runs here."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cress.cli.slurm.batch import after_singletons
from cress.cli.slurm.common import FAILED, center, say, surroundings
from cress.cli.slurm.layout import AllocatedPlace, places_of
from cress.slurm.command_line import parse
from cress.slurm.jobs import Translated, allocation, head, read_request
from cress.slurm.nodelist import compressed
from cress.slurm.option_table import STEP

if TYPE_CHECKING:
    from cress.client import Client

# Seconds of one request that waits, and between two looks for the start.
PAUSE = 0.2


def salloc(name: str, words: Sequence[str]) -> int:
    """Wait for nodes, run the command, and return the nodes."""
    given, command = parse(words, STEP)
    request = read_request(given)
    with center() as client:
        around = surroundings(client, given)
        translated = allocation(request, around, default_name="interactive")
        after_singletons(client, translated)
        for note in translated.notes if "quiet" not in request.values else ():
            say(name, note)
        translated.job["command"] = head(request, translated, "hold")
        (submitted,) = client.submit([translated.job]).jobs
        id = submitted.id
        say(name, f"Pending job allocation {id}")
        try:
            places = _places(client, id)
        except KeyboardInterrupt:
            client.cancel(id)
            say(name, f"Job allocation {id} has been revoked.")
            raise
        if not places:
            say(name, f"error: Job allocation {id} has ended before it was used: {client.job(id).reason}")
            return FAILED
        say(name, f"Granted job allocation {id}")
        say(name, f"Nodes {compressed(place.node for place in places)} are ready for job")
        if "no-shell" in request.values:
            return 0
        try:
            return _run(name, command or [os.environ.get("SHELL", "/bin/sh")], _variables(id, translated, places))
        finally:
            release(client, id, [place.task for place in places])
            say(name, f"Relinquishing job allocation {id}")


def _places(client: Client, id: int) -> tuple[AllocatedPlace, ...]:
    while True:
        job = client.job(id)
        if job.ended is not None:
            return ()
        if job.state == "running" and (places := places_of(client, job)):
            return places
        time.sleep(PAUSE)


def release(client: Client, id: int, tasks: Sequence[int]) -> None:
    """End the waiting tasks of an allocation: they end with success at SIGTERM."""
    from cress.client import NotFound, Refused

    for task in tasks:
        try:
            client.signal(id, "TERM", task)
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
