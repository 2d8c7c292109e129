"""`cress update`: one entry of a key, of one job or of several."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from cress.cli.update import MOST_COMPARED, _named, _present, _values
from cress.client import Client, JobView
from cress.model.errors import InputError
from cress.protocol.job_views import TaskCounts

JOB = JobView(
    id=1, name="train", group="ads", user="ann", type="batch", state="waiting", tasks=TaskCounts(total=1, waiting=1),
    priority=0, gang=False, resource={"cpu": "2", "gpu": "1"}, time_limit=None, submitted=0, licences={"m": 2},
)  # fmt: skip


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({"resource.gpu": ""}, {"resource": {"cpu": "2"}}),
        ({"resource.gpu": "2"}, {"resource": {"cpu": "2", "gpu": "2"}}),
        ({"licences.m": "none"}, {"licences": None}),
        ({"labels.a": "b", "deadline": ""}, {"labels": {"a": "b"}, "deadline": None}),
    ],
)
def test_an_entry_is_set_or_removed(given: dict[str, str], values: dict[str, object]) -> None:
    pairs = list(given.items())
    _values(pairs)
    present = {key: getattr(JOB, key) for key in (name.partition(".")[0] for name in given if "." in name)}
    assert _values(pairs, present) == values


def test_entries_are_those_of_the_key_in_whatever_spelling() -> None:
    assert [_named(key) for key in ("licenses.m", "Resource.gpu", "time-limit", "walltime")] == [
        "licences.m", "resource.gpu", "time_limit", "walltime",
    ]  # fmt: skip


def test_an_entry_that_the_job_does_not_have_is_not_removed() -> None:
    with pytest.raises(InputError, match=r"resource.gup: there is no such entry to remove \(one of cpu, gpu\)"):
        _values([("resource.gup", "")], {"resource": JOB.resource})


def test_jobs_are_asked_for_until_one_differs_and_never_too_many() -> None:
    asked: list[int] = []

    class Center:
        """A center whose jobs from 3 on have other resources."""

        def job(self, id: int) -> JobView:
            asked.append(id)
            return replace(JOB, id=id, resource={"cpu": "1"} if id > 2 else JOB.resource)

    client = cast("Client", Center())
    assert _present(client, [1, 2], {"resource"}) == {"resource": JOB.resource}
    asked.clear()
    with pytest.raises(InputError, match="the jobs differ in it"):
        _present(client, range(1, 50), {"resource"})
    assert asked == [1, 2, 3]
    with pytest.raises(InputError, match=f"at most {MOST_COMPARED} jobs, or all of resource"):
        _present(client, range(MOST_COMPARED + 1), {"resource"})
    assert asked == [1, 2, 3]
