"""The cost of starting tasks, in the supervisor: gates that do not depend on the machine.

One counts calls of functions. The other one compares processor time with that of a plain loop of ``posix_spawn`` in the
same run: a busy machine makes both longer.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cress.model.run import Run
from tests.counted import calls_in, system_calls_in
from tests.executor.harness import Client, SupervisorProcess, supervisor

# Calls for each task from the order to the end. Counted on 2026-11-28: 300; and a fifth, since the number of turns
# depends on when tasks end. (A fork makes fewer calls here: its child makes them, which are not counted.)
COUNTED, ROOM = 310.0, 1.2
# Those of the operating system among them. Counted on 2026-11-28: 28.5; 36.2 when descriptors were duplicated,
# starts were looked up in /proc, and control groups were removed twice.
OF_SYSTEM, ITS_ROOM = 28.5, 1.15
# Processor time of the supervisor for each task, as a part of that of posix_spawn and its program. Measured on
# 2026-11-28, on two busy processors of an AMD EPYC: 0.6 (0.33 ms of 0.6 ms). With a fork it was 3.5 (2.1 ms).
PART = 1.5
FEW, MANY, TOGETHER = 40, 200, 20

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler: without a launcher starts cost more"
)


class Counted(SupervisorProcess):
    """A supervisor whose calls are counted."""

    def command(self) -> list[str]:
        words = super().command()
        return [words[0], "-m", "cProfile", "-o", str(self.counts), *words[1:]]

    @property
    def counts(self) -> Path:
        return self.directory.with_suffix(".profile")


def _run(client: Client, tasks: int, after: int = 0) -> None:
    """Run so many tasks, a few at a time."""
    for first in range(after + 1, after + tasks + 1, TOGETHER):
        attempts = range(first, first + TOGETHER)
        client.launch(Run(job=1, command=("/bin/true",), tasks=tasks), *attempts)
        client.wait_ended(*attempts)
        client.durable(*attempts)


def test_a_task_costs_so_many_calls(tmp_path: Path) -> None:
    counts = []
    for tasks in (FEW, MANY):
        parent = Counted(tmp_path / f"e{tasks}")
        try:
            client = parent.start()
            _run(client, tasks)
            parent.said()
            counts.append((calls_in(parent.counts), system_calls_in(parent.counts)))
        finally:
            parent.close()
    counted, of_system = ((many - few) / (MANY - FEW) for few, many in zip(*counts, strict=True))
    assert counted <= ROOM * COUNTED, f"{counted:.0f} calls for each task, at most {ROOM * COUNTED:.0f}"
    assert of_system <= ITS_ROOM * OF_SYSTEM, f"{of_system:.1f} calls of the system, at most {ITS_ROOM * OF_SYSTEM:.1f}"


def test_the_supervisor_takes_less_time_than_the_programs(tmp_path: Path) -> None:
    with supervisor(tmp_path / "executor") as parent:
        client = parent.start()
        _run(client, TOGETHER)
        assert parent.process is not None
        before = _spent(parent.process.pid)
        _run(client, MANY, after=TOGETHER)
        ours = (_spent(parent.process.pid) - before) / MANY
    began = os.times()
    for _ in range(MANY):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    plain = (sum(os.times()[:4]) - sum(began[:4])) / MANY
    assert ours <= PART * plain, f"{1000 * ours:.2f} ms, of {1000 * plain:.2f} ms for posix_spawn alone"


def _spent(pid: int) -> float:
    """Return the seconds of processor that a process has taken, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
