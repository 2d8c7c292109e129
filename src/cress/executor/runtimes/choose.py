"""Choice of a node's runtimes: each engine is tried with a real container, and the first that works is used."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cress.executor.hidden_folders import keep_named, named_folders
from cress.executor.runtimes import pause
from cress.executor.runtimes.base import Spawn, announced
from cress.executor.runtimes.cgroups import Cgroups, device_of
from cress.executor.runtimes.container import FOLDER, ContainerRuntime
from cress.executor.runtimes.egress import CONTROLLER, Egress
from cress.executor.runtimes.engines import ENGINES
from cress.executor.runtimes.engines.base import Engine
from cress.executor.runtimes.launcher import Launcher
from cress.executor.spread_folders import spread
from cress.model.run import Run
from cress.protocol.regular_files import read_regular
from cress.shell.executor.starting import StartError

# The name of the file, among the containers, with the interface on which the egress of tasks is limited.
EGRESS = "egress"

_COMMANDS = {"bubblewrap": "bwrap"}


PROCESS, CONTAINER, AUTO = RUNTIMES = ("process", "container", "auto")


class FoundRuntimes(msgspec.Struct, frozen=True):
    """The runtimes found.

    ``container`` is ``None`` if containers cannot be run, for the reason ``why``. ``unlimited`` are sentences about
    limits that are not enforced in containers.
    """

    container: ContainerRuntime | None
    why: str = ""
    unlimited: tuple[str, ...] = ()


def find(
    node: str,
    environment: Mapping[str, str],
    home: Path,
    *,
    writable: tuple[str, ...] = (),
    engines: Sequence[Engine] = ENGINES,
    egress: str = "",
    secret: Sequence[str] = (),
    launcher: Launcher | None = None,
) -> FoundRuntimes:
    """Find the runtimes that work in this process, which has no threads and no other children; takes about 10 ms.

    ``egress`` is the interface on which the egress of tasks may be limited; empty: none. ``launcher`` starts containers
    where it can.
    """
    if os.geteuid() != 0:
        return FoundRuntimes(None, "the executor is not root")
    cgroups = Cgroups.find(node, str(home.absolute()), (CONTROLLER,) if egress else ())
    if not cgroups.prepare():
        return FoundRuntimes(None, cgroups.why)
    folder = home / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    spread(folder)
    if not pause.write(folder / "pause"):
        return FoundRuntimes(None, "the first process of a container is not available for this processor")
    queue = Egress(egress, cgroups) if egress else None
    unqueued = "the executor was given no interface for it" if queue is None else queue.begin()
    if unqueued:
        queue = None
    known = folder / EGRESS
    if queue is None:
        known.unlink(missing_ok=True)
    else:
        known.write_text(egress)
    keep_named(home, secret)
    why = []
    for engine in engines:
        if shutil.which(_COMMANDS.get(engine.name, engine.name), path=environment.get("PATH")) is None:
            why.append(f"{engine.name} is not installed")
            continue
        runtime = ContainerRuntime(node, environment, home, engine, cgroups, writable, queue, secret, launcher)
        problem = _try(runtime, folder, launcher)
        if not problem:
            return FoundRuntimes(runtime, unlimited=tuple(_unlimited(cgroups, home, unqueued)))
        why.append(problem)
    return FoundRuntimes(None, "; ".join(why))


def default(runtime: str, found: FoundRuntimes) -> str:
    """Return the runtime for jobs that name none, by the executor's option."""
    if runtime == AUTO:
        return PROCESS if found.container is None else CONTAINER
    return runtime


def unlimited(runtime: str, found: FoundRuntimes) -> tuple[str, ...]:
    """Return sentences about missing limits on this node, where ``runtime`` is that of jobs that name none."""
    sentences = list(found.unlimited)
    if found.container is None:
        sentences.append(f"containers cannot be run: {found.why}")
    if runtime == PROCESS:
        sentences.insert(0, "tasks of the runtime 'process' are limited only in the memory of each single process")
    return tuple(sentences)


def reopen(
    node: str, environment: Mapping[str, str], home: Path, engine: str, writable: tuple[str, ...] = ()
) -> ContainerRuntime:
    """Return the runtime that ``find`` has found in another process, without a new trial."""
    known = home / FOLDER / EGRESS
    device = read_regular(known).decode() if known.exists() else ""
    cgroups = Cgroups.find(node, str(home.absolute()), (CONTROLLER,) if device else ())
    cgroups.prepare()
    queue = Egress(device, cgroups) if device else None
    (chosen,) = (candidate for candidate in ENGINES if candidate.name == engine)
    return ContainerRuntime(node, environment, home, chosen, cgroups, writable, queue, named_folders(home))


def _try(runtime: ContainerRuntime, folder: Path, launcher: Launcher | None) -> str:
    """Return the reason why a container does not run with this engine; empty if it runs."""
    place = folder / "trial"
    # No real attempt has the number 0.
    runtime.remove(0)
    try:
        pid, fd = runtime.spawn(Spawn(0, 0, Run(job=0, command=("true",), directory="/"), os.fsencode(place)))
        if not pid and launcher is not None:
            ((pid, _),) = launcher.answers()
            if pid < 0:
                os.close(fd)
                return f"no process could be made: {os.strerror(-pid)}"
        os.set_blocking(fd, True)
        told = b""
        while data := os.read(fd, 4096):
            told += data
        os.close(fd)
        os.waitpid(pid, 0)
        program, rest = announced(told)
        status = os.waitpid(program, 0)[1] if program else 0
        problem = runtime.problem(Run(job=0, command=("true",)), rest)
        if problem is not None:
            return str(problem)
        if not program or status:
            return f"a program in a container of {runtime.engine.name} ends with {os.waitstatus_to_exitcode(status)}"
        return ""
    except (StartError, OSError) as error:
        return f"{runtime.engine.name}: {error}"
    finally:
        runtime.remove(0)
        # A machine without containers of Cress keeps none of their folders.
        runtime.cgroups.close()
        shutil.rmtree(place, ignore_errors=True)


def _unlimited(cgroups: Cgroups, home: Path, unqueued: str) -> list[str]:
    found = cgroups.lacks()
    if cgroups.has("blkio") and not device_of(str(home)):
        found.append("disk throughput is not limited: the executor's folder is not on a separate disk")
    if unqueued:
        found.append(f"network egress is not limited: {unqueued}")
    return found
