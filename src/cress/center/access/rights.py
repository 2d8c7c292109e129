"""Rights of callers, in one place (design note 0015). Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from cress.model.access import Role, Visibility
from cress.model.groups.change import OF_ADMINS
from cress.model.secrets import Owner
from cress.protocol.rights import LEAST, Action


class Caller(NamedTuple):
    """The sender of a request: the user, the role, and the groups whose jobs the user may change.

    ``how`` is the credential (owner, account, token NAME), ``address`` the origin of the request, ``token`` the id of
    the token. For a task with a job token ``attempt`` is its attempt and ``job`` the job to which the token is bound.
    """

    user: str
    role: Role
    administers: frozenset[str] = frozenset()
    how: str = ""
    address: str = ""
    token: str = ""
    attempt: int = 0
    job: int = 0


# Path after the job's id in calls that its job token permits: view, read output, cancel, hold, scale, signal. Without
# exec, so that a stolen token opens no shell.
_OF_A_JOB = re.compile(r"|/tasks|/tasks/[0-9]+|/logs|/cancel|/hold|/release|/scale|/signal")
# Path after the job's id in calls about leases: a program in a lease reports its use and ends it.
_OF_A_LEASE = re.compile(r"(\.[0-9]+)?(|/use|/renew)")
# Calls about names check themselves that a job token asks about its own group.
_NAMES = re.compile(r"/v1/names/[^/]+(/watch)?")
# The content of uploads: the call checks itself that the task of a job token uses it.
_UPLOADS = re.compile(r"/v1/uploads/[0-9a-f]{64}/content")
# Calls with a list of jobs check themselves that the caller sees each job.
_OTHERS_OF_JOBS = frozenset({"/v1/whoami", "/v1/jobs/cancel", "/v1/jobs/hold", "/v1/jobs/release"})


def may(caller: Caller, action: Action) -> bool:
    """Return whether the caller's role permits an action."""
    return caller.role.rank >= LEAST[action].rank


def may_call(caller: Caller, path: str) -> bool:
    """Return whether the caller may make a call at all: a job token is for its job, and for names of its group."""
    if not caller.attempt:
        return True
    own, lease = f"/v1/jobs/{caller.job}", f"/v1/leases/{caller.job}"
    if path.startswith(lease) and _OF_A_LEASE.fullmatch(path[len(lease) :]):
        return True
    if path in _OTHERS_OF_JOBS or _NAMES.fullmatch(path) or _UPLOADS.fullmatch(path):
        return True
    return path.startswith(own) and _OF_A_JOB.fullmatch(path[len(own) :]) is not None


def steers(caller: Caller, owner: str, group: str) -> bool:
    """Return whether the caller may change a job, run commands in it, and read its output."""
    if caller.role is Role.ADMIN:
        return True
    return may(caller, Action.SUBMIT) and (caller.user == owner or group in caller.administers)


def changes_group(caller: Caller, group: str, keywords: Collection[str]) -> bool:
    """Return whether the caller may change these keywords of a group; its administrators may change ``OF_ADMINS``."""
    if may(caller, Action.CHANGE_GROUPS):
        return True
    return may(caller, Action.SUBMIT) and group in caller.administers and OF_ADMINS.issuperset(keywords)


def keeps_secrets(caller: Caller, owner: Owner) -> bool:
    """Return whether the caller may set and delete secrets of an owner; no caller may read their values."""
    if caller.role is Role.ADMIN:
        return True
    own = owner.name in caller.administers if owner.is_group else owner.name == caller.user
    return own and may(caller, Action.SUBMIT)


def knows_secrets(caller: Caller, owner: Owner, *, admitted: bool) -> bool:
    """Return whether the caller sees an owner's secrets; ``admitted`` says that the caller may submit to that group."""
    if caller.role is Role.ADMIN:
        return True
    return admitted or owner.name in caller.administers if owner.is_group else owner.name == caller.user


class Sight(NamedTuple):
    """The jobs that a caller sees: those of ``user``, those in ``groups``, or all of them (``everything``)."""

    everything: bool
    user: str = ""
    groups: tuple[str, ...] = ()

    def has(self, owner: str, group: str) -> bool:
        """Return whether a job is visible."""
        return self.everything or owner == self.user or group in self.groups


def sight(caller: Caller, visibility: Visibility, groups: Collection[str]) -> Sight:
    """Return the jobs that the caller sees; ``groups`` are those to which the caller may submit."""
    if caller.role.rank >= Role.OPERATOR.rank or visibility is Visibility.ALL:
        return Sight(everything=True)
    seen = caller.administers.union(groups if visibility is Visibility.GROUP else ())
    return Sight(False, caller.user, tuple(sorted(seen)))
