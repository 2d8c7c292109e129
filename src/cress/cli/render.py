"""``cress render``: a configuration file that follows the places of jobs, and the program that reads it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from cress.cli.common import AGAIN, Data, connect
from cress.cli.errors import told
from cress.cli.place_template import HINT, PlaceTemplate
from cress.model.errors import InputError

if TYPE_CHECKING:
    from cress.client import PlaceView

EPILOG = f"""\
\b
Examples:
  cress render hosts.tmpl hosts                                     once
  cress render nginx.tmpl nginx.conf --signal HUP -- nginx -c nginx.conf -g 'daemon off;'
  cress render pool.tmpl pool.ini --restart -- ./pool pool.ini

\b
Words of a template: {HINT}.
The file is written when each job of the template has a task; then COMMAND starts. Whenever their tasks come, go or
move, the file is written anew, and COMMAND gets the signal or is restarted. While a job has no task, the file stays.
In a task this needs `job_token: true` (docs/names.md).
Exit codes: the command's own; without one 0 done, 2 bad input, 3 no center reachable.
"""

# Seconds in which changes are collected, and after which a command that is restarted is killed.
SETTLE, GRACE = 0.5, 10.0
_WAITING = "cress render: waiting for a task of {}"


class News(NamedTuple):
    """News for the loop: the places of a name, the end of a command with its code, or a center that is away."""

    name: str = ""
    places: Sequence[PlaceView] = ()
    ended: subprocess.Popen[bytes] | None = None
    problem: Exception | None = None


def render(
    template: Annotated[Path, typer.Argument(metavar="TEMPLATE", help="The template.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program that reads it.")
    ] = None,
    send: Annotated[str, typer.Option("--signal", metavar="NAME", help="Signal for COMMAND, such as HUP.")] = "",
    restart: Annotated[bool, typer.Option("--restart", help="Restart COMMAND instead of a signal.")] = False,
    group: Annotated[str, typer.Option(metavar="GROUP", help="Only jobs of this group.")] = "",
    data: Data = None,
) -> None:
    """Write a file that follows the places of jobs."""
    with told("render"):
        number = _signal(send)
        if (send or restart) and not command:
            raise InputError("--signal and --restart need a command", hint="-- COMMAND ARGUMENTS")
        if send and restart:
            raise InputError("is given beside --restart", hint="one of them", field="--signal")
        keeper = FileKeeper(_read(template), file, command or [], signal.SIGTERM if restart else number, group, data)
        code = keeper.run(restart=restart)
    raise typer.Exit(code)


def _read(path: Path) -> PlaceTemplate:
    try:
        return PlaceTemplate(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not a text in UTF-8", file=str(path)) from None


def _signal(name: str) -> signal.Signals | None:
    if not name:
        return None
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except KeyError:
        raise InputError(f"{name!r} is not a signal", hint="such as HUP or USR1", field="--signal") from None


class FileKeeper:
    """Follows the places of the names of a template; one thread asks for each name."""

    def __init__(
        self,
        template: PlaceTemplate,
        file: Path,
        command: Sequence[str],
        signal_: signal.Signals | None,
        group: str,
        data: Path | None,
    ) -> None:
        self._template = template
        self._file = file
        self._command = command
        self._signal = signal_
        self._group, self._data = group, data
        self._changes: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._places: dict[str, Sequence[PlaceView]] = {}
        self._text: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # A signal that came between two commands.
        self._noted = 0
        self._waits = False

    def run(self, *, restart: bool) -> int:
        """Write the file, once or until the command ends; return the code of the command.

        Raises InputError, and errors of the client before the first file.
        """
        for name in self._template.names:
            threading.Thread(target=self._ask, args=(name,), daemon=True).start()
        while True:
            for change in self._next_changes():
                if (code := self._taken(change)) is not None:
                    return code
            if self._misses_places() or not self._is_new():
                continue
            if not self._command:
                return 0
            if self._process is not None and not restart:
                self._tell(self._process)
                continue
            if self._process is not None:
                self._stop(self._process)
            if self._noted:
                return 128 + self._noted
            self._start()

    def _taken(self, change: News) -> int | None:
        """Take one change into account; return the code of the command if it ended."""
        if change.problem is not None and self._text is None:
            raise change.problem
        if change.problem is not None:
            typer.echo(f"cress render: {change.problem}; the last file stays", err=True)
        elif change.ended is None:
            self._places[change.name] = change.places
        elif change.ended is self._process:
            code = change.ended.returncode
            return code if code >= 0 else 128 - code
        return None

    def _misses_places(self) -> bool:
        """Return whether a name has no places yet; said once, when the center has answered for each name."""
        missing = [name for name in self._template.names if not self._places.get(name)]
        if missing and len(self._places) == len(self._template.names) and not self._waits:
            self._waits = True
            if self._text is None:
                typer.echo(_WAITING.format(", ".join(missing)), err=True)
        return bool(missing)

    def _is_new(self) -> bool:
        """Write the file if it differs. Raises InputError, but not while the command runs with the last file."""
        try:
            text = self._template.render(self._places)
            if text == self._text:
                return False
            _write(self._file, text)
        except InputError as error:
            if self._process is None:
                raise
            typer.echo(f"cress render: {error}; the last file stays", err=True)
            return False
        self._text = text
        return True

    def _next_changes(self) -> list[News]:
        """Return the next changes: all that come soon after the first one."""
        found = [self._changes.get()]
        until = time.monotonic() + SETTLE * (self._text is not None)
        while True:
            try:
                found.append(self._changes.get(timeout=max(until - time.monotonic(), 0.01)))
            except queue.Empty:
                return found

    def _ask(self, name: str) -> None:
        from cress.client import ClientError, NoCenter, Unavailable, Unreachable

        heard, said = False, ""
        while True:
            try:
                with connect(self._data) as client:
                    for places in client.watch_names(name, group=self._group):
                        heard, said = True, ""
                        self._changes.put(News(name, places))
            except (ClientError, NoCenter, InputError, OSError) as error:
                # A center that is away for a moment is no news; another error is told once, and may be mended.
                passes = isinstance(error, (Unreachable, Unavailable, NoCenter))
                if not (heard and passes) and str(error) != said:
                    said = str(error)
                    self._changes.put(News(problem=error))
            time.sleep(AGAIN)

    # --- the command --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, _: self._pass_on(received))
        try:
            process = self._process = subprocess.Popen(self._command)
        except OSError as error:
            raise InputError(f"{self._command[0]} cannot be started: {error.strerror}") from None
        if self._noted:  # during the start
            process.send_signal(self._noted)
        threading.Thread(target=self._await, args=(process,), daemon=True).start()

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        self._changes.put(News(ended=process))

    def _pass_on(self, number: int) -> None:
        if self._process is None:
            self._noted = number
        elif not (number == signal.SIGINT and _is_in_foreground()):
            self._process.send_signal(number)

    def _tell(self, process: subprocess.Popen[bytes]) -> None:
        if self._signal is not None:
            process.send_signal(self._signal)

    def _stop(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_in_foreground() -> bool:
    """Return whether the terminal sends its Ctrl-C to this group of processes, so to the command too."""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _write(path: Path, text: str) -> None:
    """Write a file as a whole: a reader sees the old one or the new one. A link stays, and leads to the new one."""
    target = path.resolve()
    umask = os.umask(0)
    os.umask(umask)
    new: Path | None = None
    try:
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~umask
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        new = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        new.chmod(mode)
        new.replace(target)
    except OSError as error:
        if new is not None:
            new.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", file=str(path)) from None
