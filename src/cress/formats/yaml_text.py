"""YAML texts: nodes with their lines, and values made from them.

PyYAML's parser only produces the events, in C if that is installed; the nodes are built here without recursion, so that
deep nesting cannot crash the program. A text that the parser in C refuses is read again by the one in Python: it
locates mistakes better, and accepts some texts that the other one does not.

Words are interpreted as in YAML 1.2: ``yes`` is a text and ``010`` a decimal number, unless the text has ``%YAML 1.1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cress.model.errors import InputError

# Maximum depth of nested lists and mappings, in a text and in a value, where aliases add to it.
DEEPEST_TEXT, DEEPEST = 100, 50
# Maximum number of values: with aliases a small file can have very many.
MOST_VALUES = 1_000_000
# Maximum length of a text for the parser in Python, in characters; it takes about ten seconds for a million.
CAREFUL = 200_000

TAG = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUTHS = frozenset(word for truth in ("true", "false") for word in (truth, truth.capitalize(), truth.upper()))
_OLD = ("yes", "no", "on", "off", *("y", "n"))
_OLD_TRUTHS = frozenset(word for truth in _OLD for word in (truth, truth.capitalize(), truth.upper())) | _TRUTHS
_NUMBER_BEGINS = frozenset("+-0123456789")
# Longer numbers cannot be amounts, and stay text.
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_]{0,30}|0x[0-9a-fA-F][0-9a-fA-F_]{0,30}|0o[0-7][0-7_]{0,30})")
_BASES = {"0x": 16, "0o": 8}
# Texts with a tag of their own in other readers; here they stay text.
_TEXTS = ("str", "int", "float", "bool", "timestamp", "value", "merge")


class YamlNode:
    """One value: ``value`` is a text, a list of nodes, or for a mapping a list of pairs of nodes; ``line`` counts from
    1.

    ``literal``: a text after ``|``, whose lines are those of the file.
    """

    __slots__ = ("line", "literal", "tag", "value")

    def __init__(self, tag: str, value: Any, line: int, literal: bool) -> None:
        self.tag = tag
        self.value = value
        self.line = line
        self.literal = literal


def is_kind(node: YamlNode, kind: str) -> bool:
    """Return whether a node is a ``map`` or a ``seq``."""
    return node.tag == TAG + kind and isinstance(node.value, list)


def is_empty(node: YamlNode) -> bool:
    """Return whether a node is empty."""
    return node.tag == TAG + "null" and not isinstance(node.value, list)


# --- texts ------------------------------------------------------------------------------------------------------------


def documents(text: str, file: str, hint: str) -> list[YamlNode]:
    """Return the documents of a text. Raises InputError with file and line; ``hint`` says what is expected."""
    try:
        try:
            return list(parsed(text, fast=True))
        except _SyntaxMistake:
            if len(text) > CAREFUL:
                raise
            return list(parsed(text, fast=False))
    except _SyntaxMistake as error:
        raise _told(text, error, file, hint) from None
    except InputError as error:
        raise error.at(file=file) from None


def document(text: str, file: str, hint: str) -> YamlNode | None:
    """Return the only document of a text that is not empty; None if there is none. Raises as ``documents`` does."""
    found = [node for node in documents(text, file, hint) if not is_empty(node)]
    if len(found) > 1:
        raise InputError("has more than one document", hint=hint, file=file, line=found[1].line)
    return found[0] if found else None


class _SyntaxMistake(Exception):
    """The text is invalid YAML: the message of the parser, and the line, counted from 1; 0 if unknown."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


def _told(text: str, error: _SyntaxMistake, file: str, hint: str) -> InputError:
    """Return a mistake in YAML in plain words."""
    problem, line = error.problem, error.line
    lines = text.splitlines()
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    if line and ("\t" in problem or re.match(r"\s*\t", shown)):
        return InputError("a tab cannot indent YAML", hint="use spaces", file=file, line=line)
    if "mapping values are not allowed" in problem:
        hint = "is a line above indented otherwise? a text with `: ` in it needs quotes"
        return InputError("a `:` where none can be", hint=hint, file=file, line=line)
    if "undefined alias" in problem:
        return InputError(problem, hint="&name comes before *name", file=file, line=line)
    return InputError(f"is not valid YAML: {problem}", hint=hint, file=file, line=line)


def parsed(text: str, *, fast: bool) -> Iterator[YamlNode]:
    """Yield the documents by the parser in C (``fast``) or in Python."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if fast else yaml.SafeLoader
    try:
        yield from _composed(yaml, yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _SyntaxMistake(str(error.problem or error.context or ""), mark.line + 1 if mark else 0) from None
    except InputError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise _SyntaxMistake(str(error).splitlines()[0], 0) from None


def _composed(yaml: Any, events: Iterator[Any]) -> Iterator[YamlNode]:
    """Yield the documents of these events."""
    scalar, alias, mapping, sequence = (
        yaml.ScalarEvent,
        yaml.AliasEvent,
        yaml.MappingStartEvent,
        yaml.SequenceStartEvent,
    )
    ends = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
    anchors: dict[str, YamlNode] = {}
    stack: list[list[YamlNode]] = []
    open_: list[tuple[str, YamlNode]] = []
    truths = _TRUTHS
    items: list[YamlNode] = []
    for event in events:
        kind = type(event)
        if kind is scalar:
            node = YamlNode(_tag(event, truths), event.value, event.start_mark.line + 1, event.style == "|")
        elif kind is mapping or kind is sequence:
            word = "map" if kind is mapping else "seq"
            tag = event.tag if event.tag and event.tag != "!" else TAG + word
            node = YamlNode(tag, None, event.start_mark.line + 1, False)
            if event.anchor:
                anchors[event.anchor] = node
            stack.append(items)
            open_.append((word, node))
            if len(open_) > DEEPEST_TEXT:
                raise InputError("has too many levels", hint="fewer brackets within brackets", line=node.line)
            items = []
            continue
        elif kind in ends:
            word, node = open_.pop()
            node.value = items if word == "seq" else list(zip(items[::2], items[1::2], strict=True))
            items = stack.pop()
        elif kind is alias:
            if event.anchor not in anchors:
                raise _SyntaxMistake(f"found undefined alias {event.anchor!r}", event.start_mark.line + 1)
            items.append(anchors[event.anchor])
            continue
        elif kind is yaml.DocumentStartEvent:
            truths = _OLD_TRUTHS if event.version == (1, 1) else _TRUTHS
            anchors, items = {}, []
            continue
        elif kind is yaml.DocumentEndEvent:
            yield from items
            continue
        else:
            continue
        if kind is scalar and event.anchor:
            anchors[event.anchor] = node
        items.append(node)


def _tag(event: Any, truths: frozenset[str]) -> str:
    """Return the tag of a text: its explicit one, or the one implied by its form if it is not quoted."""
    if event.tag is not None and event.tag != "!":
        return str(event.tag)
    if event.implicit[0]:
        value = event.value
        if value in _NULLS:
            return TAG + "null"
        if value in truths:
            return TAG + "bool"
        if value == "<<":
            return TAG + "merge"
        if value[0] in _NUMBER_BEGINS and _NUMBER.fullmatch(value):
            return TAG + "int"
    return TAG + "str"


# --- values -----------------------------------------------------------------------------------------------------------


class LinedMapping(dict[str, Any]):
    """A mapping with the line of its beginning, and the line of each key."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class LinedList(list[Any]):
    """A list with the line of its beginning, and the line of each item."""

    __slots__ = ("line", "lines")

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: list[int] = []


class ValueMaker:
    """Makes one value from a node, with lines. Duplicate keys and unknown tags are refused.

    ``numbers``: only whole numbers become numbers, others stay text; without it all numbers do. ``texts``: keys below
    which every value is text, so ``yes`` stays ``yes``. ``most``: the maximum number of values, where each alias counts
    again; ``what`` names the object in the message if there are more.
    """

    def __init__(
        self, *, what: str, numbers: bool = False, texts: tuple[str, ...] = (), most: int = MOST_VALUES
    ) -> None:
        self._what = what
        self._numbers = numbers
        self._texts = texts
        self._most = most
        self._count = 0

    def make(self, node: YamlNode) -> Any:
        """Return the value of a node. Raises InputError with the line."""
        return self._value(node, 0, texts=False)

    def _value(self, node: YamlNode, depth: int, *, texts: bool) -> Any:
        self._count += 1
        if self._count > self._most or depth > DEEPEST:
            raise InputError(f"is too much for {self._what}", hint="fewer aliases and levels", line=node.line)
        if isinstance(node.value, list):
            return self._inner(node, depth, texts=texts)
        kind = node.tag.removeprefix(TAG)
        if kind == "null":
            return None
        if kind == "bool" and not texts:
            return str(node.value).lower() in {"true", "yes", "on", "y"}
        if kind not in _TEXTS:
            raise _unknown(node)
        if kind == "int" and self._numbers and not texts and _NUMBER.fullmatch(node.value):
            return int(node.value.replace("_", ""), _BASES.get(node.value.lstrip("+-")[:2], 10))
        return joined(node.value)

    def _inner(self, node: YamlNode, depth: int, *, texts: bool) -> Any:
        if is_kind(node, "map"):
            return self._mapping(node, depth, texts=texts)
        if not is_kind(node, "seq"):
            raise _unknown(node)
        items = LinedList(node.line)
        for element in node.value:
            items.append(self._value(element, depth + 1, texts=texts))
            items.lines.append(element.line)
        return items

    def _mapping(self, node: YamlNode, depth: int, *, texts: bool) -> LinedMapping:
        found = LinedMapping(node.line)
        merged: list[YamlNode] = []
        for key_node, value_node in node.value:
            line = key_node.line
            if key_node.tag == TAG + "merge":
                merged += value_node.value if is_kind(value_node, "seq") else [value_node]
                continue
            if not isinstance(key_node.value, str):
                raise InputError("a key is a text", hint="key: value", line=line)
            key = joined(key_node.value)
            if key in found:
                first = found.lines[key]
                hint = f"first on line {first}" if first != line else "each key once"
                raise InputError(f"{key} is given twice", hint=hint, line=line)
            found[key] = self._value(value_node, depth + 1, texts=texts or key.lower() in self._texts)
            found.lines[key] = line
        for source in merged:
            if not is_kind(source, "map"):
                raise InputError("<< needs a mapping", hint="<<: *name", line=source.line)
            more = self._mapping(source, depth + 1, texts=texts)
            for key, value in more.items():
                # Keys here have precedence over merged ones.
                if key not in found:
                    found[key] = value
                    found.lines[key] = more.lines[key]
        return found


def _unknown(node: YamlNode) -> InputError:
    kind = node.tag.removeprefix(TAG) or "its tag"
    return InputError(f"{kind} is not allowed here", hint="texts and numbers", line=node.line)


def read_mapping(text: str, file: str, hint: str) -> LinedMapping | None:
    """Return the mapping in a text, with whole numbers; None if it is empty. Raises InputError with the line."""
    node = document(text, file, hint)
    if node is None:
        return None
    if not is_kind(node, "map"):
        raise InputError("is not a mapping", hint=hint, file=file, line=node.line)
    try:
        # Each character may be a value; only aliases make more.
        made = ValueMaker(what="one file", numbers=True, most=MOST_VALUES + len(text)).make(node)
    except InputError as error:
        raise error.at(file=file) from None
    assert isinstance(made, LinedMapping)
    return made


def line_of(value: object, key: str | int) -> int:
    """Return the line of a key, or of an item by its index; 0 if unknown."""
    if isinstance(value, LinedMapping):
        return value.lines.get(str(key), 0)
    if isinstance(value, LinedList) and isinstance(key, int) and 0 <= key < len(value):
        return value.lines[key]
    return 0


def line_at(value: object, field: str) -> int:
    """Return the line of the innermost existing part on the path ``field`` (``disks[1].path``)."""
    line = value.line if isinstance(value, LinedMapping | LinedList) else 0
    for step in re.findall(r"[^.\[\]]+", field):
        key = int(step) if isinstance(value, list) and step.isdigit() else step
        found = line_of(value, key)
        if not found:
            break
        line = found
        value = value[key]  # type: ignore[index]
    return line


def paths_of(value: object, path: str = "") -> Iterator[tuple[str, int]]:
    """Yield every path in a value (``resource.memory``, ``command[1]``) with its line."""
    inner: Iterator[tuple[str, Any, int]] = iter(())
    if isinstance(value, LinedMapping):
        inner = ((f"{path}.{key}" if path else key, element, value.lines[key]) for key, element in value.items())
    elif isinstance(value, LinedList):
        inner = ((f"{path}[{i}]", element, value.lines[i]) for i, element in enumerate(value))
    for place, element, line in inner:
        yield place, line
        yield from paths_of(element, place)


def joined(text: str) -> str:
    """Return a text with each pair of surrogate characters, as from two JSON escapes, joined into one character."""
    if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
