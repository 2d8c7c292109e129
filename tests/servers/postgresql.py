"""A real PostgreSQL server, from Debian's package, at a Unix socket."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_NUMBERS = itertools.count(1)


class PostgreSql:
    """A server, run by the user whom its package has made; ``database()`` makes an empty database."""

    def __init__(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not programs or os.geteuid() != 0 or shutil.which("runuser") is None:
            pytest.skip("no PostgreSQL (apt install postgresql, run as root): nothing was tried on it")
        self.folder = Path(tempfile.mkdtemp(prefix="cress-pg-"))
        shutil.chown(self.folder, "postgres")
        self._programs = programs[-1].parent
        self._data = self.folder / "data"
        self._as_postgres("initdb", "-D", str(self._data), "-A", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -F"
        self._control("-l", str(self.folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        """End all connections at once, as a crash would."""
        self._control("-m", "immediate", "stop")

    def database(self) -> str:
        """Return the address of a new database."""
        name = f"d{next(_NUMBERS)}"
        self._as_postgres("createdb", "-h", str(self.folder), name)
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def _control(self, *words: str) -> None:
        self._as_postgres("pg_ctl", "-D", str(self._data), "-w", *words)

    def _as_postgres(self, program: str, *words: str) -> None:
        command = ["runuser", "-u", "postgres", "--", str(self._programs / program), *words]
        told = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        assert told.returncode == 0, told.stdout + told.stderr
