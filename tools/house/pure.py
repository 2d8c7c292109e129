"""The pure rooms read no clock, file, socket or random source: a check of their syntax trees.

ruff's banned-api sees most of it. This check is stricter in one way, an allow-list of the standard library, and sees
what ruff cannot: built-in functions, names that were passed on (``n = numpy``), methods of unknown objects
(``moment.now()``), ``hash``, whose value for text differs between two runs. What it cannot see is code that hides on
purpose (``getattr`` with a computed name); reviews see that.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PURE_ROOMS = ("model", "language", "core", "lifecycle", "shell")

# Of the standard library, what computes and does nothing else. Add to it what is equally harmless.
HARMLESS = frozenset(
    "__future__ abc array bisect calendar collections contextlib copy dataclasses datetime decimal difflib "
    "enum errno fnmatch fractions "
    "functools graphlib hashlib heapq hmac ipaddress itertools json keyword math numbers operator re "
    "statistics string struct "
    "textwrap tomllib types typing unicodedata zlib zoneinfo".split()
)

# Parts of harmless modules and libraries that are not.
BANNED = {
    "datetime.datetime.now": "reads the clock",
    "datetime.datetime.utcnow": "reads the clock",
    "datetime.datetime.today": "reads the clock",
    "datetime.date.today": "reads the clock",
    "zoneinfo.available_timezones": "reads files",
    "hashlib.file_digest": "reads a file",
    "json.load": "reads a file",
    "json.dump": "writes a file",
    "numpy.random": "is a random source",
    "numpy.DataSource": "reads files",
} | {
    f"numpy.{name}": "reads or writes a file"
    for name in "fromfile genfromtxt load loadtxt memmap save savetxt savez savez_compressed".split()
}
# These may be named (in an annotation), but neither called nor asked for another one of theirs.
BANNED_TO_CALL = {"zoneinfo.ZoneInfo": "reads a file; a time zone is handed in as a tzinfo"}
# What one file may do all the same, since it is its purpose.
EXCEPTIONS = {"model/zones.py": ("zoneinfo.ZoneInfo", "zoneinfo.available_timezones")}
BANNED_METHODS = {
    "now": "reads a clock",
    "utcnow": "reads a clock",
    "today": "reads a clock",
    "tofile": "writes a file",
    "dump": "writes a file",
}
BANNED_BUILTINS = {
    "open": "reads or writes a file",
    "print": "writes",
    "input": "reads",
    "breakpoint": "stops the program",
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "runs text as code",
    "__import__": "imports what this check cannot see",
    "__builtins__": "reaches what this check cannot see",
    "globals": "reaches what this check cannot see",
    "id": "is an address: it differs between two runs",
    "hash": "differs between two runs for text (it may be used in __hash__)",
}


@dataclass(frozen=True, order=True)
class Finding:
    """Something that a pure room may not do: where (line from 1) and why."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


def pure_files(package: Path) -> Iterator[Path]:
    """Yield the sources of the pure rooms that exist in the package at ``package``, sorted."""
    for room in PURE_ROOMS:
        yield from sorted((package / room).rglob("*.py"))


def check_source(source: str, file: str = "<text>") -> list[Finding]:
    """Return what ``source`` does that a pure room may not, by line.

    Raises SyntaxError if it is not Python.
    """
    visitor = _Visitor(file)
    visitor.visit(ast.parse(source, file))
    excused = next((names for end, names in EXCEPTIONS.items() if file.replace("\\", "/").endswith(f"cress/{end}")), ())
    return sorted({each for each in visitor.findings if not each.what.startswith(excused or ("-",))})


class _Visitor(ast.NodeVisitor):
    """Follows what each name stands for through imports and plain assignments, whatever scope they are in."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Finding] = []
        self.stands_for: dict[str, str] = {}
        self.functions: list[ast.FunctionDef] = []

    # The names of these methods are ast's.
    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._imported(node, alias.name)
            # `import a.b` binds a; `import a.b as c` binds a.b
            bound = alias.name if alias.asname else alias.name.partition(".")[0]
            self.stands_for[alias.asname or bound] = bound

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self._found(node, "relative import: write the whole name")
            return
        module = node.module or ""
        if not self._imported(node, module):
            return
        for alias in node.names:
            if alias.name == "*":
                self._found(node, f"from {module} import *: name what is needed")
                continue
            name = f"{module}.{alias.name}"
            self._used(node, name)
            self.stands_for[alias.asname or alias.name] = name

    def visit_Assign(self, node: ast.Assign) -> None:
        name = self._resolve(node.value)
        for target in node.targets:
            if name and isinstance(target, ast.Name):
                self.stands_for[target.id] = name
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.functions.append(node)
        self.generic_visit(node)
        self.functions.pop()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._found(node, "async def: the shell runs things, pure rooms are called")
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        why = BANNED_BUILTINS.get(node.id)
        if why and isinstance(node.ctx, ast.Load) and not self._means_something_else(node.id):
            self._found(node, f"{node.id} {why}")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._resolve(node)
        if name:
            self._used(node, name)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._resolve(node.func) or ""
        for banned, why in BANNED_TO_CALL.items():
            if name == banned or name.startswith(banned + "."):
                self._found(node, f"{name} {why}")
        if isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method in BANNED_METHODS and not (name and _matches(name, BANNED)):
                self._found(node, f".{method}() {BANNED_METHODS[method]}")
            if method == "astimezone" and not node.args and not node.keywords:
                self._found(node, ".astimezone() without a zone asks the machine for its own")
        self.generic_visit(node)

    def _means_something_else(self, name: str) -> bool:
        """Whether ``name`` is a parameter here, or is ``hash`` inside ``__hash__``, where it is in its place."""
        return any(
            name in {each.arg for each in (*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs)}
            or (name == "hash" and f.name == "__hash__")
            for f in self.functions
        )

    def _imported(self, node: ast.stmt, module: str) -> bool:
        """Check the import of ``module``; say whether it may be imported."""
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names and top not in HARMLESS:
            self._found(node, f"import of {module}: not among the harmless modules of the standard library")
            return False
        return self._used(node, module)

    def _used(self, node: ast.AST, name: str) -> bool:
        banned = _matches(name, BANNED)
        if banned:
            self._found(node, f"{banned} {BANNED[banned]}")
        return not banned

    def _resolve(self, node: ast.expr) -> str | None:
        """The full dotted name that an expression stands for, if it is a name from an import."""
        if isinstance(node, ast.Name):
            return self.stands_for.get(node.id)
        if isinstance(node, ast.Attribute):
            base = self._resolve(node.value)
            return f"{base}.{node.attr}" if base else None
        return None

    def _found(self, node: ast.AST, what: str) -> None:
        self.findings.append(Finding(self.file, getattr(node, "lineno", 0), what))


def _matches(name: str, banned: dict[str, str]) -> str:
    """The entry that ``name`` is, or is a part of; "" if none."""
    return next((entry for entry in banned if name == entry or name.startswith(entry + ".")), "")
