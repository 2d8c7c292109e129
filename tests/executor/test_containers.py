"""Containers through a real supervisor: what they see, how they end, what is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor.exec import confinement
from cress.executor.exec.helper_process import HelperProcess
from cress.executor.hidden_folders import note_home
from cress.executor.processes import find_attempts, is_alive
from cress.executor.runtimes.cgroups import Cgroups, device_of
from cress.executor.runtimes.engines import ENGINES
from cress.model.reports import Cause, Ended
from cress.model.run import Run
from tests.executor.harness import Client, SupervisorProcess, shell, supervisor, until

COMMANDS = {"crun": "crun", "runc": "runc", "bubblewrap": "bwrap"}
NOT_HERE = "containers need root and one of crun, runc, bubblewrap (Debian packages of these names)"

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not any(map(shutil.which, COMMANDS.values())), reason=NOT_HERE)


def host() -> tuple[object, ...]:
    """What of this machine a container must never change."""
    found = [Path("/dev", name).stat() for name in ("null", "zero", "ptmx")]
    devices = tuple((each.st_rdev, each.st_mode) for each in found)
    return devices, {each.name for each in Path("/dev").iterdir()} - {"pts"}


def groups(directory: Path) -> list[Path]:
    """Control groups of attempts of a supervisor."""
    key = Path(Cgroups.find("node1", str(directory)).path).name
    return list(Path("/sys/fs/cgroup").glob(f"*/cress/{key}/[0-9]*"))


def boxes(directory: Path) -> list[str]:
    """What is left of containers of a supervisor: folders, besides the empty one where engines mount."""
    return sorted({each.name for each in (directory / "containers").iterdir()} - {"pause", "root"})


@pytest.fixture(params=[each.name for each in ENGINES])
def engine(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if shutil.which(COMMANDS[name]) is None:
        pytest.skip(f"{COMMANDS[name]} is not installed")
    return name


@pytest.fixture(autouse=True)
def _unchanged() -> Iterator[None]:
    """The machine is the same afterwards."""
    before = host()
    yield
    assert host() == before


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[SupervisorProcess]:
    with supervisor(tmp_path / "e") as process:
        yield process


@pytest.fixture
def client(parent: SupervisorProcess) -> Client:
    client = parent.start()
    assert client.inventory.container in COMMANDS, client.inventory.unlimited
    return client


def boxed(text: str, **more: object) -> Run:
    return shell(text, **{"runtime": "container", **more})  # type: ignore[arg-type]


ENDINGS = {
    "succeeds": ("true", 0),
    "a code of its own": ("exit 77", 77),
    "a code that could be a signal": ("exit 143", 143),
    "killed by itself": ("kill -9 $$", -9),
    "ended by a signal": ("kill -TERM $$", -15),
}


def test_every_engine_runs_programs_that_end_as_they_end(tmp_path: Path, engine: str) -> None:
    with supervisor(tmp_path / "e", options=("--engine", engine)) as parent:
        client = parent.start()
        assert client.inventory.container == engine
        for attempt, (text, code) in enumerate(ENDINGS.values(), 1):
            end = client.run(boxed(text), attempt)
            assert (end.cause, end.code, end.error) == (Cause.EXITED, code, ""), text
        end = client.run(
            boxed("ps -e -o pid=,args=; ls /dev; touch /etc/x /usr/x /dev/x; touch /tmp/cress-own-tmp work-is-mine"), 9
        )
        out, err = parent.output(9), parent.output(9, "stderr")
        assert out.splitlines()[0].split() == ["1", "/dev/pause"]
        assert {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"} <= set(out.split())
        assert err.count("Read-only file system") == 2, err
        assert not Path("/tmp/cress-own-tmp").exists()
        assert (tmp_path / "e/attempts/9/work/work-is-mine").exists()
        client.launch(Run(job=1, command=("sleep", "1000"), runtime="container"), 10)
        client.wait_started(10)
        client.stop(10, grace=300)
        assert (client.wait_ended(10).cause, client.ended[10].code) == (Cause.STOPPED, -15)
        assert parent.said().count("container") == 0
    assert groups(tmp_path / "e") == []
    assert boxes(tmp_path / "e") == []


def python(text: str, **more: object) -> Run:
    """A program of the node's own Python."""
    return Run(job=1, command=("/usr/bin/python3", "-c", text), runtime="container", **more)  # type: ignore[arg-type]


MB = 2**20


def test_who_takes_too_much_memory_is_killed_and_told_so_while_a_neighbour_lives(client: Client) -> None:
    client.launch(boxed("echo here; sleep 1000", limits=(("memory", 50 * MB),)), 1)
    client.wait_started(1)
    end = client.run(python("x = [bytearray(1 << 20) for _ in range(4000)]", limits=(("memory", 64 * MB),)), 2)
    assert (end.cause, end.code) == (Cause.MEMORY, -9)
    assert end.error == "out of memory: it used more than the 64M that it may"
    assert 60 * MB <= end.usage.memory <= 64 * MB
    client.sync()
    assert 1 not in client.ended


def test_files_in_memory_count_for_the_memory_limit(client: Client) -> None:
    hog = "import os; f = open('/tmp/x', 'wb')\nfor _ in range(200): f.write(bytes(1 << 20))"
    end = client.run(python(hog, limits=(("memory", 64 * MB),)), 1)
    assert (end.cause, end.code) == (Cause.MEMORY, -9)


def test_a_child_that_is_killed_for_its_memory_is_no_end_if_the_program_succeeds_and_is_told(client: Client) -> None:
    text = "/usr/bin/python3 -c 'x = bytearray(1 << 30)'; echo went on; exit 0"
    end = client.run(boxed(text, limits=(("memory", 64 * MB),)), 1)
    told = "some of its processes were killed (out of memory: it used more than the 64M that it may)"
    assert (end.cause, end.code, end.error) == (Cause.EXITED, 0, told)


def test_half_a_processor_is_half_a_processor(client: Client) -> None:
    """Measured by the task's own control group against the clock; a loaded machine gives less, none gives more."""
    spin = "import time; e = time.monotonic() + 3\nwhile time.monotonic() < e: pass"
    end = client.run(python(spin, limits=(("cpu", 500),)), 1)
    ran = (end.at - end.started) / 1e6
    used = end.usage.cpu / 1e6
    assert end.code == 0
    assert used <= 0.6 * ran + 0.1
    free = client.run(python(spin), 2)
    # Without a limit it gets what the machine has: more than the half, unless others have taken it.
    assert free.usage.cpu > end.usage.cpu or os.getloadavg()[0] > 2 * (os.cpu_count() or 1)


def test_a_fork_bomb_is_held_and_taken_away(client: Client, parent: SupervisorProcess) -> None:
    bomb = (
        "import os, time\nn = 0\n"
        "for _ in range(500):\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(1000); os._exit(0)\n"
        "        n += 1\n"
        "    except OSError as error: print(n, error.errno); break\n"
    )
    end = client.run(python(bomb, pids=20), 1)
    assert end.code == 0
    made, errno = map(int, parent.output(1).split())
    assert (made, errno) == (18, 11)  # itself and the first process of the container count
    assert [pid for _, pid in find_attempts(os.fsencode(parent.directory / "attempts"))] == []


def test_processes_of_the_node_and_of_neighbours_are_not_seen_and_cannot_be_signalled(
    client: Client, parent: SupervisorProcess
) -> None:
    client.launch(boxed("echo mine > /tmp/mark; exec sleep 1000"), 1)
    pid = client.wait_started(1).pid
    text = (
        f"kill -9 {pid}; ls -d /proc/{pid}; ls /proc/{os.getpid()}; ls /tmp; ls {parent.directory} "
        f"{parent.directory}/attempts"
    )
    end = client.run(boxed(text), 2)
    out, err = parent.output(2), parent.output(2, "stderr")
    assert "No such process" in err
    assert "cannot access" in err
    assert "mark" not in out
    assert out.split()[-1] == "2"
    assert "journal" not in out
    assert is_alive(pid)
    assert end.cause is Cause.EXITED


def test_a_container_sees_no_data_directory_of_cress_whatever_its_root(engine: str) -> None:
    # Outside of /tmp, which containers have for themselves.
    with tempfile.TemporaryDirectory(dir="/srv", prefix="cress-") as place:
        around, other, named = Path(place, "around"), Path(place, "other"), Path(place, "named")
        for each in (around, other, named):
            each.mkdir()
            (each / "token").write_text("secret")
        (around / "center.json").touch()
        note_home(other)
        options = ("--engine", engine, "--hide", str(named))
        with supervisor(around / "executors" / "n1", options=options) as parent:
            client = parent.start()
            text = f"cat {place}/*/token {place[4:]}/*/token; ls {place}; touch here; cat $CRESS_DIRECTORY/stdout"
            for attempt, root in ((1, ""), (2, "/srv")):
                command = boxed(text) if not root else Run(job=1, command=("/sh",), runtime="container", root=root)
                client.run(command, attempt)
                assert "secret" not in parent.output(attempt)
            assert parent.output(1).split()[:3] == ["around", "named", "other"]
            assert (around / "executors/n1/attempts/1/work/here").exists()
            end = client.run(Run(job=2, command=("true",), runtime="container", root=str(named)), 3)
            assert f"root {named} is in a data directory of Cress" in end.error


def test_what_ended_a_command_in_a_container_ends_what_it_left_in_sessions_of_their_own(
    client: Client, parent: SupervisorProcess
) -> None:
    client.launch(boxed("exec sleep 1000"), 5)
    first = client.wait_started(5).pid
    word = f"3000.{os.getpid()}"

    async def story() -> int:
        helper = HelperProcess(str(parent.directory / "attempts"))
        null = os.open(os.devnull, os.O_RDWR)
        command = ["sh", "-c", f"setsid sleep {word} & (setsid sh -c 'sleep {word}; true' &); exit 7"]
        session = await helper.enter(first, 5, command, streams=(null, null, null))
        code = await session.over
        helper.close()
        return code

    assert asyncio.run(story()) == 7
    until(lambda: subprocess.run(["pgrep", "-f", f"^sleep {word}$"], check=False).returncode, "the end of what it left")
    assert is_alive(first)


def test_what_root_in_a_container_may_not(client: Client, parent: SupervisorProcess) -> None:
    tries = {
        "mount": "mount -t tmpfs none /mnt",
        "remount": "mount -o remount,rw /",
        "device": "mknod /tmp/sda b 8 0",
        "kernel": "read x < /proc/sys/kernel/panic; echo $x > /proc/sys/kernel/panic",
        "sysrq": "echo h > /proc/sysrq-trigger",
        "groups": "echo 0 > /sys/fs/cgroup/memory/cgroup.procs",
        "name": "hostname other",
        "mode": "chmod --reference /usr/bin/env /usr/bin/env",
        "root": "touch /root/x",
    }
    text = "; ".join(f"({each}) 2>/dev/null && echo {name}" for name, each in tries.items())
    client.run(boxed(text + "; true"), 1)
    assert parent.output(1) == ""


def test_a_start_that_fails_says_why_and_leaves_nothing(
    client: Client, parent: SupervisorProcess, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    cases = {
        1: (Run(job=1, command=("no-such-command",), runtime="container"), "command not found: no-such-command"),
        2: (
            Run(job=2, command=("true",), runtime="container", directory="/no/such"),
            "directory /no/such does not exist on this node, or not in containers there",
        ),
        3: (
            Run(job=3, command=("true",), runtime="container", directory=str(tmp_path / "here")),
            f"directory {tmp_path}/here does not exist on this node, or not in containers there",
        ),
        4: (
            Run(job=4, command=("true",), runtime="container", root="/no/such"),
            "root /no/such does not exist on this node, or is not a folder",
        ),
        5: (
            Run(job=5, command=("true",), runtime="container", run_as="nobody-here"),
            "account nobody-here does not exist on this node (run_as)",
        ),
        6: (Run(job=6, command=("true",), root="/srv"), "a root folder needs runtime: container"),
    }
    for attempt, (run, error) in cases.items():
        end = client.run(run, attempt)
        assert (end.cause, end.code) == (Cause.NOT_STARTED, None), error
        assert end.error == error
    until(lambda: boxes(parent.directory) == [], "no box to be left")
    assert groups(parent.directory) == []


def test_a_container_outlives_the_supervisor(client: Client, parent: SupervisorProcess) -> None:
    client.launch(boxed("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"), 1)
    pid = client.wait_started(1).pid
    until(lambda: parent.output(1) == "ready\n", "the program to be ready")
    parent.kill()
    assert is_alive(pid)
    again = parent.start()
    assert again.started[1].pid == pid
    again.stop(1, grace=300)
    end = again.wait_ended(1)
    assert end.cause is Cause.STOPPED
    assert not is_alive(pid)
    assert groups(parent.directory) == []


def test_what_ends_while_no_supervisor_looks_is_found_over(client: Client, parent: SupervisorProcess) -> None:
    client.launch(boxed("sleep 1000"), 1)
    pid = client.wait_started(1).pid
    parent.kill()
    left = {each for _, each in find_attempts(os.fsencode(parent.directory / "attempts"))}
    assert pid in left
    assert len(left) >= 2
    for each in left:
        with contextlib.suppress(ProcessLookupError):  # the kernel kills the others with the first process
            os.kill(each, signal.SIGKILL)
    assert len(groups(parent.directory)) > 0
    again = parent.start()
    assert again.wait_ended(1).cause is Cause.UNKNOWN
    assert groups(parent.directory) == []
    assert boxes(parent.directory) == []


def test_containers_that_no_journal_knows_are_removed(client: Client, parent: SupervisorProcess) -> None:
    client.launch(boxed("sleep 1000"), 1)
    pid = client.wait_started(1).pid
    parent.kill()
    (parent.directory / "journal").unlink()
    parent.start()
    until(lambda: not is_alive(pid), "the stray to be killed")
    until(lambda: groups(parent.directory) == [], "its groups to be removed")


def test_the_way_into_a_running_container(client: Client) -> None:
    client.launch(boxed("echo inside > /tmp/mark; exec sleep 1000"), 1)
    pid = client.wait_started(1).pid
    place = confinement.prepare(pid, 1)
    assert place.pid == pid
    assert any("/cress/" in each for each in place.cgroups)
    until(lambda: Path(f"/proc/{pid}/root/tmp/mark").exists(), "the mark")
    seen = subprocess.run(
        ["nsenter", "-t", str(pid), "-m", "-p", "-i", "-u", "-r", "-w", "cat", "/tmp/mark"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert seen.stdout == "inside\n", seen.stderr


ACCOUNT = "postgres"


def test_a_task_runs_as_its_account(client: Client, parent: SupervisorProcess) -> None:
    import pwd

    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError:
        pytest.skip(f"there is no account {ACCOUNT} here (Debian package postgresql)")
    text = (
        'id -un; echo $HOME $USER; touch mine; grep -E "^CapEff|^NoNewPrivs" /proc/self/status; touch '
        "$CRESS_DIRECTORY/work/too"
    )
    for attempt, runtime in ((1, "process"), (2, "container")):
        end = client.run(shell(text, runtime=runtime, run_as=ACCOUNT, user="root"), attempt)
        out = parent.output(attempt)
        assert end.code == 0 or runtime == "process", parent.output(attempt, "stderr")
        assert out.splitlines()[:2] == [ACCOUNT, f"{entry.pw_dir} {ACCOUNT}"]
        assert "CapEff:\t0000000000000000" in out
        folder = parent.directory / "attempts" / str(attempt)
        assert {each.stat().st_uid for each in (folder, folder / "work", folder / "stdout", folder / "work/mine")} == {
            entry.pw_uid
        }
    assert "NoNewPrivs:\t1" in parent.output(2)
    by_user = client.run(shell("id -un", user=ACCOUNT), 3)
    assert "which is a system account" in by_user.error


def test_a_user_without_an_account_is_told(client: Client) -> None:
    end = client.run(shell("true", user="nobody-here"), 1)
    assert (end.cause, end.error) == (
        Cause.NOT_STARTED,
        "account nobody-here does not exist on this node (the user of the job)",
    )


def test_a_root_folder_of_the_job(client: Client, parent: SupervisorProcess, tmp_path: Path) -> None:
    root = tmp_path / "image"
    for name in ("bin", "lib64", "usr/lib", "etc", "var/lib"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/sh", root / "bin/sh")
    libraries = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout.split()
    for each in libraries:
        if each.startswith("/"):
            (root / each[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(each, root / each[1:])
    (root / "etc/mark").write_text("of the image\n")
    before = sorted(str(each) for each in root.rglob("*"))
    text = "read x < /etc/mark; echo $x; echo > /etc/new; echo > /new; echo here > file; echo /*"
    end = client.run(Run(job=1, command=("/bin/sh", "-c", text), runtime="container", root=str(root)), 1)
    out = parent.output(1).splitlines()
    assert end.code == 0, (end.error, parent.output(1, "stderr"))
    assert out[0] == "of the image"
    assert {"/bin", "/dev", "/proc", "/tmp", "/sys"} <= set(out[1].split())
    assert "/home" not in out[1].split()
    assert parent.output(1, "stderr").count("Read-only") == 2
    assert (parent.directory / "attempts/1/work/file").read_text() == "here\n"
    assert sorted(str(each) for each in root.rglob("*")) == before


def test_containers_by_default(tmp_path: Path) -> None:
    with supervisor(tmp_path / "e", options=("--runtime", "auto", "--writable", str(Path("/var/local")))) as parent:
        client = parent.start()
        client.run(
            shell("echo $$; ls -ld /var/local; touch /var/local/cress-test && rm /var/local/cress-test && echo ok"), 1
        )
        assert parent.output(1).split()[-1] == "ok"
        client.run(shell("ls -d /proc/[0-9]* | wc -l", runtime="process"), 2)
        client.run(shell("ls -d /proc/[0-9]* | wc -l"), 3)
        assert int(parent.output(3)) < int(parent.output(2))
        assert not any("runtime 'process'" in each for each in client.inventory.unlimited)


def test_a_node_that_cannot_says_so(tmp_path: Path) -> None:
    with supervisor(tmp_path / "e", options=("--engine", "none")) as parent:
        client = parent.start()
        assert client.inventory.container == ""
        assert any(each.startswith("containers cannot be run") for each in client.inventory.unlimited)
        end: Ended = client.run(boxed("true"), 1)
        assert end.cause is Cause.NOT_STARTED
        assert end.error.startswith("this node cannot run containers")


@pytest.mark.long
def test_direct_disk_throughput_is_limited(client: Client, parent: SupervisorProcess) -> None:
    if not device_of(str(parent.directory)):
        pytest.skip(f"{parent.directory} is on no disk whose throughput could be limited")
    text = (
        "import os, mmap, time\n"
        "block = mmap.mmap(-1, 1 << 20)\n"
        "fd = os.open('file', os.O_RDWR | os.O_CREAT | os.O_DIRECT)\n"
        "begin = time.monotonic()\n"
        "for _ in range(8): os.write(fd, block)\n"
        "middle = time.monotonic()\n"
        "for each in range(8): os.preadv(fd, [block], each << 20)\n"
        "print(middle - begin, time.monotonic() - middle)\n"
    )
    client.run(python(text, limits=(("disk_read", 4 * MB), ("disk_write", 2 * MB))), 1)
    write, read = map(float, parent.output(1).split())
    # The kernel may let the first part of a second pass at once.
    assert write > 2.5
    assert read > 1.2
    client.run(python(text), 2)
    assert sum(map(float, parent.output(2).split())) < write + read


@pytest.mark.long
def test_direct_disk_operations_are_limited(client: Client, parent: SupervisorProcess) -> None:
    if not device_of(str(parent.directory)):
        pytest.skip(f"{parent.directory} is on no disk whose throughput could be limited")
    text = (
        "import os, mmap, time\n"
        "block = mmap.mmap(-1, 4096)\n"
        "fd = os.open('file', os.O_RDWR | os.O_CREAT | os.O_DIRECT)\n"
        "begin = time.monotonic()\n"
        "for _ in range(60): os.pwrite(fd, block, 0)\n"
        "print(time.monotonic() - begin)\n"
    )
    client.run(python(text, limits=(("iops_write", 20),)), 1)
    assert float(parent.output(1)) > 1.5


SEND = """
import socket, sys, time
sock = socket.create_connection(('10.213.7.2', 5000))
begin, sent = time.monotonic(), 0
while time.monotonic() - begin < 4:
    sock.sendall(bytes(1 << 16))
    sent += 1 << 16
sock.shutdown(socket.SHUT_WR)
sock.recv(1)
print(8 * sent / (time.monotonic() - begin))
"""
TAKE = """
import socket
sock = socket.create_server(('10.213.7.2', 5000))
print('ready', flush=True)
while True:
    other = sock.accept()[0]
    while other.recv(1 << 16):
        pass
    other.close()
"""


@pytest.mark.long
def test_what_a_task_sends_is_limited(tmp_path: Path) -> None:
    """Over a pair of interfaces of the test's own, whose other end is in a network of its own."""
    places = tmp_path / "net_prio"
    places.mkdir()
    name = f"cr{os.getpid() % 100_000}"

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True)

    if shutil.which("tc") is None or shutil.which("ip") is None:
        pytest.skip("tc and ip are not installed (Debian package iproute2)")
    mounted = subprocess.run(["mount", "-t", "cgroup", "-o", "net_prio", "none", str(places)], check=False)
    if mounted.returncode:
        pytest.skip("the kernel has no control groups net_prio")
    other = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
    try:
        until(lambda: not Path(f"/proc/{other.pid}/ns/net").samefile("/proc/self/ns/net"), "a network")
        there = ("nsenter", "-t", str(other.pid), "-n")
        run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p")
        run("ip", "addr", "add", "10.213.7.1/30", "dev", name)
        run("ip", "link", "set", name, "up")
        run("ip", "link", "set", f"{name}p", "netns", str(other.pid))
        run(*there, "ip", "addr", "add", "10.213.7.2/30", "dev", f"{name}p")
        run(*there, "ip", "link", "set", f"{name}p", "up")
        with subprocess.Popen([*there, "/usr/bin/python3", "-c", TAKE], stdout=subprocess.PIPE) as taker:
            try:
                assert taker.stdout is not None
                assert taker.stdout.readline() == b"ready\n"
                with supervisor(tmp_path / "e", options=("--egress", name)) as parent:
                    client = parent.start()
                    assert not any("egress" in each for each in client.inventory.unlimited)
                    end = client.run(python(SEND, limits=(("network", 8_000_000),)), 1)
                    assert end.code == 0, parent.output(1, "stderr")
                    assert 4e6 < float(parent.output(1)) < 9e6
                    client.run(python(SEND), 2)
                    assert float(parent.output(2)) > 3e7
                classes = subprocess.run(["tc", "class", "show", "dev", name], capture_output=True, check=True).stdout
                assert classes == b""
            finally:
                taker.kill()
    finally:
        other.kill()
        other.wait()
        until(lambda: not Path(f"/sys/class/net/{name}").exists(), "the interfaces to be gone")
        run("umount", str(places))
