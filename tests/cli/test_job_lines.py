"""Jobs in the user's own form and order."""

from __future__ import annotations

import pytest

from cress.cli.job_lines import in_order, line_of, parts_of
from cress.client import JobView, TaskCounts
from cress.model.errors import InputError

NOW = 1000.0


def job(number: int, *, name: str = "job", started: float | None = None, ended: float | None = None) -> JobView:
    counts = TaskCounts(total=3, waiting=2, running=1, succeeded=0, failed=0, cancelled=0)
    return JobView(
        id=number, name=name, group="lab", user="ann", type="batch", state="running", tasks=counts, priority=0,
        gang=False, resource={"cpu": "1"}, time_limit=None, submitted=900.0, started=started, ended=ended,
    )  # fmt: skip


def test_a_job_in_a_form() -> None:
    view = job(7, name="a\x1bb", started=940.0)
    assert line_of(
        view, parts_of("{id}:{name} {group}/{user} {running} of {tasks}, {elapsed} after {waited}"), NOW
    ) == ("7:a\\x1bb lab/ann 1 of 3, 1m00s after 40s")
    assert line_of(view, parts_of(r"{id}\t{ended}{{}}"), NOW) == "7\t-{}"
    assert line_of(view, parts_of("{age}"), NOW) == "1m40s"


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ("{nam}", "'nam' is not a field of a job (did you mean name?)"),
        ("{id.__class__}", "'id.__class__' is not a field of a job"),
        ("{id:>5}", "'{id:>5}' has more than names in braces (such as '{id} {name} {elapsed}')"),
        ("{id", "'{id' is not a form: expected '}' before end of string"),
        ("{}", "'' is not a field of a job"),
    ],
)
def test_a_wrong_form_is_refused(form: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        parts_of(form)
    assert str(refused.value).startswith(f"--format: {why}")


def test_jobs_in_an_order() -> None:
    jobs = [job(1, name="b"), job(2, name="a", started=950.0), job(3, name="b", started=910.0, ended=920.0)]
    assert [view.id for view in in_order(jobs, "name", NOW)] == [2, 1, 3]
    assert [view.id for view in in_order(jobs, "elapsed", NOW)] == [3, 2, 1]
    assert [view.id for view in in_order(jobs, "-elapsed", NOW)] == [2, 3, 1]
    with pytest.raises(InputError, match="--sort: 'elapse' is not a field of a job"):
        in_order(jobs, "elapse", NOW)
