"""What finished work asked for and used: sums, order, hints, and who sees them."""

from __future__ import annotations

import msgspec
import pytest

from cress.center.views.efficiency import efficiency_views
from cress.model.resources import Dimensions
from cress.model.times import SECOND
from cress.store.work_done import WorkDone
from tests.center.program import Center, eventually

GIB = 2**30
DIMENSIONS = Dimensions(("gpu",))


def work(
    name: str = "train",
    *,
    user: str = "ann",
    group: str = "lab",
    cores: float = 8,
    asked: int = 32 * GIB,
    gpus: float = 0,
    runs: int = 41,
    seconds: float = 3600,
    cpu: float = 1.2,
    peak: int = 3 * GIB,
) -> WorkDone:
    """Work of ``runs`` attempts that each ran for ``seconds`` and used ``cpu`` cores on average."""
    request = (round(cores * 1000), asked, 0, 0, 0, 0, 0, round(gpus * 1000))
    run = round(runs * seconds * SECOND)
    return WorkDone(
        name=name,
        user=user,
        group=group,
        request=request,
        jobs=1,
        attempts=runs,
        run=run,
        cpu=round(cpu * run),
        peak=peak,
    )


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (work(cpu=8), "asks for 32G of memory, used 3G at most in 41 runs: 4G would do"),
        (work(peak=0), "asks for 8 cores, used 1.2 on average in 41 runs: 1.5 cores would do"),
        (work(cores=3, peak=0), "asks for 3 cores, used 1.2 on average in 41 runs: 1.5 cores would do"),
        (work(cores=2, asked=4 * GIB), ""),
        (work(runs=2), ""),
        (work(seconds=0.5), ""),
        (work(peak=0, cpu=8), ""),
        (work(peak=30 * GIB, cpu=20), "asks for 8 cores, used 20 on average in 41 runs: it should ask for more"),
        (work(peak=1, cpu=4), "asks for 32G of memory, used 1M at most in 41 runs: 64M would do"),
        (work(cores=0, peak=0, cpu=3), ""),
    ],
)  # fmt: skip
def test_a_hint_needs_runs_and_a_request_of_twice_what_would_do(given: WorkDone, hint: str) -> None:
    (view,) = efficiency_views([given], "name", DIMENSIONS)
    assert view.hint == hint


def test_work_is_added_up_with_the_most_unused_first() -> None:
    parts = [
        work("small", cores=1, cpu=1),
        work("train", user="bob", gpus=0.5),
        work("train", runs=1, cores=16, asked=GIB, peak=5 * GIB),
    ]
    names = efficiency_views(parts, "name", DIMENSIONS)
    assert [(view.name, view.user, view.group) for view in names] == [
        ("train", "bob", "lab"), ("train", "ann", "lab"), ("small", "ann", "lab"),
    ]  # fmt: skip
    assert names[0].held == {"cpu": 8 * 41 * 3600, "memory": 32 * GIB * 41 * 3600, "gpu": 0.5 * 41 * 3600}
    (group,) = efficiency_views(parts, "group", DIMENSIONS)
    assert (group.name, group.user, group.group, group.jobs, group.attempts) == ("", "", "lab", 3, 83)
    assert (group.memory_asked, group.memory_peak, group.hint) == (32 * GIB, 5 * GIB, "")
    assert [view.user for view in efficiency_views(parts, "user", DIMENSIONS)] == ["bob", "ann"]
    labelled = [msgspec.structs.replace(part, label=label) for part, label in zip(parts, ("a", "", "a"), strict=True)]
    labels = efficiency_views(labelled, "label", DIMENSIONS)
    assert [(view.label, view.name, view.jobs) for view in labels] == [("", "", 1), ("a", "", 2)]


def test_the_call_checks_its_words_and_answers_before_any_job_has_ended(center: Center) -> None:
    assert center.get("/v1/efficiency", name="two")["work"] == []
    refused = center.get("/v1/efficiency", 422, by="job")
    assert refused["faults"][0] == {
        "what": "'job' is no way to add up",
        "hint": "one of name, user, group, label:NAME",
        "field": "by",
        "file": "",
        "line": 0,
    }


@pytest.mark.long  # finished work moves to the history every ten seconds
def test_the_work_of_a_job_that_ended(center: Center) -> None:
    with center.executor("n1") as n1:
        center.submit(name="one", resource="<2, 1G>", labels={"team": "red"})
        (launch,) = n1.launches()
        n1.started(launch.attempt)
        n1.ended(launch.attempt)
        (found,) = eventually(lambda: center.get("/v1/efficiency", by="user")["work"])
    assert (found["name"], found["jobs"], found["attempts"]) == ("", 1, 1)
    assert found["memory_asked"] == GIB
    (found,) = center.get("/v1/efficiency", by="label:team")["work"]
    assert (found["label"], found["user"], found["jobs"]) == ("red", "", 1)
    (found,) = center.get("/v1/efficiency", by="label:tier")["work"]
    assert found["label"] == ""
