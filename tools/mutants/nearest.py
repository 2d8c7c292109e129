"""The tests nearest to some source files: by name first, then by the number of imports between them."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

# Tests of whole programs take minutes, and those of the house read the source instead of running it.
LEFT_OUT = ("house", "integrations", "system")


def nearest(root: Path, paths: Collection[str]) -> list[str]:
    """Return the test files that import one of the source files, directly or not; the nearest first.

    A test of the same name comes first, then those of the same room, then by the number of imports between.
    """
    modules = {
        _module(path.relative_to(root)): path.relative_to(root)
        for folder in ("src", "tests")
        for path in sorted((root / folder).rglob("*.py"))
    }
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for imported in _imported((root / path).read_bytes()):
            if imported in modules:
                importers[imported].add(name)
    ranks: dict[str, tuple[bool, bool, int]] = {}
    for target in paths:
        for name, distance in _distances(_module(Path(target)), importers).items():
            place = modules[name]
            if not place.name.startswith("test_") or (len(place.parts) > 2 and place.parts[1] in LEFT_OUT):
                continue
            rank = (not _alike(place, Path(target)), _room(place) != _room(Path(target)), distance)
            test = place.as_posix()
            ranks[test] = min(rank, ranks.get(test, rank))
    return sorted(ranks, key=lambda path: (ranks[path], path))


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(path: Path) -> str:
    """Return the folder of tests/, or of the package."""
    place = 2 if path.parts[0] == "src" else 1
    return path.parts[place] if len(path.parts) > place + 1 else ""


def _alike(test: Path, source: Path) -> bool:
    name = source.stem.strip("_") if source.stem != "__init__" else source.parent.name
    return name.removesuffix("s") in test.stem.removeprefix("test_")


def _distances(target: str, importers: dict[str, set[str]]) -> dict[str, int]:
    """Return how many imports there are from each module to the target."""
    result, front = {target: 0}, [target]
    while front:
        later = []
        for name in front:
            for importer in sorted(importers[name]):
                if importer not in result:
                    result[importer] = result[name] + 1
                    later.append(importer)
        front = later
    return result


def _imported(source: bytes) -> Iterator[str]:
    """Yield the names of what a file imports, in functions as well; not what it imports for its types only."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        waiting.extend(ast.iter_child_nodes(node))
