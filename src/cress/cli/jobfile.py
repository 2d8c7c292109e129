"""Job files as the command line reads them: YAML or JSON into mappings, with the line of every key.

What the keys mean is for the center to say (``model.jobspec``); here is only what has to do with the file. Numbers stay
the text that was written, so that ``[sleep, 010]`` passes on ``010``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from cress.cli.common import STANDARD_INPUT, read_text
from cress.cli.yaml_nodes import TAG, Node, SyntaxMistake, documents
from cress.model.errors import InputError, InputErrors
from cress.model.jobfile.submit import MAX_JOBS

HINT = "key: value for each property of a job, at least command: …"
# Aliases make a small file mean a huge one.
MOST_VALUES = 1_000_000
DEEPEST = 50
# Bytes of a file: as many as the center takes in one submit; and characters of YAML from which on a word is said.
MOST_BYTES = 16 * 2**20
SLOW = 2 * 2**20
# Below these keys everything is text, in steps too: ``yes`` stays ``yes``.
TEXTS = ("command", "environment", "env")


@dataclass(slots=True)
class Entry:
    """One job of a file: its mapping, and the line of each of its keys by path (``resource.memory``, ``command[1]``).

    ``source`` finds the lines of a job that was read without them, with its place among the jobs of the text.
    """

    mapping: dict[str, object]
    file: str
    line: int
    lines: dict[str, int] = field(default_factory=dict)
    source: tuple[_LinesOfJson, int] | None = None
    plain: dict[str, int] = field(default_factory=dict)

    def line_of(self, path: str) -> int:
        """The line of ``path``, or of the closest thing above it that the file has; keys are read as jobs are."""
        if self.source is not None:
            (lines, place), self.source = self.source, None
            if place < len(lines.entries):
                self.line, self.lines = lines.entries[place].line, lines.entries[place].lines
        if not self.plain:
            self.plain = {_plain(written): line for written, line in self.lines.items()}
        while path:
            line = self.lines.get(path) or self.plain.get(_plain(path))
            if line:
                return line
            path = re.sub(r"(\.[^.\[\]]*|\[[^\]]*\]|^[^.\[\]]+)$", "", path)[: len(path) - 1]
        return self.line


def _plain(path: str) -> str:
    return path.lower().replace("_", "").replace("-", "")


def read_jobs(files: Sequence[str]) -> list[Entry]:
    """The jobs of all files, in their order. Raises ``InputErrors`` with the mistakes of all files."""
    entries: list[Entry] = []
    errors: list[InputError] = []
    for file in files:
        try:
            entries += read_file(file)
        except InputError as error:
            errors += error.errors if isinstance(error, InputErrors) else [error]
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return entries


def read_file(file: str) -> list[Entry]:
    """The jobs of one file: each document is a job, or a list of jobs."""
    name = STANDARD_INPUT if file == "-" else file
    text = read_text(file, "YAML or JSON", most=MOST_BYTES)
    entries = json_entries(text, name)
    if entries is None:
        entries = _yaml_entries(text, name, json=Path(file).suffix.lower() == ".json")
    if not entries:
        raise InputError("there is no job in it", hint=HINT, file=name)
    if len(entries) > MAX_JOBS:
        hint = f"at most {MAX_JOBS:,} in one submit; many alike are one job with `tasks: N`"
        raise InputError(f"has {len(entries):,} jobs", hint=hint, file=name)
    return entries


def _yaml_entries(text: str, name: str, *, json: bool) -> list[Entry]:
    if len(text) > SLOW:
        size = f"{len(text) / 2**20:.0f} MB"
        if json:
            sys.stderr.write(f"{name}: has a mistake; reading {size} again to find its line takes a while\n")
        else:
            sys.stderr.write(f"{name}: reading {size} of YAML, which takes a while; JSON is read at once\n")
    entries: list[Entry] = []
    errors: list[InputError] = []
    for node in _documents(text, name, json=json):
        if _empty(node):
            continue
        for each in node.value if _is(node, "seq") else [node]:
            try:
                entries.append(_Reader(name).entry(each))
            except InputError as error:
                errors.append(error.at(file=name))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return entries


def json_entries(text: str, name: str) -> list[Entry] | None:
    """Return the jobs of a text that is JSON; None if it is not, or has something that is told with its line.

    The lines are found only when a mistake has to be placed.
    """
    import json

    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        whole = json.loads(
            text, object_pairs_hook=_once, parse_int=_as_written, parse_float=_as_written, parse_constant=_refused
        )
        found = [_plain_value(each, 0, texts=False) for each in (whole if isinstance(whole, list) else [whole])]
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(each, dict) for each in found):
        return None
    lines = _LinesOfJson(text, name)
    return [Entry(each, name, 0, source=(lines, place)) for place, each in enumerate(found) if isinstance(each, dict)]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _as_written(number: str) -> str:
    return number


def _refused(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def _plain_value(value: object, depth: int, *, texts: bool) -> object:
    """Return a value as the reader of YAML gives it: below some keys everything is a text."""
    if depth > DEEPEST:
        raise ValueError("too many levels")
    if isinstance(value, dict):
        return {
            _joined(key): _plain_value(each, depth + 1, texts=texts or key.lower() in TEXTS)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_plain_value(each, depth + 1, texts=texts) for each in value]
    if isinstance(value, bool) and texts:
        return "true" if value else "false"
    return _joined(value) if isinstance(value, str) else value


class _LinesOfJson:
    """Finds the lines of a JSON text when they are wanted: by reading it again as YAML."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    @cached_property
    def entries(self) -> list[Entry]:
        """The jobs with their lines; empty if the text is nothing that YAML takes."""
        try:
            return _yaml_entries(self._text, self._name, json=True)
        except InputError:
            return []


class _Reader:
    """Makes one mapping of the nodes that the parser found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[str, int] = {}
        self.values = 0

    def entry(self, node: Any) -> Entry:
        line = _line(node)
        if not _is(node, "map"):
            found = "a list" if _is(node, "seq") else repr(str(node.value)[:60])
            raise InputError(f"{found} is not a job", hint=HINT, line=line)
        mapping = self._mapping(node, "", depth=0, texts=False)
        return Entry(mapping, self.file, line, self.lines)

    def _value(self, node: Any, path: str, depth: int, texts: bool) -> object:
        self.values += 1
        if self.values > MOST_VALUES or depth > DEEPEST:
            raise InputError("is too much for one job", hint="fewer aliases and levels", line=_line(node))
        if _is(node, "map"):
            return self._mapping(node, path, depth=depth, texts=texts)
        if _is(node, "seq"):
            items = []
            for position, each in enumerate(node.value):
                place = f"{path}[{position}]"
                self.lines[place] = _line(each)
                items.append(self._value(each, place, depth + 1, texts))
            return items
        kind = node.tag.removeprefix(TAG)
        if kind == "null":
            return None
        if kind == "bool" and not texts:
            return str(node.value).lower() in {"true", "yes", "on", "y"}
        if kind not in {"str", "int", "float", "bool", "timestamp", "value", "merge"}:
            raise InputError(f"{kind or 'its tag'} means nothing here", hint="texts and numbers", line=_line(node))
        return _joined(node.value)

    def _mapping(self, node: Any, path: str, *, depth: int, texts: bool) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: list[Any] = []
        for key_node, value_node in node.value:
            line = _line(key_node)
            if key_node.tag == TAG + "merge":
                merged += value_node.value if _is(value_node, "seq") else [value_node]
                continue
            if _is(key_node, "map") or _is(key_node, "seq"):
                raise InputError("a key is a text", hint="key: value", line=line)
            key = _joined(key_node.value)
            place = f"{path}.{key}" if path else key
            if key in found:
                hint = (
                    f"it stands on line {self.lines[place]} already" if self.lines[place] != line else "each key once"
                )
                raise InputError(f"{key} is given twice", hint=hint, line=line)
            self.lines[place] = line
            below = texts or key.lower() in TEXTS
            found[key] = self._value(value_node, place, depth + 1, below)
        for each in merged:
            if not _is(each, "map"):
                raise InputError("<< takes a mapping", hint="<<: *name", line=_line(each))
            lines = dict(self.lines)
            for key, value in self._mapping(each, path, depth=depth + 1, texts=texts).items():
                found.setdefault(key, value)
            # What stands here comes before what is merged in, for the lines as well.
            self.lines |= lines
        return found


def _documents(text: str, file: str, *, json: bool) -> list[Node]:
    if json or text.lstrip().startswith(("{", "[")):
        # Inside the strings of JSON a tab is an escape; everywhere else it is a space, which YAML insists on.
        text = text.replace("\t", " ")
    try:
        return documents(text)
    except SyntaxMistake as error:
        if not error.line:
            raise InputError(f"is not valid YAML: {error.problem}", hint=HINT, file=file) from None
        raise _syntax(text, error.problem, error.line - 1, file) from None
    except InputError as error:
        raise error.at(file=file) from None


def _syntax(text: str, problem: str, line: int, file: str) -> InputError:
    """A mistake of YAML in the words of people; ``line`` counts from 0."""
    lines = text.splitlines()
    shown = lines[line] if line < len(lines) else ""
    if "\t" in problem or re.match(r"\s*\t", shown):
        return InputError("a tab cannot indent YAML", hint="use spaces", file=file, line=line + 1)
    if "mapping values are not allowed" in problem:
        hint = "is a line above indented otherwise? a text with `: ` in it needs quotes"
        return InputError("a `:` where none can be", hint=hint, file=file, line=line + 1)
    if "undefined alias" in problem:
        return InputError(problem, hint="&name comes before *name", file=file, line=line + 1)
    return InputError(f"is not valid YAML: {problem}", hint=HINT, file=file, line=line + 1)


def _joined(text: str) -> str:
    """Characters that JSON writes as two escapes as the one that is meant."""
    text = str(text)
    if not any("\ud800" <= each <= "\udfff" for each in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _line(node: Node) -> int:
    return node.line


def _is(node: Node, kind: str) -> bool:
    return node.tag == TAG + kind and isinstance(node.value, list)


def _empty(node: Node) -> bool:
    return node.tag == TAG + "null" and not isinstance(node.value, list)
