"""A node that a stranger keeps busy takes no new tasks, and does again afterwards: with real executors and a real
stranger.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from cress.client import Client
from tests.system.cluster import PATIENCE, Cluster, wait_until

# Loads that a center is told, and those that an executor tells, are tested in short elsewhere.
pytestmark = pytest.mark.long

# Times as fast as documented, so that it takes seconds.
PACE = 8


@contextlib.contextmanager
def stranger(cpu: int) -> Iterator[None]:
    """A process outside the cluster that burns one processor."""
    program = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """What is started here runs on one processor, and so does what that starts."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def load_of(client: Client, name: str) -> float:
    """The part of the time that the processors of a node are busy, as the center knows it."""
    (node,) = (each for each in client.nodes() if each.name == name)
    return -1.0 if node.load is None else node.load.cpu


def state_of(client: Client, name: str) -> str:
    return next(each.state for each in client.nodes() if each.name == name)


def test_a_node_with_too_little_free_memory_takes_nothing_until_there_is_enough(bare: Cluster) -> None:
    """By the limit, which is more than any machine has and then less: how busy this one is does not matter."""
    # Nobody can say that tasks were promised so much of it.
    large = "--label", f"MemoryTotal={2**49}"
    bare.start_center("--option", "overload_cpu=0", "--option", f"overload_memory={2**45}")
    bare.start_executor("n1", "<4, 1G>", "--load-pace", str(PACE), *large, judged=True)
    with bare.client() as client:
        wait_until(lambda: state_of(client, "n1") == "overloaded", "an overloaded node")
        job = submit(client, "true")
        reason = wait_until(lambda: client.job(job).reason, "a reason")
        assert reason.startswith("every node is closed to new tasks; n1 is overloaded (")
        assert reason.endswith(" of memory free)")
        shown = bare.cress("job", job).stdout
        assert "n1 is overloaded (" in " ".join(shown.split())
        assert client.job(job).state == "waiting"
    bare.kill_center()
    bare.start_center("--option", "overload_cpu=0", "--option", "overload_memory=1K")
    with bare.client() as client:
        wait_until(lambda: client.job(job).state == "succeeded", "the job")
        assert state_of(client, "n1") == "up"


def test_a_node_that_a_stranger_keeps_busy_gets_no_new_tasks(bare: Cluster) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("NOT TESTED: it takes two processors to keep one busy")
    bare.start_center("--option", "overload_memory=0")
    processors = sorted(os.sched_getaffinity(0), reverse=True)
    for name, cpu in zip(("busy", "other"), processors, strict=False):
        with pinned(cpu):
            bare.start_executor(name, "<4, 1G>", "--load-pace", str(PACE), judged=True)
    with bare.client() as client:
        with stranger(processors[0]):
            wait_until(lambda: state_of(client, "busy") == "overloaded", "the busy node being left out")
            there = submit(client, "true", "Nodes in (busy)")
            # The other processor may be busy too, with other tests: then these wait, and are no less right.
            anywhere = [submit(client, "sleep 1") for _ in range(4)]
            reason = wait_until(lambda: client.job(there).reason, "the reason")
            assert re.search(r"busy is overloaded \(cpu |nodes are overloaded: .*busy \(cpu ", reason), reason
            with contextlib.suppress(AssertionError):
                wait_until(
                    lambda: all(client.job(each).state == "succeeded" for each in anywhere), "the others", patience=10
                )
            assert {node for each in anywhere for node in nodes_of(client, each)} <= {"other"}
            assert nodes_of(client, there) == set()
            assert state_of(client, "busy") == "overloaded"
        deadline = time.monotonic() + PATIENCE / 2
        while client.job(there).state != "succeeded":
            if time.monotonic() > deadline:
                busy = load_of(client, "busy")
                assert busy > 0.8, f"the node is at {busy:.0%} and takes no tasks: {client.job(there).reason}"
                pytest.skip(f"TESTED IN PART: somebody else keeps processor {processors[0]} at {busy:.0%}")
            time.sleep(0.1)


def submit(client: Client, command: str, requirement: str = "") -> int:
    """A job with one small task."""
    job = {"command": command, "resource": "<1, 1M>"} | ({"requirement": requirement} if requirement else {})
    return client.submit([job]).jobs[0].id


def nodes_of(client: Client, job: int) -> set[str]:
    """Where the tasks of a job are, or were."""
    return {attempt.node for attempt in client.task(job, 0).attempts}
