"""Mixed workloads: what the parameters say, task counts that change with time, and the measures of the day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from cress.model.errors import InputError
from cress.model.groups.timetable import weekly_quotas
from cress.model.times import DAY, HOUR, SECOND
from cress.simulator import run
from cress.simulator.day_measures import day_of
from cress.simulator.request import Request, Result
from cress.simulator.services import ServiceCounts, shortage_of
from cress.simulator.traces import load_workload
from cress.simulator.traces.mixed_parameters import MixedParameters, parse
from cress.simulator.traces.mixed_services import day_curve
from cress.simulator.workload import NO_LIMIT, Workload

SMALL = "mixed:nodes=20,days=1,run=300,tasks=8,spread=0.5"


def kinds(work: Workload) -> list[str]:
    """The type of each job; steps of dags are called so."""
    assert work.family_index is not None
    step = [bool(work.family_names[i]) for i in work.family_index.tolist()]
    return ["dag" if is_step else work.template(i).type.value for i, is_step in enumerate(step)]


def core_hours(work: Workload) -> dict[str, float]:
    """The core hours that each kind reserves, without surges of services and with every run of a cron job."""
    found: dict[str, float] = {}
    scales: dict[int, list[tuple[int, int]]] = {}
    for time, job, tasks in work.scales:
        scales.setdefault(job, []).append((time, tasks))
    assert work.until is not None
    for i, kind in enumerate(kinds(work)):
        cores = work.requests[int(work.request_index[i])][0] / 1000
        tasks, run_time, until = int(work.tasks[i]), int(work.run[i]), int(work.until[i])
        if kind == "cron":
            plan = work.template(i).plan
            runs = until // DAY * (24 if " * * * *" in plan.when else 1)  # type: ignore[union-attr]
            amount = cores * tasks * run_time * runs
        elif run_time == NO_LIMIT:
            changes = [(0, tasks), *scales.get(i, [])]
            ends = [*(time for time, _ in changes[1:]), until]
            amount = sum(cores * count * (end - time) for (time, count), end in zip(changes, ends, strict=True))
        else:
            amount = cores * tasks * run_time
        found[kind] = found.get(kind, 0.0) + amount / HOUR
    return found


def test_the_same_seed_gives_the_same_workload_and_another_one_another() -> None:
    one, two, other = (load_workload(SMALL, None, seed) for seed in (5, 5, 6))
    for name in ("submit", "run", "tasks", "request_index", "group_index", "until"):
        assert (getattr(one, name) == getattr(two, name)).all()
    assert (one.ids, one.scales, one.groups, one.after) == (two.ids, two.scales, two.groups, two.after)
    assert one.scales != other.scales


def test_each_kind_has_its_share_of_the_work() -> None:
    work = load_workload(SMALL + ",surges=0,load=0.5,services=0.4,databases=0.1,dags=0.2,cron=0.1", None, 3)
    found = core_hours(work)
    whole = 0.5 * 20 * 32 * 24
    shares = {name: round(amount / whole, 2) for name, amount in found.items()}
    assert shares == pytest.approx({"service": 0.4, "database": 0.1, "dag": 0.2, "cron": 0.1, "batch": 0.2}, abs=0.035)


def test_a_parameter_of_one_kind_changes_no_other_kind() -> None:
    plain, other = (load_workload(SMALL + more, None, 2) for more in ("", ",surges=3,night=0.9,nightly=0.1"))
    arrays = [
        [
            (i, *columns)
            for i, *columns in zip(work.ids, work.submit.tolist(), work.run.tolist(), strict=True)
            if i.startswith("array")
        ]
        for work in (plain, other)
    ]
    assert arrays[0] == arrays[1]


def test_services_want_most_at_their_peak_and_least_twelve_hours_later() -> None:
    curve = day_curve(MixedParameters(peak=20, night=0.4), 20.0)
    assert curve[[19, 20]].tolist() == [1.0, 1.0]
    # The count of an hour is that of its busiest moment.
    assert curve.argmin() in (7, 8)
    assert 0.4 < curve.min() < 0.42
    work = load_workload(SMALL + ",surges=0,apart=0,peak=10", None, 1)
    for i, kind in enumerate(kinds(work)):
        if kind == "service":
            hours = np.full(24, int(work.tasks[i]))
            for time, job, tasks in work.scales:
                if job == i:
                    hours[time // HOUR :] = tasks
            assert hours.max() == hours[10] == hours[9]
            assert hours.min() == hours[21]
            assert hours[21] / hours[10] == pytest.approx(0.4, abs=0.1)


def test_a_surge_is_a_higher_count_for_its_time() -> None:
    calm, surging = (
        load_workload(SMALL + f",night=1,apart=0,surges={n},surge=1.5,surge_hours=0.5", None, 4) for n in (0, 2)
    )
    assert not calm.scales
    assert surging.scales
    first = surging.scales[0]
    usual = int(surging.tasks[first[1]])
    assert first[2] == -(-usual * 3 // 2)
    back = next(time for time, job, tasks in surging.scales if job == first[1] and tasks == usual)
    assert (back - first[0]) % (HOUR // 2) == 0 or back - first[0] > HOUR // 2


def test_arrays_come_by_day_and_dags_by_night() -> None:
    work = load_workload("mixed:nodes=40,days=1,run=200,tasks=4,office=0.8,nightly=0.9", None, 1)
    hour = work.submit // HOUR
    kind = np.array(kinds(work))
    arrays, first_steps = hour[kind == "batch"], hour[[i for i, name in enumerate(work.ids) if name.endswith(".s1")]]
    assert ((arrays >= 9) & (arrays < 18)).mean() == pytest.approx(0.8 + 0.2 * 9 / 24, abs=0.05)
    assert (first_steps < 6).mean() == pytest.approx(0.9 + 0.1 * 6 / 24, abs=0.12)


def test_quotas_follow_what_services_want_with_headroom() -> None:
    work = load_workload(SMALL + ",surges=0,apart=0,databases=0,headroom=1.5,groups=1,applications=1", None, 1)
    group = work.groups[0]
    assert [each.name for each in work.groups] == ["services1", "batch1"]
    (i,) = [i for i, kind in enumerate(kinds(work)) if kind == "service"]
    cores = work.requests[int(work.request_index[i])][0]
    hours = np.full(24, int(work.tasks[i]))
    for time, _, tasks in work.scales:
        hours[time // HOUR :] = tasks
    quotas = np.zeros(24)
    for minute, quota in weekly_quotas(group):
        quotas[minute // 60 : 24] = quota.scalar if minute < 24 * 60 else quotas[minute // 60 : 24]
    assert quotas.tolist() == pytest.approx((hours * cores * 1.5).tolist(), abs=500)


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("nodess=3", "nodess", "did you mean nodes?"),
        ("nodes=many", "nodes", "'many' is not a whole number"),
        ("night=1.5", "night", "out of range"),
        ("services=0.8,dags=0.4", "", "more than 1 together"),
        ("peak=24", "peak", "not an hour of day"),
        ("surge=0.5", "surge", "less than 1"),
    ],
)
def test_mistakes_in_parameters(text: str, field: str, words: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text)
    assert error.value.field == field
    assert words in str(error.value)


def test_every_parameter_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "mixed.md").read_text()
    for each in fields(MixedParameters):
        default = getattr(MixedParameters(), each.name)
        assert f"| `{each.name}` | {default:g} |" in page


# --- task counts in the simulation -----------------------------------------------------------------------------------


def simulated(folder: Path, jobs: str, cluster: str = "nodes:\n  - {name: n, count: 2, resource: '<4>'}\n") -> Result:
    """The run of these jobs with every invariant checked."""
    (folder / "c.yaml").write_text(cluster)
    (folder / "jobs.yaml").write_text(jobs)
    plan = run.plan(Request(trace=str(folder / "jobs.yaml"), out=folder / "out", cluster=folder / "c.yaml", check=True))
    return run.simulate(plan, plan.choices[0])


def counts(result: Result) -> list[tuple[int, int]]:
    """What the first service wants: (second, tasks)."""
    found = result.run.history.services
    assert found is not None
    return [
        (time // SECOND, tasks)
        for job, time, tasks in zip(found.job.tolist(), found.time.tolist(), found.tasks.tolist(), strict=True)
        if job == 0
    ]


def test_the_timetable_of_a_service_changes_its_tasks(tmp_path: Path) -> None:
    result = simulated(
        tmp_path,
        (
            "jobs:\n  - {name: web, type: service, tasks: 1, resource: <1>, until: 4h, timetable: [{at: 0 1 * * "
            "*, tasks: 3}, {at: 0 2 * * *, tasks: 2}]}\n"
        ),
    )
    # Of the moments before the first submission the last one holds: that of 2 o'clock on the day before.
    assert counts(result) == [(0, 2), (3600, 3), (7200, 2), (14_400, 0)]
    hours = (result.run.attempts.end - result.run.attempts.start).sum() / HOUR
    assert hours == pytest.approx(2 + 3 + 2 * 2, abs=0.01)
    assert result.analysis.summary["services_short_share"] == 0


def test_scales_of_a_workload_are_carried_out(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("nodes:\n  - {name: n, count: 2, resource: '<4>'}\n")
    (tmp_path / "jobs.yaml").write_text(
        "jobs:\n  - {name: web, type: service, tasks: 2, resource: <1>, until: 1h}\n  - {name: job, run: "
        "100s, resource: <1>}\n"
    )
    request = Request(trace=str(tmp_path / "jobs.yaml"), out=tmp_path, cluster=tmp_path / "c.yaml", check=True)
    plan = run.plan(request)
    work = replace(plan.workload, scales=((600 * SECOND, 0, 4), (1200 * SECOND, 0, 1)))
    result = run.simulate(replace(plan, workload=work), plan.choices[0])
    assert counts(result) == [(0, 2), (600, 4), (1200, 1), (3600, 0)]
    # Jobs that are left out take their changes with them.
    assert work.select(np.array([1])).scales == ()
    assert work.select(np.array([1, 0])).scales == ((600 * SECOND, 1, 4), (1200 * SECOND, 1, 1))


def test_a_service_lacks_tasks_while_the_cluster_is_full(tmp_path: Path) -> None:
    result = simulated(
        tmp_path,
        (
            "jobs:\n  - {name: hog, run: 30min, resource: <4>, tasks: 2}\n  - {name: web, type: service, submit: "
            "10min, tasks: 2, resource: <4>, until: 1h}\n"
        ),
    )
    # Of 50 minutes both tasks wait for 20.
    assert result.analysis.summary["services_short_share"] == pytest.approx(20 / 50)
    assert result.analysis.summary["services_short_worst"] == pytest.approx(20 / 50)


@pytest.mark.parametrize(("whole", "short"), [("false", 10), ("true", 20)])
def test_a_service_that_starts_as_a_whole_waits_for_room_for_all(tmp_path: Path, whole: str, short: int) -> None:
    result = simulated(
        tmp_path,
        (
            "jobs:\n  - {name: hog, run: 30min, resource: <4>}\n  - {name: web, type: service, submit: "
            f"10min, tasks: 2, resource: <4>, until: 1h, gang: {whole}}}\n"
        ),
    )
    assert result.analysis.summary["services_short_share"] == pytest.approx(short / 50)


def _ints(values: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_the_shortage_is_that_of_the_worst_service_and_of_all() -> None:
    wanted = ServiceCounts(job=_ints([0, 1, 0]), time=_ints([0, 0, 50]), tasks=_ints([2, 1, 4]))
    # Job 0 has two tasks from 10 on and a third from 80; job 1 has what it wants.
    found = shortage_of(wanted, _ints([0, 0, 1, 0]), _ints([10, 10, 0, 80]), _ints([100, 100, 100, 100]), 100)
    lacked, whole = 2 * 10 + 2 * 30 + 1 * 20, 2 * 50 + 4 * 50
    assert found.job == 0
    assert found.worst == pytest.approx(lacked / whole)
    assert found.whole == pytest.approx(lacked / (whole + 100))


def test_the_hours_of_the_day_and_what_tasks_use_of_what_they_reserve(tmp_path: Path) -> None:
    result = simulated(
        tmp_path,
        (
            "jobs:\n  - {name: web, type: service, tasks: 1, resource: <4>, until: 48h, timetable: [{at: 0 20 * "
            "* *, tasks: 2}, {at: 0 22 * * *, tasks: 1}]}\n"
        ),
    )
    work = replace(result.run.workload, used={"cpu": result.run.workload.requests[0][0] * np.array([0.5])})
    day = day_of(work, result.run.history)
    assert day.reserved[[19, 20, 21, 22]].tolist() == pytest.approx([0.5, 1, 1, 0.5], abs=0.002)
    assert day.used.tolist() == pytest.approx((day.reserved / 2).tolist())
    assert day.wanted.tolist() == pytest.approx(day.reserved.tolist(), abs=0.002)
    # The first of the four hours with the highest sum: 18 to 22, 19 to 23 and 20 to 24 are alike.
    assert day.peak == 18
    assert day.summary()["reserved_peak_mean"] == pytest.approx(0.75, abs=0.002)
