"""The rules for accounts of tasks: a file in the executor's directory, written by the agent, read by the supervisor.

The rules are a file because a supervisor outlives its agents. An operator who withdraws a right restarts the executor,
and tasks go on.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from pathlib import Path

import msgspec

from cress.executor.runtimes.accounts import AccountRules, NodeAccount, account_of
from cress.model.run import Run
from cress.protocol.regular_files import read_regular
from cress.shell.executor.starting import StartError

FILE = "accounts.json"
# Seconds for which an account is remembered: name services may be slow, but a removal from a group must take effect
# soon.
REMEMBERED = 5.0
_MOST = 1000


def write_rules(directory: Path, rules: AccountRules) -> None:
    """Store the rules in the executor's directory, readable by its owner only."""
    new = directory / f"{FILE}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(encoded(rules))
    new.replace(directory / FILE)


class _StoredRules(AccountRules, frozen=True, kw_only=True):
    """Rules with the checksum of the rest, which supervisors of older releases ignore."""

    check: int | None = None


def encoded(rules: AccountRules) -> bytes:
    """Return the content of the file."""
    return msgspec.json.encode(_StoredRules(users=rules.users, root_groups=rules.root_groups, check=_check(rules)))


def decoded(data: bytes) -> AccountRules:
    """Return the rules in the content of the file. Raises msgspec.MsgspecError, also if it was changed."""
    stored = msgspec.json.decode(data, type=_StoredRules)
    rules = AccountRules(users=stored.users, root_groups=stored.root_groups)
    if stored.check is not None and stored.check != _check(rules):
        raise msgspec.ValidationError("it is not as it was written; restart the executor, which writes it again")
    return rules


def _check(rules: AccountRules) -> int:
    return zlib.crc32(msgspec.json.encode((sorted(rules.users.items()), rules.root_groups)))


class TaskAccounts:
    """The accounts of the tasks of the executor in ``directory``, by the rules stored there."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._version: tuple[int, int] = (0, 0)
        self._rules = AccountRules()
        self._known: dict[tuple[str, str, str], tuple[NodeAccount | None, float]] = {}
        self._looked = False  # for changed rules, in this turn

    def look_again(self) -> None:
        """Look for changed rules before the next start: called at the end of a turn of the supervisor."""
        self._looked = False

    def account_of(self, run: Run) -> NodeAccount | None:
        """Return the account of a task; see ``accounts.account_of``."""
        if not self._looked:
            self._read()
            self._looked = True
        key, now = (run.user, run.run_as, run.group), time.monotonic()
        found = self._known.get(key)
        if found is not None and now - found[1] < REMEMBERED:
            return found[0]
        account = account_of(run, self._rules)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = account, now
        return account

    def _read(self) -> None:
        """Read the rules if they have changed.

        Raise StartError if they cannot be read, so that nothing starts without them.
        """
        version, rules = (0, 0), AccountRules()
        try:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(self._path)  # noqa: PTH116 - at every start
                version = status.st_ino, status.st_mtime_ns
                if version != self._version:
                    rules = decoded(read_regular(self._path))
        except (OSError, msgspec.MsgspecError) as error:
            self._version = (-1, -1)
            raise StartError(f"the rules for accounts cannot be read: {self._path}: {error}", node=True) from None
        if version != self._version:
            self._version, self._rules = version, rules
            self._known.clear()
