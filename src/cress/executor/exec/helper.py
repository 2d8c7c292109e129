"""The exec helper: runs commands inside running tasks. ``python -m cress.executor.exec.helper FD [FOLDER]``.

Its agent is at the other end of the descriptor; the attempts are in the folder.

It is a separate process because a child that enters namespaces runs Python until it executes, which is safe only if the
parent has no threads. The agent starts it when it is first needed. When the agent is gone, the helper kills its
commands and ends. When the helper itself is killed, the kernel kills its children.

An exec session is a command in a task: a child that leads a kernel session, below another child if the task has a pid
namespace. When the command ends, the rest of its process group is killed. Processes that left the group are found by
their marks (``marks``) and killed too.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import gc
import os
import selectors
import signal
import socket
import struct
import sys
import termios
import time
from types import FrameType
from typing import NoReturn

import msgspec

from cress.executor import processes
from cress.executor.exec import confinement
from cress.executor.exec.packets import MARK, MOST_PACKET, Enter, Kill, Left, Trouble, decode_to_helper, encode
from cress.executor.marks import exec_marks
from cress.executor.runtimes import linux
from cress.executor.runtimes.enter import keep_out
from cress.executor.runtimes.programs import become, candidates

# Requests to a terminal (asm-generic/ioctls.h): set its lock, open its other end.
_UNLOCK, _PEER = 0x4004_5431, 0x5441
# Exit codes of shells.
NOT_FOUND, NOT_EXECUTABLE, NOT_ENTERED = 127, 126, 125
# Seconds that killed processes may take to end after the agent is gone.
LAST = 5.0
# Searches for the processes of a session: killed ones may have started others.
ROUNDS = 100
# Searches in a row that find none, since one may miss a process that forks and ends in a loop.
EMPTY = 3
# The session and the process that leads its group.
_TOLD = struct.Struct("=QQ")


class Helper:
    """The loop of the exec helper."""

    def __init__(self, agent: socket.socket, folder: str = "") -> None:
        self.agent = agent
        self.folder = folder
        self.sessions: dict[int, int] = {}  # by our child's pid
        self.leaders: dict[int, int] = {}  # session → the process that leads its group
        self.unwanted: set[int] = set()  # to be killed as soon as they have a leader
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.wake, self._woken = socket.socketpair()
        self.wake.setblocking(False)
        self._woken.setblocking(False)
        self.prefix = b"%d." % os.getpid()
        self.marks = exec_marks(os.getpid())
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def run(self) -> None:
        """Work until the agent is gone."""
        selector = selectors.EpollSelector()
        for fd in (self.agent.fileno(), self.reading, self._woken.fileno()):
            selector.register(fd, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if self._woken.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
            self._hear_leaders()
            if self.agent.fileno() in ready and not self._hear_agent():
                break
            try:
                self._reap()
            except OSError:
                break  # the agent has closed its end
        self._end()

    def _hear_agent(self) -> bool:
        """Carry out the agent's orders; return False if the agent is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self.agent, 2 * MOST_PACKET, 4)
        except OSError:
            return False
        if not data:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        order = decode_to_helper(data)
        if isinstance(order, Kill):
            self._kill(order.session)
            return True
        try:
            pid = os.fork()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(fds[0], encode(Trouble(f"no new process could be made: {error.strerror}", NOT_ENTERED)))
            self.agent.send(encode(Left(order.session, NOT_ENTERED)))
        else:
            if pid == 0:
                self._child(order, fds)
            self.sessions[pid] = order.session
        for fd in fds:
            os.close(fd)
        return True

    def _hear_leaders(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.reading, 100 * _TOLD.size)
            for session, pid in _TOLD.iter_unpack(data):
                if session in self.sessions.values():
                    self.leaders[session] = pid
                    if session in self.unwanted:
                        self._kill(session)

    def _kill(self, session: int) -> None:
        self.unwanted.add(session)
        leader = self.leaders.get(session)
        if leader is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGKILL)

    def _reap(self) -> None:
        """Reap every child that has ended, and kill the processes that its session left."""
        over: list[tuple[int, int]] = []
        orphans = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            session = self.sessions.pop(pid, None)
            orphans = True
            if session is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            over.append((session, code if code >= 0 else 128 - code))
            # A group outlives its leader, and the kernel does not reuse its number meanwhile.
            self._kill(session)
            if self.leaders.pop(session, pid) != pid:
                # In a pid namespace orphans become children of its first process, not of the helper.
                self._kill_marked(session)
            self.unwanted.discard(session)
        if orphans:
            self._kill_orphans()
        for session, code in over:
            self.agent.send(encode(Left(session, code)))

    def _kill_orphans(self) -> None:
        """Kill children that were reparented here because their parents ended, unless their session goes on.

        Killed ones may have started others meanwhile.
        """
        alive = set(self.sessions.values())
        seen: set[int] = set()
        for _ in range(ROUNDS):
            fresh = processes.children(os.getpid()).difference(self.sessions, seen)
            if not fresh:
                return
            seen |= fresh
            for pid in fresh:
                if not alive or processes.marked(pid, self.marks) not in alive:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)

    def _kill_marked(self, session: int) -> None:
        """Kill all processes with the mark of a session, and those that they start meanwhile."""
        empty = 0
        for _ in range(ROUNDS):
            empty += 1
            for number, pid in processes.find_marked(self.marks):
                if number == session:
                    empty = 0
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
            if empty == EMPTY:
                return

    def _end(self) -> None:
        """Kill all commands and the processes that they left."""
        end = time.monotonic() + LAST
        while time.monotonic() < end:
            self._hear_leaders()
            for session in self.sessions.values():
                self._kill(session)
            while True:
                try:
                    pid, _ = os.waitpid(-1, os.WNOHANG)
                except ChildProcessError:
                    return
                if pid == 0:
                    break
                if pid in self.sessions:
                    session = self.sessions.pop(pid)
                    if self.leaders.get(session, pid) != pid:
                        self._kill_marked(session)
            for pid in processes.children(os.getpid()).difference(self.sessions):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    # --- in the child ----------------------------------------------------------------------------------------------

    def _child(self, order: Enter, fds: list[int]) -> NoReturn:
        """Become the command, or report the error and end."""
        back = fds[0]
        try:
            for number in (
                signal.SIGINT,
                signal.SIGTERM,
                signal.SIGHUP,
                signal.SIGCHLD,
                signal.SIGPIPE,
                signal.SIGXFSZ,
            ):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            linux.die_with_parent(signal.SIGKILL)
            self.marks.put(order.session)
            os.setsid()
            os.write(self.writing, _TOLD.pack(order.session, os.getpid()))
            place = confinement.prepare(order.first, order.attempt, self.folder)
            confinement.join_cgroups(place)
            if os.geteuid() == 0:
                keep_out()
            confinement.enter_namespaces(place)
            if place.new_pids:
                self._be_between(order.session, fds)
            confinement.enter_root(place)
            if order.terminal is not None:
                fds = [back, *_terminal(back, order.terminal, place)]
            confinement.become(place)
            linux.die_with_parent(signal.SIGKILL)
            for target, fd in enumerate(fds[1:]):
                os.dup2(fd, target)
            _execute(order, place, self.prefix)
        except confinement.EnterError as error:
            _tell(back, str(error), NOT_ENTERED)
        except _NotStarted as error:
            _tell(back, str(error), error.code)
        except OSError as error:
            _tell(back, f"the command could not be started in the task: {error.strerror}", NOT_ENTERED)
        except BaseException as error:  # noqa: BLE001 - after any error the child must not go on as a helper
            _tell(back, f"the command could not be started in the task: {error!r}", NOT_ENTERED)
        finally:
            os._exit(NOT_ENTERED)
        raise AssertionError

    def _be_between(self, session: int, fds: list[int]) -> None:
        """Fork into the task's pid namespace; return in the child. The parent waits, and ends as the child does."""
        # The leader is announced before it runs; otherwise a kill at this moment would miss it.
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(writing)
            os.read(reading, 1)
            os.close(reading)
            os.setsid()
            linux.die_with_parent(signal.SIGKILL)
            return
        os.close(reading)
        os.write(self.writing, _TOLD.pack(session, pid))
        os.write(writing, b"x")
        for fd in (*fds, writing):
            os.close(fd)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)


class _NotStarted(Exception):
    def __init__(self, why: str, code: int) -> None:
        super().__init__(why)
        self.code = code


def _terminal(back: int, size: tuple[int, int], place: confinement.Confinement) -> tuple[int, int, int]:
    """Open a new terminal of the task as the controlling terminal; send its other end to the agent."""
    try:
        # openpty may look accounts up with libraries of the task's root folder, so it is not used.
        master = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(master, _UNLOCK, struct.pack("i", 0))
        slave = fcntl.ioctl(master, _PEER, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise _NotStarted(f"no terminal can be made in the task: {error.strerror}", NOT_ENTERED) from None
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    with contextlib.suppress(OSError):
        os.fchown(slave, place.uid, -1)
    rights = array.array("i", [master])
    with socket.socket(fileno=os.dup(back)) as way:
        way.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.close(master)
    return slave, slave, slave


def _execute(order: Enter, place: confinement.Confinement, prefix: bytes) -> None:
    variables = dict(place.environment)
    if order.terminal is None:
        variables.pop(b"TERM", None)
    variables |= {os.fsencode(name): os.fsencode(value) for name, value in order.environment}
    variables[MARK] = prefix + b"%d" % order.session
    arguments = [os.fsencode(part) for part in order.command]
    worst = become(candidates(arguments[0], variables), arguments, variables)
    name = order.command[0]
    if worst == errno.ENOENT:
        raise _NotStarted(f"command not found in the task: {name}", NOT_FOUND)
    raise _NotStarted(f"{name} cannot be started in the task: {os.strerror(worst).lower()}", NOT_EXECUTABLE)


def _tell(back: int, why: str, code: int) -> None:
    with contextlib.suppress(OSError):
        os.write(back, encode(Trouble(why, code)))


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def main(arguments: list[str]) -> int:
    """Run a helper; return the exit code."""
    agent = socket.socket(fileno=int(arguments[0]))
    agent.setblocking(True)
    os.set_inheritable(agent.fileno(), False)
    linux.be_subreaper()
    helper = Helper(agent, *arguments[1:2])
    gc.collect()
    gc.freeze()
    try:
        helper.run()
    except msgspec.DecodeError as error:
        print(f"the agent sent an invalid message: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
