"""Callers: the users behind the credentials of requests."""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import socket
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from cress.center.access.job_tokens import PREFIX as JOB_PREFIX
from cress.center.access.rights import Caller, Sight, sight
from cress.center.access.tokens import PREFIX, id_in, opens
from cress.lifecycle.tables.rows import LiveAttempt
from cress.model.access import Role, Token, User, Visibility
from cress.model.group import EVERYONE, Group

if TYPE_CHECKING:
    from cress.center.access.job_tokens import JobTokens
    from cress.center.committing.committer import Committer

_PEER = struct.Struct("3i")  # process, user, group


class Callers:
    """Determines the caller from credentials.

    ``owner`` is the account of the data directory; whoever knows the secret there has all rights.
    """

    def __init__(
        self,
        committer: Committer,
        owner: str,
        visibility: Visibility = Visibility.ALL,
        job_tokens: JobTokens | None = None,
    ) -> None:
        self._committer = committer
        self._job_tokens = job_tokens
        self._owner = owner
        self._visibility = visibility
        # The groups as configured; from them, the groups that each user administers by name, and the groups below each.
        self._seen: tuple[Group, ...] = ()
        self._admins_of: dict[str, set[str]] = {}
        self._inside: dict[str, set[str]] = {}

    def of_secret(self, address: str) -> Caller:
        """Return the caller who knows the secret of the data directory."""
        return Caller(self._owner, Role.ADMIN, how="owner", address=address)

    def of_account(self, uid: int) -> Caller | None:
        """Return the caller with this account of the center's machine; None if it has no name or is shut out."""
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            return None
        if uid in (0, os.geteuid()):
            return Caller(name, Role.ADMIN, how="account", address="local")
        return self._with_role(name, Role.ADMIN, "account", "local")

    def of_token(self, text: str, address: str) -> Caller | None:
        """Return the caller with a token; None if the token is unknown, expired or revoked."""
        if self._job_tokens is not None and text.startswith(JOB_PREFIX):
            attempt = self._job_tokens.attempt_of(text)
            return None if attempt is None else self._of_attempt(attempt, address)
        token = self._committer.machine.tables.tokens.get(id_in(text)) if text.startswith(PREFIX) else None
        return None if token is None or not opens(text, token.digest) else self._with_token(token, address)

    def is_lasting(self, caller: Caller) -> bool:
        """Return whether the caller's rights can never change: the owner, root, the account of the center."""
        return caller.how == "owner" or (caller.how == "account" and caller.user in self._masters)

    def renewed(self, caller: Caller) -> Caller | None:
        """Return the caller with the present rights of the credential; None if the credential is no longer valid."""
        if caller.token:
            token = self._committer.machine.tables.tokens.get(caller.token)
            return None if token is None else self._with_token(token, caller.address)
        if caller.attempt:
            attempt = self._committer.machine.attempts.get(caller.attempt)
            return None if attempt is None else self._of_attempt(attempt, caller.address)
        if caller.how == "account" and not self.is_lasting(caller):
            return self._with_role(caller.user, Role.ADMIN, "account", caller.address)
        return caller

    def _of_attempt(self, attempt: LiveAttempt, address: str) -> Caller | None:
        """Return the caller with the token of an attempt's job: its user, with the role of an ordinary user at most."""
        job = self._committer.machine.jobs[attempt.job].job
        caller = self._with_role(job.user, Role.USER, f"job {job.counted_as}", address)
        if caller is None:
            return None
        return caller._replace(administers=frozenset(), attempt=attempt.id, job=job.counted_as)

    @functools.cached_property
    def _masters(self) -> frozenset[str]:
        """The names of root and of the account of the center."""
        found = set()
        for uid in (0, os.geteuid()):
            with contextlib.suppress(KeyError):
                found.add(pwd.getpwuid(uid).pw_name)
        return frozenset(found)

    def _with_token(self, token: Token, address: str) -> Caller | None:
        if token.is_over(self._committer.clock.utc()):
            return None
        how = f"token {token.name}"
        if token.user == self._owner:
            return Caller(token.user, token.role, how=how, address=address, token=token.id)
        caller = self._with_role(token.user, token.role, how, address)
        return None if caller is None else caller._replace(token=token.id)

    def _with_role(self, name: str, most: Role, how: str, address: str) -> Caller | None:
        user = self._committer.machine.tables.users.get(name) or User(name=name)
        role = min(user.role, most, key=lambda role: role.rank)
        return None if role is Role.NONE else Caller(name, role, self._administers(user), how, address)

    def _administers(self, user: User) -> frozenset[str]:
        """Return the groups that a user administers, and all groups below them.

        These are the groups set for the user (``cress users set``), and those that name the user (``Admins``).
        """
        configured = self._committer.machine.core.groups.configured
        if self._seen is not configured:
            self._seen, self._inside = configured, _inside(configured)
            self._admins_of = {}
            for group in configured:
                for name in group.admins:
                    self._admins_of.setdefault(name, set()).add(group.name)
        own = self._admins_of.get(user.name, set()).union(user.administers)
        return frozenset(own).union(*(self._inside.get(name, ()) for name in own))

    def sight(self, caller: Caller) -> Sight:
        """Return the jobs that a caller sees."""
        groups: list[str] = []
        if self._visibility is Visibility.GROUP:
            known = self._committer.machine.core.groups
            groups = [group.name for group in known if {caller.user, EVERYONE} & {*group.spec.users}]
        return sight(caller, self._visibility, groups)


def _inside(groups: Iterable[Group]) -> dict[str, set[str]]:
    """Return the names of the groups below each group that has groups below it."""
    parents = {group.name: group.parent for group in groups}
    found: dict[str, set[str]] = {}
    for name, parent in parents.items():
        above = parent
        while above:
            found.setdefault(above, set()).add(name)
            above = parents.get(above, "")
    return found


def peer_of(connected: socket.socket) -> int | None:
    """Return the uid of the process at the other end of a Unix socket; None for other sockets."""
    if connected.family != socket.AF_UNIX:
        return None
    # The event loop gives only a wrapper, so a socket is made of a duplicate of its descriptor.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(connected.fileno())) as own:
        return int(_PEER.unpack(own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[1])
