"""No circle of files inside a room, and sub-rooms import downwards only; imports under ``TYPE_CHECKING`` count.

A circle means that none of its files can be read, tested or changed without the others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

# Sub-rooms and files of a room, from the lowest to the highest: each imports only what stands before it, or itself.
ORDERED: dict[str, tuple[str, ...]] = {
    "center": (
        "settings",
        "web",
        "process",
        "keeping",
        "tls",
        "connections",
        "committing",
        "secrets",
        "access",
        "dns",
        "files",
        "data_locations",
        "executors",
        "views",
        "requests",
        "notifications",
        "waiting",
        "leader",
        "api",
        "run",
    ),
    "core": (
        "accounts",
        "kernels",
        "charges",
        "tables",
        "placing",
        "job_times",
        "groups.policies",
        "tree",
        "stored",
        "running_jobs",
        "jobs",
        "groups",
        "future",
        "openings",
        "running_tasks",
        "loan_limit",
        "pool",
        "expected_ends",
        "relaxation",
        "unit_constraints",
        "queueing",
        "asking",
        "units",
        "shapes",
        "books",
        "claims",
        "charging",
        "job_ends",
        "passing_time",
        "questions",
        "leaf_groups",
        "advance",
        "limit_changes",
        "fragments",
        "admission",
        "combined_restarts",
        "whole_starts",
        "unit_homes",
        "adoption",
        "victims_by_kind",
        "urgent_cost",
        "eviction",
        "preemption",
        "moving",
        "facts",
        "ledger",
        "diagnostics",
        "gates",
        "passes",
        "starting",
        "making_room",
        "offers",
        "upkeep",
        "cycle",
        "state",
        "reason",
        "invariants",
        "outlook",
        "scheduler",
        "answers",
        "widening",
        "live_options",
        "run_history",
        "estimator",
        "warm",
    ),
    "lifecycle": (
        "slices",
        "tables",
        "inputs",
        "facts",
        "effects",
        "notices",
        "context",
        "jobs",
        "nodes",
        "families",
        "submits",
        "attempts",
        "moving",
        "join_tokens",
        "secrets",
        "access",
        "node_membership",
        "reserving",
        "name_service",
        "name_table",
        "configure",
        "configuration",
        "record",
        "snapshot",
        "invariants",
        "machine",
        "follower",
        "replay",
        "trials",
        "explaining",
        "foretelling",
    ),
}

Graph = Mapping[str, set[str]]


def imports(package: Path, room: str) -> dict[str, set[str]]:
    """Return, for every module of the room (its name without the package's), the modules of the room that it
    imports.
    """
    files = {_name(package, path): path for path in sorted((package / room).rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        found: set[str] = set()
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"), str(path))):
            inside = name.removeprefix(f"{package.name}.")
            # ``from a.b import c`` may mean the module a.b.c or a name in a.b.
            found.update(each for each in (inside, inside.rpartition(".")[0]) if each in files)
            if inside in files:
                found.discard(inside.rpartition(".")[0])
        graph[module] = found - {module}
    return graph


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not, each sorted (strongly connected
    components).
    """
    reached = {module: _reachable(graph, module) for module in graph}
    found = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in graph}
    return [list(each) for each in sorted(found) if len(each) > 1]


def _reachable(graph: Graph, start: str) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        for other in graph[left.pop()]:
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def upward(graph: Graph, room: str, order: tuple[str, ...]) -> Iterator[str]:
    """Yield the imports from a sub-room to a higher one, and modules that the order does not name."""
    for module, others in graph.items():
        if module == room:
            continue
        place = _place(module, room, order)
        if place is None:
            yield f"{module}: not in the order of {room}"
            continue
        for other in sorted(others):
            above = _place(other, room, order)
            if above is not None and above > place:
                yield f"{module} imports {other}: {order[place]} stands below {order[above]}"


def _place(module: str, room: str, order: tuple[str, ...]) -> int | None:
    inside = module.removeprefix(f"{room}.")
    return next((i for i, each in enumerate(order) if inside == each or inside.startswith(f"{each}.")), None)


def check(package: Path) -> Iterator[str]:
    """Yield what breaks the rules in any room of the package."""
    for room in sorted(path.name for path in package.iterdir() if path.is_dir() and path.name.isidentifier()):
        if room.startswith("_"):
            continue
        for circle in circles(imports(package, room)):
            yield f"{room}: a circle of {len(circle)} files: {', '.join(circle)}"
    for room, order in ORDERED.items():
        yield from upward(imports(package, room), room, order)
