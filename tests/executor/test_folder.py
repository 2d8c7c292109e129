"""The executor's directory on a disk that is full when the executor starts."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cress.executor import folder
from cress.executor.folder import Lock, SupervisorFolder, take_directory
from cress.executor.spread_folders import spread


def test_an_executor_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = 3
    written = os.pwrite

    def pwrite(fd: int, data: bytes, at: int) -> int:
        nonlocal full
        if full:
            full -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(fd, data, at)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(folder, "FULL_DISK", 0.0)
    lock = Lock(tmp_path / "agent.lock", "executor")
    take_directory(tmp_path, lock)
    assert (tmp_path / "agent.lock").read_text().strip() == str(os.getpid())
    lock.give()
    assert capsys.readouterr().err == f"{tmp_path}: No space left on device; it is tried again\n"


def test_any_other_error_ends_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        take_directory(tmp_path / "file", Lock(tmp_path / "agent.lock", "executor"))


def test_folders_of_attempts_are_spread(tmp_path: Path) -> None:
    """Where the file system can do that; elsewhere nothing changes."""
    with SupervisorFolder(tmp_path / "executor") as made:
        lsattr = shutil.which("lsattr")
        told = subprocess.run([lsattr or "false", "-d", made.attempts], capture_output=True, text=True, check=False)
        other = subprocess.run(["chattr", "+T", tmp_path], capture_output=True, check=False) if lsattr else told
        if other.returncode:
            pytest.skip("this file system does not spread folders, so nothing was tested")
        assert "T" in told.stdout.split()[0]
        (made.attempts / "1").mkdir()
    with SupervisorFolder(tmp_path / "executor") as again:
        assert (again.attempts / "1").is_dir()
    spread(tmp_path / "missing")
