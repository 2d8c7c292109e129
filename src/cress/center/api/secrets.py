"""Calls about secrets. No call returns a value: only attempts of jobs get values, when they start."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.rights import keeps_secrets, knows_secrets
from cress.center.api.bodies import read, reply
from cress.center.api.context import caller_of, committer_of
from cress.center.api.errors import Forbidden, UnknownResource
from cress.center.api.routes import Routes, query_of
from cress.center.secrets.vault import Vault
from cress.model.access import checked_name
from cress.model.errors import InputError
from cress.model.secrets import MOST_VALUE, Owner, Secret, checked_secret_name, secret_id
from cress.model.times import SECOND
from cress.protocol.access_views import KeyRotated, SecretsPage, SecretView
from cress.protocol.bodies import RotateKeyBody, SecretBody
from cress.protocol.calls import access_calls
from cress.protocol.queries import SecretQuery

# Bytes of a body with the largest value in base64.
MOST_BODY = MOST_VALUE * 4 // 3 + 4096

router = Routes()


@router.answers(access_calls.SECRETS)
async def secrets(request: Request) -> Response:
    """List secrets without their values: the caller's own, and those of groups to which the caller may submit.

    Admins get all of them.
    """
    known = committer_of(request).machine.tables.secrets
    query = query_of(request, SecretQuery)
    wanted = _owner(request, query.user, query.group) if query.user or query.group else None
    seen = [
        known_secret
        for known_secret in known.values()
        if wanted in (None, known_secret.of) and _knows(request, known_secret.of)
    ]
    ordered = sorted(seen, key=lambda known_secret: (known_secret.is_group, known_secret.owner, known_secret.name))
    return reply(SecretsPage(secrets=tuple(map(_view, ordered))))


@router.answers(access_calls.SECRET)
async def secret(request: Request, name: str) -> Response:
    """Return a secret without its value. Without ``user`` and ``group`` it is the caller's own."""
    query = query_of(request, SecretQuery)
    return reply(_view(_named(request, _owner(request, query.user, query.group), name)))


@router.answers(access_calls.SET_SECRET)
async def set_secret(request: Request, name: str) -> Response:
    """Set the value of a secret, which is created if it does not exist. Attempts that start later get this value.

    Without ``user`` and ``group`` it is the caller's own. Only admins set secrets of other users. Admins and the
    administrators of a group set the group's secrets.
    """
    body = await read(request, SecretBody, MOST_BODY)
    owner = _owner(request, body.user, body.group)
    checked_secret_name(name)
    if not body.value:
        raise InputError("there is no value", hint="at least one byte", field="value")
    if len(body.value) > MOST_VALUE:
        raise InputError(f"{len(body.value):,} bytes", hint=f"at most {MOST_VALUE:,}", field="value")
    _check_keeps(request, owner)
    if owner.is_group and owner.name not in committer_of(request).machine.core.groups.by_name:
        raise UnknownResource(f"there is no group {owner.name[:100]} (`cress groups` lists them)")
    stored, key_file = await _vault(request).set(owner, name, body.value, caller_of(request).user)
    return reply(_view(stored, key_file))


@router.answers(access_calls.DELETE_SECRET)
async def delete_secret(request: Request, name: str) -> Response:
    """Delete a secret. Running attempts keep its value; attempts that need it later fail, and say why."""
    query = query_of(request, SecretQuery)
    owner = _owner(request, query.user, query.group)
    found = _named(request, owner, name)
    _check_keeps(request, owner)
    await _vault(request).delete(found)
    return reply(_view(found))


@router.answers(access_calls.ROTATE_KEY)
async def rotate_key(request: Request) -> Response:
    """Encrypt all secrets with a new key, and drop the old keys from the key file unless ``keep_old``."""
    body = await read(request, RotateKeyBody)
    count, path = await _vault(request).rotate(keep_old=body.keep_old)
    return reply(KeyRotated(secrets=count, key_file=path))


def _vault(request: Request) -> Vault:
    vault: Vault = request.app.state.vault
    return vault


def _owner(request: Request, user: str, group: str) -> Owner:
    """Return the owner in a request. Raises InputError."""
    if user and group:
        raise InputError("a secret belongs to a user or to a group", hint="only one of them", field="group")
    if group:
        return Owner(group, is_group=True)
    return Owner(checked_name(user, "user") if user else caller_of(request).user)


def _knows(request: Request, owner: Owner) -> bool:
    groups = committer_of(request).machine.core.groups.by_name
    there = groups.get(owner.name) if owner.is_group else None
    caller = caller_of(request)
    return knows_secrets(caller, owner, admitted=there is not None and there.spec.admits(caller.user))


def _check_keeps(request: Request, owner: Owner) -> None:
    """Raise Forbidden unless the caller may set and delete secrets of the owner."""
    caller = caller_of(request)
    if keeps_secrets(caller, owner):
        return
    who = f"administrators of the group {owner.name[:100]}" if owner.is_group else f"{owner.name[:100]}"
    raise Forbidden(f"{caller.user} may not change secrets of {owner}: {who} and admins may")


def _named(request: Request, owner: Owner, name: str) -> Secret:
    """Return a secret. Raises NotFound, also for one that the caller may not see."""
    found = committer_of(request).machine.tables.secrets.get(secret_id(owner, name))
    if found is None or not _knows(request, owner):
        raise UnknownResource(
            f"{str(owner)[:100]} has no secret {name[:100]!r} (`cress secret list` shows the secrets)"
        )
    return found


def _view(secret: Secret, key_file: str = "") -> SecretView:
    return SecretView(
        name=secret.name,
        user="" if secret.is_group else secret.owner,
        group=secret.owner if secret.is_group else "",
        size=secret.size,
        created=secret.created / SECOND,
        changed=secret.changed / SECOND,
        by=secret.by,
        key_file=key_file,
    )
