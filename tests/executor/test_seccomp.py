"""The system call filter of containers: by an interpreter of its instructions, and in real containers of every
engine.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import struct
from pathlib import Path

import pytest

from cress.executor.exec.helper_process import HelperProcess
from cress.executor.runtimes import seccomp
from cress.executor.runtimes.engines import ENGINES
from cress.model.run import Run
from tests.executor.harness import supervisor
from tests.executor.test_exec_helper import run as enter

X86_64, I386, AARCH64, ARM = 0xC000_003E, 0x4000_0003, 0xC000_00B7, 0x4000_0028
NEW_USER, NEW_NETWORK, THREAD = 0x1000_0000, 0x4000_0000, 0x3D_0F00

# The machine, the architecture of the call, its number, its first argument; the error, 0: it is allowed.
CALLS = {
    "read": ("x86_64", X86_64, 0, 0, 0),
    "mount": ("x86_64", X86_64, 165, 0, errno.EPERM),
    "mount of a 32-bit program": ("x86_64", I386, 21, 0, errno.EPERM),
    "getuid, which is mount elsewhere": ("x86_64", X86_64, 21, 0, 0),
    "bpf": ("x86_64", X86_64, 321, 0, errno.EPERM),
    "the last one of the list": ("x86_64", X86_64, 136, 0, errno.EPERM),
    "the last one of the list of 32 bits": ("x86_64", I386, 62, 0, errno.EPERM),
    "a call that is newer than the list": ("x86_64", X86_64, 9_999, 0, 0),
    "mount by the third interface": ("x86_64", X86_64, 0x4000_0000 + 165, 0, errno.ENOSYS),
    "a thread": ("x86_64", X86_64, 56, THREAD, 0),
    "a thread of 32 bits": ("x86_64", I386, 120, THREAD, 0),
    "a process in a new user namespace": ("x86_64", X86_64, 56, NEW_USER | 17, errno.EPERM),
    "a process in a new network": ("x86_64", I386, 120, NEW_NETWORK | 17, errno.EPERM),
    "clone3, whose flags cannot be seen": ("x86_64", X86_64, 435, 0, errno.ENOSYS),
    "a socket": ("x86_64", X86_64, 41, 2, 0),
    "a socket to the hypervisor": ("x86_64", X86_64, 41, 40, errno.EPERM),
    "another architecture": ("x86_64", ARM, 21, 0, errno.ENOSYS),
    "mount on ARM": ("aarch64", AARCH64, 40, 0, errno.EPERM),
    "a process in a new user namespace on ARM": ("aarch64", AARCH64, 220, NEW_USER, errno.EPERM),
    "read on ARM": ("aarch64", AARCH64, 63, 0, 0),
    "a 32-bit program on ARM": ("aarch64", ARM, 3, 0, errno.ENOSYS),
}


def answer(code: bytes, architecture: int, number: int, argument: int) -> int:
    """Run the filter as the kernel does (Documentation/networking/filter.rst); return the error of the call."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, argument, 0, 0, 0, 0, 0)
    instructions = list(struct.iter_unpack("=HBBI", code))
    place = accumulator = 0
    while True:
        kind, if_so, if_not, value = instructions[place]
        place += 1
        if kind == 0x06:
            return 0 if value == 0x7FFF_0000 else value & 0xFFFF
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, value)
        elif kind == 0x05:
            place += value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: accumulator & value != 0}[kind]
            place += if_so if holds else if_not


@pytest.mark.parametrize("case", CALLS)
def test_the_answer_to_a_call(case: str) -> None:
    machine, architecture, number, argument, expected = CALLS[case]
    assert answer(seccomp.program(machine), architecture, number, argument) == expected


def test_a_processor_that_is_not_known_has_no_filter() -> None:
    assert seccomp.program("riscv64") == b""


COMMANDS = {"bubblewrap": "bwrap"}
# Prints the errors of calls, and that threads and processes work all the same.
TRIALS = """
import ctypes, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def error(act):
    ctypes.set_errno(0)
    return ctypes.get_errno() if act() < 0 else 0
print(error(lambda: libc.unshare(0x10000000)), error(lambda: libc.unshare(0x20000)), error(lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, 0)),
      error(lambda: libc.keyctl(0, -3, 0)) if hasattr(libc, "keyctl") else error(lambda: libc.syscall(250, 0, -3, 0)))
done = []
thread = threading.Thread(target=done.append, args=(1,))
thread.start()
thread.join()
sys.stdout.flush()
subprocess.run(["/bin/grep", "-E", "^(CapBnd|NoNewPrivs|Seccomp):", "/proc/self/status"], check=True)
"""  # noqa: E501


@pytest.mark.skipif(os.geteuid() != 0, reason="containers need root: no filter was tried in one")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the trials are made with the numbers of x86_64")
@pytest.mark.parametrize("engine", [each.name for each in ENGINES])
def test_calls_are_refused_in_containers_and_in_commands_there(tmp_path: Path, engine: str) -> None:
    if shutil.which(COMMANDS.get(engine, engine)) is None:
        pytest.skip(f"{engine} is not installed")
    with supervisor(tmp_path / "e", options=("--engine", engine)) as parent:
        client = parent.start()
        assert client.inventory.container == engine, client.inventory.unlimited
        command = ("/usr/bin/python3", "-c", TRIALS)
        for attempt, user in enumerate(("nobody", "root"), 1):
            end = client.run(Run(job=attempt, command=command, user=user, runtime="container"), attempt)
            assert end.code == 0, parent.output(attempt, "stderr")
            errors, bounds, privileges, mode = parent.output(attempt).splitlines()
            assert errors.split() == [str(errno.EPERM)] * 4
            assert (privileges.split()[1], mode.split()[1]) == ("1", "2")
            assert (bounds.split()[1].strip("0") == "") == (user == "nobody")
        client.launch(Run(job=3, command=("/bin/sleep", "1000"), user="nobody", runtime="container"), 3)
        pid = client.wait_started(3).pid
        first = json.loads((parent.directory / "containers/3/first").read_text())[0]
        assert "Seccomp:\t2" in Path(f"/proc/{first}/status").read_text(), "the first process, too"

        async def story() -> None:
            helper = HelperProcess(str(parent.directory / "attempts"))
            try:
                code, text = await enter(helper, pid, *command, attempt=3)
                assert (code, text.splitlines()[0].split()) == (0, [str(errno.EPERM)] * 4)
            finally:
                helper.close()

        asyncio.run(story())
