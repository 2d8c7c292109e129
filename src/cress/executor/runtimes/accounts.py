"""The account of the node that a task runs as."""

from __future__ import annotations

import os
import pwd

import msgspec

from cress.model.run import Run
from cress.shell.executor.starting import StartError


class Account(msgspec.Struct, frozen=True):
    """An account of this node, with the numbers of all its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def environment(self) -> dict[bytes, bytes]:
        """Return the environment variables that describe the account to programs."""
        name = os.fsencode(self.name)
        return {b"HOME": os.fsencode(self.home), b"USER": name, b"LOGNAME": name}


def account_of(run: Run) -> Account | None:
    """Return the account that the task runs as; ``None`` for that of the executor. Raises StartError if it cannot run here.

    An executor that runs as root takes ``run_as``, else the submitting user. Any other executor refuses a ``run_as`` that is
    not its own account. It ignores the submitting user, whose name may differ between machines.
    """
    if os.geteuid() != 0:
        if run.run_as and run.run_as != own_name():
            raise StartError(
                f"this node runs tasks as {own_name()} only, not as {run.run_as}: its executor is not root"
            )
        return None
    name = run.run_as or run.user
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        what = "run_as" if run.run_as else "the user of the job"
        raise StartError(f"account {name} does not exist on this node ({what})") from None
    groups = tuple(os.getgrouplist(name, entry.pw_gid))
    return Account(name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)


def own_name() -> str:
    """Return the name of the account of this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
