"""Secrets in a job: how they are written, and what is wrong."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.jobfile.job import parse_job
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions
from cress.model.run import Run, SecretUse

VARIABLE = SecretUse(name="PASSWORD", secret="db")
FILE = SecretUse(name="key.pem", secret="tls", file=True)


def read(**keys: object) -> Run:
    return parse_job({"command": "true", **keys}, dimensions=Dimensions(), user="ann").run


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"PASSWORD": "db"}, (VARIABLE,)),
        ({"PASSWORD": {"secret": "db"}}, (VARIABLE,)),
        ({"PASSWORD": {"secret": "db", "as": "environment"}}, (VARIABLE,)),
        ({"PASSWORD": "db", "key.pem": {"secret": "tls", "as": "File"}}, (VARIABLE, FILE)),
        ({"db": {"as": "file"}}, (SecretUse(name="db", secret="db", file=True),)),
        (["db"], (SecretUse(name="db", secret="db", file=True),)),
        ({}, ()),
    ],
)
def test_variables_and_files(value: object, found: tuple[SecretUse, ...]) -> None:
    run = read(secrets=value)
    assert run.secrets == found
    assert run.needs_material == bool(found)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("db", "secrets: 'db' is not a mapping (VARIABLE: SECRET for each, or FILE: {secret: SECRET, as: file})"),
        ({"A B": "db"}, "secrets.A B: 'A B' is not a name of a variable"),
        ({"CRESS_X": "db"}, "secrets.CRESS_X: 'CRESS_X' is reserved"),
        ({"A": "../db"}, "secrets.A: '../db' is not a name of a secret"),
        ({"A": ["db"]}, "secrets.A: a list is not a text"),
        ({"A": {"secret": "db", "as": "disk"}}, "secrets.A.as: 'disk' is neither environment nor file"),
        ({"A": {"key": "db"}}, "secrets.A.key: unknown key 'key' (one of secret, as)"),
        ({"../x": {"secret": "db", "as": "file"}}, "secrets.../x: '../x' is not a name of a file"),
        ({"..": {"secret": "db", "as": "file"}}, "secrets...: '..' is not a name of a file"),
        (["db", "db"], "secrets: db is named twice"),
        ([7, {}], "secrets.[0]: 7 is not a name of a file"),
        ({f"A{i}": "db" for i in range(65)}, "secrets: 65 secrets are too many (at most 64)"),
    ],
)
def test_what_makes_no_sense_is_told(value: object, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read(secrets=value)
    first = getattr(caught.value, "errors", [caught.value])[0]
    assert str(first).startswith(told.replace("secrets.[", "secrets["))


def test_a_variable_is_a_secret_or_has_a_value() -> None:
    with pytest.raises(InputError) as caught:
        read(secrets={"A": "db", "B": "db"}, environment={"B": "x"})
    assert str(caught.value) == "secrets.B: B is in environment too (only one of them)"
    read(secrets={"B": {"secret": "db", "as": "file"}}, environment={"B": "x"})


def test_steps_of_a_dag_have_those_of_the_dag_and_their_own() -> None:
    steps = {"a": {"command": "true"}, "b": {"command": "true", "secrets": {"MAIL": "mail", "DB": "other"}}}
    dag = {"type": "dag", "secrets": {"DB": "db"}, "steps": steps}
    specs = parse_jobs([dag], dimensions=Dimensions(), user="ann")
    used = [{use.name: use.secret for use in spec.run.secrets} for spec in specs[1:]]
    assert used == [{"DB": "db"}, {"DB": "other", "MAIL": "mail"}]
