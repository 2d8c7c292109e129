"""Two real accounts of this machine for a test, removed afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.harness import kill_attempts, until

NOT_HERE = "two real accounts need root and useradd: nothing was shown of tasks of several users"
needs_accounts = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("useradd") is None, reason=NOT_HERE)


@pytest.fixture(scope="module")
def accounts() -> Iterator[tuple[pwd.struct_passwd, pwd.struct_passwd]]:
    """Two accounts above 1000; the first is a member of the group ``daemon`` besides."""
    names = [f"cress-{os.getpid()}{letter}" for letter in "ab"]
    try:
        for name, more in zip(names, (["--groups", "daemon"], []), strict=True):
            until(lambda name=name, more=more: _done("useradd", "--no-create-home", *more, name), "useradd")  # type: ignore[misc]
        first, second = map(pwd.getpwnam, names)
        yield first, second
    finally:
        for name in names:
            until(lambda name=name: _done("userdel", "--force", name) or _is_gone(name), "userdel")  # type: ignore[misc]


@pytest.fixture(scope="module")
def open_home() -> Iterator[Path]:
    """A folder that every account may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    kill_attempts(folder / "e")
    shutil.rmtree(folder)


def _done(*command: str) -> bool:
    """Return whether the command succeeded; it fails while another process changes the accounts."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _is_gone(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return True
    return False
