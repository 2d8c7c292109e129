"""Keys of job files in traces: a cell or an entry has the same meaning as the key of a job file (docs/jobs.md)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from cress.core.placing.constraints import PLACEMENT_KEYS, check_constraints
from cress.core.placing.submitted_constraints import constrained
from cress.model.errors import InputError
from cress.model.job import Job, JobType
from cress.model.jobfile.job import JobSpec, read_job
from cress.model.jobfile.key import CLAUSES, RANK
from cress.model.jobfile.keys import TABLE
from cress.model.jobfile.values import mistakes
from cress.model.resources import Dimensions
from cress.model.units import parse_count

# Fields of a job by which it is placed; parts cannot be columns.
_PLACING = {key.name for key in PLACEMENT_KEYS} - {"parts"}
# Keys that may be columns of a table.
COLUMNS = (
    *(key.name for key in TABLE if key.into in (CLAUSES, RANK) or key.name in _PLACING),
    "labels",
    "tolerates",
    "application",
    "workload",
    "retries",
    "backoff",
    "on_partition",
    "job_failure",
    "max_running",
    "stop_grace",
    "movable",
    "type",
    "minimum",
    "ready_after",
    "move_after",
    "when",
    "zone",
    "overlap",
    "missed",
)
# Keys that are checked against these columns too.
WITH_TASKS = ("type", "minimum", "max_running")
# Keys for which a job file states "any number" by leaving them out.
ZERO_IS_NONE = ("max_per_node", "max_per_rack", "max_running")


def template_of(cells: Mapping[str, str], dimensions: Dimensions, licences: Mapping[str, int]) -> Job:
    """Return the template of a row with these cells. Raise ``InputError`` with the key as ``field``."""
    keys: dict[str, object] = {
        key: text for key, text in cells.items() if text and not (text == "0" and key in ZERO_IS_NONE)
    }
    found = ports(str(keys.pop("ports", "")))
    if "licences" in keys:
        keys["licences"] = str(keys["licences"]).replace(",", " ").split()
    spec, errors = read_job({"command": "true", **keys}, dimensions=dimensions, user="")
    if errors:
        raise mistakes(errors[0])[0]
    return replace(template_of_spec(spec, dimensions, licences), ports=found)


def ports(text: str) -> tuple[tuple[str, int], ...]:
    """Return the ports in a cell, each ``80``, ``http=80``, ``dynamic`` or ``admin=dynamic``."""
    found = []
    for word in text.split():
        name, equals, number = word.rpartition("=")
        if bool(equals) != bool(name):
            raise InputError(f"{word!r} is not a port", hint="80, http=80, dynamic or admin=dynamic", field="ports")
        try:
            found.append((name, 0 if number == "dynamic" else parse_count(number, least=1, most=65_535)))
        except InputError as error:
            raise error.at(field="ports") from error
    return tuple(found)


def template_of_spec(spec: JobSpec, dimensions: Dimensions, licences: Mapping[str, int]) -> Job:
    """Return the template of a submitted job. Raise ``InputError`` with the key as ``field``."""
    (job,) = constrained([replace(spec, place="", job=replace(spec.job, after=(), family=0))], dimensions)
    check_constraints(job.requirement, job.rank)
    unknown = [name for name, _ in job.licences if licences and name not in licences]
    if unknown:
        raise InputError(f"there is no licence {unknown[0]!r}", hint="licences: in the cluster file", field="licences")
    return replace(
        job,
        id=0,
        group="",
        request=job.request if job.parts else (),
        name="",
        user="",
        tasks=1,
        gang=False,
        priority=0,
        time_limit=None,
        within=job.within if job.type is JobType.CRON else 0,
        deadline=0,
    )
