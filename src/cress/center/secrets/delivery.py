"""The delivery of secrets to starting attempts, as a part of their start material."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cress.center.connections.start_materials import Starting
from cress.center.secrets.vault import Vault
from cress.lifecycle.secrets import usable
from cress.model.access import Role, User
from cress.model.errors import InputError
from cress.model.group import DEFAULT_GROUP
from cress.model.start_material import StartMaterial

if TYPE_CHECKING:
    from cress.center.committing.committer import Committer


class SecretDelivery:
    """A provider of start material: the secrets that a job names and its user may use at present."""

    def __init__(self, committer: Committer, vault: Vault) -> None:
        self._committer = committer
        self._vault = vault

    async def __call__(self, starting: Starting) -> StartMaterial:
        """See ``start_materials.Provider``."""
        if not starting.run.secrets:
            return StartMaterial()
        machine, job = self._committer.machine, starting.job.job
        group = job.group or DEFAULT_GROUP
        user = machine.tables.users.get(job.user) or User(name=job.user)
        there = machine.core.groups.by_name.get(group)
        if user.role.rank < Role.USER.rank or there is None or not there.spec.admits(job.user):
            raise InputError(f"{job.user} may no longer use secrets in group {group}")
        environment: dict[str, bytes] = {}
        files: dict[str, bytes] = {}
        for use in starting.run.secrets:
            secret = usable(machine.tables.secrets, job.user, group, use.secret)
            if secret is None:
                what = f"neither {job.user} nor group {group} still has a secret {use.secret}"
                raise InputError(what, hint=f"`cress secret set {use.secret}` sets it", field=f"secrets.{use.name}")
            value = self._vault.open(secret)
            if use.file:
                files[use.name] = value
                continue
            environment[use.name] = value = value.removesuffix(b"\n").removesuffix(b"\r")
            if b"\0" in value:
                what = f"the secret {use.secret} has a zero byte in it, which an environment variable cannot have"
                raise InputError(what, hint=f"as a file: {{{use.name}: {{secret: {use.secret}, as: file}}}}")
        return StartMaterial(environment=environment, files=files)
