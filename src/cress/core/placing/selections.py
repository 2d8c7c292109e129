"""Jobs selected by clauses of other jobs, and jobs excluded by other jobs.

The jobs of a selector are determined when a job arrives, so that starts and ends only count. The tables depend on the
live jobs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from cress.core.placing.constraints import Constraints
from cress.core.tables.selected import Avoid, Repelling, Selected
from cress.language.clauses import Clause, Kind, OverDomains
from cress.language.columns import Columns
from cress.language.jobfacts import facts_of, keys_in_expression, substituted
from cress.language.program import Program
from cress.language.selectors import ANY_GROUP, Selector, parse_selector
from cress.model.job import Job
from cress.model.resources import Dimensions


def domain_clauses(constraints: Constraints | None) -> Iterator[OverDomains]:
    """Yield the hard and soft clauses over domains."""
    if constraints is not None:
        asked: list[Clause] = [*constraints.requirement.clauses]
        asked += (term.what for term in constraints.rank.terms if isinstance(term.what, Clause))
        yield from (clause.value for clause in asked if isinstance(clause.value, OverDomains))


def _repels(constraints: Constraints | None, group: str) -> dict[Repelling, str]:
    """Return the exclusions of a job that never relax, within its own group, with the attribute as written."""
    found: dict[Repelling, str] = {}
    for clause in () if constraints is None else constraints.requirement.clauses:
        value = clause.value
        if clause.kind is Kind.AWAY and clause.relaxation is None and isinstance(value, OverDomains):
            selector = parse_selector(value.jobs)
            if not selector.is_self and selector.among(group) in (group, ANY_GROUP):
                found[Repelling(group, value.jobs, value.key)] = value.by
    return found


class SelectableJob(NamedTuple):
    """A live job, its group, and its constraints."""

    job: Job
    group: str
    constraints: Constraints | None


class Selections:
    """The selectors of live jobs with the jobs that they select; ``live`` returns all live jobs by id.

    ``touched`` are the groups and selectors whose jobs have come to be, or ceased to be, excluded by others.
    """

    def __init__(self, dimensions: Dimensions, live: Callable[[], Iterable[SelectableJob]]) -> None:
        self._dimensions = dimensions
        self._live = live
        # The number of live jobs that use each selector; below, the selected jobs.
        self._named: dict[Selected, int] = {}
        self._selected: dict[Selected, dict[int, None]] = {}
        self._by_job: dict[int, tuple[Selected, ...]] = {}
        # The jobs that exclude others, by exclusion.
        self.repelling: dict[Repelling, dict[int, str]] = {}
        self._repels: dict[int, tuple[Repelling, ...]] = {}
        self._names: dict[int, tuple[Selected, ...]] = {}
        self.touched: list[Repelling] = []
        # A counter of possible changes in the selected live jobs.
        self.changes = 0
        self._columns: Columns | None = None

    def __bool__(self) -> bool:
        return bool(self._named)

    # --- jobs ----------------------------------------------------------------------------------------------

    def add(self, job: Job, group: str, constraints: Constraints | None) -> None:
        """Add a live job."""
        if self._named:
            self._by_job[job.id] = tuple(
                selector for selector in self._named if self.would_select(selector, job, group)
            )
            for selector in self._by_job[job.id]:
                self._selected[selector][job.id] = None
        names = {
            Selected(group, value.jobs): None
            for value in domain_clauses(constraints)
            if value.jobs and not parse_selector(value.jobs).is_self
        }
        if not names:
            return
        self._names[job.id] = tuple(names)
        for selector in names:
            self._name(selector)
        repels = _repels(constraints, group)
        if repels:
            self._repels[job.id] = tuple(repels)
            for repelling, by in repels.items():
                if repelling not in self.repelling:
                    self.touched.append(repelling)
                self.repelling.setdefault(repelling, {})[job.id] = by

    def _name(self, selected: Selected) -> None:
        count = self._named.get(selected, 0)
        self._named[selected] = count + 1
        if count:
            return
        self.changes += 1
        among = self._selected[selected] = {}
        for other in self._live():
            if self.would_select(selected, other.job, other.group):
                among[other.job.id] = None
                self._by_job[other.job.id] = (*self._by_job.get(other.job.id, ()), selected)

    def remove(self, number: int) -> list[Selected | Repelling]:
        """Remove a job that has ended or leaves its group; return the owners whose tasks need no more counting."""
        over: list[Selected | Repelling] = []
        if not self._named:
            return over
        for selector in self._by_job.pop(number, ()):
            self._selected[selector].pop(number, None)
        for repelling in self._repels.pop(number, ()):
            del self.repelling[repelling][number]
            if not self.repelling[repelling]:
                del self.repelling[repelling]
                self.touched.append(repelling)
                over.append(repelling)
        for selector in self._names.pop(number, ()):
            self._named[selector] -= 1
            if not self._named[selector]:
                del self._named[selector]
                self.changes += 1
                over.append(selector)
                for other in self._selected.pop(selector):
                    left = tuple(one for one in self._by_job[other] if one != selector)
                    if left:
                        self._by_job[other] = left
                    else:
                        del self._by_job[other]
        return over

    # --- questions -----------------------------------------------------------------------------------------

    def jobs_of(self, whose: Selected | Repelling) -> list[int]:
        """Return the live jobs that are selected, or that exclude others, by id."""
        table: Mapping[Selected | Repelling, Iterable[int]] = (
            self._selected if isinstance(whose, Selected) else self.repelling  # type: ignore[assignment]
        )
        return sorted(table.get(whose, ()))

    def any_of(self, whose: Selected | Repelling) -> bool:
        """Return True if a live job uses this selector or exclusion."""
        return whose in (self._named if isinstance(whose, Selected) else self.repelling)

    def owners(self, number: int) -> tuple[Selected | Repelling, ...]:
        """Return the further owners of a job's tasks: the selectors that match it, and its own exclusions."""
        return (*self._by_job.get(number, ()), *self._repels.get(number, ()))

    def selects(self, selected: Selected, number: int) -> bool:
        """Return True if a live job is selected."""
        return number in self._selected.get(selected, ())

    def avoided(self, job: Job, group: str) -> tuple[Avoid, ...]:
        """Return the jobs and domains that a job of this group must avoid, because others exclude it."""
        return tuple(
            (repelling, min(by.values()))
            for repelling, by in sorted(self.repelling.items())
            if repelling.group == group and self.would_select(Selected(group, repelling.jobs), job, group)
        )

    def take_touched(self) -> list[int]:
        """Return the live jobs whose exclusions by others changed, and clear the list."""
        touched, self.touched = self.touched, []
        found: dict[int, None] = {}
        for repelling in dict.fromkeys(touched):
            for other in self._live():
                if other.group == repelling.group and self.would_select(
                    Selected(other.group, repelling.jobs), other.job, other.group
                ):
                    found[other.job.id] = None
        return sorted(found)

    def would_select(self, selected: Selected, job: Job, group: str) -> bool:
        """Return True if a selector matches a job of this group."""
        selector = parse_selector(selected.jobs)
        among = selector.among(selected.group)
        if among not in (ANY_GROUP, group):
            return False
        return selector.names(job) if selector.condition is None else self._fulfils(selector, job, group)

    def _fulfils(self, selector: Selector, job: Job, group: str) -> bool:
        assert selector.condition is not None
        facts = facts_of(job, self._dimensions, group)
        asked = {key: facts[key] for key in keys_in_expression(selector.condition) if key in facts}
        if self._columns is None:
            self._columns = Columns(self._dimensions)
        # The node has no resources, because only the job is tested.
        nodes = np.zeros((1, 2 * len(self._dimensions)), np.int64)
        return Program(self._columns, substituted(selector.condition, asked)).truth(nodes, 0) == 1
