"""The account of the node under which a task runs."""

from __future__ import annotations

import os
import pwd

import msgspec

from cress.model.run import Run
from cress.shell.executor.starting import StartError

# Accounts below this number belong to the system (UID_MIN of login.defs).
LEAST_UID = 1000


class NodeAccount(msgspec.Struct, frozen=True):
    """An account of this node, with the numbers of all its groups."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    @property
    def ids(self) -> tuple[int, int, tuple[int, ...]]:
        """Return the numbers that a process takes on: uid, gid and groups."""
        return self.uid, self.gid, self.groups

    def environment(self) -> dict[bytes, bytes]:
        """Return the environment variables that describe the account to programs."""
        name = os.fsencode(self.name)
        return {b"HOME": os.fsencode(self.home), b"USER": name, b"LOGNAME": name}


class AccountRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The operator's rules for the accounts of tasks on a node whose executor is root.

    ``users`` maps users of the cluster to accounts; a user without an entry has the account of the same name.
    ``root_groups`` are groups whose tasks may run as root or as an account of the system.
    """

    users: dict[str, str] = {}
    root_groups: tuple[str, ...] = ()


def account_of(run: Run, rules: AccountRules | None = None) -> NodeAccount | None:
    """Return the account that the task runs as; ``None`` for that of the executor. Raise StartError if none is allowed.

    A root executor takes ``run_as``, else the account of the submitting user. Any other executor refuses a ``run_as``
    that is not its own account. It ignores the submitting user, whose name may differ between machines.

    The user root of a root executor may use every account, as on the node itself. Tasks of other users run neither as
    root nor as an account of the system, unless the rules allow it to their group.
    """
    if os.geteuid() != 0:
        if run.run_as and run.run_as != own_name():
            raise StartError(
                f"this node runs tasks as {own_name()} only, not as {run.run_as}: its executor is not root"
            )
        return None
    rules = rules or AccountRules()
    # A user who requests an account by the user's own name gets the account that the operator has mapped.
    asked = run.run_as if run.run_as != run.user else ""
    name = asked or rules.users.get(run.user, run.user)
    if not name:
        return None
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        what = "run_as" if asked else "the user of the job" if name == run.user else f"for the user {run.user}"
        raise StartError(f"account {name} does not exist on this node ({what})") from None
    _check(run, entry, rules)
    groups = tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return NodeAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir)


def _check(run: Run, entry: pwd.struct_passwd, rules: AccountRules) -> None:
    """Raise StartError if the tasks of this user and group must not run as the account."""
    if entry.pw_uid >= LEAST_UID or run.user in ("", own_name()) or run.group in rules.root_groups:
        return
    kind = "root" if entry.pw_uid == 0 else f"a system account (uid {entry.pw_uid}, below {LEAST_UID})"
    named = "" if entry.pw_name == kind else f"{entry.pw_name}, which is "
    raise StartError(
        f"tasks of {run.user} in the group {run.group or 'default'} do not run as {named}{kind} on this node: "
        "only its operator can allow this to a group (cress executor --root-group)"
    )


def own_name() -> str:
    """Return the name of the account of this process."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"
