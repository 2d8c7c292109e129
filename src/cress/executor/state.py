"""State directories: one for each index of a database; they outlive attempts and are never removed.

Tasks find theirs in ``CRESS_STATE``.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from cress.executor.runtimes.accounts import NodeAccount
from cress.model.job import JobType
from cress.model.run import Run
from cress.shell.executor.starting import StartError

FOLDER = "data"


def place(home: Path, run: Run, index: int) -> Path | None:
    """Return the state directory of a task below ``home``; ``None``: its job is not a database.

    Characters that a path must not contain are quoted as in URLs (``%2F``).
    """
    if run.type is not JobType.DATABASE:
        return None
    return home / FOLDER / _safe(run.group) / _safe(run.name or f"job-{run.family or run.job}") / str(index)


def make(home: Path, run: Run, index: int, account: NodeAccount | None) -> bytes:
    """Return the state directory of a task, made if missing and owned by ``account``; empty: none.

    Raise StartError.
    """
    path = place(home, run, index)
    if path is None:
        return b""
    try:
        # Other accounts may pass through these folders, but not list them.
        for folder in (path.parents[2], path.parents[1], path.parent):
            if not folder.is_dir():
                folder.mkdir(0o711)
        if not path.is_dir():
            path.mkdir(0o700)
        if account is not None and path.stat().st_uid != account.uid:
            if any(path.iterdir()):
                # A database of another user with the same name has left it.
                raise StartError(f"{path} belongs to another account than {account.name}, and is not empty")
            os.chown(path, account.uid, account.gid)
    except OSError as error:
        raise StartError(f"{path} could not be made: {error.strerror}", node=True) from None
    return os.fsencode(path)


def _safe(name: str) -> str:
    """Return the name quoted as one part of a path, different for each name."""
    text = quote(name, safe="@+=,")
    return text.replace(".", "%2E") if text.strip(".") == "" else text
