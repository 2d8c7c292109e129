"""Consequences of a change as the API shows them: times in seconds, and nothing of jobs that the caller may not see."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from cress.model.course import Consequences, Course, CourseDetails, GroupCourse, JobCourse, Stopped
from cress.model.times import SECOND
from cress.protocol.trial_views import (
    ConsequencesView,
    CourseView,
    GroupCourseView,
    PlannedView,
    ShiftView,
    StoppedView,
)


def consequences_view(
    found: Consequences, sees: Callable[[int], bool], notes: tuple[str, ...] = ()
) -> ConsequencesView:
    """Return the view for a reader who ``sees`` some jobs."""
    own = {job.job for job in found.submitted}

    def visible(number: int) -> bool:
        return number in own or sees(number)

    return ConsequencesView(
        before=_course(found.before),
        after=_course(found.after),
        later=found.later,
        earlier=found.earlier,
        shifts=tuple(
            ShiftView(job=one.job, name=one.name, group=one.group, before=_at(one.before), after=_at(one.after))
            for one in found.shifts
            if visible(one.job)
        ),
        stopped=tuple(_stopped(one, visible) for one in found.stopped),
        jobs=tuple(_planned(job) for job in found.submitted),
        notes=notes,
        details=tuple(_details(one.details, visible) for one in (found.before, found.after) if one.details is not None),
    )


def _details(details: CourseDetails, visible: Callable[[int], bool]) -> CourseDetails:
    """Return the details without the numbers and users of jobs that the caller may not see."""
    jobs = tuple(job if visible(job.job) else replace(job, job=0, user="") for job in details.jobs)
    return replace(details, jobs=jobs)


def _at(utc: int | None) -> float | None:
    return None if utc is None else utc / SECOND


def _course(course: Course) -> CourseView:
    return CourseView(
        length=(course.until - course.begin) / SECOND,
        finished=course.finished,
        unending=course.unending,
        use=course.use,
        total=_group(course.total),
        groups={group.group: _group(group) for group in course.groups},
    )


def _group(group: GroupCourse) -> GroupCourseView:
    return GroupCourseView(
        waiting=group.waited,
        started=group.started,
        mean_wait=group.mean_wait / SECOND,
        longest_wait=group.longest_wait / SECOND,
        share=group.share,
        missed=group.missed,
        stopped=group.stopped,
    )


def _planned(job: JobCourse) -> PlannedView:
    return PlannedView(
        id=job.job,
        name=job.name,
        group=job.group,
        start=_at(job.start),
        end=_at(job.end),
        nodes=dict(job.nodes),
        deadline=_at(job.deadline or None),
        late=bool(job.deadline) and job.end is not None and job.end > job.deadline,
        reason=job.reason,
    )


def _stopped(one: Stopped, visible: Callable[[int], bool]) -> StoppedView:
    seen = visible(one.job)
    return StoppedView(
        job=one.job if seen else None,
        task=one.task if seen else None,
        name=one.name if seen else "",
        group=one.group,
        node=one.node,
        at=one.at / SECOND,
        why=one.why,
        by=one.by if one.by and visible(one.by) else None,
        done=one.done / SECOND,
    )
