"""Job files on the command line: YAML or JSON, read into mappings with the line of every key.

The center interprets the keys (``model.jobfile``); this module only handles the file. Numbers stay the text as written,
so that ``[sleep, 010]`` passes on ``010``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from cress.cli.common import STANDARD_INPUT, read_text
from cress.cli.foreign_files import check_own
from cress.formats.yaml_text import DEEPEST, ValueMaker, YamlNode, documents, is_empty, is_kind, joined, paths_of
from cress.model.errors import InputError, InputErrors
from cress.model.jobfile.submit import MAX_JOBS

HINT = "key: value for each property of a job, at least command: …"
# Most bytes of a file, as many as the center accepts in one submit; characters of YAML above which a note is printed.
MOST_BYTES = 16 * 2**20
SLOW = 2 * 2**20
# Below these keys every value is text, in steps too: ``yes`` stays ``yes``.
TEXTS = ("command", "environment", "env")


@dataclass(slots=True)
class JobInFile:
    """One job of a file: its mapping, and the line of each of its keys by path (``resource.memory``, ``command[1]``).

    ``source`` finds the lines of a job that was read without them, by its place among the jobs of the text.
    ``is_script``: the job is that of a script.
    """

    mapping: dict[str, object]
    file: str
    line: int
    lines: dict[str, int] = field(default_factory=dict)
    source: tuple[_LinesOfJson, int] | None = None
    plain: dict[str, int] = field(default_factory=dict)
    is_script: bool = False

    def line_of(self, path: str) -> int:
        """Return the line of ``path``, or of its closest parent in the file; keys are read as in jobs."""
        if self.source is not None:
            (lines, place), self.source = self.source, None
            if place < len(lines.entries):
                found = lines.entries[place]
                self.line, self.lines = found.line, dict(paths_of(found.mapping))
        if not self.lines:
            self.lines = dict(paths_of(self.mapping))
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


def read_jobs(files: Sequence[str]) -> list[JobInFile]:
    """Return the jobs of all files, in their order. Raise ``InputErrors`` with the mistakes of all files."""
    entries: list[JobInFile] = []
    errors: list[InputError] = []
    for file in files:
        try:
            entries += read_file(file)
        except InputError as error:
            errors += error.errors if isinstance(error, InputErrors) else [error]
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return entries


def read_file(file: str) -> list[JobInFile]:
    """Return the jobs of one file: each document is a job, or a list of jobs."""
    name = STANDARD_INPUT if file == "-" else file
    text = read_text(file, "YAML or JSON", most=MOST_BYTES)
    return jobs_of_text(text, name, json=Path(file).suffix.lower() == ".json")


def jobs_of_text(text: str, name: str, *, json: bool) -> list[JobInFile]:
    """Return the jobs of a text that is called ``name`` in errors; ``json``: it should be JSON."""
    check_own(text, name)
    entries = json_entries(text, name)
    if entries is None:
        entries = _yaml_entries(text, name, json=json)
    if not entries:
        raise InputError("it contains no job", hint=HINT, file=name)
    if len(entries) > MAX_JOBS:
        hint = f"at most {MAX_JOBS:,} in one submit; many alike are one job with `tasks: N`"
        raise InputError(f"has {len(entries):,} jobs", hint=hint, file=name)
    return entries


def _yaml_entries(text: str, name: str, *, json: bool) -> list[JobInFile]:
    if len(text) > SLOW:
        size = f"{len(text) / 2**20:.0f} MB"
        if json:
            sys.stderr.write(f"{name}: has a mistake; reading {size} again to find its line takes a while\n")
        else:
            sys.stderr.write(f"{name}: reading {size} of YAML, which takes a while; JSON is read at once\n")
    entries: list[JobInFile] = []
    errors: list[InputError] = []
    if json or text.lstrip().startswith(("{", "[")):
        # Inside strings of JSON a tab is an escape; everywhere else it becomes a space, as YAML requires.
        text = text.replace("\t", " ")
    for node in documents(text, name, HINT):
        if is_empty(node):
            continue
        for element in node.value if is_kind(node, "seq") else [node]:
            try:
                entries.append(_entry(element, name))
            except InputError as error:
                errors.append(error.at(file=name))
    if errors:
        raise errors[0] if len(errors) == 1 else InputErrors(errors)
    return entries


def json_entries(text: str, name: str) -> list[JobInFile] | None:
    """Return the jobs of a JSON text; None if it is not JSON, or has a mistake that needs its line.

    The lines are found only when the place of a mistake is needed.
    """
    import json

    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        whole = json.loads(
            text, object_pairs_hook=_once, parse_int=_as_written, parse_float=_as_written, parse_constant=_refused
        )
        found = [_plain_value(mapping, 0, texts=False) for mapping in (whole if isinstance(whole, list) else [whole])]
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(mapping, dict) for mapping in found):
        return None
    lines = _LinesOfJson(text, name)
    return [
        JobInFile(mapping, name, 0, source=(lines, place))
        for place, mapping in enumerate(found)
        if isinstance(mapping, dict)
    ]


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
    """Return a value as the reader of YAML would: below some keys every value is a text."""
    if depth > DEEPEST:
        raise ValueError("too many levels")
    if isinstance(value, dict):
        return {
            joined(key): _plain_value(element, depth + 1, texts=texts or key.lower() in TEXTS)
            for key, element in value.items()
        }
    if isinstance(value, list):
        return [_plain_value(element, depth + 1, texts=texts) for element in value]
    if isinstance(value, bool) and texts:
        return "true" if value else "false"
    return joined(value) if isinstance(value, str) else value


class _LinesOfJson:
    """Finds the lines of a JSON text on demand, by reading it again as YAML."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    @cached_property
    def entries(self) -> list[JobInFile]:
        """Return the jobs with their lines; empty if the text is no YAML."""
        try:
            return _yaml_entries(self._text, self._name, json=True)
        except InputError:
            return []


def _entry(node: YamlNode, file: str) -> JobInFile:
    """Return one job. Raise InputError with the line."""
    if not is_kind(node, "map"):
        found = "a list" if is_kind(node, "seq") else repr(str(node.value)[:60])
        raise InputError(f"{found} is not a job", hint=HINT, line=node.line)
    return JobInFile(ValueMaker(what="one job", texts=TEXTS).make(node), file, node.line)
