"""The course of a cluster: what happens to its present jobs if nothing new comes (design note 0052)."""

from __future__ import annotations

import msgspec


class JobCourse(msgspec.Struct, frozen=True, array_like=True):
    """The next start and the end of one job (µs since the epoch); ``None``: not within the course.

    ``nodes`` are the places of its first tasks: names with their numbers of tasks. ``submitted`` is a moment as well,
    ``deadline`` too (0: none). ``waited``: some task of it waited at the beginning. ``reason`` tells why a job of the
    change does not start within the course.
    """

    job: int
    name: str
    group: str
    submitted: int
    deadline: int
    waited: bool
    start: int | None = None
    end: int | None = None
    nodes: tuple[tuple[str, int], ...] = ()
    reason: str = ""


class Stopped(msgspec.Struct, frozen=True, array_like=True):
    """A running task that is stopped, or lost with its node, at ``at`` (µs since the epoch), and begins again.

    ``why`` is ``lost``, or a word as in ``LiveAttempt.halted``, such as ``preempted``; ``by`` is the job that gets its
    room, 0: none. ``done`` is the time (µs) that the task had run, which is lost.
    """

    job: int
    name: str
    group: str
    task: int
    node: str
    at: int
    why: str
    by: int = 0
    done: int = 0


class GroupCourse(msgspec.Struct, frozen=True, array_like=True):
    """The course of a group: jobs that ``waited`` at first and ``started``, their mean and longest wait (µs,
    from their submission), the largest share of a resource of the cluster that it used, as a mean over the course, and
    the numbers of missed deadlines and of stopped tasks.
    """

    group: str
    waited: int = 0
    started: int = 0
    mean_wait: int = 0
    longest_wait: int = 0
    share: float = 0.0
    missed: int = 0
    stopped: int = 0


class CourseJob(msgspec.Struct, frozen=True):
    """A job in the details of a course. Times in µs, ``submitted`` and ``deadline`` (0: none) since the epoch; no
    ``limit``: ``None``. ``request`` is that of one task, in the dimensions of the details.

    ``job`` is 0, and ``user`` empty, for a reader who may not see the job.
    """

    job: int
    group: str
    user: str
    submitted: int
    tasks: int
    request: tuple[int, ...]
    gang: bool = False
    priority: int = 0
    limit: int | None = None
    deadline: int = 0


class CourseAttempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt in the details of a course: the position of its job there, its task and node, ``start`` and ``end``
    (µs since the epoch), and ``how`` it ended: ``finished``, ``preempted``, ``lost``, ``stopped``, or ``running``
    when the course was over.
    """

    job: int
    task: int
    node: str
    start: int
    end: int
    how: str


class CourseDetails(msgspec.Struct, frozen=True):
    """The jobs and attempts of a course, for a report as of a simulation; ``nodes`` are capacities by name.

    ``dimensions`` are the custom ones. ``begin`` and ``until`` as in ``Course``.
    """

    begin: int
    until: int
    dimensions: tuple[str, ...]
    nodes: dict[str, tuple[int, ...]]
    jobs: tuple[CourseJob, ...]
    attempts: tuple[CourseAttempt, ...]


class Course(msgspec.Struct, frozen=True):
    """The course from ``begin`` to ``until`` (µs since the epoch), when the last job that waited has ended.

    It is ``finished`` unless its time to compute was over before. ``unending`` counts the waiting jobs that have no
    known start or end even so. ``use`` are the used shares of each resource, means over the course; ``total`` is the
    sum over all groups.
    """

    begin: int
    until: int
    finished: bool
    unending: int
    use: dict[str, float]
    total: GroupCourse
    groups: tuple[GroupCourse, ...]
    jobs: tuple[JobCourse, ...]
    stopped: tuple[Stopped, ...]
    details: CourseDetails | None = None


class Shift(msgspec.Struct, frozen=True, array_like=True):
    """A waiting job that starts at another time with a change: ``before`` and ``after`` are starts (µs since the
    epoch), ``None``: not within the course.
    """

    job: int
    name: str
    group: str
    before: int | None
    after: int | None


class Consequences(msgspec.Struct, frozen=True):
    """The consequences of a change: the courses ``before`` (without it) and ``after`` (with it), without their jobs.

    ``later`` and ``earlier`` count waiting jobs that start at another time; ``shifts`` are the largest of these.
    ``submitted`` are the jobs of the change itself. ``stopped`` are the tasks that are stopped with the change and not
    without it.
    """

    before: Course
    after: Course
    later: int
    earlier: int
    shifts: tuple[Shift, ...]
    submitted: tuple[JobCourse, ...]
    stopped: tuple[Stopped, ...]


class Refusal(msgspec.Struct, frozen=True):
    """The mistake in a change that the machine refuses, as in ``InputError``; ``state``: the state forbids it."""

    what: str
    hint: str = ""
    field: str = ""
    state: bool = False
