"""The file with the groups of the cluster, which a center reads at its start and at SIGHUP (docs/groups.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cress.center.committing.committer import Committer
from cress.center.settings import CenterSettings
from cress.lifecycle.machine import Machine
from cress.model.errors import InputError, InputErrors, Note
from cress.model.events import GroupsApplied
from cress.model.groups.change import without_times
from cress.model.groups.check import check_quotas
from cress.model.groups.conf import MAX_CHARACTERS, ParsedGroups, parse_groups
from cress.model.option_text import parse_assignments
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.protocol.regular_files import read_regular


class GroupFile:
    """The file, and the groups last read from it; without a file the groups of the cluster stay."""

    def __init__(self, settings: CenterSettings, committer: Committer, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._committer = committer
        self._say = say
        self._groups: GroupsApplied | None = None

    def read_first(self, machine: Machine) -> None:
        """Read the file at the start, before the options of the settings apply. Raises InputError."""
        options = parse_assignments(self._settings.options, machine.core.options)
        self._take(machine, options, machine.core.dimensions.with_more(self._settings.dimensions.custom))

    def read_again(self) -> None:
        """Read the file again and apply it. Raises InputError."""
        machine = self._committer.machine
        self._take(machine, machine.core.options, machine.core.dimensions)
        self.apply()

    def apply(self) -> None:
        """Apply the groups that were read, unless they already apply."""
        now, groups = self._committer.machine.core.groups, self._groups
        if groups is not None and (groups.groups, groups.zone) != (without_times(now.configured), now.own_zone):
            self._committer.post(groups)

    def _take(self, machine: Machine, options: Options, dimensions: Dimensions) -> None:
        if self._settings.groups is not None:
            self._groups, notes = read_groups(self._settings.groups, machine, options, dimensions)
            for note in notes:
                self._say(f"note: {note}")


def read_groups(
    path: Path, machine: Machine, options: Options, dimensions: Dimensions
) -> tuple[GroupsApplied, tuple[Note, ...]]:
    """Return the groups of a file as an input for a machine with these options and dimensions, and notes.

    Raises InputErrors with all mistakes, each with file, line and keyword, and InputError if the groups cannot be
    applied at present.
    """
    try:
        data = read_regular(path, 4 * MAX_CHARACTERS + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from None
    accounting = options.accounting
    parsed = parse_groups(data, dimensions=dimensions, file=str(path), accounting=accounting)
    # The known nodes have nothing of new dimensions, so quotas of these cannot be checked.
    known = dimensions == machine.core.dimensions
    warnings = checked_quotas(machine, parsed, accounting) if known else ()
    groups = GroupsApplied(groups=parsed.groups, zone=parsed.zone)
    try:
        core = machine.core
        if (accounting, dimensions) != (core.options.accounting, core.dimensions):
            # Quotas are checked with the new accounting. Only a cluster without groups and jobs may change its
            # accounting.
            machine = Machine(dimensions, options)
        machine.check_groups(groups)
    except InputError as error:
        raise error.at(file=str(path)) from None
    return groups, (*parsed.notes, *warnings)


def checked_quotas(machine: Machine, parsed: ParsedGroups, accounting: str) -> tuple[Note, ...]:
    """Return notes on the quotas. Raises InputErrors for quotas that the registered nodes can never provide."""
    nodes = machine.nodes.values()
    if not nodes:
        return ()
    found = check_quotas(
        parsed.groups,
        tuple(map(sum, zip(*(node.node.capacity for node in nodes), strict=True))),
        len(nodes),
        accounting=accounting,
        dimensions=machine.core.dimensions,
        nodes=[node.node for node in nodes],
        file=parsed.file,
        lines=parsed.lines,
    )
    if found.errors:
        raise InputErrors(list(found.errors))
    return found.warnings
