"""Programs that try to outlive the task or command that has started them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from pathlib import Path

from cress.executor.processes import is_alive

_TWICE = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})
    os._exit(0)
os.wait()
"""
_DAEMON = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid(); os.chdir('/'); os.umask(0)
if os.fork():
    os._exit(0)
for fd in range(3):
    os.dup2(os.open('/dev/null', os.O_RDWR), fd)
os.execve('/bin/sleep', ['sleep', sys.argv[1]], {})
"""
# Every process lives for a moment, so there is never one for long that could be killed, or found by a test. All of them
# hold one lock.
_CHAIN = """
import fcntl, os, sys, time
fcntl.flock(os.open('/tmp/cress-chain-' + sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666), fcntl.LOCK_EX)
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.002)
"""

# TOKEN is the word by which a test finds the process.
HOGS = {
    "a double fork with closed files": f'{sys.executable} -c "{_TWICE}" TOKEN',
    "a session of its own": "setsid sleep TOKEN &",
    "a session of its own without an environment": "env -i setsid sleep TOKEN &",
    "nohup": "nohup sleep TOKEN >/dev/null 2>&1 &",
    "a daemon": f'{sys.executable} -c "{_DAEMON}" TOKEN',
    "one that ignores signals": "(trap '' TERM INT HUP; exec env -i setsid sleep TOKEN) &",
    "one that forks in a loop": f'env -i setsid {sys.executable} -I -S -c "{_CHAIN}" TOKEN &',
    "one that is stopped": "env -i setsid sleep TOKEN & sleep 0.1; kill -STOP $!",
    "a pid namespace": "env -i setsid unshare UNSHARE -fp sleep TOKEN &",
    "one that executes later": "env -i setsid sh -c 'sleep 0.4; exec sleep TOKEN' &",
    "an orphan of a shell": "sh -c 'env -i setsid sleep TOKEN <&- >&- 2>&- & exit 0'",
}


def hogs(token: str, *, root: bool) -> dict[str, str]:
    """The command of every hog, and a word for its process alone."""
    return {
        text.replace("TOKEN", f"{token}{number:02}").replace("UNSHARE", "" if root else "-Ur"): f"{token}{number:02}"
        for number, text in enumerate(HOGS.values())
    }


def with_word(word: str) -> set[int]:
    """The living processes that have this word in their command line; 0 stands for those that fork in a loop."""
    found = {0 for path in Path("/tmp").glob(f"cress-chain-{word}*") if _is_locked(path)}
    for place in Path("/proc").iterdir():
        if place.name.isdigit() and int(place.name) != os.getpid():
            with contextlib.suppress(OSError):
                if word.encode() in (place / "cmdline").read_bytes() and is_alive(int(place.name)):
                    found.add(int(place.name))
    return found


def sleeping(word: str) -> set[int]:
    """The living processes that are ``sleep WORD``, and no longer the shell that starts it."""
    found = set()
    for number in with_word(word) - {0}:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{number}/cmdline").read_bytes() == b"sleep\0" + word.encode() + b"\0":
                found.add(number)
    return found


def _is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
