"""Users and tokens: rows of the machine like all else, so that a revoked token stays revoked after every crash."""

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
# Tokens of one user.
MOST_TOKENS = 200
# µs after which a token that has expired is forgotten when its user gets another: each sign-in makes one.
FORGOTTEN = DAY

AccessInput: TypeAlias = (
    SetUser | AddToken | RevokeToken | AddJoinToken | UseJoinToken | RevokeJoinToken | secrets.SecretInput
)


def take(context: Context, each: AccessInput) -> None:
    """Change a user, token or secret. Raises InputError."""
    match each:
        case SetUser():
            _set_user(context, each)
        case AddToken():
            _add(context, each)
        case RevokeToken():
            if context.tables.tokens.pop(each.id, None) is None:
                raise NotAccepted(f"there is no token {each.id}", hint="`cress token list` shows the tokens")
        case SetSecret() | DeleteSecret() | RekeySecret():
            secrets.take(context, each)
        case _:
            join_tokens.take(context, each)


def _set_user(context: Context, each: SetUser) -> None:
    users = context.tables.users
    if each.user.name not in users and len(users) >= MOST_USERS:
        raise NotAccepted(f"the cluster already has {len(users):,} users", hint=f"at most {MOST_USERS:,}")
    for position, group in enumerate(each.user.administers):
        if group not in context.core.groups.by_name:
            what = f"there is no group {group}"
            raise InputError(what, hint="`cress groups` lists them", field=f"administers[{position}]")
    users[each.user.name] = each.user
    if each.user.role is Role.NONE:
        for number in [token.id for token in context.tables.tokens.values() if token.user == each.user.name]:
            del context.tables.tokens[number]


def _add(context: Context, each: AddToken) -> None:
    tokens = context.tables.tokens
    token = each.token
    old = tokens.get(each.replaces) if each.replaces else None
    if each.replaces and old is None:
        raise NotAccepted(f"there is no token {each.replaces}", hint="`cress token list` shows the tokens")
    for gone in [
        each.id for each in tokens.values() if each.user == token.user and each.is_over(context.utc - FORGOTTEN)
    ]:
        if gone != each.replaces:
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
