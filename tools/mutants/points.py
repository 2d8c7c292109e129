"""Points: places of a source file where one small change makes a mutant.

The change is made in the text, so that lines keep their numbers. Left out is what no test should hold: docstrings, log
lines, type hints, assertions, the text of errors, ``if TYPE_CHECKING``, decorators, names for people (``__repr__``).
"""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from pathlib import Path

_TURNED: Mapping[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = {"log", "logger", "logging", "warnings"}
# Tools write these from other files, and say so in the first line.
_WRITTEN = "# Written by "
_SHOWN = 70


@dataclass(frozen=True)
class Point:
    """One possible mutant: the bytes ``start`` to ``end`` of a file become ``new``."""

    path: str  # from the root of the project, with slashes
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str
    # Runs when the module is imported: every test that imports it comes by.
    at_import: bool
    statement: bool = False

    def applied(self, source: bytes) -> bytes:
        """Return the source of the mutant."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def __str__(self) -> str:
        new = "left out" if self.statement else f"→ `{_shown(self.new)}`"
        return f"{self.path}:{self.line}  `{_shown(self.old)}` {new}"


def points(path: str, source: bytes, lines: Collection[int] | None = None) -> list[Point]:
    """Return the points of a file, of all lines or of those given; none if a tool writes the file, or if it has loops
    that numba compiles: a changed loop is compiled again, and others keep their copy of it.
    """
    if source.startswith(_WRITTEN.encode()):
        return []
    tree = ast.parse(source)
    if any(_imports_numba(node) for node in ast.walk(tree)):
        return []
    reader = _Reader(path, source)
    reader.block(tree.body)
    return [point for point in reader.found if lines is None or point.line in lines]


def chosen(all_points: Sequence[Point], count: int, draw: random.Random) -> list[Point]:
    """Return ``count`` points, or fewer: from each file in turn, of a kind drawn first; one for each line."""
    by_file: dict[str, list[Point]] = defaultdict(list)
    for point in all_points:
        by_file[point.path].append(point)
    files = sorted(by_file)
    draw.shuffle(files)
    result: list[Point] = []
    while files and len(result) < count:
        for path in list(files):
            left = by_file[path]
            kind = draw.choice(sorted({point.kind for point in left}))
            taken = draw.choice([point for point in left if point.kind == kind])
            result.append(taken)
            by_file[path] = [point for point in left if point.line != taken.line]
            if not by_file[path]:
                files.remove(path)
            if len(result) == count:
                break
    return sorted(result, key=lambda point: (point.path, point.line))


def with_probes(source: bytes, numbered: Mapping[int, Point]) -> bytes:
    """Return the source of a file in which each of its points tells when it is reached, and changes nothing."""
    inserts: list[tuple[int, int, int, str]] = []
    for number, point in numbered.items():
        probe = f'__import__("mutant_probe").reached({number})'
        if point.statement:
            inserts.append((point.start, 1, -len(source) - 1, f"{probe}; "))
        else:
            # Points stand within each other: what ends later begins first.
            inserts.append((point.start, 1, -point.end, f"({probe} or ("))
            inserts.append((point.end, 0, -point.start, "))"))
    result, last = b"", 0
    for offset, _, _, text in sorted(inserts):
        result += source[last:offset] + text.encode()
        last = offset
    return result + source[last:]


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


def _imports_numba(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(name.name.split(".")[0] == "numba" for name in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba"


def _name(node: ast.expr | None) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_log(node: ast.expr) -> bool:
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id.strip("_").lower() in _LOGS


class _Reader:
    """Walks through one file and collects its points."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.found: list[Point] = []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        # Of the function that is read.
        self._inside = False
        self._returns = ""

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Read statements."""
        for node in body:
            self.statement(node)

    @singledispatchmethod
    def statement(self, node: ast.AST) -> None:
        """Read one statement, or a part of one, with all that it consists of."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child)
            else:
                self.statement(child)

    @statement.register
    def _(self, node: ast.Assert | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal | ast.pattern) -> None:
        """Nothing of these is changed."""

    @statement.register
    def _(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in ("__repr__", "__str__") or any(_name(each) == "overload" for each in node.decorator_list):
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.expression(default)
        before = self._inside, self._returns
        self._inside, self._returns = True, _name(node.returns)
        self.block(node.body)
        self._inside, self._returns = before

    @statement.register
    def _(self, node: ast.ClassDef) -> None:
        self.block(node.body)

    @statement.register
    def _(self, node: ast.If | ast.While) -> None:
        if _name(node.test) == "TYPE_CHECKING" or (
            isinstance(node.test, ast.Compare) and _name(node.test.left) == "__name__"
        ):
            return
        # An endless loop is no news.
        self._condition(node.test, ("False",) if isinstance(node, ast.While) else ("True", "False"))
        self.expression(node.test)
        self.block(node.body)
        self.block(node.orelse)

    @statement.register
    def _(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Constant) or _is_log(value):
            return
        if isinstance(value, ast.Call):
            self._left_out(node)
        self.expression(node.value)

    @statement.register
    def _(self, node: ast.Assign) -> None:
        if all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self._left_out(node)
        if not (len(node.targets) == 1 and _name(node.targets[0]) == "__all__"):
            self.expression(node.value)

    @statement.register
    def _(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.expression(node.value)

    @statement.register
    def _(self, node: ast.AugAssign) -> None:
        self._left_out(node)
        self.expression(node.value)

    @statement.register
    def _(self, node: ast.Delete | ast.Continue | ast.Break | ast.Raise) -> None:
        self._left_out(node)

    @statement.register
    def _(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        if not isinstance(node.value, ast.Constant):
            old = self._text(node.value)
            others = {"bool": f"(not ({old}))", "int": f"(({old}) + 1)"}
            self._add(node.value, others.get(self._returns, "None"), "return value")
        self.expression(node.value)

    @singledispatchmethod
    def expression(self, node: ast.AST) -> None:
        """Read an expression, with all that it consists of."""
        for child in ast.iter_child_nodes(node):
            self.expression(child)

    @expression.register
    def _(self, node: ast.JoinedStr) -> None:
        """Texts are for people; before Python 3.12 the places inside are not known either."""

    @expression.register
    def _(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test, ("True", "False"))
        for child in ast.iter_child_nodes(node):
            self.expression(child)

    @expression.register
    def _(self, node: ast.IfExp) -> None:
        self._condition(node.test, ("True", "False"))
        for child in ast.iter_child_nodes(node):
            self.expression(child)

    @expression.register
    def _(self, node: ast.Compare) -> None:
        terms = [node.left, *node.comparators]
        for place, operator in enumerate(node.ops):
            for other in _TURNED[type(operator)]:
                # Only the sign between two terms: brackets around them stay where they are.
                self._sign(node, terms[place], terms[place + 1], other, "comparison")
        for term in terms:
            self.expression(term)

    @expression.register
    def _(self, node: ast.BoolOp) -> None:
        signs = (" or " if isinstance(node.op, ast.And) else " and ").join(
            f"({self._text(each)})" for each in node.values
        )
        self._add(node, f"({signs})", "and, or")
        for value in node.values:
            self.expression(value)

    @expression.register
    def _(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, f"({self._text(node.operand)})", "not")
        self.expression(node.operand)

    @expression.register
    def _(self, node: ast.BinOp) -> None:
        texts = any(isinstance(each, (ast.JoinedStr, ast.List, ast.Tuple)) for each in (node.left, node.right)) or any(
            isinstance(each, ast.Constant) and isinstance(each.value, (str, bytes)) for each in (node.left, node.right)
        )
        if isinstance(node.op, (ast.Add, ast.Sub)) and not texts:
            self._sign(node, node.left, node.right, "-" if isinstance(node.op, ast.Add) else "+", "sum")
        self.expression(node.left)
        self.expression(node.right)

    @expression.register
    def _(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value), "constant")
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1), "constant")
            self._add(node, f"({node.value - 1})", "constant")

    @expression.register
    def _(self, node: ast.Call) -> None:
        if _is_log(node):
            return
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _SWAPPED:
            self._add(node.func, _SWAPPED[name], "choice")
        self.expression(node.func)
        # A cast begins with a type.
        for argument in node.args[1:] if name == "cast" else node.args:
            self.expression(argument)
        for keyword in node.keywords:
            # It is an assertion of ``zip``.
            if keyword.arg != "strict":
                self.expression(keyword.value)

    @expression.register
    def _(self, node: ast.Subscript) -> None:
        if _name(node.value) not in ("Literal", "Annotated"):
            self.expression(node.value)
            self.expression(node.slice)

    def _condition(self, test: ast.expr, values: Sequence[str]) -> None:
        # A name that is given in the condition would be missing behind it.
        if not any(isinstance(node, ast.NamedExpr) for node in ast.walk(test)):
            for value in values:
                if not (isinstance(test, ast.Constant) and str(bool(test.value)) == value):
                    self._add(test, value, "condition")

    def _left_out(self, node: ast.stmt) -> None:
        self._add(node, "pass", "statement", statement=True)

    def _sign(self, whole: ast.expr, left: ast.expr, right: ast.expr, other: str, kind: str) -> None:
        """Change the sign between two terms; brackets around them and line breaks stay."""
        start, end = self._span(whole)
        after, before = self._span(left)[1], self._span(right)[0]
        between = self.source[after:before].decode()
        if "#" in between:
            return
        opening = between[len(between.rstrip("( \n\t")) :]
        closing = between[: len(between) - len(between.lstrip(") \n\t"))]
        text = (
            self.source[start:after].decode()
            + f"{closing.rstrip(' ')} {other} {opening.lstrip(' ')}"
            + self.source[before:end].decode()
        )
        self._add(whole, text, kind)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _add(self, node: ast.expr | ast.stmt, new: str, kind: str, *, statement: bool = False) -> None:
        start, end = self._span(node)
        old = self.source[start:end].decode()
        self.found.append(Point(self.path, node.lineno, start, end, old, new, kind, not self._inside, statement))


def read(root: Path, path: str, lines: Collection[int] | None = None) -> list[Point]:
    """Return the points of a file of the project."""
    return points(path, (root / path).read_bytes(), lines)


def files_below(root: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield the source files that are named, or stand in a folder that is named, from the root."""
    for name in names:
        place = root / name
        found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for path in found:
            yield path.relative_to(root).as_posix()
