"""``cress store``: checked and copied while a center works, put back, and the way out of every damage."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cress.center.keeping.recovery import restored
from cress.center.keeping.store_maintenance import check
from cress.center.settings import CenterSettings
from cress.store.tools import reading
from tests.system.cluster import Cluster, wait_until
from tests.system.streams import Submits

CENTER = ("center", "--port", "0", "--executor-port", "0")


def script(cluster: Cluster, name: str, text: str) -> dict[str, object]:
    return {"command": text, "name": name, "directory": str(cluster.folder), "resource": "<1, 1M>"}


def test_a_store_is_checked_and_copied_while_jobs_come_in(own: Cluster) -> None:
    with Submits(own) as submits:
        submits.wait_for_new()
        for number in range(2):
            done = own.cress("store", "check")
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.endswith("all is well\n")
            promised = dict(submits.acknowledged)
            done = own.cress("store", "backup", own.folder / f"b{number}")
            assert (done.returncode, done.stderr) == (0, "")
            assert own.folder.joinpath(f"b{number}").stat().st_mode & 0o777 == 0o600
            (own.folder / f"b{number}").rename(own.folder / "cress.db")
            assert check(own.folder / "cress.db").problems == []
            with reading(own.folder / "cress.db") as copy:
                machine = restored(copy.saved(), CenterSettings(data=own.folder)).machine
            assert machine.next_job > max(promised.values())
        submits.wait_for_new()
    done = own.cress("store", "backup", own.folder / "cress.db")
    assert (done.returncode, "already exists" in done.stderr) == (2, True)


def test_after_a_restore_what_runs_is_taken_up_and_no_number_is_given_away_twice(own: Cluster) -> None:
    with own.client() as client:
        old = client.submit([script(own, "old", "echo $$ > old; until [ -e go ]; do sleep 0.05; done")]).jobs[0].id
        wait_until(lambda: client.job(old).state == "running" and client.tasks(old).tasks[0].attempts[0].started, "old")
        assert own.cress("store", "backup", own.folder / "backup").returncode == 0
        new = client.submit([script(own, "new", "echo $$ > new; exec sleep 1000")]).jobs[0].id
        wait_until(lambda: client.tasks(new).tasks[0].state == "running", "new")
        last = client.tasks(new).tasks[0].attempts[0].id
        before = client.tasks(old).tasks
    done = own.cress("store", "restore", own.folder / "backup")
    assert (done.returncode, "a center runs on" in done.stderr, done.stderr.count("\n")) == (2, True, 1)
    own.kill_center()
    done = own.cress("store", "restore", own.folder / "backup")
    assert (done.returncode, done.stderr) == (0, "")
    assert "the earlier store is in" in done.stdout
    assert (own.data / "replaced-1" / "cress.db").exists()
    own.start_center()
    with own.client() as client:
        wait_until(lambda: client.nodes()[0].state == "up", "the node being back")
        assert client.tasks(old).tasks == before
        # What nobody knows any more does not go on.
        pid = (own.folder / "new").read_text().strip()
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the task of a job that is gone")
        third = client.submit([script(own, "third", "true")]).jobs[0].id
        assert third > new
        assert client.job(third, wait=60).state == "succeeded"
        assert client.tasks(third).tasks[0].attempts[0].id > last
        (own.folder / "go").touch()
        assert client.job(old, wait=60).state == "succeeded"
        assert len(client.tasks(old).tasks[0].attempts) == 1


# --- damage -----------------------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 + 100)


def overwrite(path: Path) -> None:
    """Random bytes over everything but the first page."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))


def unwrite(path: Path) -> None:
    path.with_name("cress.db-wal").unlink()


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut off": (cut, "is damaged"),
    "overwritten": (overwrite, "is damaged"),
    "without its write-ahead file": (unwrite, "cress.db-wal is missing"),
    "gone": (Path.unlink, "is gone"),
    "a directory": (directory, "is a directory"),
}


@pytest.fixture(scope="module")
def killed() -> Cluster:
    """What a killed center leaves, with a backup of it; only read by the tests."""
    cluster = Cluster()
    cluster.start_center()
    with cluster.client() as client:
        client.submit([script(cluster, "first", "true")])
        cluster.kill_center()
        cluster.start_center()
    with cluster.client() as client:
        client.submit([script(cluster, f"n{number}", "true") for number in range(300)])
    assert cluster.cress("store", "backup", cluster.folder / "backup").returncode == 0
    # What is in the write-ahead file is in the store too, so that the store has something that can be harmed.
    with sqlite3.connect(cluster.data / "cress.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.close()
    cluster.kill_center()
    return cluster


@pytest.mark.parametrize("case", HARMS)
def test_a_damaged_store_is_one_sentence_with_a_way_out_that_works(bare: Cluster, killed: Cluster, case: str) -> None:
    harm, says = HARMS[case]
    bare.data.mkdir(mode=0o700)
    for name in ("cress.db", "cress.db-wal", "cress.db.mark", "token"):
        (bare.data / name).write_bytes((killed.data / name).read_bytes())
        (bare.data / name).chmod(0o600)
    if case in {"cut off", "overwritten", "gone", "a directory"}:
        (bare.data / "cress.db-wal").write_bytes(b"")
    harm(bare.data / "cress.db")
    # `cress up` hands on what its center says; each start takes a second of a processor, so it is asked once.
    for verb in (CENTER, ("up", "--port", "0")) if case == "cut off" else (CENTER,):
        done = bare.cress(*verb)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith("cress center: ")
        assert says in done.stderr
        assert "cress store restore" in done.stderr
    if case == "overwritten":
        done = bare.cress("store", "check")
        assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (1, True, False)
    done = bare.cress("store", "restore", killed.folder / "backup")
    assert (done.returncode, done.stderr) == (0, "")
    assert check(bare.data / "cress.db").problems == []
    bare.start_center()
    with bare.client() as client:
        assert client.state().tasks_waiting == 301
        assert client.submit([script(bare, "next", "true")]).jobs[0].id > 301


def test_without_its_write_ahead_file_a_store_can_go_on_with_what_it_has(bare: Cluster) -> None:
    bare.start_center()
    with bare.client() as client:
        client.submit([script(bare, "first", "true")])
    assert bare.center is not None
    bare.center.terminate()
    bare.center.wait()
    bare.start_center()
    with bare.client() as client:
        client.submit([script(bare, "second", "true")])
    bare.kill_center()
    unwrite(bare.data / "cress.db")
    # Without the commit journal, too: with it the store is completed.
    (bare.data / "cress.db.commits").unlink()
    done = bare.cress("store", "restore", bare.data / "cress.db")
    assert (done.returncode, done.stderr) == (0, "")
    assert "numbers of new jobs and attempts begin much higher" in done.stdout
    bare.start_center()
    with bare.client() as client:
        assert [job.name for job in client.jobs().jobs] == ["first"]
        assert client.submit([script(bare, "third", "true")]).jobs[0].id > 1_000


def test_what_is_no_backup_is_refused_and_nothing_is_touched(bare: Cluster) -> None:
    bare.start_center()
    bare.kill_center()
    before = (bare.data / "cress.db").read_bytes()
    for name, content, says in (
        ("text", b"this is no database" * 1000, "is damaged: file is not a database"),
        ("empty", b"", "is not a store of this version of Cress"),
    ):
        (bare.folder / name).write_bytes(content)
        done = bare.cress("store", "restore", bare.folder / name)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert says in done.stderr
    done = bare.cress("store", "restore", bare.folder / "nothing")
    assert (done.returncode, "there is no store" in done.stderr) == (1, True)
    assert (bare.data / "cress.db").read_bytes() == before
    assert not (bare.data / "replaced-1").exists()
    bare.start_center()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that another user may not read")
def test_a_store_of_somebody_else_is_one_sentence(bare: Cluster) -> None:
    bare.start_center()
    bare.kill_center()
    nobody = 65534
    for path in (bare.folder, bare.data, *bare.data.rglob("*")):
        os.chown(path, nobody, nobody)
    os.chown(bare.data / "cress.db", 0, 0)
    # Other users may not run this Python, perhaps: it drops its rights when it has all that it needs.
    program = (
        "import encodings.idna, os, sys; from pathlib import Path; from cress.center.run import run_center; "
        "from cress.center.settings import CenterSettings; os.setuid(int(sys.argv[1])); "
        "sys.exit(run_center(CenterSettings(data=Path(sys.argv[2]))))"
    )
    command = [sys.executable, "-c", program, str(nobody), str(bare.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=bare.environment)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "may not be read and written by this user" in done.stderr
