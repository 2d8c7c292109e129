"""Calls about users, tokens, and the audit log."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.rights import may
from cress.center.access.sign_ins import holds_id_token
from cress.center.access.tokens import fresh
from cress.center.api.bodies import read, reply
from cress.center.api.context import caller_of, committer_of, demand
from cress.center.api.errors import Forbidden, UnknownResource
from cress.center.api.routes import Routes, query_of
from cress.center.keeping.audit import Audit, latest
from cress.center.views.tokens import token_view
from cress.lifecycle.inputs import AddToken, RevokeToken, SetUser
from cress.model.access import Role, Token, User, checked_name, role_of
from cress.model.errors import InputError
from cress.model.times import SECOND
from cress.protocol.access_views import (
    AuditEntry,
    AuditPage,
    CallerView,
    NewToken,
    TokensPage,
    TokenView,
    UsersPage,
    UserView,
)
from cress.protocol.bodies import TokenBody, UserBody
from cress.protocol.calls import access_calls
from cress.protocol.queries import AuditQuery, TokenQuery
from cress.protocol.rights import Action

# Most seconds before a token expires: ten years.
MOST_LIFE = 3650 * 86_400.0

router = Routes()


@router.answers(access_calls.WHOAMI)
async def whoami(request: Request) -> Response:
    """Return the user who sent the request, with role and credential."""
    caller = caller_of(request)
    groups = tuple(sorted(caller.administers))
    return reply(CallerView(user=caller.user, role=caller.role.value, administers=groups, how=caller.how))


@router.answers(access_calls.USERS)
async def users(request: Request) -> Response:
    """List the users whose role was set; all others have the role ``user``."""
    known = committer_of(request).machine.tables.users
    return reply(UsersPage(users=tuple(_user_view(known[name]) for name in sorted(known))))


@router.answers(access_calls.SET_USER)
async def set_user(request: Request, name: str) -> Response:
    """Set the role of a user, and the groups that the user administers; the role ``none`` shuts the user out."""
    body = await read(request, UserBody)
    user = User(
        name=checked_name(name, "name"), role=role_of(body.role), administers=tuple(dict.fromkeys(body.administers))
    )
    await committer_of(request).submit(SetUser(user=user))
    return reply(_user_view(user))


@router.answers(access_calls.TOKENS)
async def tokens(request: Request) -> Response:
    """List the caller's tokens; for an admin, all tokens."""
    caller = caller_of(request)
    known = committer_of(request).machine.tables.tokens.values()
    seen = [token for token in known if token.user == caller.user or may(caller, Action.CHANGE_USERS)]
    views = (_token_view(request, token) for token in sorted(seen, key=lambda token: (token.user, token.name)))
    return reply(TokensPage(tokens=tuple(views)))


@router.answers(access_calls.CREATE_TOKEN)
async def create_token(request: Request) -> Response:
    """Create a token; only this answer contains its secret.

    A token has its caller's role unless a lower one is named. Only admins create tokens of other users. With ``rotate``
    and the name of an existing token, the old one is revoked at the same time.
    """
    body = await read(request, TokenBody)
    caller = caller_of(request)
    name, user = checked_name(body.name, "name"), checked_name(body.user, "user") if body.user else caller.user
    if user != caller.user:
        demand(request, Action.CHANGE_USERS)
    old = _named(request, user, name) if body.rotate else None
    role = role_of(body.role) if body.role else old.role if old else Role.USER if user != caller.user else caller.role
    if role.rank > caller.role.rank or role is Role.NONE:
        raise Forbidden(f"{caller.user} has the role {caller.role.value} and cannot give a token the role {role.value}")
    utc = committer_of(request).clock.utc()
    expires = old.expires if old else 0
    if body.expires is not None:
        if not 0 < body.expires <= MOST_LIFE:
            raise InputError(f"{body.expires:g} seconds", hint="more than 0, at most ten years", field="expires")
        expires = utc + round(body.expires * SECOND)
    made = fresh()
    token = Token(
        id=made.id,
        name=name,
        user=user,
        role=role,
        digest=made.digest,
        created=utc,
        expires=expires,
    )
    await committer_of(request).submit(AddToken(token=token, replaces=old.id if old else ""))
    return reply(NewToken(token=_token_view(request, token), secret=made.text), 201)


@router.answers(access_calls.REVOKE_TOKEN)
async def revoke_token(request: Request, name: str) -> Response:
    """Revoke a token by name or id, effective at once. Only admins revoke tokens of other users."""
    caller, user = caller_of(request), query_of(request, TokenQuery).user
    if user and user != caller.user:
        demand(request, Action.CHANGE_USERS)
    token = _named(request, user or caller.user, name)
    view = _token_view(request, token)
    committer = committer_of(request)
    if holds_id_token(token, committer.clock.utc()):
        # It stays for a while, over by every clock: without it, its ID token would be accepted again after a restart.
        over = msgspec.structs.replace(token, expires=token.created)
        await committer.submit(AddToken(token=over, replaces=token.id))
    else:
        await committer.submit(RevokeToken(id=token.id))
    return reply(view)


@router.answers(access_calls.AUDIT)
async def audit(request: Request) -> Response:
    """Return the latest entries of the audit log, newest first; optionally of one user, or only ``refused`` ones."""
    kept: Audit = request.app.state.audit
    query = query_of(request, AuditQuery)

    def passes(entry: AuditEntry) -> bool:
        return (not query.user or entry.user == query.user) and (not query.refused or entry.status >= 400)

    return reply(AuditPage(entries=tuple(await asyncio.to_thread(latest, kept.folder, query.limit, passes))))


def _named(request: Request, user: str, name: str) -> Token:
    """Return a user's token by name or id."""
    known = committer_of(request).machine.tables.tokens
    by_id = known.get(name)
    if by_id is not None and (by_id.user == user or may(caller_of(request), Action.CHANGE_USERS)):
        return by_id
    for token in known.values():
        if token.user == user and token.name == name:
            return token
    raise UnknownResource(f"{user} has no token {name[:100]!r} (`cress token list` shows the tokens)")


def _user_view(user: User) -> UserView:
    return UserView(name=user.name, role=user.role.value, administers=user.administers)


def _token_view(request: Request, token: Token) -> TokenView:
    return token_view(token, committer_of(request).clock.utc())
