"""The supervisor through its real socket, with real processes."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.folder import socket_path
from cress.model.job import OnPartition
from cress.model.reports import Cause, Ended
from cress.model.run import Run
from cress.protocol.messages import Launch, Launches, Signal, Stop, Stops, Welcome
from tests.executor.harness import (
    PATIENCE,
    Client,
    SupervisorProcess,
    left_over,
    shell,
    shut_down,
    supervisor,
    until,
)

ENDINGS = {
    "a program that succeeds": (Run(job=1, command=("true",)), 0),
    "a program that fails": (Run(job=1, command=("false",)), 1),
    "a code of its own": (shell("exit 77"), 77),
    "the largest code": (shell("exit 255"), 255),
    "killed by itself": (shell("kill -9 $$"), -9),
    "ended by a signal that it sends itself": (shell("kill -TERM $$"), -15),
    "a broken pipe has its default effect": (shell("kill -PIPE $$"), -13),
    "found by its full path": (Run(job=1, command=("/bin/true",)), 0),
    "found by the job's own PATH": (Run(job=1, command=("true",), environment=(("PATH", "/nowhere:/bin"),)), 0),
    "found from its directory": (Run(job=1, command=("./true",), directory="/bin"), 0),
}


@pytest.mark.parametrize("case", ENDINGS, ids=str)
def test_ends_as_it_ends(client: Client, case: str) -> None:
    run, code = ENDINGS[case]
    end = client.run(run, 5)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, code, "")
    assert client.started[5].at == end.started
    assert 0 < end.started <= end.at


@pytest.fixture
def odd_files(tmp_path: Path) -> Path:
    (tmp_path / "plain").write_text("no program\n")
    (tmp_path / "text").write_text("no program\n")
    (tmp_path / "text").chmod(0o755)
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    return tmp_path


NOT_STARTED = {
    "no such command": (Run(job=1, command=("no-such-command",)), "command not found: no-such-command"),
    "no such file": (Run(job=1, command=("/no/such",)), "command not found: /no/such"),
    "an empty name": (Run(job=1, command=("",)), "command not found: "),
    "no command": (Run(job=1, command=()), "the job has no command"),
    "not executable": (Run(job=1, command=("{odd}/plain",)), "not executable by root: {odd}/plain"),
    "a folder": (Run(job=1, command=("/etc",)), "not executable by root: /etc"),
    "no program": (
        Run(job=1, command=("{odd}/text",)),
        "{odd}/text is not a program: neither built for this machine nor a script that begins with #!",
    ),
    "no interpreter": (
        Run(job=1, command=("{odd}/script",)),
        "{odd}/script cannot be started: the interpreter that it names does not exist on this node",
    ),
    "no such directory": (
        Run(job=1, command=("true",), directory="/no/such"),
        "directory /no/such does not exist on this node",
    ),
    "a directory that is a file": (
        Run(job=1, command=("true",), directory="/etc/passwd"),
        "directory /etc/passwd is a file on this node",
    ),
    "too long": (
        Run(job=1, command=("true", "x" * 200_000)),
        "command line and environment of true are too long for this node",
    ),
    "a zero byte": (Run(job=1, command=("true", "a\0b")), "'a\\x00b' contains a zero byte"),
    "an environment that cannot be": (
        Run(job=1, command=("true",), environment=(("A=B", "c"),)),
        "true cannot be started: illegal environment variable name",
    ),
}


@pytest.mark.parametrize("case", NOT_STARTED, ids=str)
def test_says_why_it_did_not_start(client: Client, odd_files: Path, case: str) -> None:
    run, sentence = NOT_STARTED[case]
    command = tuple(part.replace("{odd}", str(odd_files)) for part in run.command)
    run = Run(job=1, command=command, directory=run.directory, environment=run.environment)
    user = subprocess.check_output(["id", "-un"], text=True).strip()
    end = client.run(run, 5)
    assert end.error == sentence.replace("{odd}", str(odd_files)).replace("root", user)
    assert (end.cause, end.code, end.started) == (Cause.NOT_STARTED, None, 0)
    assert 5 not in client.started
    assert client.run(shell("exit 3"), 6).code == 3, "and the supervisor goes on"


def test_an_order_that_does_not_say_how_to_run_a_job_is_refused(client: Client) -> None:
    client.send(Launches(epoch=1, runs=(), launches=(Launch(5, 8, 0),)))
    end = client.wait_ended(5)
    assert (end.cause, end.error) == (Cause.NOT_STARTED, "the order does not say how to run job 8")


# --- what a task finds --------------------------------------------------------------------------------------------


def test_a_task_finds_its_environment_and_no_secrets(tmp_path: Path) -> None:
    environment = {
        "CRESS_TOKEN": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "CRESS_TASK_ENV": "KEPT,OVER",
        "KEPT": "yes",
        "OVER": "old",
        "LC_ALL": "C.UTF-8",
    }
    with supervisor(tmp_path / "executor", environment) as parent:
        client = parent.start()
        run = Run(
            job=7,
            command=("env", "-0"),
            name="räuber",
            group="physics",
            tasks=3,
            environment=(("OVER", "new"), ("EMPTY", "")),
        )
        client.launch(run, 40, 41)
        client.wait_ended(40, 41)
        pairs = dict(line.split("=", 1) for line in parent.output(41).split("\0") if line)
    assert pairs["LC_ALL"] == "C.UTF-8"
    assert set(pairs) <= {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "KEPT", "OVER", "EMPTY"} | {
        name for name in pairs if name.startswith(("CRESS_", "LC_"))
    }
    ours = {name: value for name, value in pairs.items() if name.startswith("CRESS_")}
    assert ours == {
        "CRESS_JOB_ID": "7",
        "CRESS_JOB_NAME": "räuber",
        "CRESS_TASK_INDEX": "1",
        "CRESS_TASK_COUNT": "3",
        "CRESS_ATTEMPT": "41",
        "CRESS_RESTARTS": "0",
        "CRESS_NODE": "node1",
        "CRESS_GROUP": "physics",
        "CRESS_DIRECTORY": str(tmp_path / "executor" / "attempts" / "41"),
        "CRESS_OUTPUT": str(tmp_path / "executor" / "attempts" / "41" / "values"),
    }
    assert (pairs["KEPT"], pairs["OVER"], pairs["EMPTY"]) == ("yes", "new", "")


LOOK_AROUND = """
import json, os, resource, signal, sys
print(json.dumps({
    "stdin": os.readlink("/proc/self/fd/0"),
    "files": sorted(int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")),
    "directory": os.getcwd(),
    "leader": os.getsid(0) == os.getpid() == os.getpgrp(),
    "core": resource.getrlimit(resource.RLIMIT_CORE),
    "nofile": resource.getrlimit(resource.RLIMIT_NOFILE),
    "umask": os.umask(0),
    "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "ignored": [l.split()[1] for l in open("/proc/self/status") if l.startswith("SigIgn")][0],
}))
print("complaint", file=sys.stderr)
"""


def test_a_task_starts_clean(client: Client, parent: SupervisorProcess) -> None:
    assert client.run(Run(job=1, command=(sys.executable, "-S", "-c", LOOK_AROUND)), 5).code == 0
    found = json.loads(parent.output(5))
    assert found["stdin"] == "/dev/null"
    assert found["files"] == [0, 1, 2]
    assert found["directory"] == str(parent.directory / "attempts" / "5" / "work")
    assert found["leader"]
    assert found["core"] == [0, 0]
    assert found["nofile"] == list(resource.getrlimit(resource.RLIMIT_NOFILE))
    assert found["umask"] == 0o022
    assert found["blocked"] == 0
    # Python itself ignores SIGPIPE and SIGXFSZ; 32 and 33 belong to the C library.
    ignored = int(found["ignored"], 16) & ~(0b11 << 31)
    assert ignored == 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert parent.output(5, "stderr") == "complaint\n"


def test_the_working_folder_goes_when_nothing_was_left_in_it(client: Client, parent: SupervisorProcess) -> None:
    client.run(shell("true"), 5)
    client.run(shell("echo hello > found"), 6)
    assert not (parent.directory / "attempts" / "5" / "work").exists()
    assert (parent.directory / "attempts" / "6" / "work" / "found").read_text() == "hello\n"


def test_a_task_that_takes_more_memory_than_its_limit_fails_and_others_do_not(client: Client) -> None:
    hungry = Run(job=1, command=(sys.executable, "-S", "-c", "x = bytearray(200_000_000)"), memory_limit=100_000_000)
    assert client.run(hungry, 5).code == 1
    free = Run(job=2, command=hungry.command)
    end = client.run(free, 6)
    assert end.code == 0
    assert end.usage.memory > 200_000_000
    assert end.usage.cpu > 0


def test_a_program_that_dies_at_its_memory_limit_is_out_of_memory(client: Client) -> None:
    end = client.run(Run(job=1, command=("/bin/sh", "-c", ":"), memory_limit=128 * 1024), 5)
    assert end.cause is Cause.MEMORY
    assert end.error.endswith("at its limit of 128K for the memory of each process")
    script = "import os; x = b'x' * 80_000_000; os.kill(os.getpid(), 11)"
    hungry = Run(job=3, command=(sys.executable, "-S", "-c", script), memory_limit=128 << 20)
    end = client.run(hungry, 7)
    assert (end.cause, end.code) == (Cause.MEMORY, -11)
    assert end.error == "out of memory: it ended by signal 11 at its limit of 128M for the memory of each process"
    # A program that ends by the same signal with memory to spare has another defect.
    end = client.run(shell("kill -SEGV $$", job=2, memory_limit=1 << 30), 6)
    assert (end.cause, end.code, end.error) == (Cause.EXITED, -11, "")


# --- stopping -------------------------------------------------------------------------------------------------------

DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
POLITE = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.05; done"


def ready(parent: SupervisorProcess, attempt: int) -> None:
    until((parent.directory / "attempts" / str(attempt) / "stdout").exists)
    until(lambda: "ready" in parent.output(attempt))


def test_a_task_that_is_stopped_can_say_goodbye(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(POLITE), 5)
    ready(parent, 5)
    client.stop(5, grace=PATIENCE)
    end = client.wait_ended(5)
    assert (end.cause, end.code) == (Cause.STOPPED, 4)
    assert parent.output(5) == "ready\nbye\n"


def test_a_task_that_ignores_the_signal_is_killed_after_its_grace(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(DEAF), 5)
    ready(parent, 5)
    client.stop(5, grace=0.3)
    end = client.wait_ended(5)
    assert (end.cause, end.code) == (Cause.STOPPED, -9)


def test_no_grace_is_a_kill_at_once_and_a_later_stop_may_shorten_the_grace(
    client: Client, parent: SupervisorProcess
) -> None:
    client.launch(shell(DEAF), 5, 6)
    ready(parent, 5)
    ready(parent, 6)
    client.stop(5, grace=0)
    client.stop(6, grace=3600)
    client.stop(6, grace=0)
    assert client.wait_ended(5).code == -9
    assert client.wait_ended(6).code == -9


def test_children_of_a_shell_that_is_gone_at_once_have_the_rest_of_the_grace(
    client: Client, parent: SupervisorProcess
) -> None:
    polite = "trap 'sleep 0.3; echo child; exit' TERM; echo ready; while :; do sleep 0.05; done"
    client.launch(shell(f'sh -c "{polite}"; exit 9'), 5)
    client.launch(shell(f'sh -c "{DEAF}"; exit 9', job=2), 6)
    ready(parent, 5)
    ready(parent, 6)
    client.stop(5, grace=PATIENCE)
    client.stop(6, grace=0.3)
    client.wait_ended(5, 6)
    assert "child" in parent.output(5)
    assert left_over(parent.directory) == set()


def test_a_time_limit_ends_the_task_with_its_grace(client: Client) -> None:
    client.launch(shell(POLITE, time_limit=300_000, stop_grace=60_000_000), 5)
    end = client.wait_ended(5)
    assert end.cause is Cause.TIME_LIMIT
    assert end.code in (4, -15), "-15 if the shell had not come to its trap"
    assert end.at - end.started >= 300_000
    client.launch(shell(DEAF, job=2, time_limit=1_000_000, stop_grace=100_000), 6)
    assert client.wait_ended(6).cause is Cause.TIME_LIMIT


def test_a_time_limit_of_nothing_is_over_at_once(client: Client) -> None:
    end = client.run(Run(job=1, command=("sleep", "1000"), time_limit=0), 5)
    assert (end.cause, end.code) == (Cause.TIME_LIMIT, -15)


def test_a_task_within_its_time_limit_just_ends(client: Client) -> None:
    end = client.run(Run(job=1, command=("true",), time_limit=3600_000_000), 5)
    assert (end.cause, end.code) == (Cause.EXITED, 0)


def test_a_signal_reaches_the_task_and_ends_nothing(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("trap 'echo heard' USR1; echo ready; while ! [ -e stop ]; do sleep 0.05; done"), 5)
    ready(parent, 5)
    client.send(Signal(epoch=1, attempt=5, number=signal.SIGUSR1))
    until(lambda: "heard" in parent.output(5))
    assert 5 not in client.ended
    (parent.directory / "attempts" / "5" / "work" / "stop").touch()
    assert client.wait_ended(5).cause is Cause.EXITED


def test_what_a_task_leaves_behind_is_killed_before_its_end_is_told(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("sleep 1000 & setsid sleep 1000 & setsid sh -c 'sleep 1000; true' & exit 3"), 5)
    assert client.wait_ended(5).code == 3
    assert left_over(parent.directory) == set()


def test_what_a_task_leaves_behind_in_the_end_belongs_to_it_alone(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("setsid sleep 1000 & echo ready; sleep 1000"), 5)
    ready(parent, 5)
    assert client.run(shell("setsid sleep 1000 & exit 3", job=2), 6).code == 3
    assert left_over(parent.directory) == {5}


# --- orders twice, late, or of an older center ----------------------------------------------------------------------


def test_an_attempt_is_started_once_however_often_it_is_ordered(client: Client, parent: SupervisorProcess) -> None:
    run = shell("echo x >> ../../../marks; sleep 0.2")
    for _ in range(3):
        client.launch(run, 5, 5)
    client.wait_ended(5)
    first = client.started[5]
    client.launch(run, 5)
    client.sync()
    assert all(report in (first, client.ended[5]) for report in client.reports if report.attempt == 5)
    client.durable(5)
    client.launch(run, 5)
    client.ended.pop(5)
    assert client.wait_ended(5).cause is Cause.UNKNOWN, "over for both sides; it is not run again"
    assert (parent.directory / "marks").read_text() == "x\n"


def test_an_attempt_that_was_stopped_before_it_was_ordered_never_starts(
    client: Client, parent: SupervisorProcess
) -> None:
    client.stop(5)
    end = client.wait_ended(5)
    assert (end.cause, end.code, end.started) == (Cause.STOPPED, None, 0)
    client.launch(shell("echo x"), 5)
    client.sync()
    assert not (parent.directory / "attempts" / "5").exists()
    parent.kill()
    client = parent.start()
    client.launch(shell("echo x"), 5)
    client.sync()
    assert client.wait_ended(5).cause is Cause.STOPPED, "a new supervisor remembers it"
    assert not (parent.directory / "attempts" / "5").exists()


def test_a_stop_right_behind_the_order_finds_it(client: Client) -> None:
    launches = tuple(Launch(attempt, 1, attempt) for attempt in range(200))
    client.send(Launches(epoch=1, runs=(Run(job=1, command=("sleep", "1000")),), launches=launches))
    client.send(Stops(epoch=1, stops=tuple(Stop(attempt, 10_000_000) for attempt in range(200))))
    client.wait_ended(*range(200))
    assert {end.cause for attempt, end in client.ended.items()} == {Cause.STOPPED}
    assert {end.code for end in client.ended.values()} <= {None, -15}


def test_orders_of_an_older_center_are_refused(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(DEAF), 5, epoch=3)
    ready(parent, 5)
    client.send(Welcome(epoch=4))
    client.launch(shell("true", job=2), 6, epoch=3)
    client.stop(5, grace=0, epoch=3)
    client.stop(7, epoch=4)
    client.wait_ended(7)
    assert client.started.keys() == {5}
    assert client.ended.keys() == {7}
    parent.kill()
    client = parent.start()
    client.launch(shell("true", job=2), 6, epoch=3)
    client.stop(8, epoch=4)
    client.wait_ended(8)
    assert 6 not in client.started, "a new supervisor remembers the epoch"
    assert "an order of epoch 3 was refused: the center of epoch 4 leads" in parent.said()


# --- who is connected -----------------------------------------------------------------------------------------------


def test_ends_are_told_again_until_they_are_durable(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("exit 4"), 5, 6)
    client.wait_ended(5, 6)
    client.durable(6)
    client.sync()
    again = Client(parent.directory)
    assert [report for report in again.inventory.reports if isinstance(report, Ended) and report.attempt < 10] == [
        client.ended[5]
    ]
    again.close()


def test_a_new_agent_takes_the_place_of_the_old_one(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(DEAF), 5)
    client.wait_started(5)
    ready(parent, 5)
    second = Client(parent.directory)
    assert second.inventory.reports == (client.started[5],)
    with pytest.raises(EOFError):
        client.receive()
    second.stop(5, grace=0)
    assert second.wait_ended(5).code == -9
    second.close()


def test_ends_that_nobody_heard_are_told_to_the_next_agent(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("while ! [ -e ../../../go ]; do sleep 0.02; done; exit 5"), 5)
    client.wait_started(5)
    client.close()
    (parent.directory / "go").touch()
    until(lambda: left_over(parent.directory) == set())
    again = Client(parent.directory)
    assert again.wait_ended(5).code == 5
    again.close()


GARBAGE = {
    "bytes": b"\xff" * 64,
    "no message": b"\0\0\0\x04abcd",
    "nothing": b"\0\0\0\x00",
    "http": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_ends_the_connection_and_nothing_else(
    client: Client, parent: SupervisorProcess, garbage: bytes
) -> None:
    client.launch(shell(DEAF), 5)
    client.wait_started(5)
    client.socket.sendall(garbage)
    with pytest.raises((EOFError, ConnectionResetError)):
        client.receive()
    again = Client(parent.directory)
    assert [report.attempt for report in again.inventory.reports] == [5]
    again.close()


def test_the_directory_and_the_socket_are_for_their_owner_only(parent: SupervisorProcess) -> None:
    parent.start()
    # Accounts of tasks may pass through to what is theirs, where there are such.
    closed = 0o711 if os.geteuid() == 0 else 0o700
    assert stat.S_IMODE(parent.directory.stat().st_mode) == closed
    assert stat.S_IMODE((parent.directory / "attempts").stat().st_mode) == closed
    assert stat.S_IMODE((parent.directory / "supervisor.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE((parent.directory / "journal").stat().st_mode) == 0o600


def test_a_second_supervisor_is_refused_with_the_pid_of_the_first(client: Client, parent: SupervisorProcess) -> None:
    second = parent.popen()
    _, said = second.communicate(timeout=PATIENCE)
    assert second.returncode == 3
    assert said == (
        f"{parent.directory} is in use by another supervisor (pid {client.inventory.pid}); "
        "stop that one first, or choose another directory\n"
    )
    assert client.run(shell("exit 3"), 5).code == 3


def test_a_long_path_is_no_problem(tmp_path: Path) -> None:
    with supervisor(tmp_path / ("long" * 40) / "executor") as parent:
        assert parent.start().run(shell("exit 3"), 5).code == 3


# --- the end of the supervisor ----------------------------------------------------------------------------------------


def test_a_shutdown_stops_all_tasks_and_tells_how(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(POLITE), 5)
    client.launch(shell(DEAF, job=2), 6)
    client.launch(shell(DEAF, job=3, stop_grace=0), 7)
    for attempt in (5, 6, 7):
        ready(parent, attempt)
    shut_down(client, grace=1.0)
    message = client.receive()
    while not message.leaving:
        message = client.receive()
    # The polite one and the one without grace may be over by then; the deaf one has its whole grace.
    assert 6 not in {report.attempt for report in message.reports if isinstance(report, Ended)}
    client._take_in(message.reports)
    client.wait_ended(5, 6, 7)
    assert {attempt: (end.cause, end.code) for attempt, end in client.ended.items()} == {
        5: (Cause.SHUTDOWN, 4),
        6: (Cause.SHUTDOWN, -9),
        7: (Cause.SHUTDOWN, -9),
    }
    client.launch(shell("true", job=4), 8)
    assert client.wait_ended(8).error == "the executor is being stopped"
    client.durable(5, 6, 7, 8)
    with pytest.raises(EOFError):
        client.receive()
    assert parent.process is not None
    assert parent.process.wait(PATIENCE) == 0
    assert not (parent.directory / "supervisor.sock").exists()
    assert parent.start().inventory.reports == ()


def test_a_term_signal_to_the_supervisor_is_a_shutdown_whose_ends_are_told_later(
    client: Client, parent: SupervisorProcess
) -> None:
    client.launch(shell(POLITE), 5)
    ready(parent, 5)
    client.close()
    parent.said()
    again = parent.start()
    assert (again.ended[5].cause, again.ended[5].code) == (Cause.SHUTDOWN, 4)


# --- kill -9 of the supervisor ----------------------------------------------------------------------------------------


def test_tasks_outlive_their_supervisor_and_are_found_again(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell(POLITE), 5)
    client.launch(shell("while ! [ -e ../../../go ]; do sleep 0.02; done; exit 5", job=2), 6)
    client.launch(shell("true", job=3), 7)
    client.launch(shell("echo ready; setsid sleep 1000 & setsid sleep 1000 & exec sleep 1000", job=4), 8)
    client.launch(shell("echo ready; sleep 1000", job=5, time_limit=1_500_000), 9)
    client.wait_ended(7)
    for attempt in (5, 8, 9):
        ready(parent, attempt)
    for attempt in (5, 6, 8, 9):
        client.wait_started(attempt)
    parent.kill()
    os.kill(client.started[8].pid, signal.SIGKILL)

    again = parent.start()
    assert again.wait_ended(7) == client.ended[7], "an end that was seen is known"
    assert again.wait_started(5) == client.started[5]
    assert again.wait_started(6) == client.started[6]
    lost = again.wait_ended(8)
    assert (lost.cause, lost.code, lost.started) == (Cause.UNKNOWN, None, client.started[8].at)
    assert 8 not in left_over(parent.directory), "its children are gone as well"
    (parent.directory / "go").touch()
    unseen = again.wait_ended(6)
    assert (unseen.cause, unseen.code) == (Cause.UNKNOWN, None)
    assert unseen.error == "its end was not seen: the supervisor was not running"
    again.stop(5, grace=PATIENCE)
    assert again.wait_ended(5).cause is Cause.STOPPED
    assert parent.output(5) == "ready\nbye\n"
    assert again.wait_ended(9).cause is Cause.TIME_LIMIT


def test_an_intent_without_a_start_finds_its_process_or_is_unknown(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("sleep 1000"), 5)
    client.wait_started(5)
    pid = client.started[5].pid
    parent.kill()
    rewrite_journal(parent.directory, boot="", drop_starts=True, extra_intent=6)
    again = parent.start()
    assert again.wait_started(5).pid == pid
    assert again.wait_ended(6).cause is Cause.UNKNOWN
    again.stop(5, grace=0)
    assert again.wait_ended(5).cause is Cause.STOPPED


def test_after_a_restart_of_the_machine_everything_is_unknown(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("sleep 1000"), 5)
    client.wait_started(5)
    parent.kill()
    rewrite_journal(parent.directory, boot="another boot")
    end = parent.start().wait_ended(5)
    assert (end.cause, end.code, end.error) == (Cause.UNKNOWN, None, "the machine was restarted")


def test_a_process_that_has_the_pid_of_a_task_by_chance_is_left_alone(
    client: Client, parent: SupervisorProcess
) -> None:
    client.launch(shell("sleep 1000"), 5)
    client.wait_started(5)
    parent.kill()
    os.kill(client.started[5].pid, signal.SIGKILL)
    # A pid cannot come again within the hundredth of a second that tells two processes apart.
    time.sleep(0.1)
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        rewrite_journal(parent.directory, boot="", pid=stranger.pid)
        again = parent.start()
        assert again.wait_ended(5).cause is Cause.UNKNOWN
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def rewrite_journal(
    directory: Path, *, boot: str, drop_starts: bool = False, extra_intent: int = 0, pid: int = 0
) -> None:
    """Make the journal of a dead supervisor say something else."""
    from cress.executor.journal import JournalFile
    from cress.shell.executor.records import Boot, Intent, Start

    old = JournalFile(directory / "journal")
    records = list(old.known.records())
    old.close()
    (directory / "journal").unlink()
    new = JournalFile(directory / "journal")
    for record in records:
        if isinstance(record, Start):
            if drop_starts:
                continue
            if pid:
                record = Start(record.attempt, pid, record.ticks, record.since, record.at)
        if isinstance(record, Boot) and boot:
            record = Boot(boot)
        new.note(record)
    if extra_intent:
        new.note(Intent(Launch(extra_intent, 1, 0), None, 0))
    new.close()


def test_after_damage_of_the_journal_only_attempts_that_it_tells_of_go_on(
    client: Client, parent: SupervisorProcess
) -> None:
    journal = parent.directory / "journal"
    kept = shell("echo ready; sleep 1000", on_partition=OnPartition.KEEP)
    client.launch(kept, 5)
    client.wait_started(5)
    before = journal.stat().st_size
    client.launch(shell("echo ready; setsid sleep 1000 & exec sleep 1000", job=2), 6)
    client.wait_started(6)
    parent.kill()
    content = bytearray(journal.read_bytes())
    content[before + 20] ^= 1
    journal.write_bytes(content)

    again = parent.start()
    assert again.wait_started(5) == client.started[5]
    assert 6 not in left_over(parent.directory), "it may run elsewhere by now"
    assert (parent.directory / "journal.damaged-1").read_bytes() == content
    again.send(Welcome(epoch=1))
    again.launch(shell("exit 3", job=3), 7)
    assert again.wait_ended(7).code == 3
    again.stop(5, grace=0)
    assert again.wait_ended(5).cause is Cause.STOPPED
    shut_down(again)
    said = parent.said()
    assert f"{journal} is damaged at byte {before}; it was set aside as journal.damaged-1; " in said
    assert "its undamaged records describe 1 attempts, all others are stopped" in said


def test_without_a_readable_journal_everything_that_runs_is_stopped(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("setsid sleep 1000 & exec sleep 1000", on_partition=OnPartition.KEEP), 5)
    client.wait_started(5)
    parent.kill()
    journal = parent.directory / "journal"
    journal.write_bytes(bytes(journal.stat().st_size))
    again = parent.start()
    assert not left_over(parent.directory)
    assert again.inventory.reports == ()
    again.send(Welcome(epoch=1))
    assert again.run(shell("exit 3"), 6).code == 3


# --- a full disk ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB, for the executor's directory."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system: what a full disk does was not shown")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mount does not work here ({mounted.stderr.strip()}): what a full disk does was not shown")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as data, contextlib.suppress(OSError):
        while data.write(bytes(4096)):
            pass


def test_on_a_full_disk_nothing_starts_and_everything_else_goes_on(small_disk: Path) -> None:
    with supervisor(small_disk / "executor") as parent:
        client = parent.start()
        client.launch(shell("while ! [ -e go ]; do sleep 0.02; done; exit 5", directory=str(small_disk)), 5)
        client.wait_started(5)
        ballast = small_disk / "ballast"
        fill(ballast)
        (small_disk / "go").symlink_to("/")  # needs no block
        assert client.wait_ended(5).code == 5, "an end is told, though it cannot be written down"

        # The journal's last block has room for a few bytes more: an order that needs more than a block.
        attempts = tuple(range(100, 500))
        client.launch(shell("true", job=2), *attempts)
        client.wait_ended(*attempts)
        assert {client.ended[attempt].cause for attempt in attempts} == {Cause.NODE}
        assert all("disk full" in client.ended[attempt].error for attempt in attempts)
        assert client.started.keys() == {5}

        ballast.unlink()
        assert client.run(shell("exit 3", job=3, directory="/"), 6).code == 3, "there is room again"
        until(lambda: b"\x01" in (small_disk / "executor" / "journal").read_bytes())
        client.sync()
        parent.kill()
        again = parent.start()
        assert again.ended[5].code == 5, "what could not be written was written later"
        assert again.ended[6].code == 3


# --- many -----------------------------------------------------------------------------------------------------------


def test_a_thousand_attempts_of_one_order_run_once_each(client: Client, parent: SupervisorProcess) -> None:
    client.launch(shell("echo $CRESS_TASK_INDEX >> ../../../marks"), *range(1000))
    client.wait_ended(*range(1000))
    assert all(end.code == 0 for end in client.ended.values())
    assert sorted(map(int, (parent.directory / "marks").read_text().split())) == list(range(1000))
    client.durable(*range(1000))
    client.sync()
    parent.kill()
    assert {report.attempt for report in parent.start().inventory.reports} <= {client.reports[-1].attempt}


def test_an_agent_that_reads_slowly_gets_everything(client: Client) -> None:
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    # More than what waits between two processes.
    command = "/x" * 1500
    client.launch(Run(job=1, command=(command,)), *range(300))
    client.wait_ended(*range(300))
    assert {end.error for end in client.ended.values()} == {f"command not found: {command}"}


def test_nobody_can_connect_by_a_stale_socket(parent: SupervisorProcess) -> None:
    parent.directory.mkdir(parents=True)
    stale = socket.socket(socket.AF_UNIX)
    with socket_path(parent.directory / "supervisor.sock") as path:
        stale.bind(path)
    stale.close()
    assert parent.start().run(shell("exit 3"), 5).code == 3
