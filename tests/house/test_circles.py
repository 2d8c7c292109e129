"""No circle of files inside a room; sub-rooms import downwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house import circles as house
from tools.house.circles import circles, imports, upward


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return tmp_path / "cress"


def write(package: Path, **files: str) -> None:
    for name, source in files.items():
        path = package / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


def test_two_files_that_import_each_other_are_a_circle(package: Path) -> None:
    write(package, core__a="from cress.core.b import f", core__b="import cress.core.a", core__c="import cress.core.a")
    assert circles(imports(package, "core")) == [["core.a", "core.b"]]


def test_imports_for_types_only_and_inside_functions_count(package: Path) -> None:
    write(
        package,
        core__a="from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from cress.core import b\n",
        core__b="def f():\n    from cress.core.c import g\n",
        core__c="from cress.core.a import h",
    )
    assert circles(imports(package, "core")) == [["core.a", "core.b", "core.c"]]


def test_a_chain_is_no_circle_and_other_rooms_do_not_matter(package: Path) -> None:
    write(package, core__a="from cress.core.b import f", core__b="from cress.model.job import Job", model__job="")
    assert circles(imports(package, "core")) == []


def test_the_file_of_a_sub_room_itself_counts(package: Path) -> None:
    write(package, core__sub__a="from cress.core.sub import g")
    (package / "core" / "sub" / "__init__.py").write_text("from cress.core.sub.a import f")
    assert circles(imports(package, "core")) == [["core.sub", "core.sub.a"]]


def test_a_sub_room_imports_only_what_stands_before_it(package: Path) -> None:
    write(
        package,
        core__tables__nodes="from cress.core.placing.fit import Fit",
        core__placing__fit="from cress.core.tables import nodes",
        core__other="",
    )
    assert list(upward(imports(package, "core"), "core", ("tables", "placing"))) == [
        "core.other: not in the order of core",
        "core.tables.nodes imports core.placing.fit: tables stands below placing",
    ]


def test_the_check_names_the_files_of_a_circle(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "ORDERED", {"core": ("a", "b")})
    write(package, core__a="import cress.core.b", core__b="import cress.core.a")
    assert list(house.check(package)) == [
        "core: a circle of 2 files: core.a, core.b",
        "core.a imports core.b: a stands below b",
    ]
