"""Wants with the conditions of others: nodes that choose among jobs, and jobs that exclude others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cress.core.jobs import JobEntry
from cress.core.placing.constraints import Wants
from cress.core.placing.kinds import kinds_of
from cress.core.placing.node_choices import asker_of
from cress.core.placing.relations import Relations
from cress.model.group import DEFAULT_GROUP
from cress.model.job import Job
from cress.model.resources import Dimensions


class Asking:
    """Questions of nodes and of other jobs to a job."""

    def __init__(self, dimensions: Dimensions, relations: Relations, jobs: Mapping[int, JobEntry]) -> None:
        self._dimensions = dimensions
        self._choices = relations.choices
        self._selections = relations.selections
        self._jobs = jobs

    @property
    def is_asked(self) -> bool:
        """True if nodes with choices, or jobs that exclude others, restrict any job."""
        return bool(self._choices or self._selections.repelling)

    def as_asked(self, jobs: Iterable[Job], wants: Wants) -> Wants:
        """Return the wants of a unit of these jobs, with the conditions of others added.

        Others are nodes with choices and jobs that exclude others.
        """
        choices, selections = self._choices, self._selections
        if not (choices or selections.repelling):
            return wants
        jobs = tuple(jobs)
        if wants.kinds:
            return self._kinds_as_asked(jobs[0], wants)
        if selections.repelling:
            avoids = dict.fromkeys(each for job in jobs for each in selections.avoided(job, self._group_of(job)))
            wants = replace(wants, avoids=tuple(avoids)) if avoids else wants
        if not choices:
            return wants
        return replace(wants, askers=tuple(dict.fromkeys(asker_of(choices, job, self._dimensions) for job in jobs)))

    def _kinds_as_asked(self, job: Job, wants: Wants) -> Wants:
        """Return ``as_asked`` for a gang of several kinds of tasks; each kind counts as a job by itself."""
        kinds = kinds_of(job, self._dimensions)
        asked = (each._replace(wants=self.as_asked((kinds[each.number].job,), each.wants)) for each in wants.kinds)
        return replace(wants, kinds=tuple(asked))

    def _group_of(self, job: Job) -> str:
        """Return the group of a job, also if the job has moved or is not submitted yet."""
        live = self._jobs.get(job.id)
        return live.group.name if live is not None else job.group or DEFAULT_GROUP

    def unit_as_asked(self, job: JobEntry, wants: Wants) -> Wants:
        """Return ``as_asked`` for the next unit of a job and its companions."""
        return self.as_asked((job.job, *(other.job for other, _ in job.unit())), wants)
