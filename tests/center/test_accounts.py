"""Who may have tasks run as whom."""

from __future__ import annotations

import pytest

from cress.center.requests.validation import jobs_of
from cress.model.errors import InputError
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions

ALLOWED = {
    "without the key": ("alice", ""),
    "oneself": ("alice", "alice"),
    "an account that is open to all": ("alice", "postgres"),
    "root chooses freely": ("root", "mail"),
}


def submit(user: str, run_as: str, accounts: tuple[str, ...] = ("postgres",)) -> None:
    job: dict[str, object] = {"command": "true"}
    if run_as:
        job["run_as"] = run_as
    jobs_of(parse_jobs([{"command": "true"}, job], dimensions=Dimensions(), user=user), accounts)


@pytest.mark.parametrize("case", ALLOWED)
def test_accepted(case: str) -> None:
    submit(*ALLOWED[case])


def test_the_account_of_another_is_refused_with_what_would_do() -> None:
    with pytest.raises(InputError) as caught:
        submit("alice", "root")
    error = caught.value
    assert (error.what, error.field) == ("tasks of alice do not run as root", "jobs[1].run_as")
    assert error.hint == "alice, which is what it is without this key; or postgres"
    with pytest.raises(InputError) as caught:
        submit("alice", "postgres", ())
    assert caught.value.hint == "alice, which is what it is without this key"


def test_a_job_in_a_container_requires_a_node_that_has_them() -> None:
    text = {"command": "true", "runtime": "container", "requirement": "GCC >= 4"}
    (job,) = jobs_of(parse_jobs([text], dimensions=Dimensions(), user="alice"))
    assert job.requirement == "GCC >= 4 && Container = True"
