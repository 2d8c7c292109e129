"""Data of a release that this one cannot read is refused in a sentence, and stays as it is byte by byte."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cress.center.clock import Clock
from cress.center.recovery import load_machine
from cress.center.settings import Settings
from cress.executor.journal import Journal, JournalError
from cress.store.base import StoreError
from cress.store.sqlite import SqliteStore
from cress.store.sqlite_tables import SCHEMA
from tests.center.inside import Inside, inside
from tests.center.program import run_to_end

Change = Callable[[sqlite3.Connection], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of this release, with a job and a node."""
    data = tmp_path_factory.mktemp("made") / "d"
    data.mkdir(mode=0o700)

    async def story(center: Inside) -> None:
        await center.join()
        await center.submit(tasks=2)

    inside(data, story)
    return data


def left(made: Path, into: Path, change: Change) -> Path:
    """A copy that was changed, with the change in the write-ahead file, as after kill -9."""
    shutil.copytree(made, into / "changing")
    with closing(sqlite3.connect(into / "changing" / "cress.db", isolation_level=None)) as connection:
        change(connection)
        shutil.copytree(into / "changing", into / "d")
    (into / "d" / "cress.db.mark").write_text("open\n")
    return into / "d"


def content(data: Path) -> dict[str, bytes]:
    """The bytes of every file that has some, but for those that only say who uses the directory."""
    passing = ("cress.db-shm", "center.json", "center.lock")
    files = {str(path.relative_to(data)): path for path in sorted(data.rglob("*")) if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name not in passing and path.stat().st_size}


def opened(data: Path) -> None:
    """Do what a center does before it writes."""
    with closing(SqliteStore(data / "cress.db")) as store:
        load_machine(store, Settings(data=data), Clock())


def schema(number: int) -> Change:
    return lambda connection: connection.execute(f"PRAGMA user_version = {number}")


def snapshot(version: Callable[[Any], Any]) -> Change:
    """A snapshot with another version."""

    def change(connection: sqlite3.Connection) -> None:
        (sealed,) = connection.execute("SELECT state FROM snapshot").fetchone()
        state = msgspec.msgpack.decode(sealed[4:])
        state["version"] = version(state["version"])
        data = msgspec.msgpack.encode(state)
        connection.execute("UPDATE snapshot SET state = ?", (zlib.crc32(data).to_bytes(4, "little") + data,))

    return change


def next_major(version: Any) -> Any:
    return version + 1 if isinstance(version, int) else [version[0] + 1, 0]


REFUSED = {
    "a newer schema of the store": (schema(SCHEMA + 1), f"schema {SCHEMA + 1}"),
    "an older schema of the store": (schema(1), "schema 1"),
    "a newer major version": (snapshot(next_major), "version"),
    "a version that is too old": (snapshot(lambda _: 1), "version 1"),
}


@pytest.mark.parametrize(("change", "told"), REFUSED.values(), ids=REFUSED)
def test_is_refused_before_anything_is_written(made: Path, tmp_path: Path, change: Change, told: str) -> None:
    data = left(made, tmp_path, change)
    before = content(data)
    assert "cress.db-wal" in before
    with pytest.raises(StoreError, match=told):
        opened(data)
    assert content(data) == before


def test_the_program_says_so_and_ends(made: Path, tmp_path: Path) -> None:
    data = left(made, tmp_path, snapshot(next_major))
    (data / "token").write_text("x" * 43 + "\n")
    (data / "token").chmod(0o600)
    before = content(data)
    ended = run_to_end(data)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("cress center: ")
    assert "version" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert content(data) == before


def test_a_journal_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path).close()
    first = b"cress journal 9"
    newer = b"%s %08x\n" % (first, zlib.crc32(first)) + b"something"
    path.write_bytes(newer)
    with pytest.raises(JournalError, match="was written by a newer release"):
        Journal(path)
    assert path.read_bytes() == newer
