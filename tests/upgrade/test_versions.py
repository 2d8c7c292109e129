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

from cress.center.keeping.recovery import load_machine
from cress.center.process.clock import Clock
from cress.center.settings import CenterSettings
from cress.executor.journal import JournalError, JournalFile
from cress.lifecycle.machine import Machine
from cress.lifecycle.record import MAJOR, MINOR
from cress.shell.center import log_entries
from cress.store.base import StoreError
from cress.store.sqlite import SqliteStore
from cress.store.sqlite_tables import SCHEMA
from tests.center.inside import Inside, inside
from tests.center.program import run_to_end

Change = Callable[[sqlite3.Connection], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory of this release: a snapshot with a job and a node, and a log behind it."""
    folder = tmp_path_factory.mktemp("made")
    data = folder / "d"
    data.mkdir(mode=0o700)

    async def first(center: Inside) -> None:
        await center.join()
        await center.started(await center.submit(tasks=2))

    async def second(center: Inside) -> None:
        await center.submit(tasks=3)
        shutil.copytree(data, folder / "killed")

    inside(data, first)
    inside(data, second)
    return folder / "killed"


def left(made: Path, into: Path, change: Change) -> Path:
    """A copy that was changed, with the change in the write-ahead file, as after kill -9."""
    into.mkdir(exist_ok=True)
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


def machine_of(data: Path) -> Machine:
    """The machine that a center has before it writes anything."""
    with closing(SqliteStore(data / "cress.db")) as store:
        return load_machine(store, CenterSettings(data=data), Clock()).machine


def schema(number: int) -> Change:
    return lambda connection: connection.execute(f"PRAGMA user_version = {number}")


def sealed_as(data: bytes) -> bytes:
    """The bytes as the store keeps them, with their checksum."""
    return zlib.crc32(data).to_bytes(4, "little") + data


def snapshot(version: Callable[[Any], Any]) -> Change:
    """A snapshot with another version."""

    def change(connection: sqlite3.Connection) -> None:
        (sealed,) = connection.execute("SELECT state FROM snapshot").fetchone()
        state = msgspec.msgpack.decode(sealed[4:])
        state["version"] = version(state["version"])
        data = msgspec.msgpack.encode(state)
        connection.execute("UPDATE snapshot SET state = ?", (sealed_as(data),))

    return change


def next_major(version: Any) -> Any:
    return version + 1 if isinstance(version, int) else [version[0] + 1, 0]


def records(change_of: Callable[[list[Any]], object]) -> Change:
    """A log whose last record was changed."""

    def change(connection: sqlite3.Connection) -> None:
        number, sealed = connection.execute("SELECT seq, record FROM log ORDER BY seq DESC LIMIT 1").fetchone()
        entry = log_entries.unpack(sealed[4:])
        stored = msgspec.msgpack.decode(entry.record)
        change_of(stored)
        data = log_entries.pack(msgspec.msgpack.encode(stored), entry.events)
        connection.execute("UPDATE log SET record = ? WHERE seq = ?", (sealed_as(data), number))

    return change


def major_of_record(stored: list[Any]) -> None:
    stored[0] = [MAJOR + 1, 0]


def fact_of_tomorrow(stored: list[Any]) -> None:
    stored[0] = [MAJOR, MINOR + 1]
    stored[4].append(["Loan", 7])


REFUSED = {
    "a newer major version of a record": (records(major_of_record), f"version {MAJOR + 1}"),
    "a fact that only a newer release knows": (records(fact_of_tomorrow), "does not know the fact 'Loan'"),
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
        machine_of(data)
    assert content(data) == before


def newer_minor(connection: sqlite3.Connection) -> None:
    """What the next minor version may write: further fields, with defaults, everywhere."""
    (sealed,) = connection.execute("SELECT state FROM snapshot").fetchone()
    state = msgspec.msgpack.decode(sealed[4:])
    state["version"] = [MAJOR, MINOR + 1]
    rows = [
        state["general"],
        *state["jobs"],
        *state["nodes"],
        *state["attempts"],
        *(job["job"] for job in state["jobs"]),
    ]
    for row in (state, *rows, state["core"], *state["core"]["nodes"], *state["core"]["jobs"]):
        row["of_tomorrow"] = {"more": [1, 2]}
    data = msgspec.msgpack.encode(state)
    connection.execute("UPDATE snapshot SET state = ?", (sealed_as(data),))
    connection.execute("INSERT INTO meta VALUES ('of_tomorrow', ?)", (sealed_as(b"new"),))

    def more(stored: list[Any]) -> None:
        stored[0] = [MAJOR, MINOR + 1]
        rows = stored[5]
        rows["loans"] = [[], [[1, {"amount": 7}]], []]
        for _, written, changed in (rows[name] for name in rows if name != "loans"):
            for _, fields in (*written, *changed):
                if isinstance(fields, dict):
                    fields["of_tomorrow"] = 7
        stored.append({"more": True})

    records(more)(connection)


def test_data_of_the_next_minor_version_is_opened_and_goes_on(made: Path, tmp_path: Path) -> None:
    """A downgrade by one minor version: fields that this release does not know are passed over, the rest is as it
    was.
    """
    plain, newer = left(made, tmp_path / "plain", lambda _: None), left(made, tmp_path / "newer", newer_minor)
    before = content(newer)
    machine, expected = (machine_of(data) for data in (newer, plain))
    assert content(newer) == before
    assert machine.validate() == []
    assert machine.export() == expected.export()
    assert machine.jobs

    async def story(center: Inside) -> None:
        jobs = (await center.get("/v1/jobs"))["jobs"]
        assert [job["tasks"]["total"] for job in jobs] == [3, 2]
        await center.join()
        await center.submit(tasks=4)
        assert len((await center.get("/v1/jobs"))["jobs"]) == 3
        assert center.committer.machine.validate() == []

    inside(newer, story)


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
    JournalFile(path).close()
    first = b"cress journal 9"
    newer = b"%s %08x\n" % (first, zlib.crc32(first)) + b"something"
    path.write_bytes(newer)
    with pytest.raises(JournalError, match="was written by a newer release"):
        JournalFile(path)
    assert path.read_bytes() == newer
