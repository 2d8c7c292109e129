"""Users and tokens: rows of the machine like everything else, so that a revoked token stays revoked after any crash."""

from __future__ import annotations

from typing import TypeAlias

from cress.lifecycle import join_tokens, secrets
from cress.lifecycle.context import Context
from cress.lifecycle.inputs import (
    AddJoinToken,
    AddToken,
    DeleteSecret,
    RekeySecret,
    RevokeJoinToken,
    RevokeToken,
    SetSecret,
    SetUser,
    UseJoinToken,
)
from cress.model.access import Role
from cress.model.errors import InputError, NotAccepted
from cress.model.times import DAY

MOST_USERS = 100_000
# Maximum number of tokens of one user.
MOST_TOKENS = 200
# An expired token is removed this time (µs) after its expiry when its user gets another: each sign-in makes one.
FORGOTTEN = DAY

AccessInput: TypeAlias = (
    SetUser | AddToken | RevokeToken | AddJoinToken | UseJoinToken | RevokeJoinToken | secrets.SecretInput
)


def take(context: Context, input_: AccessInput) -> None:
    """Change a user, token or secret. Raises InputError."""
    match input_:
        case SetUser():
            _set_user(context, input_)
        case AddToken():
            _add(context, input_)
        case RevokeToken():
            if context.tables.tokens.pop(input_.id, None) is None:
                raise NotAccepted(f"there is no token {input_.id}", hint="`cress token list` shows the tokens")
        case SetSecret() | DeleteSecret() | RekeySecret():
            secrets.take(context, input_)
        case _:
            join_tokens.take(context, input_)


def _set_user(context: Context, input_: SetUser) -> None:
    users = context.tables.users
    if input_.user.name not in users and len(users) >= MOST_USERS:
        raise NotAccepted(f"the cluster already has {len(users):,} users", hint=f"at most {MOST_USERS:,}")
    for position, group in enumerate(input_.user.administers):
        if group not in context.core.groups.by_name:
            what = f"there is no group {group}"
            raise InputError(what, hint="`cress groups` lists them", field=f"administers[{position}]")
    users[input_.user.name] = input_.user
    if input_.user.role is Role.NONE:
        for number in [token.id for token in context.tables.tokens.values() if token.user == input_.user.name]:
            del context.tables.tokens[number]


def _add(context: Context, input_: AddToken) -> None:
    tokens = context.tables.tokens
    token = input_.token
    old = tokens.get(input_.replaces) if input_.replaces else None
    if input_.replaces and old is None:
        raise NotAccepted(f"there is no token {input_.replaces}", hint="`cress token list` shows the tokens")
    for gone in [
        known.id for known in tokens.values() if known.user == token.user and known.is_over(context.utc - FORGOTTEN)
    ]:
        if gone != input_.replaces:
            del tokens[gone]
    own = [other for other in tokens.values() if other.user == token.user and other is not old]
    if any(other.name == token.name for other in own):
        hint = f"another name, or `cress token revoke {token.name}` first"
        raise NotAccepted(f"{token.user} has a token {token.name}", hint=hint, field="name")
    if len(own) >= MOST_TOKENS:
        raise NotAccepted(f"{token.user} has {len(own)} tokens", hint=f"at most {MOST_TOKENS}; revoke some")
    if old is not None:
        del tokens[old.id]
    tokens[token.id] = token
