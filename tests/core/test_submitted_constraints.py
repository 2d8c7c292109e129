"""Job files become requirements and ranks: what is joined, what is refused and where."""

from __future__ import annotations

import pytest

from cress.core.placing.submitted_constraints import constrained
from cress.model.errors import InputError, InputErrors
from cress.model.job import Job
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions

LEAST = {"command": ["server"]}


def read(*jobs: dict[str, object]) -> list[Job]:
    entries = [{**LEAST, **each} for each in jobs]
    return constrained(parse_jobs(entries, dimensions=Dimensions(), user="ann"))


def refused(*jobs: dict[str, object]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(*jobs)
    return str(caught.value).splitlines()


def test_the_job_of_the_source_paper() -> None:
    (job,) = read(
        {
            "Resource": "<4, 8G, 500M, 50M>",
            "Network-Adjacent": True,
            "Requirement": "<OSKernel > = 2.6.32&&Java > = 1.5>",
            "Rank": "<0.5 × CPU + 0.5 × IdleNetwork>",
        }
    )
    assert job.requirement == "OSKernel >= 2.6.32 && Java >= 1.5 && NetworkAdjacent = True"
    assert job.rank == "0.5 × CPU + 0.5 × IdleNetwork"


def test_all_keys_hold_together_and_the_same_clause_counts_once() -> None:
    (job,) = read(
        {
            "requirement": ["A = 1 || B = 2", "C >= 3 && ExclusiveDisk = True"],
            "nodes": ["web-1", "192.168.1.2-8"],
            "exclusive_disk": True,
            "job_dependency": "my-job && f(x) = (Waittime > 10s)",
        }
    )
    assert job.requirement == (
        '(A = 1 || B = 2) && C >= 3 && ExclusiveDisk = True && Nodes in ("web-1", 192.168.1.2-8)'
        ' && JobDependency = "my-job" && f(x) = (Waittime > 10s)'
    )


def test_a_job_that_says_nothing_has_no_constraints() -> None:
    (job,) = read({"network_adjacent": False, "requirement": []})
    assert (job.requirement, job.rank) == ("", "")


def test_every_mistake_is_told_with_its_job_its_key_and_the_character() -> None:
    first, second, third = refused(
        {"requirement": ["A = 1", "GCC >> 4"]},
        {},
        {"NetworkAdjacent": "True && f(x) = (Waittim > 5min)", "rank": "0.5 × × CPU"},
    )
    assert first.startswith("jobs[0].requirement[1]: at character 6, `> 4`")
    assert second.startswith("jobs[2].NetworkAdjacent: at character ")
    assert "Waittime" in second
    assert third.startswith("jobs[2].rank: at character ")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"network_adjacent": "True && f(x) = (Waitime > 5min)"}, "network_adjacent: at character 17, `Waitime > 5min)`: "),  # noqa: E501
        ({"NetworkAdjacent": " NetworkAdjacent = True and f(x) = (1)"}, "NetworkAdjacent: at character 37, `1)`: "),
        ({"data_locality": "in (10.0.0.2-300) && f(x) = True"}, "data_locality: at character 5, `10.0.0.2-300) && f(x) = …`: "),  # noqa: E501
        ({"data_locality": "10.0.0.2-8 && f(x) ="}, "data_locality: at the end: "),
        ({"nodes": ["web-1", "10.0.0.300"]}, "nodes: at character 8, `10.0.0.300`: "),
        ({"job_dependency": "db || web"}, "job_dependency: at character 1, `db || web`: JobDependency must be a separate clause"),  # noqa: E501
        ({"job_dependency": ["db", "web && f(x) = 4"]}, "job_dependency[1]: at character 15, `4`: "),
        ({"exclusive_disk": "yes && f(y) = True"}, "exclusive_disk: at character 8, `f(y) = True`: "),
        ({"Requirement": "< GCC >> 4.5 >"}, "Requirement: at character 8, `> 4.5 >`: "),
        ({"rank": "<CPU + >"}, "rank: at character 7, `>`: "),
    ],
)  # fmt: skip
def test_the_character_is_counted_in_what_was_written(given: dict[str, object], told: str) -> None:
    (found,) = refused(given)
    assert found.startswith(f"jobs[0].{told}")


def test_a_mistyped_word_of_the_moment_is_known() -> None:
    (told,) = refused({"network_adjacent": "True && f(x) = (Waitime > 5min)"})
    assert "(did you mean Waittime? such as f(x) = (Waittime > 15s)" in told


def test_too_much_together() -> None:
    (told,) = refused({"requirement": [f"A{i} = 1" for i in range(32)]})
    assert told == "jobs[0].requirement: 32 clauses are too many (at most 31)"
    (told,) = refused({"requirement": [f'A{i} = "{"x" * 1500}"' for i in range(3)]})
    assert told.startswith("jobs[0].requirement: ")


def test_the_amounts_of_the_cluster_are_attributes_of_jobs() -> None:
    entry = {**LEAST, "requirement": "GPU >= 2 * Job.GPU", "rank": "Slots / Job.TPU", "away_from": 'Job.Owner = "root"'}
    specs = parse_jobs([entry], dimensions=Dimensions(("gpu",)), user="ann")
    with pytest.raises(InputErrors) as caught:
        constrained(specs, Dimensions(("gpu",)))
    told = sorted(f"{each.field}: {each.what.rpartition(': ')[2]}" for each in caught.value.errors)
    assert told == ["jobs[0].away_from: a job has no Job.Owner", "jobs[0].rank: a job has no Job.TPU"]
    # Away from a cluster nobody knows its dimensions.
    assert constrained(specs)[0].rank == "Slots / Job.TPU"
