"""Terms at the listener of executors: granted, postponed until a look at the supervisor, or refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cress.center.executors.local_executors import is_dead, recognise
from cress.lifecycle.tables.rows import LiveNode
from cress.model.node import Node, Supervisor
from cress.model.reports import Cause, Started
from cress.protocol.messages import VERSION, Beat, Hello, Refused, Stops, Term, Welcome
from cress.store.sqlite import SqliteStore
from tests.center.program import Center, eventually

SECOND = 1_000_000
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.fixture
def hurried(tmp_path: Path) -> Iterator[Center]:
    """A center whose terms are short."""
    with Center(tmp_path / "data", option="term=1s term_margin=250ms", forked=True) as running:
        yield running


def outcomes(center: Center, job: int) -> list[str]:
    """How the attempts of a job's first task stand."""
    return [each["outcome"] for each in center.get(f"/v1/jobs/{job}/tasks")["tasks"][0]["attempts"]]


def test_an_executor_elsewhere_gets_a_term_with_its_welcome_and_one_for_each_beat(center: Center) -> None:
    with center.executor(bound=True, sent=5) as executor:
        assert isinstance(executor.first, Welcome)
        assert (executor.first.sent, executor.first.term) == (5, 55 * SECOND)
        executor.send(Beat(sent=9))
        answer = executor.receive()
        assert isinstance(answer, Term)
        assert replace(answer, witness=b"") == Term(epoch=executor.epoch, sent=9, term=55 * SECOND)


def test_what_ran_on_a_node_that_is_silent_for_a_term_runs_elsewhere(hurried: Center) -> None:
    with hurried.executor("n1", bound=True) as lost:
        job, kept = hurried.submit(), hurried.submit(on_partition="keep")
        first, second = [each for _ in (1, 2) for each in lost.launches()]
        lost.started(first.attempt, second.attempt)
        eventually(lambda: hurried.get("/v1/state")["tasks_running"] == 2)
        last = time.monotonic()
        lost.send(Beat(sent=1))
        assert isinstance(lost.receive(), Term)
    with hurried.executor("n2", bound=True) as other:
        (launch,) = other.launches()
        assert launch.job == job
        assert time.monotonic() - last >= 1.25, "not before term and margin are over"
    assert outcomes(hurried, job) == ["lost", "running"]
    assert outcomes(hurried, kept) == ["running"]
    reports = tuple(Started(attempt=each.attempt, at=1, pid=7) for each in (first, second))
    with hurried.executor("n1", bound=True, reports=reports) as back:
        stops = back.stops()
        assert [each.attempt for each in stops.stops] == [first.attempt], "what was replaced must not go on"
        back.ended(second.attempt)
    assert hurried.get(f"/v1/jobs/{kept}")["state"] == "succeeded"


def test_a_node_whose_tasks_began_without_a_term_is_waited_for(hurried: Center) -> None:
    with hurried.executor("n1") as executor:  # not bound: its supervisor had never heard of a term
        job = hurried.submit()
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        eventually(lambda: hurried.get("/v1/state")["tasks_running"] == 1)
    time.sleep(2)
    assert outcomes(hurried, job) == ["running"]


def test_a_task_that_its_node_stopped_at_the_end_of_a_term_runs_again(center: Center) -> None:
    with center.executor(bound=True) as executor:
        job = center.submit()
        (launch,) = executor.launches()
        executor.ended(launch.attempt, code=-15, cause=Cause.TERM)
        assert executor.launches()[0].attempt != launch.attempt
    assert outcomes(center, job) == ["lost", "running"]


# --- this machine -----------------------------------------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """In the place of a supervisor."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"]) as it:
        yield it
        it.kill()


def supervisor(process: subprocess.Popen[bytes], folder: Path) -> Supervisor:
    fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b") ")[2].split()
    return Supervisor(process.pid, int(fields[19]), str(folder))


def test_an_executor_of_this_machine_has_no_term_and_is_dead_when_nothing_of_it_is_left(
    center: Center, process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    with center.executor(boot=BOOT, bound=True, supervisor=supervisor(process, tmp_path)) as executor:
        assert isinstance(executor.first, Welcome)
        assert executor.first.term == 0
        job = center.submit(on_partition="keep")
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        eventually(lambda: center.get("/v1/state")["tasks_running"] == 1)
    process.kill()
    process.wait()
    eventually(lambda: outcomes(center, job) == ["lost"])
    assert center.get(f"/v1/jobs/{job}")["state"] == "waiting"


def node(process: subprocess.Popen[bytes], folder: Path) -> LiveNode:
    """A node as the center remembers it that saw its supervisor."""
    there = supervisor(process, folder)
    local = recognise(Hello(version=VERSION, name="n1", resource="<1>", boot=BOOT, supervisor=there))
    assert local is not None
    return LiveNode(node=Node(name="n1", capacity=(1,)), boot=BOOT, connected=False, local=local)


def test_a_node_is_dead_when_supervisor_and_tasks_are_gone(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    path = {"PATH": os.environ["PATH"]}
    it = node(process, tmp_path)
    with (
        subprocess.Popen(["sleep", "1000"], env={"CRESS_DIRECTORY": f"{tmp_path}/1", **path}) as task,
        subprocess.Popen(["sh", "-c", "sleep 1000 & exec sleep 1000"], env=path, start_new_session=True) as hidden,
    ):
        try:
            for each in (process, task):
                assert not is_dead(it, {hidden.pid})
                each.kill()
                each.wait()
            assert not is_dead(it, {hidden.pid}), "known by its session, whatever it has done to its environment"
            hidden.kill()
            hidden.wait()
            assert not is_dead(it, {hidden.pid}), "a child of it goes on"
        finally:
            os.killpg(hidden.pid, signal.SIGKILL)
    eventually(lambda: is_dead(it, {hidden.pid}))
    assert is_dead(it, set())


def test_a_process_that_left_its_session_and_cleared_its_environment_is_known_by_its_mark(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    it = node(process, tmp_path)
    process.kill()
    process.wait()
    hide = (
        f"import os; from cress.executor.marks import attempt_marks; attempt_marks({os.fsencode(tmp_path)!r}).put(7); "
        "os.setsid(); os.execve('/bin/sleep', ['sleep', '1000'], {})"
    )
    assert is_dead(it, set())
    with subprocess.Popen([sys.executable, "-c", hide]) as hidden:
        try:
            eventually(lambda: Path(f"/proc/{hidden.pid}/cmdline").read_bytes() == b"sleep\x001000\x00")
            assert not is_dead(it, set())
        finally:
            hidden.kill()
    assert is_dead(it, set())


def test_what_cannot_be_known_is_not_dead(process: subprocess.Popen[bytes], tmp_path: Path) -> None:
    it = node(process, tmp_path)
    assert it.local is not None
    process.kill()
    process.wait()
    assert is_dead(it, set())
    assert not is_dead(replace(it, local=replace(it.local, space="pid:[1]")), set()), "seen from another container"
    assert not is_dead(replace(it, boot="b", local=replace(it.local, machine="m")), set()), "from another machine"
    assert is_dead(replace(it, boot="b", local=replace(it.local, machine="")), set()) is False
    assert is_dead(replace(it, boot="b"), set()) is bool(it.local.machine), "this machine was restarted"


@pytest.mark.parametrize("wrong", ["boot", "start time", "no process"])
def test_who_cannot_be_looked_at_keeps_terms(
    center: Center, process: subprocess.Popen[bytes], tmp_path: Path, wrong: str
) -> None:
    there = supervisor(process, tmp_path)
    if wrong == "start time":
        there = Supervisor(there.pid, there.ticks + 1, there.attempts)
    elif wrong == "no process":
        process.send_signal(signal.SIGKILL)
        process.wait()
    boot = "another" if wrong == "boot" else BOOT
    with center.executor(boot=boot, bound=True, supervisor=there) as executor:
        assert isinstance(executor.first, Welcome)
        assert executor.first.term == 55 * SECOND


# --- an operator's word -----------------------------------------------------------------------------------------------


def test_a_node_that_an_operator_forgets_is_dead(center: Center) -> None:
    with center.executor("n1") as executor:
        job = center.submit(on_partition="keep")
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        eventually(lambda: center.get("/v1/state")["tasks_running"] == 1)
        refused = center.post("/v1/nodes/n1/forget", status=409)
        assert refused["message"].startswith("node n1 is connected, so it cannot be declared dead")
    eventually(lambda: center.get("/v1/nodes/n1")["state"] == "away")
    assert center.post("/v1/nodes/n1/forget")["running"] == 1
    assert center.get("/v1/nodes")["nodes"] == []
    center.post("/v1/nodes/n1/forget", status=404)
    assert outcomes(center, job) == ["lost"]
    with center.executor("n1", reports=(Started(attempt=launch.attempt, at=1, pid=1),)) as back:
        message = back.receive()
        if isinstance(message, Stops):
            assert [each.attempt for each in message.stops] == [launch.attempt]
        eventually(lambda: outcomes(center, job) == ["lost", "running"])


# --- who leads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", [2, 99])
def test_a_center_whose_store_has_a_newer_epoch_gives_no_orders(center: Center, heard: int) -> None:
    with center.executor("n1") as executor:
        job = center.submit(tasks=100)
        executor.launches()
        # Another center has begun on the same data, which the lock of a network file system may have let in.
        with closing(SqliteStore(center.data / "cress.db")) as other:
            saved = other.load()
            assert other.take_over(saved.epoch, saved.number, saved.cluster) == 2
        sentence = "this center (epoch 1) does not lead any more: another one has taken the store over (epoch 2)"
        with center.executor("n2", epoch=heard) as other_node:
            assert isinstance(other_node.first, Refused)
            assert not other_node.first.permanent
            assert other_node.first.what.startswith(sentence)
        assert executor.closed(), "nobody is granted a term by it any more"
    assert center.get("/v1/state")["problem"].startswith(sentence)
    assert center.get(f"/v1/jobs/{job}")["id"] == job, "what is stored can be read"
    assert center.post("/v1/jobs", {"jobs": [{"command": ["true"]}]}, 503)["message"].startswith(sentence)


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "another version": ({"version": 1}, "the executor speaks protocol 1, this center 5 to 6"),
    "a rack of two words": ({"rack": "r 1"}, "'r 1' is not a valid rack"),
    "an address that is a list": ({"address": "a,b"}, "'a,b' is not a valid address"),
    "ports that go down": ({"ports": (9, 8)}, "9-8 is not a range of ports"),
    "ports that are none": ({"ports": (1, 70_000)}, "a message cannot be read"),
    "a label like a resource": ({"attributes": {"idle_memory": 7}}, "idle_memory is a resource"),
    "a label that means something": ({"attributes": {"Rack": "r1"}}, "Rack means something else in constraints"),
    "labels that are the same": ({"attributes": {"fast_disk": 1, "FastDisk": 2}}, "label FastDisk: fast_disk is the"),
    "no name": ({"name": ""}, "'' is not a name of a node"),
    "a path": ({"name": "a/b"}, "'a/b' is not a name of a node"),
    "no resource": ({"resource": "<4"}, "resource of the node: "),
    "another cluster": ({"cluster": "0123"}, "the executor's directory belongs to another cluster"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_for_good(shared: Center, case: str) -> None:
    hello, sentence = REFUSED[case]
    arguments: dict[str, Any] = {"name": "refused"} | hello
    with shared.executor(**arguments) as executor:
        assert isinstance(executor.first, Refused)
        assert executor.first.permanent
        assert executor.first.what.startswith(sentence)
        assert executor.closed()
    assert shared.get("/v1/state")["problem"] == ""
