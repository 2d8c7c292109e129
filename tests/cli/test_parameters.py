"""Parameters of job files: what combinations there are, and where values go."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.cli.jobfile import JobInFile
from cress.cli.parameters import combinations, filled
from cress.model.errors import InputError


def test_every_combination_for_each_row(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y\n1,a\n2,b\n")
    found = combinations(["lr=0.1", "lr=0.2", "m=k=v"], str(table))
    assert found == [
        {"x": x, "y": y, "lr": lr, "m": "k=v"} for x, y in (("1", "a"), ("2", "b")) for lr in ("0.1", "0.2")
    ]
    assert combinations([], "") == [{}]


@pytest.mark.parametrize(
    ("given", "table", "why"),
    [
        (["lr"], "", "-p: 'lr' is not NAME=VALUE"),
        (["1=2"], "", "is not NAME=VALUE"),
        (["x=1"], "x\n1\n", "x is a column of"),
        ([], "", ""),
        ([], "x,x\n1,2\n", ":1: a column is given twice"),
        ([], "x,y\n1\n", ":2: 1 values (one for each of x, y)"),
        ([], "x\n", "has no row"),
        ([f"a={n}" for n in range(101)] + [f"b={n}" for n in range(100)], "", "10,100 combinations"),
    ],
)
def test_mistakes_say_where(given: list[str], table: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(table)
    if not why:
        assert combinations(given, "") == [{}]
        return
    with pytest.raises(InputError) as error:
        combinations(given, str(file) if table else "")
    assert why in str(error.value)


def test_values_go_everywhere_and_what_has_none_is_named() -> None:
    entry = JobInFile({"command": ["x", "{{ lr }}"], "env": {"A": "{{lr}}-{{seed}}"}, "tasks": 3}, "t.yaml", 1)
    (found,) = filled([entry], [{"lr": "1", "seed": "2"}])
    assert found.mapping == {
        "command": ["x", "1"],
        "env": {"PARAM_LR": "1", "PARAM_SEED": "2", "A": "1-2"},
        "tasks": 3,
    }
    assert filled([entry], [{}]) == [entry]
    with pytest.raises(InputError) as error:
        filled([entry], [{"lr": "1", "sed": "2"}])
    assert str(error.value) == "t.yaml:1: env.A: parameter seed has no value (did you mean sed?)"
    for given, hint in (({}, "-p lr=VALUE, or --csv FILE"), ({"size": "1"}, "-p lr=VALUE; given: size")):
        with pytest.raises(InputError) as error:
            filled([JobInFile({"name": "t-{{lr}}", "command": "x"}, "t.yaml", 1)], [given])
        assert str(error.value) == f"t.yaml:1: name: parameter lr has no value ({hint})"
    assert filled([JobInFile({"name": "t", "command": "helm {{x}}"}, "t.yaml", 1)], [{}])[0].mapping["name"] == "t"
