"""Rows of the table of the ledger: what applies a fact, and what the fact does to units that fitted nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

# What a fact does to waiting units that fitted nowhere: it may let them fit, or only the tables that it changes know
# (leases, usable nodes, claims, shapes of jobs), and raise ``cluster.loosened`` themselves.
LOOSENS, BY_TABLES = True, False

# The types of facts, each with its applier, and with ``LOOSENS`` or ``BY_TABLES``.
Rows: TypeAlias = dict[type[Any], tuple[Callable[[Any], None], bool]]
