"""Consequences of changes in the API: courses of the cluster with a change and without it (design note 0052)."""

from __future__ import annotations

from cress.model.course import CourseDetails
from cress.protocol.views import View


class GroupCourseView(View, frozen=True):
    """The course of a group: ``waiting`` jobs at its beginning, how many of them ``started``, their mean and
    longest wait in seconds (from their submission), the largest ``share`` of a resource of the cluster that the group
    used (mean over the course), and the numbers of missed deadlines and of stopped tasks.
    """

    waiting: int
    started: int
    mean_wait: float
    longest_wait: float
    share: float
    missed: int
    stopped: int


class CourseView(View, frozen=True):
    """A course of ``length`` seconds, at whose end the last waiting job has ended.

    It is not ``finished`` if its time to compute was over before; its numbers then only cover that ``length``.
    ``unending`` counts waiting jobs without a known start or end. ``use`` are the used shares of the resources.
    """

    length: float
    finished: bool
    unending: int
    use: dict[str, float]
    total: GroupCourseView
    groups: dict[str, GroupCourseView]


class ShiftView(View, frozen=True):
    """A waiting job that starts at another time: starts ``before`` and ``after`` in seconds since the epoch, ``None``:
    not within the course.
    """

    job: int
    name: str
    group: str
    before: float | None
    after: float | None


class PlannedView(View, frozen=True):
    """A job of the change: its start and end in seconds since the epoch (``None``: not within the course), the nodes
    of its first tasks, its deadline, and whether it is ``late``. ``id`` is the one that it would have. ``reason`` tells
    why it does not start within the course.
    """

    id: int
    name: str
    group: str
    start: float | None
    end: float | None
    nodes: dict[str, int]
    deadline: float | None
    late: bool
    reason: str = ""


class StoppedView(View, frozen=True):
    """A running task that is stopped with the change and not without it, and begins again: ``at`` (seconds since the
    epoch), ``why`` (such as preempted, drained or lost), the job that gets its room (``by``; ``None``: none, or not
    visible), and the seconds that it had run.

    ``job`` is ``None`` and ``name`` empty for callers who may not see that job.
    """

    job: int | None
    task: int | None
    name: str
    group: str
    node: str
    at: float
    why: str
    by: int | None
    done: float


class ConsequencesView(View, frozen=True):
    """The consequences of a change, if nothing else is submitted: the course of the present jobs without it
    (``before``) and with it (``after``).

    ``later`` and ``earlier`` count the waiting jobs that start at another time. ``shifts`` are the largest of these
    that the caller may see, ``stopped`` the tasks that are stopped, ``jobs`` the jobs of the change, ``notes`` remarks.
    ``details`` are the jobs and attempts of both courses, in the same order, if they were asked for.
    """

    before: CourseView
    after: CourseView
    later: int
    earlier: int
    shifts: tuple[ShiftView, ...]
    stopped: tuple[StoppedView, ...]
    jobs: tuple[PlannedView, ...]
    notes: tuple[str, ...] = ()
    details: tuple[CourseDetails, ...] = ()
