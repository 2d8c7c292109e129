"""The work of finished jobs, added up from the history by name, user and group."""

from __future__ import annotations

import msgspec


class WorkDone(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts of finished jobs with one name, user, group, request, and value of the label that was asked for.

    Only attempts whose program ran count. Times are in µs: ``run`` from placement to end, ``cpu`` of processors.
    ``peak`` is the largest memory of an attempt in bytes, 0 if it was not measured. ``request`` is that of a task, in
    the cluster's dimensions. ``label`` is empty for jobs without that label.
    """

    name: str
    user: str
    group: str
    request: tuple[int, ...]
    jobs: int
    attempts: int
    run: int
    cpu: int
    peak: int
    label: str = ""
