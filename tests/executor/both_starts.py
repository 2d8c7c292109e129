"""Starts programs twice, by the launcher and by a fork, and prints what comes of each: ``python -m ... FOLDER KIND``.

``KIND`` is ``processes`` or ``containers``.

A process of its own, since a fork needs one without threads. It is as a supervisor is: signals ignored and handled,
a descriptor for spare.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from cress.executor import processes
from cress.executor.runtimes import choose, launcher, linux
from cress.executor.runtimes.accounts import NodeAccount
from cress.executor.runtimes.base import Spawn, announced
from cress.executor.runtimes.container import ContainerRuntime
from cress.executor.runtimes.engines.crun import Crun
from cress.executor.runtimes.process import ProcessRuntime
from cress.executor.runtimes.task_cgroups import TaskCgroups
from cress.model.run import Run
from cress.shell.executor.starting import StartError

# What a program can see of its start. Pids and inodes differ from start to start.
PROBE = """
pwd; umask; env | sort; cat /proc/$$/limits /proc/$$/cgroup /proc/$$/oom_score_adj
for fd in /proc/$$/fd/*; do echo "fd $(basename $fd) $(readlink $fd)"; done
set -- $(cat /proc/$$/stat); echo "group $5 session $6 of $$"
grep -c hidepid /proc/$$/mountinfo
# Also the keyrings of other processes are listed, so their number says nothing.
[ -e /proc/keys ] && grep -q _ses /proc/keys && echo keyring
for argument in "$0"; do echo "argument $argument"; done
echo error >&2
exec grep -E '^(Uid|Gid|Groups|Sig[^Q]|ShdPnd|NoNewPrivs|Seccomp|Cap|Umask)' /proc/self/status
"""
SOMEBODY = NodeAccount("somebody", 54321, 54322, (54322, 54323), "/nowhere")
ROOT = NodeAccount("root", 0, 0, (0,), "/root")


def probe(**more: Any) -> Run:
    return Run(job=1, command=("/bin/sh", "-c", PROBE, "a b\tc"), name="probe", tasks=3, **more)


def plain(*command: str, **more: Any) -> Run:
    return Run(job=1, command=command, **more)


def cases(place: Path) -> dict[str, tuple[Run, dict[str, Any]]]:
    """Every option of a start, and every step that may fail; ``Spawn`` gets the mapping."""
    closed, odd = place / "closed", place / "odd"
    closed.mkdir(mode=0o700)
    odd.mkdir()
    (odd / "unreadable").write_text("#!/bin/sh\n")
    (odd / "text").write_text("no program\n")
    (odd / "lost").write_text("#!/no/such/interpreter\n")
    (odd / "ls").write_text("not executable, but others on the path are\n")
    for name, mode in (("unreadable", 0o644), ("ls", 0o644), ("text", 0o755), ("lost", 0o755)):
        (odd / name).chmod(mode)
    path = (("PATH", f"{odd}::/usr/bin:/bin"),)
    return {
        "all as usual": (probe(), {}),
        "a directory": (probe(directory="/usr"), {}),
        "a limit of memory": (probe(memory_limit=1 << 30), {}),
        "an environment": (probe(environment=(("A", "b c"), ("EMPTY", ""), ("PATH", "/bin:/usr/bin"))), {}),
        "no session of its own": (probe(), {"leads": False}),
        "a stage": (probe(), {"tells": True}),
        "an account": (probe(), {"account": SOMEBODY}),
        "an account and a directory": (probe(directory="/usr", memory_limit=1 << 30), {"account": SOMEBODY}),
        "the account of root": (probe(), {"account": ROOT}),
        "found on the path, behind a folder in which it is not": (plain("true", environment=path), {}),
        "found on the path, behind a file that is not executable": (plain("ls", environment=path), {}),
        "a kept folder": (probe(), {"kept": b"kept"}),
        "a kept folder that is a link": (probe(), {"kept": b"link"}),
        "a kept folder that is gone": (probe(), {"kept": b"gone"}),
        "a kept folder of an account": (probe(), {"kept": b"kept", "account": SOMEBODY}),
        "a code": (plain("sh", "-c", "exit 7"), {}),
        "no such command": (plain("no-such-command"), {}),
        "no such file": (plain("/no/such/file"), {}),
        "an empty command": (plain(""), {}),
        "not executable": (plain(str(odd / "unreadable")), {}),
        "not executable, on the path": (plain("unreadable", environment=path), {}),
        "neither program nor script": (plain(str(odd / "text")), {}),
        "an interpreter that is not there": (plain(str(odd / "lost")), {}),
        "a folder": (plain(str(odd)), {}),
        "no such directory": (plain("true", directory="/no/such/folder"), {}),
        "a directory that is a file": (plain("true", directory="/etc/passwd"), {}),
        "a directory of another account": (plain("true", directory=str(closed)), {"account": SOMEBODY}),
        "a program of another account": (plain(str(closed / "program")), {"account": SOMEBODY}),
        "too long a command": (plain("true", "x" * (1 << 20)), {}),
        "a command just short enough for the kernel": (plain("true", *["x" * 65_536] * 20), {}),
        "an environment that cannot be": (plain("true", environment=(("A=B", ""),)), {}),
        "more memory than it may have": (plain("true", memory_limit=1), {}),
    }


# What a program in a container can see beside that. Numbers of mounts and devices in memory differ.
INSIDE = """
cut -d' ' -f4-6 /proc/self/mountinfo; hostname; ls -lA /dev | sed 's/ [A-Z][a-z][a-z] .*[0-9] / /'
tr '\\0' ' ' < /proc/1/cmdline; ls -l /proc/1/exe; cat /proc/$$/uid_map /proc/1/uid_map; ps -e -o comm=
grep locks /proc/1/limits; echo "killer $(cat /proc/self/oom_score_adj)"
touch /etc/x /usr/x /dev/x /tmp/x /run/x ~/x; mount -t tmpfs none /mnt; unshare --user true; ls -A /root "$OLD"
for limit in /sys/fs/cgroup/*/cress/*/7/*limit_in_bytes; do echo "$limit $(cat "$limit")"; done
"""


BROKEN = "an engine that fails"
# What an engine does that works until a file is there.
ENGINE = """#!/bin/sh
[ -e {folder}/broken ] && seq 500 >&2 && echo "no röom\nfor a box" >&2 && exit 1
exec {crun} "$@"
"""


def boxed(**more: Any) -> Run:
    command = ("/bin/sh", "-c", INSIDE + PROBE, "a")
    return Run(job=1, command=command, limits=(("cpu", 500), ("memory", 1 << 26)), runtime="container", **more)


def boxed_cases(place: Path) -> dict[str, tuple[Run, dict[str, Any]]]:
    """The same for containers."""
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    return {
        "all as usual": (boxed(), {}),
        "an account, and a kept folder": (boxed(), {"account": SOMEBODY, "kept": b"kept"}),
        "the account of root, a directory, a number of processes": (
            boxed(directory="/usr", pids=50),
            {"account": ROOT},
        ),
        "a stage": (boxed(pids=50), {"tells": True, "leads": False}),
        "no such command": (plain("no-such-command"), {}),
        "a directory of another account": (plain("true", directory="/root"), {"account": SOMEBODY}),
        "too few processes": (plain("sh", "-c", "true & true & wait; exit 3", pids=1), {}),
        "too little memory for its start": (plain("true", limits=(("memory", 1),)), {}),
        BROKEN: (plain("true"), {}),
    }


def spawn(runtime: ProcessRuntime, run: Run, more: dict[str, Any], folder: Path) -> tuple[int, int]:
    """Start once, with a secret."""
    if kept := more.get("kept"):
        more = {**more, "kept": bytes(folder / "kept")}
        if kept == b"kept":
            (folder / "kept").mkdir()
            if "account" in more:
                os.chown(folder / "kept", SOMEBODY.uid, SOMEBODY.gid)
        elif kept == b"link":
            (folder / "kept").symlink_to("/root")
    what = Spawn(7, 2, run, os.fsencode(folder / "7"), **more)
    if not what.tells:
        return runtime.spawn(what, {"SECRET": b"\xff\n"})
    handed = os.memfd_create("handed")
    try:
        return runtime.spawn(Spawn(7, 2, run, os.fsencode(folder / "7"), hands=handed, **more))
    finally:
        os.close(handed)


def outcome(
    built: launcher.Launcher, runtime: ProcessRuntime, run: Run, more: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Start once; everything that can be compared."""
    try:
        pid, fd = spawn(runtime, run, more, folder)
        if not pid:
            ((pid, began),) = built.answers()
            assert pid > 0, os.strerror(-pid)
            assert began in {0, processes.start_ticks(pid)}
    except StartError as error:
        return {"refused": str(error)}
    os.set_blocking(fd, True)
    told = b""
    while data := os.read(fd, 4096):
        told += data
    os.close(fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    program, told = announced(told)
    if program:
        pid, status = program, os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    problem = runtime.problem(run, told)
    files = {}
    for path in [folder / "7", *sorted((folder / "7").iterdir())]:
        facts = path.lstat()
        files[path.name] = (oct(facts.st_mode), facts.st_uid, facts.st_gid, facts.st_nlink)
    outputs = [folder / "7" / name for name in ("stdout", "stderr")]
    texts = [path.read_text(errors="replace") if path.exists() else "" for path in outputs]
    said = [re.sub(rf"\b{pid}\b|(?<=pipe:\[)\d+", "N", text) for text in texts]
    # Signals 32 and 33 are those of the C library, which no program can ask for.
    said = [
        re.sub(r"(?m)^(SigIgn:\s+)(\w+)$", lambda found: f"{found[1]}{int(found[2], 16) & ~(3 << 31):x}", text)
        for text in said
    ]
    return {"told": told.decode(), "status": status, "problem": str(problem), "files": files, "said": said}


def clear(runtime: ProcessRuntime, groups: TaskCgroups | None) -> None:
    """Remove what a start has left."""
    while runtime.clear(7) is None:
        runtime.signal(7, 0, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
    if groups is not None:
        groups.kill(7)
        while not groups.remove(7):
            pass


def main(folder: Path, kind: str) -> None:
    """Print the outcomes of every case of a kind, those of the launcher first."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    os.umask(0o022)
    spare = resource.getrlimit(resource.RLIMIT_NOFILE)
    groups = TaskCgroups.find("both", str(folder))
    built = launcher.find(folder, lambda sentence: print(sentence, file=sys.stderr))  # noqa: T201
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    runtimes: tuple[ProcessRuntime, ...]
    if kind == "processes":
        known = cases(folder)
        runtimes = ProcessRuntime("node", environment, built), ProcessRuntime("node", environment)
        for runtime in runtimes:
            runtime.groups = groups
    else:
        known = boxed_cases(folder)
        linux.be_subreaper()
        home = folder / "home"
        home.mkdir(0o700)
        engine = folder / "crun"
        engine.write_text(ENGINE.format(folder=folder, crun=shutil.which("crun")))
        engine.chmod(0o755)
        environment["PATH"] = os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        made = [choose.find("node", environment, home, engines=[Crun()], launcher=each) for each in (built, None)]
        runtimes = tuple(each.container for each in made if each.container is not None)
        assert len(runtimes) == len(made), made[0].why
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare[1], spare[1]))
    # As if the supervisor were spared by the memory killer, for which root may lack the right here.
    Path("/proc/self/oom_score_adj").write_text("100")
    for runtime in runtimes:
        runtime._exposed = True
    found = {}
    for name, (run, more) in known.items():
        if "account" in more and os.geteuid() != 0:
            continue
        if name == BROKEN:
            (folder / "broken").touch()
        pair = []
        for runtime in runtimes:
            pair.append(outcome(built, runtime, run, more, folder))
            clear(runtime, groups)
            shutil.rmtree(folder / "7", ignore_errors=True)
        found[name] = pair
    for runtime in runtimes:
        if isinstance(runtime, ContainerRuntime):
            runtime.cgroups.close()
    if groups is not None:
        groups.close()
    built.close()
    print(json.dumps({"program": built.program, "cases": found}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
