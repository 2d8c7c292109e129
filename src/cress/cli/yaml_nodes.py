"""YAML documents as nodes that know their lines, read by the fast parser where it is installed.

The parser in C (libyaml, in the wheels of PyYAML) only finds the events; the nodes are made here, without recursion, so
that no depth of brackets can end the program. Where it finds a mistake, the careful parser (ruamel.yaml) has the last
word: it says better where it is, and reads some texts that libyaml refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cress.model.errors import InputError

# Levels of lists and mappings within each other.
DEEPEST = 100
# Characters of a text that the careful parser reads again; it takes about ten seconds for a million.
CAREFUL = 200_000

TAG = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUTHS = frozenset(word for each in ("true", "false") for word in (each, each.capitalize(), each.upper()))
_OLD = ("yes", "no", "on", "off", *("y", "n"))
_OLD_TRUTHS = frozenset(word for each in _OLD for word in (each, each.capitalize(), each.upper())) | _TRUTHS


class Node:
    """One value: ``value`` is a text, a list of nodes, or of a mapping a list of pairs of nodes; ``line`` counts from
    1.
    """

    __slots__ = ("line", "tag", "value")

    def __init__(self, tag: str, value: Any, line: int) -> None:
        self.tag = tag
        self.value = value
        self.line = line


class SyntaxMistake(Exception):
    """The text is not valid YAML: what the parser says, and the line, counted from 1; 0 if it is not known."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


def documents(text: str) -> list[Node]:
    """Return the documents of a text. Raises SyntaxMistake, and InputError for what is too deep."""
    try:
        return list(_fast(text))
    except SyntaxMistake:
        if len(text) > CAREFUL:
            raise
        return list(_careful(text))


def _fast(text: str) -> Iterator[Node]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from _composed(yaml, yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SyntaxMistake(str(error.problem or error.context or ""), mark.line + 1 if mark else 0) from None
    except InputError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise SyntaxMistake(str(error).splitlines()[0], 0) from None


def _composed(yaml: Any, events: Iterator[Any]) -> Iterator[Node]:
    """Yield the documents of these events."""
    scalar, alias, mapping, sequence = (
        yaml.ScalarEvent,
        yaml.AliasEvent,
        yaml.MappingStartEvent,
        yaml.SequenceStartEvent,
    )
    ends = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
    anchors: dict[str, Node] = {}
    stack: list[list[Node]] = []
    open_: list[tuple[str, Node]] = []
    truths = _TRUTHS
    items: list[Node] = []
    for event in events:
        kind = type(event)
        if kind is scalar:
            node = Node(_tag(event, truths), event.value, event.start_mark.line + 1)
        elif kind is mapping or kind is sequence:
            word = "map" if kind is mapping else "seq"
            tag = event.tag if event.tag and event.tag != "!" else TAG + word
            node = Node(tag, None, event.start_mark.line + 1)
            if event.anchor:
                anchors[event.anchor] = node
            stack.append(items)
            open_.append((word, node))
            if len(open_) > DEEPEST:
                raise InputError("has too many levels", hint="fewer brackets within brackets", line=node.line)
            items = []
            continue
        elif kind in ends:
            word, node = open_.pop()
            node.value = items if word == "seq" else list(zip(items[::2], items[1::2], strict=True))
            items = stack.pop()
        elif kind is alias:
            if event.anchor not in anchors:
                raise SyntaxMistake(f"found undefined alias {event.anchor!r}", event.start_mark.line + 1)
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
    """Return the tag of a text: the one that it has, or that of its form if it is not quoted."""
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
    return TAG + "str"


def _careful(text: str) -> Iterator[Node]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        for node in list(YAML(typ="safe", pure=True).compose_all(text)):
            if node is not None:
                yield _converted(node, {})
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise SyntaxMistake(str(error.problem or error.context or ""), mark.line + 1 if mark else 0) from None
    except (YAMLError, ValueError) as error:
        raise SyntaxMistake(str(error).splitlines()[0], 0) from None
    except RecursionError:
        raise InputError("has too many levels", hint="fewer brackets within brackets") from None


def _converted(node: Any, known: dict[int, Node]) -> Node:
    """Return a node of the careful parser as one of ours; an alias stays the same node."""
    made = known.get(id(node))
    if made is None:
        made = known[id(node)] = Node(str(node.tag or ""), None, int(node.start_mark.line) + 1)
        made.value = node.value
        if isinstance(node.value, list):
            pairs = node.value and isinstance(node.value[0], tuple)
            made.value = [
                (_converted(each[0], known), _converted(each[1], known)) if pairs else _converted(each, known)
                for each in node.value
            ]
    return made
