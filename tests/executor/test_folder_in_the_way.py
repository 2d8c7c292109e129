"""What lies in the place of an executor's files: it is set aside and named; tasks that nobody watches are stopped."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cress.executor import unvouched
from cress.executor.bundle import BundleError, BundleFolder
from cress.executor.folder import FILES, FOLDERS, clear_way
from cress.executor.folder_check import check_folder
from cress.executor.journal import JournalFile
from cress.executor.unvouched import stop_unvouched
from cress.protocol.messages import Launch
from cress.shell.executor.records import Boot, Deadline, Intent
from tests.waiting import PATIENCE


def test_each_is_set_aside_and_named(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "inside").touch()
    for name in FOLDERS:
        (tmp_path / name).touch()
    told = check_folder(tmp_path)
    for name in (*FILES, *FOLDERS):
        assert any(str(tmp_path / name) in sentence for sentence in told), name
    said = clear_way(tmp_path)
    assert len(said) == len(FILES) + len(FOLDERS)
    for name in FILES:
        assert not (tmp_path / name).exists()
        assert (tmp_path / f"{name}.in-the-way-1" / "inside").exists()
        assert any(f"{tmp_path / name} is a folder" in sentence for sentence in said)
    (tmp_path / "agent.lock").mkdir()
    assert "set aside as agent.lock.in-the-way-2" in clear_way(tmp_path)[0]
    assert clear_way(tmp_path) == []


def test_pipes_and_devices_are_set_aside_or_removed(tmp_path: Path) -> None:
    """Whoever reads a pipe waits for a writer for ever."""
    files = [name for name in FILES if not name.endswith(".sock")]
    for name in files:
        os.mkfifo(tmp_path / name)
    for folder in ("checks", "ends"):
        (tmp_path / folder).mkdir()
        os.mkfifo(tmp_path / folder / "7")
    os.mkfifo(tmp_path / "journal")
    assert any(f"{tmp_path / 'journal'} is a named pipe" in sentence for sentence in check_folder(tmp_path))
    said = clear_way(tmp_path)
    for name in files:
        assert any(f"{tmp_path / name} is a named pipe" in sentence for sentence in said), name
        assert not (tmp_path / name).exists()
    assert not list(tmp_path.glob("*/7"))
    journal = JournalFile(tmp_path / "journal")
    journal.close()
    assert "journal is a named pipe; it was set aside as journal.damaged-1" in journal.damage
    for name in ("ca.pem", "key.pem", "cert.pem"):
        os.mkfifo(tmp_path / name, 0o600)
    with pytest.raises(BundleError, match="it is a named pipe, not a file"):
        BundleFolder(tmp_path).context()
    assert BundleFolder(tmp_path).fault() == "it is a named pipe, not a file"
    for name in ("", "supervisor.sock"):  # a socket is what it should be
        assert clear_way(tmp_path) == [], name
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "supervisor.sock")) if not name else None


@pytest.fixture
def running(tmp_path: Path) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Two tasks that run without a supervisor; the second may go on after the end of the term."""
    (tmp_path / "attempts").mkdir()
    found = {}
    for attempt in (1, 2):
        environment = {"CRESS_DIRECTORY": str(tmp_path / "attempts" / str(attempt))}
        found[attempt] = subprocess.Popen(["/bin/sleep", "1000"], env=environment)
    journal = JournalFile(tmp_path / "journal")
    intents = [Intent(Launch(attempt, attempt, 0), None, 0, keep=attempt == 2) for attempt in found]
    journal.write([Boot("b"), Deadline(1000, 500), *intents])
    journal.close()
    yield found
    for process in found.values():
        process.kill()
        process.wait()


def test_tasks_end_with_their_term_although_no_supervisor_can_start(
    tmp_path: Path, running: dict[int, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Ends that nobody waits for would count as running.
    assert stop_unvouched(tmp_path, now=999) == 0
    monkeypatch.setattr(unvouched, "PATIENCE", 0.5)
    assert stop_unvouched(tmp_path, now=1001) == 1
    assert running[1].wait(PATIENCE) == -9
    assert running[2].poll() is None
    (tmp_path / "journal").unlink()  # without it, no term is known
    assert stop_unvouched(tmp_path, now=0) == 1
    assert running[2].wait(PATIENCE) == -9


def test_a_living_supervisor_is_trusted(tmp_path: Path, running: dict[int, subprocess.Popen[bytes]]) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(1000)", "cress.executor.supervisor"]
    with subprocess.Popen(words) as supervisor:
        (tmp_path / "supervisor.lock").write_text(f"{supervisor.pid:<10}\n")
        assert stop_unvouched(tmp_path) == 0
        supervisor.kill()
    assert stop_unvouched(tmp_path) == 2
    assert [process.wait(PATIENCE) for process in running.values()] == [-9, -9]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a mount")
def test_a_supervisor_that_cannot_start_names_the_file_and_ends_what_is_overdue(
    tmp_path: Path, running: dict[int, subprocess.Popen[bytes]]
) -> None:
    # A folder that cannot be moved: something is mounted on it.
    (tmp_path / "supervisor.lock").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "supervisor.lock"], check=True)
    try:
        words = [sys.executable, "-m", "cress.executor.supervisor", str(tmp_path), "--name", "n"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    finally:
        subprocess.run(["umount", tmp_path / "supervisor.lock"], check=True)
    assert done.returncode == 1
    assert f"{tmp_path / 'supervisor.lock'}: " in done.stderr
    assert "1 tasks whose term has ended were stopped" in done.stderr
    assert running[1].wait(PATIENCE) == -9
    assert running[2].poll() is None
