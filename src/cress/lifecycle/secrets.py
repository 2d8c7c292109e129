"""Secrets as rows of the machine: encrypted, so that log, snapshots and copies contain no value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import DeleteSecret, RekeySecret, SetSecret
from cress.model.errors import InputError, NotAccepted
from cress.model.secrets import MOST_SECRETS, Owner, Secret, secret_id

SecretInput: TypeAlias = SetSecret | DeleteSecret | RekeySecret


def take(context: Context, input_: SecretInput) -> None:
    """Set, delete or re-encrypt a secret. Raises InputError."""
    secrets = context.tables.secrets
    match input_:
        case SetSecret():
            _set(context, input_.secret)
        case DeleteSecret():
            if secrets.pop(secret_id(Owner(input_.owner, input_.is_group), input_.name), None) is None:
                raise NotAccepted(f"there is no secret {input_.name}", hint="`cress secret list` shows the secrets")
        case RekeySecret():
            secret = secrets.get(secret_id(Owner(input_.owner, input_.is_group), input_.name))
            # A secret that was set meanwhile has another value.
            if secret is not None and secret.sealed == input_.before:
                secrets[secret.id] = msgspec.structs.replace(secret, key=input_.key, sealed=input_.sealed)


def _set(context: Context, secret: Secret) -> None:
    secrets = context.tables.secrets
    if secret.is_group and secret.owner not in context.core.groups.by_name:
        raise InputError(f"there is no group {secret.owner}", hint="`cress groups` lists them", field="group")
    old = secrets.get(secret.id)
    if old is not None:
        secret = msgspec.structs.replace(secret, created=old.created)
    elif sum(known.of == secret.of for known in secrets.values()) >= MOST_SECRETS:
        raise NotAccepted(f"{secret.of} has {MOST_SECRETS} secrets, the most allowed", hint="delete some")
    secrets[secret.id] = secret


def usable(secrets: Mapping[tuple[str, str], Secret], user: str, group: str, name: str) -> Secret | None:
    """Return the secret that a job of ``user`` in ``group`` means by a name: the user's own, else the group's."""
    return secrets.get(secret_id(Owner(user), name)) or secrets.get(secret_id(Owner(group, is_group=True), name))
