"""Docstrings say what a thing is or does, with a noun or a verb first.

A docstring that begins with What, Who, How, Whether … is half a riddle, one that begins with "The same" cannot be read
alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

BANNED = frozenset("What Who Whom Whose How Whether Where Which Why".split())


def riddles(source: str, file: str) -> Iterator[str]:
    """Yield a complaint for each docstring in ``source`` that begins with a question word or with "The same"."""
    for node in ast.walk(ast.parse(source, file)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        text = ast.get_docstring(node) or ""
        first = text.split(maxsplit=1)[0] if text.strip() else ""
        if first in BANNED or text.startswith("The same"):
            line = node.body[0].lineno
            beginning = " ".join(text.split()[:4])
            yield f"{file}:{line}: the docstring begins with {beginning!r}; begin with a noun or a verb"


def check(package: Path) -> list[str]:
    """Return the complaints about the package at ``package``."""
    return [
        complaint
        for path in sorted(package.rglob("*.py"))
        for complaint in riddles(path.read_text(encoding="utf-8"), str(path.relative_to(package.parents[1])))
    ]
