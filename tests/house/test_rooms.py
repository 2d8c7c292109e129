"""Who may import whom: the table is kept, and the contract that says so bites."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from grimp import ImportGraph, build_graph

from tools.house.rooms import RoomsContract, parse_table, violations

ROOT = Path(__file__).resolve().parents[2]
IMPORT_LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
TABLE = parse_table(IMPORT_LINTER["contracts"][0]["rooms"])


def graph_of(*edges: tuple[str, str]) -> ImportGraph:
    """An import graph of these edges; names outside ``cress`` are libraries."""
    graph = ImportGraph()
    for module in {module for edge in edges for module in edge}:
        graph.add_module(module, is_squashed=not module.startswith("cress"))
    for importer, imported in edges:
        graph.add_import(importer=importer, imported=imported, line_number=7, line_contents=f"import {imported}")
    return graph


def test_the_package_keeps_the_table() -> None:
    graph = build_graph("cress", include_external_packages=True, cache_dir=None)
    assert "cress.model.job" in graph.modules
    assert violations(graph, "cress", TABLE) == []


def test_every_room_has_a_line() -> None:
    pure, shells = (
        "model language core lifecycle formats store protocol shell",
        "past network center executor simulator portal client",
    )
    rooms = f"{pure} {shells} integrations slurm cli"
    assert set(TABLE) == {*rooms.split(), "__main__"}  # `python -m cress` is the command line


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("cress.model.job", "cress.core.tables.cluster"),
        ("cress.language.parser", "cress.core.tables.cluster"),
        ("cress.core.scheduler", "cress.simulator.engine"),
        ("cress.core.scheduler", "cress.lifecycle.cron"),
        ("cress.core.scheduler", "cress.store.sqlite"),
        ("cress.lifecycle.cron", "cress.language.parser"),
        ("cress.protocol.messages", "cress.core.scheduler"),
        ("cress.store.sqlite", "cress.core.scheduler"),
        ("cress.executor.agent", "cress.core.scheduler"),
        ("cress.center.api", "cress.language.parser"),
        ("cress.center.api", "cress.executor.agent"),
        ("cress.simulator.engine", "cress.center.api"),
        ("cress.client.api", "cress.core.scheduler"),
        ("cress.portal.page", "cress.center.api"),
        ("cress.portal.page", "cress.core.scheduler"),
        ("cress.cli.main", "cress.core.scheduler"),
        ("cress.cli.main", "cress.store.sqlite"),
        ("cress.executor.agent", "numpy"),
        ("cress.executor.agent", "pydantic"),
        ("cress.core.scheduler", "polars"),
        ("cress.model.job", "numpy"),
        ("cress", "cress.core.scheduler"),
        ("cress", "numpy"),
    ],
)
def test_forbidden_imports_are_found(importer: str, imported: str) -> None:
    (found,) = violations(graph_of((importer, imported)), "cress", TABLE)
    assert (found.importer, found.imported) == (importer, imported)


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("cress.core.scheduler", "cress.model.job"),
        ("cress.core.scheduler", "cress.core.tables.cluster"),
        ("cress.core.scheduler", "cress.language.parser"),
        ("cress.core.tables.cluster", "numpy"),
        ("cress.core.tables.cluster", "math"),
        ("cress.executor.agent", "psutil"),
        ("cress.executor.agent", "asyncio"),
        ("cress.center.api", "starlette"),
        ("cress.simulator.engine", "cress.core.scheduler"),
        ("cress.cli.simulate", "cress.simulator.engine"),
        ("cress.cli.main", "cress"),
    ],
)
def test_allowed_imports_pass(importer: str, imported: str) -> None:
    assert violations(graph_of((importer, imported)), "cress", TABLE) == []


def test_a_way_through_an_allowed_room_is_allowed() -> None:
    graph = graph_of(("cress.center.api", "cress.core.scheduler"), ("cress.core.scheduler", "cress.language.parser"))
    assert violations(graph, "cress", TABLE) == []


def test_a_room_without_a_line_is_found() -> None:
    (found,) = violations(graph_of(("cress.attic.box", "math")), "cress", TABLE)
    assert found.why == "room 'attic' is not in the table"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["model"], "is not 'room: rooms | libraries'"),
        ([": model"], "is not 'room: rooms | libraries'"),
        (["model:", "model: core"], "has two lines"),
        (["core: model"], "'model', which has no line of its own"),
    ],
)
def test_a_bad_table_is_refused(lines: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("|", r"\|")):
        parse_table(lines)


def test_import_linter_reports_a_broken_table_with_lines(capsys: pytest.CaptureFixture[str]) -> None:
    contract = RoomsContract("rooms", {"root_packages": ["cress"]}, {"rooms": ["model:", "core: model"]})
    check = contract.check(graph_of(("cress.model.job", "cress.core.jobs")), verbose=False)
    assert not check.kept
    contract.render_broken_contract(check)
    said = capsys.readouterr().out
    assert said.split("\n")[0] == "cress.model.job -> cress.core.jobs (line 7): model may import only nothing"


def test_import_linter_uses_the_contract() -> None:
    assert IMPORT_LINTER["contract_types"] == [f"rooms: {RoomsContract.__module__}.{RoomsContract.__name__}"]
    assert IMPORT_LINTER["contracts"][0]["type"] == "rooms"
    assert IMPORT_LINTER["include_external_packages"] is True
