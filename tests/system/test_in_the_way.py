"""Folders in the place of files of a real executor, and a damaged history: the ways out that messages name work."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from cress.store.history import History, check_url
from cress.store.history_mark import write_mark
from tests.store.test_sqlite import record
from tests.system.cluster import Cluster, wait_until

FILES = ("agent.lock", "supervisor.lock", "supervisor.log", "supervisor.sock", "accounts.json", "versions.json")


def test_an_executor_sets_aside_what_is_in_the_way_and_its_tasks_go_on(own: Cluster) -> None:
    with own.client() as client:
        job = client.submit([{"command": "echo $$ > pid; exec sleep 1000", "directory": str(own.folder)}]).jobs[0].id
        wait_until(lambda: client.job(job).state == "running" and (own.folder / "pid").exists(), "the task")
        before = client.tasks(job).tasks[0].attempts
        supervisor = own.supervisor()
        own.executors["n1"].kill()
        own.executors["n1"].wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGKILL)
        wait_until(lambda: not _lives(supervisor), "the end of the supervisor")
        wait_until(lambda: client.nodes()[0].state != "up", "the node being away")
        folder = own.data / "executors" / "n1"
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
            (folder / name).mkdir()
        done = own.cress("store", "check")
        assert done.returncode == 1
        assert all(f"{folder / name} is a folder" in done.stderr for name in FILES)
        own.start_executor()
        said = own.log("n1.log")
        assert all(f"{folder / name} is a folder" in said for name in FILES)
        wait_until(lambda: client.job(job).state == "running", "the task being there")
        assert [each.id for each in client.tasks(job).tasks[0].attempts] == [each.id for each in before]
        assert _lives(int((own.folder / "pid").read_text()))
        assert own.cress("store", "check").returncode == 0


def test_a_damaged_history_is_not_mended_by_a_restore_and_its_own_way_out_works(bare: Cluster) -> None:
    bare.start_center()
    # As if finished work had been moved there, which takes the center some seconds.
    history = bare.data / "history.db"
    opened = History(check_url(f"sqlite:///{history}"))
    write_mark(bare.data / "history.mark", opened.add([(record(1), None)], [], {}))
    opened.close()
    assert bare.cress("store", "backup", bare.folder / "backup").returncode == 0
    bare.kill_center()
    os.truncate(history, history.stat().st_size * 2 // 3)
    done = bare.refused_center()
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"the history {history} is damaged" in done.stderr
    assert "store restore" not in done.stderr
    # A restore says that it does not help.
    done = bare.cress("store", "restore", bare.folder / "backup")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"a center cannot start on it yet: the history {history} is damaged" in done.stdout
    for path in (history, bare.data / "history.mark"):
        assert str(path) in done.stdout
        path.unlink()
    bare.start_center()
    assert bare.cress("store", "check").returncode == 0


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False
