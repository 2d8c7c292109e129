"""Damage of each file of a data directory in each way: complete, or refused with the way out; never quietly less."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cress.center.keeping.data_directory import DataDirectory
from cress.center.keeping.event_log import EVENTS
from cress.center.keeping.event_log_check import check_witness
from cress.center.keeping.history_reader import HistoryReader
from cress.center.keeping.owner_token import FINGERPRINT, ensure_token, fingerprint_of
from cress.center.keeping.recovery import restored
from cress.center.keeping.store_maintenance import backup, change_secret, check
from cress.center.settings import CenterSettings
from cress.lifecycle.inputs import NodeLeft
from cress.model.errors import InputError
from cress.protocol.messages import Welcome
from cress.store import sqlite
from cress.store.base import StoreError
from cress.store.sqlite import SqliteStore
from tests.center.inside import Inside
from tests.center.program import Center, run_to_end
from tests.forked import run_cress

# Jobs that wait when the center is killed, and jobs that have ended: the first of them have moved into the history.
WAITING, ENDED, MOVED = 40, 12, 6
NEXT = WAITING + ENDED + 1


async def _life(data: Path, copy: Path) -> None:
    """A center that takes jobs, and what a kill leaves of it."""
    DataDirectory(data).close()
    ensure_token(data)
    async with Inside(data) as center:
        await center.join("n1", ENDED)
        for number in range(1, ENDED + 1):
            job = await center.submit(name=f"job{number}")
            await center.started(job)
            await center.end(job)
            if number == MOVED:
                await center.mover.work()
        await center.committer.submit(NodeLeft(name="n1", granted=0))
        for number in range(ENDED + 1, NEXT):
            await center.submit(name=f"job{number}")
        shutil.copytree(data, copy)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The data directory that a killed center leaves, one that it leaves after a checkpoint, and one after a clean
    stop.
    """
    folder = tmp_path_factory.mktemp("left")
    asyncio.run(_life(folder / "a", folder / "killed"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "CHECKPOINT_COMMITS", 25)
        asyncio.run(_life(folder / "b", folder / "killed after a checkpoint"))
    return {"killed": folder / "killed", "checkpoint": folder / "killed after a checkpoint", "stopped": folder / "a"}


def cress(*words: object) -> tuple[int, str]:
    told = run_cress(tuple(map(str, words)))
    return told.returncode, told.stdout + told.stderr


# --- harms ------------------------------------------------------------------------------------------------------------


def _write(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def cut(path: Path, part: float) -> None:
    os.truncate(path, int(path.stat().st_size * part))


def flip(path: Path, part: float) -> None:
    data = path.read_bytes()
    at = int(len(data) * part)
    if data:
        _write(path, at, bytes([data[at] ^ 0x10]))


def zero(path: Path, part: float) -> None:
    at = int(path.stat().st_size * part)
    _write(path, at, bytes(min(4096, path.stat().st_size - at)))


def garbage(path: Path, part: float) -> None:
    at = int(path.stat().st_size * part)
    _write(path, at, random.Random(part).randbytes(min(4096, path.stat().st_size - at)))


def overwrite(path: Path, _: float) -> None:
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def remove(path: Path, _: float) -> None:
    path.unlink()


def folder(path: Path, _: float) -> None:
    path.unlink()
    path.mkdir()


# The part at which a whole center is started; a start is slow.
WHOLE = 0.5
PARTS = (0.0, 0.03, 0.2, 0.5, 0.77, 0.98)
HARMS: list[tuple[Callable[[Path, float], None], float]] = [
    *((harm, part) for harm in (cut, flip, zero, garbage) for part in PARTS),
    *((harm, WHOLE) for harm in (overwrite, remove, folder)),
]


# --- what comes of it -------------------------------------------------------------------------------------------------


def _loaded(data: Path) -> list[str]:
    """Open the store as a center does; return what is less than it was."""
    HistoryReader(data).check()
    store = SqliteStore(data / "cress.db")
    try:
        saved = store.load()
        opened = restored(saved, CenterSettings(data=data))
        machine = opened.machine
        check_witness(data / EVENTS, store.path, saved.number)
        less = [f"job {n} waits" for n in range(ENDED + 1, NEXT) if n not in machine.jobs or store.run(n) is None]
        less += [f"job {n} has another name" for n, job in machine.jobs.items() if job.job.name != f"job{n}"]
        reader = store.reader()
        there = {job.id for job in reader.jobs(limit=1000)}
        less += [f"job {n} had ended" for n in range(MOVED + 1, ENDED + 1) if n not in there]
        less += [f"attempts of job {n}" for n in range(MOVED + 1, ENDED + 1) if not reader.attempts(n, 0, 9)]
        reader.close()
        if machine.next_job != NEXT:
            less.append("the next number")
        return less
    finally:
        store.close()


async def _opened(data: Path) -> list[str]:
    """Start a center on the directory, as the program does; return what is less than it was."""
    directory = DataDirectory(data)
    try:
        ensure_token(data)
        async with Inside(data) as center:
            machine = center.committer.machine
            less = [f"job {n} waits" for n in range(ENDED + 1, NEXT) if n not in machine.jobs]
            less += [f"job {n} has another name" for n, job in machine.jobs.items() if job.job.name != f"job{n}"]
            for number in range(ENDED + 1, NEXT):
                if center.committer.run(number) is None:
                    less.append(f"how to run job {number}")
            for number in range(1, ENDED + 1):
                answer = await center.http.get(f"/v1/jobs/{number}")
                job = answer.json()
                if answer.status_code != 200:
                    less.append(f"finished job {number}: {answer.status_code}")
                elif (job["name"], job["state"]) != (f"job{number}", "succeeded"):
                    less.append(f"finished job {number} is {job['name']}, {job['state']}")
            if await center.submit(name="new") != NEXT:
                less.append("the next number")
        return less
    finally:
        directory.close()


def _checked(data: Path) -> tuple[list[str], int]:
    try:
        found = check(data / "cress.db")
    except (StoreError, InputError) as error:
        return [str(error)], 0
    history = [each for each in found.files if "history" in each]
    return found.problems + history, found.completed


WAYS_OUT = ("cress store restore", "put a copy of it back", "move it away", "remove the file")
LARGE = ("cress.db", "cress.db-wal", "history.db")
FEW = [(harm, part) for harm, part in HARMS if part in (0.0, WHOLE)]
FILES = (
    "cress.db",
    "cress.db-wal",
    "cress.db-shm",
    "cress.db.mark",
    "cress.db.commits",
    "token",
    "center.lock",
    "center.json",
)
STORIES = [
    *(("killed", name) for name in FILES),
    *(("killed", name) for name in ("history.db", "history.db-wal", "history.db-shm", "history.mark")),
    *(("killed", name) for name in ("events/00000001.events",)),
    *(("checkpoint", name) for name in ("cress.db", "cress.db-wal", "cress.db.commits")),
    *(("stopped", name) for name in ("cress.db", "cress.db.mark", "cress.db.commits")),
]


@pytest.mark.long
@pytest.mark.parametrize(("story", "name"), STORIES, ids=[f"{story} {name}" for story, name in STORIES])
def test_a_damaged_file_is_made_good_or_refused(
    tmp_path: Path, left: dict[str, Path], story: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for number, (harm, part) in enumerate(HARMS if name in LARGE else FEW):
        data = tmp_path / str(number)
        shutil.copytree(left[story], data)
        if not (data / name).exists():
            (data / name).touch(mode=0o600)
        what = f"{harm.__name__} at {part}"
        harm(data / name, part)
        problems, _ = _checked(data)
        try:
            less = asyncio.run(_opened(data)) if part == WHOLE else _loaded(data)
        except (StoreError, InputError) as error:
            less = []
            # One sentence, with the file and the way out.
            assert "\n" not in str(error), what
            assert str(data) in str(error), what
            assert any(way in str(error) for way in WAYS_OUT), (what, str(error))
            # The check finds what the center refuses; it does not look at the lock, the address and the token.
            # What the write-ahead file has lost is in the commit journal.
            assert name != "cress.db-wal" or harm is folder, (what, str(error))
            assert problems or name in ("token", "center.lock", "center.json"), (what, str(error))
        else:
            warned = [each.getMessage() for each in caplog.records]
            # What the store has too is written to the event log again.
            still = _checked(data)[0]
            assert all(each in warned for each in problems if each in still) or part != WHOLE, (what, problems, warned)
            assert not problems or name.startswith("events"), (what, problems)
        caplog.clear()
        assert less == [], what
        shutil.rmtree(data)


# --- the secret of the cluster ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose store knows the secret in it."""
    data = tmp_path_factory.mktemp("known") / "data"
    data.mkdir(mode=0o700)
    # Of a secret at random a flipped bit may or may not leave a letter that a secret can have.
    (data / "token").write_text("a" * 43 + "\n")
    (data / "token").chmod(0o600)
    with Center(data, forked=True):
        pass
    return data


def another(path: Path, _: float) -> None:
    path.write_text("y" * 43 + "\n")


TOKEN_HARMS: list[tuple[Callable[[Path, float], None], float, str]] = [
    (flip, 0.0, "the token was changed, or belongs to another cluster"),
    (flip, 0.5, "the token was changed, or belongs to another cluster"),
    (cut, 0.9, "the token was changed, or belongs to another cluster"),
    (another, 0.0, "the token was changed, or belongs to another cluster"),
    (cut, 0.2, "there is no token in it"),
    (cut, 0.0, "there is no token in it"),
    (overwrite, 0.0, "there is no token in it"),
    (remove, 0.0, "the token is missing"),
    (folder, 0.0, "there is a directory in the place of the token"),
]


@pytest.mark.parametrize(("harm", "part", "what"), TOKEN_HARMS)
def test_a_damaged_token_is_no_new_secret(
    known: Path, tmp_path: Path, harm: Callable[[Path, float], None], part: float, what: str
) -> None:
    data = tmp_path / "data"
    shutil.copytree(known, data)
    harm(data / "token", part)
    left = data / "token"
    before = left.read_bytes() if left.is_file() else left.exists()
    done = run_to_end(data)
    assert done.returncode == 2, done.stderr
    assert f"{data / 'token'}: {what}" in done.stderr
    assert "restore it from a backup" in done.stderr
    assert "`cress store secret --new`" in done.stderr
    assert (left.read_bytes() if left.is_file() else left.exists()) == before
    with closing(SqliteStore(data / "cress.db")) as store:
        assert store.newest_epoch() == 1
    assert what in check(data / "cress.db").secret
    if not (data / "token").is_dir():
        shutil.copy(known / "token", data / "token")
        assert check(data / "cress.db").secret == ""
        with Center(data, forked=True) as center:
            assert center.get("/v1/state")["problem"] == ""


def test_a_store_that_knows_no_secret_yet_learns_it(known: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    DataDirectory(data).close()
    shutil.copy(known / "token", data / "token")
    asyncio.run(_first_run(data))  # as a release did that knew no fingerprints
    with closing(SqliteStore(data / "cress.db")) as store:
        assert store.note(FINGERPRINT) is None
    # Spaces and lines around it have never meant anything.
    (data / "token").write_text("\n " + (known / "token").read_text().strip())
    with Center(data, forked=True) as center:
        with center.executor() as executor:
            assert isinstance(executor.first, Welcome)
        center.kill()
    with closing(SqliteStore(data / "cress.db")) as store:
        assert store.note(FINGERPRINT) == fingerprint_of((known / "token").read_text().strip())


async def _first_run(data: Path) -> None:
    async with Inside(data):
        pass


def test_a_new_secret_is_made_on_purpose(known: Path, tmp_path: Path) -> None:
    data, token = tmp_path / "data", tmp_path / "data" / "token"
    shutil.copytree(known, data)
    old = token.read_text()
    assert cress("store", "secret", "--data", data)[0] == 2
    code, told = cress("store", "secret", "--new", "--data", data)
    assert (code, f"{token} has a new secret" in told) == (0, True), told
    assert (token.read_text() != old, token.stat().st_mode & 0o777) == (True, 0o600)
    assert not list(data.glob(".token*"))
    with Center(data, forked=True) as center:
        with center.executor() as executor:
            assert isinstance(executor.first, Welcome)
        assert "a center runs on" in cress("store", "secret", "--new", "--data", data)[1]
    token.write_text(old)
    assert run_to_end(data).returncode == 2
    assert cress("store", "secret", "--accept", "--data", data)[0] == 0
    with Center(data, forked=True):
        pass


def test_a_restore_keeps_the_secret_that_executors_have(known: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(known, data)
    backup(data / "cress.db", tmp_path / "monday.db")
    change_secret(data, "", new=True)
    assert "a center cannot start" not in cress("store", "restore", tmp_path / "monday.db", "--data", data)[1]
    with Center(data, forked=True):
        pass
    # On another machine, which has nothing but the backup.
    elsewhere = tmp_path / "elsewhere"
    code, told = cress("store", "restore", tmp_path / "monday.db", "--data", elsewhere)
    assert (code, "a center cannot start on it yet: " in told, "the token is missing" in told) == (0, True, True), told
    assert not (elsewhere / "token").exists()
