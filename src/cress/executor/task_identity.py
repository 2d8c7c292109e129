"""The change to the identity of a task, its account and environment, in processes that transfer its files."""

from __future__ import annotations

import contextlib
import os

from cress.executor.environment import of_job, variables
from cress.executor.runtimes import linux
from cress.executor.runtimes.accounts import NodeAccount, account_of
from cress.executor.runtimes.base import Spawn


def account_in(what: Spawn) -> NodeAccount | None:
    """Return the account in the orders of a stage or a copy; supervisors of older releases do not name it there."""
    return what.account or account_of(what.run)


def step_down(what: Spawn, node: str) -> dict[str, str]:
    """Become the task's account for good, with its environment. Return the variables that addresses may contain."""
    account = account_in(what)
    if account is not None:
        if account.uid:
            linux.new_session_keyring()
            # As for the task itself: what it names in its files must not show the processes of others.
            with contextlib.suppress(OSError):
                linux.hide_processes()
        os.setgroups(account.groups)
        os.setresgid(account.gid, account.gid, account.gid)
        os.setresuid(account.uid, account.uid, account.uid)
        os.environb.update(account.environment())
    os.environ.update(dict(what.run.environment))
    known = of_job(what.run) | variables(what)
    return {"CRESS_NODE": node, **{os.fsdecode(name): os.fsdecode(value) for name, value in known.items()}}
