"""A real PostgreSQL server, from Debian's package, at a Unix socket or at an address."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

_NUMBERS = itertools.count(1)


class PostgreSql:
    """A server, run by the user whom its package has made; ``database()`` makes an empty database."""

    def __init__(self, address: str = "", begin: Sequence[str] = ()) -> None:
        """``address`` is where it listens besides its socket, ``begin`` what its commands begin with."""
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not programs or os.geteuid() != 0 or shutil.which("runuser") is None:
            pytest.skip("no PostgreSQL (apt install postgresql, run as root): nothing was tried on it")
        self.folder = Path(tempfile.mkdtemp(prefix="cress-pg-"))
        shutil.chown(self.folder, "postgres")
        self._programs, self._address, self._begin = programs[-1].parent, address, list(begin)
        self._data = self.folder / "data"
        self._as_postgres("initdb", "-D", str(self._data), "-A", "trust", "--no-sync")
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all trust\n")
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='{self._address}' -F"
        self._control("-l", str(self.folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        """End all connections at once, as a crash would."""
        self._control("-m", "immediate", "stop")

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to the server and all its connections."""
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for pid in (first, *map(int, children)):
            os.kill(pid, which)

    def database(self) -> str:
        """Return the address of a new database."""
        name = f"d{next(_NUMBERS)}"
        self._as_postgres("createdb", "-h", str(self.folder), name)
        return f"postgresql://postgres@/{name}?host={self._address or self.folder}"

    def close(self) -> None:
        self.kill()
        self.remove()

    def remove(self) -> None:
        """Remove the files of a server that has ended."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _control(self, *words: str) -> None:
        self._as_postgres("pg_ctl", "-D", str(self._data), "-w", *words)

    def _as_postgres(self, program: str, *words: str) -> None:
        command = [*self._begin, "runuser", "-u", "postgres", "--", str(self._programs / program), *words]
        told = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert told.returncode == 0, told.stdout + told.stderr
