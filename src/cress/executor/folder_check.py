"""Checks of an executor's directory: what lies there, and whether a supervisor could go on with it."""

from __future__ import annotations

import time
from io import BytesIO
from pathlib import Path

import msgspec

from cress.executor.account_rules import FILE as ACCOUNTS
from cress.executor.account_rules import decoded
from cress.executor.folder import FILES, FOLDERS, in_the_way
from cress.executor.journal import FORMAT
from cress.formats.framed import frames
from cress.protocol.regular_files import kind_of, read_regular

# Seconds until a journal is read again: it may have been read in the middle of a write.
AGAIN = 0.1
RESTART = "restart the executor, which writes it again"


def check_folder(folder: Path) -> list[str]:
    """Return messages about damage in the executor's directory ``folder``, which an executor may be using."""
    wrong = filter(None, (in_the_way(folder / name) for name in (*FILES, *FOLDERS)))
    found = [f"{what}; the next start of the executor sets it aside" for what in wrong]
    journal, accounts = folder / "journal", folder / ACCOUNTS
    if journal.is_file() and (what := _damage_of_journal(journal)):
        found.append(
            f"{journal} {what}; the next start sets it aside, goes on with its whole records and stops all other tasks"
        )
    elif kind := "a folder" if journal.is_dir() else _kind(journal):
        found.append(f"{journal} is {kind}; the next start sets it aside, and stops all tasks that still run there")
    elif not journal.exists() and (folder / "supervisor.lock").exists():
        found.append(f"{journal} is gone; the next start of the executor stops all tasks that still run there")
    if accounts.is_file():
        try:
            decoded(read_regular(accounts))
        except (OSError, msgspec.MsgspecError) as error:
            found.append(f"{accounts} cannot be read, and no task starts until then: {error}; {RESTART}")
    elif not accounts.exists() and (folder / "agent.lock").exists():
        found.append(f"{accounts} is gone, and with it the rules for accounts of tasks; {RESTART}")
    return found


def _kind(path: Path) -> str:
    try:
        return kind_of(path.stat().st_mode)
    except OSError:
        return ""


def _damage_of_journal(path: Path) -> str:
    """Return the damage of a journal, which its supervisor may be writing."""
    damage = _damage_now(path)
    if damage:
        time.sleep(AGAIN)
        damage = _damage_now(path)
    return damage


def _damage_now(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if len(data) <= len(FORMAT.first_line) and FORMAT.first_line.startswith(data.rstrip(b"\0")):
        return "has no records" if not data else ""
    beginning = FORMAT.beginning(BytesIO(data))
    if beginning.version > FORMAT.version:
        return ""
    if not beginning.version:
        return "does not begin as a journal of Cress does"
    end = beginning.at
    for frame in frames(BytesIO(data), beginning):
        if frame.start > end:
            return f"is damaged at byte {end}"
        end = frame.end
    # A crash of the machine cuts off the last frame; the running supervisor has written it.
    return "" if end == len(data) else f"ends with a part of a record at byte {end}"
