"""The table of a site: which group, requirement and priority the names of partitions, accounts and qos stand for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from cress.model.errors import InputError


class Meaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The meaning of a name of Slurm; empty fields change nothing."""

    group: str = ""
    requirement: str = ""
    priority: int = 0


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The tables of ``slurm.toml``: by name, a group alone or a ``Meaning``; ``features`` are requirements."""

    partitions: dict[str, str | Meaning] = {}
    accounts: dict[str, str | Meaning] = {}
    qos: dict[str, str | Meaning] = {}
    features: dict[str, str] = {}

    def meaning(self, kind: str, name: str, groups: Collection[str]) -> Meaning | None:
        """Return what a name stands for: by the table, else the group of the same name, else ``None``."""
        found: dict[str, str | Meaning] = getattr(self, kind)
        meant = found.get(name)
        if meant is None:
            return Meaning(group=name) if name in groups else None
        return Meaning(group=meant) if isinstance(meant, str) else meant


def read_site(data: Mapping[str, Any], file: str) -> Site:
    """Return the site of a parsed ``slurm.toml``. Raises InputError."""
    try:
        return msgspec.convert(data, Site)
    except msgspec.ValidationError as error:
        hint = "tables partitions, accounts, qos (NAME = GROUP, or {group, requirement, priority}) and features"
        raise InputError(str(error), hint=hint, file=file) from None
