"""The check of a submit: its jobs name secrets that exist and that their users may use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from cress.lifecycle.machine import Machine
from cress.lifecycle.secrets import usable
from cress.model.errors import MAX_ERRORS, InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.jobfile.job import JobSpec
from cress.model.jobfile.reader import below
from cress.model.jobfile.values import raise_all
from cress.model.secrets import Owner, Secret
from cress.model.units import one_of


def check_secrets(machine: Machine, specs: Sequence[JobSpec]) -> None:
    """Raise InputError, or InputErrors with all mistakes, for secrets that the jobs' users do not have."""
    errors: list[InputError] = []
    secrets = machine.tables.secrets
    for spec in chain.from_iterable((whole, *whole.steps) for whole in specs):
        user, group = spec.run.user, spec.job.group or DEFAULT_GROUP
        for use in spec.run.secrets if len(errors) <= MAX_ERRORS else ():
            if usable(secrets, user, group, use.secret) is None:
                hint = _hint(use.secret, secrets.values(), (Owner(user), Owner(group, is_group=True)))
                what = f"neither {user} nor the group {group} has a secret {use.secret}"
                errors.append(below(InputError(what, hint=hint, field=f"secrets.{use.name}"), spec.place))
    raise_all(errors)


def _hint(name: str, secrets: Iterable[Secret], owners: tuple[Owner, Owner]) -> str:
    """Return a suggestion of a secret with a similar name, or how to create one."""
    known = sorted({secret.name for secret in secrets if secret.of in owners})
    near = one_of(name, known) if known else ""
    return near if near.startswith("did you mean") else f"`cress secret set {name}` makes it"
