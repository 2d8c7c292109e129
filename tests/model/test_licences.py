"""Licences in a job: how they are written, and what is wrong."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.job import Job
from cress.model.jobfile.job import parse_job
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions


def read(**keys: object) -> Job:
    return parse_job({"command": "true", **keys}, dimensions=Dimensions(), user="ann").job


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("matlab", (("matlab", 1),)),
        ("matlab=2", (("matlab", 2),)),
        ("matlab = 2, ansys", (("ansys", 1), ("matlab", 2))),
        (["matlab=2", "ansys"], (("ansys", 1), ("matlab", 2))),
        ({"matlab": 2, "ansys": "1"}, (("ansys", 1), ("matlab", 2))),
    ],
)
def test_texts_lists_and_mappings(value: object, found: tuple[tuple[str, int], ...]) -> None:
    assert read(licences=value).licences == found
    assert read(license=value).licences == read(Licence=value).licences == read(licenses=value).licences == found


def test_a_job_has_none_unless_it_says_so() -> None:
    assert read().licences == ()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", "licences: '' is not a licence (matlab, matlab=2, or {matlab: 2, ansys: 1})"),
        ({}, "licences: is empty"),
        (3, "licences: 3 is not a licence"),
        ("matlab=0", "licences.matlab: 0 is too small"),
        ({"mat lab": 1}, "licences.mat lab: 'mat lab' is not a name of a licence"),
        ({"m": "many"}, "licences.m: 'many' is not a whole number"),
        (["a", "a=2"], "licences: licence a is given twice (each once)"),
        (["a", ["b"]], "licences: a list is not a licence"),
        ({f"l{i}": 1 for i in range(65)}, "licences: 65 licences are too many (at most 64)"),
    ],
)
def test_what_makes_no_sense_is_told(value: object, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read(licences=value)
    assert str(caught.value).startswith(told)


def test_steps_of_a_dag_have_their_own_or_those_of_the_dag() -> None:
    steps = {"a": {"command": "true"}, "b": {"command": "true", "licences": "ansys"}}
    dag = {"type": "dag", "licences": "matlab", "steps": steps}
    specs = parse_jobs([dag], dimensions=Dimensions(), user="ann")
    assert [spec.job.licences for spec in specs[1:]] == [(("matlab", 1),), (("ansys", 1),)]
