"""Counts of what should become less: doubled names of classes, the largest class, the longest function, tests above
their budget, variables called ``each``, functions of the core with many arguments.

Each has a bound in ``BOUNDS``, which may only shrink: above it, and more than ``SLACK`` below it, is a complaint, so
that what was won is kept. The width of lines is held by ruff.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

BOUNDS = {
    "class names that stand more than once": 10,
    "methods of the largest class, with those that it inherits": 72,
    "lines of the longest function": 172,
    "lines of code that are wider than 120 columns": 93,
    "tests above their budget": 32,
    "variables called each, which says nothing": 138,
    "conditions of the central files of the core that name a feature": 57,
    "functions of the core, outside kernels, with more than seven arguments": 0,
    "methods of the largest class of the core, with those that it inherits": 45,
}
# The central files of the core, and the words by which a condition in one of them names a feature.
_CENTRAL = (
    "books",
    "ledger",
    "shapes",
    "claims",
    "charging",
    "job_ends",
    "passing_time",
    "facts/attempts",
    "facts/claims",
    "facts/groups",
    "facts/jobs",
    "facts/nodes",
    "passes",
    "starting/starts",
    "starting/starter",
    "starting/claims",
    "making_room/maker",
    "making_room/evictions",
    "making_room/in_leases",
    "offers",
    "upkeep",
    "cycle",
    "scheduler",
)
_FEATURES = re.compile(
    r"\b(companions|carried|unit\(|rejoining|leaders|moving|moved|moves|pool|leases?|leased|workload|fragments|constraints"
    r"|match|wants|live|advance_reservations|asker|gang|size|kinds|parts|deadline|urgen\w+|licences|ports|devices"
    r"|strangers|counters|limited|estimate\w*|predict\w*|overdue)\b"
)
# More arguments than these are too many, ``self`` left out.
_MOST_ARGUMENTS = 7
# A bound may be above what is counted by this share of it.
SLACK = 0.05
_CLASS = re.compile(r"^ *class (\w+)[(:]", re.MULTILINE)


def counted(root: Path) -> dict[str, int]:
    """Return what is counted in a tree of the project."""
    paths, core = sorted((root / "src").rglob("*.py")), root / "src" / "cress" / "core"
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    classes = _classes(trees)
    of_core = _classes(tree for path, tree in zip(paths, trees, strict=True) if core in path.parents)
    functions = [
        node for tree in trees for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    values = (
        len(doubled_names(root)),
        max(_methods(classes, classes)),
        max((function.end_lineno or function.lineno) - function.lineno + 1 for function in functions),
        sum(len(line) > 120 for line in _lines(root)),
        len(_over_budget(root / "tests" / "over_budget.txt")),
        sum(_binds_each(node) for tree in trees for node in ast.walk(tree)),
        sum(_name_a_feature(core / f"{name}.py") for name in _CENTRAL),
        sum(_takes_many(core)),
        max(_methods(of_core, classes)),
    )
    return dict(zip(BOUNDS, values, strict=True))


def doubled_names(root: Path) -> list[str]:
    """Return the names of classes that stand more than once; docs/glossary.md says what each of them is."""
    names = Counter(
        name for path in (root / "src").rglob("*.py") for name in _CLASS.findall(path.read_text(encoding="utf-8"))
    )
    return sorted(name for name, number in names.items() if number > 1)


def check(root: Path) -> Iterator[str]:
    """Yield a complaint for each count above its bound, or so far below that the bound should follow."""
    for name, value in counted(root).items():
        bound = BOUNDS[name]
        if value > bound:
            yield f"{name}: {value}; at most {bound}, and it may only become less"
        elif value < bound - max(1, SLACK * bound):
            yield f"{name}: {value}, where {bound} are allowed: lower the bound in tools/house/counts.py"


def _classes(trees: Iterable[ast.Module]) -> list[ast.ClassDef]:
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _methods(classes: list[ast.ClassDef], of_project: list[ast.ClassDef]) -> Iterator[int]:
    """Yield the number of methods of each class, with those of the classes of the project that it inherits from."""
    by_name: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for found in of_project:
        by_name[found.name].append(found)

    def methods(found: ast.ClassDef) -> set[str]:
        own = {node.name for node in found.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for base in found.bases:
            # A name that stands more than once says nothing about the module that is meant.
            if isinstance(base, ast.Name) and len(by_name[base.id]) == 1 and by_name[base.id][0] is not found:
                own |= methods(by_name[base.id][0])
        return own

    return (len(methods(found)) for found in classes)


def _lines(root: Path) -> Iterator[str]:
    """Yield the lines of the code, but for what tools write."""
    written = {root / "src/cress/core/kernels/unrolled.py"}
    for folder in ("src", "tests", "tools", "benchmarks"):
        for path in sorted((root / folder).rglob("*.py")):
            if path not in written:
                yield from path.read_text(encoding="utf-8").splitlines()


def _binds_each(node: ast.AST) -> bool:
    if isinstance(node, ast.arg):
        return node.arg == "each"
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "each"


def _takes_many(core: Path) -> Iterator[bool]:
    """Yield, per function outside kernels, True if it has too many arguments."""
    for path in core.rglob("*.py"):
        if path.parent.name == "kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                yield len(names) - (names[:1] in (["self"], ["cls"])) > _MOST_ARGUMENTS


def _name_a_feature(path: Path) -> int:
    """Return the number of conditions in a file that name a feature; 0 without the file."""
    if not path.exists():
        return 0
    conditions: list[ast.expr] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            conditions.append(node.test)
        elif isinstance(node, ast.comprehension):
            conditions += node.ifs
    return sum(_FEATURES.search(ast.unparse(condition)) is not None for condition in conditions)


def _over_budget(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
