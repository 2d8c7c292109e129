"""Keys about nodes as texts of the constraint language (design note 0005, docs/constraints.md).

This module reads only their outer form: a key such as ``network_adjacent`` becomes its clause. The language parses the
rest, each text by itself, so that a mistake is reported with its key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from cress.model.errors import InputError
from cress.model.jobfile.values import as_text, as_word, raise_all, shown, truth

# Maximum number of characters of a text, as in the language (which counts those outside of lists once more), of texts
# in a list, and of nodes in a text.
MAX_CHARACTERS = 65_536
MAX_TEXTS = 2000
MAX_NODES = 5_000

# An absolute path or a URL, not an address with a mask.
_DATA = re.compile(r"[\"']?(?:/|[A-Za-z][A-Za-z0-9+.-]*://)")
_JOB = re.compile(r"(?:[^\s\"'=&|()/]+/)?[A-Za-z0-9][A-Za-z0-9._-]*")


# The clauses that keys make of containers: the key, and what a node needs to satisfy it.
CONTAINER, IMAGES = "Container = True", "Images = True"
MADE_BY_KEYS = {
    CONTAINER: ("runtime", "a node needs an executor that runs as root, and crun, runc or bubblewrap"),
    IMAGES: ("image", "a node needs an executor that runs as root, and skopeo, umoci, and crun, runc or bubblewrap"),
}


class ClauseText(msgspec.Struct, frozen=True, array_like=True):
    """A text of the constraint language made from the ``field`` of a job file.

    Where ``text`` was made from the user's text ``wrote``, ``copied`` lists the parts copied from it: the start in
    ``text``, the start in ``wrote``, and the length.
    """

    field: str
    text: str
    wrote: str = ""
    copied: tuple[tuple[int, int, int], ...] = ()

    def place_in_wrote(self, at: int) -> int:
        """Return the place in ``wrote`` of character ``at`` of the text (both from 0); for inserted text, the place
        after it.
        """
        place = 0
        for begin, origin, length in self.copied:
            place = origin + min(max(0, at - begin), length)
            if at <= begin + length:
                break
        return place


# The texts of one key; ``field`` is the place in its value: ``[1]`` in a list, else empty.
Texts: TypeAlias = tuple[ClauseText, ...]


def _written(value: object) -> str:
    """Return the text of a value. Raises InputError if it is too long for the language or not a text."""
    text = as_word(as_text(value))
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{len(text)} characters are too many", hint=f"at most {MAX_CHARACTERS}")
    return text


def requirement(value: object) -> Texts:
    """Parse one text, or a list of texts that must all hold; the angle brackets of the source paper are optional."""
    return tuple(_inner(place, text) for place, text in _listed(value, 'such as "GCC >= 4.5 && Memory >= 8G"'))


def rank(value: object) -> Texts:
    """Parse one text."""
    made = _inner("", _written(value))
    _filled(made.text, 'such as "0.5 * CPU + 0.5 * IdleNetwork"')
    return (made,)


def _truth_clause(attribute: str, meaning: str, value: object) -> Texts:
    """Parse ``true``, ``false``, or ``true && f(x) = (…)``."""
    wrote = "" if isinstance(value, bool) else _written(value)
    head, tail = _split(wrote)
    wanted = truth(value if isinstance(value, bool) else _without(head, attribute, "="), meaning)
    if not wanted and tail:
        raise InputError(f"{shown(value)} cannot be relaxed", hint="true && f(x) = (…), or false")
    return (_made("", wrote, f"{attribute} = True", "", "", tail),) if wanted else ()


def data_locality(value: object) -> Texts:
    """Parse the name of data, optionally with an f(x): ``hdfs://namenode:8020/logs && f(x) = (…)``; or nodes as in
    ``nodes``.
    """
    if isinstance(value, (list, tuple)):
        if any(_DATA.match(path) for path in value if isinstance(path, str)):
            raise InputError("is a list with data in it", hint="one text; several clauses of `requirement` for several")
        return _nodes_clause("DataLocality", value)
    wrote = _written(value)
    head, tail = _split(wrote)
    head = _without(head, "DataLocality", "=")
    if not _DATA.match(head):
        return _nodes_clause("DataLocality", value)
    quote = "" if head[0] in "\"'" else '"'
    return (_made("", wrote, f"DataLocality = {quote}", head, quote, tail),)


def _nodes_clause(attribute: str, value: object) -> Texts:
    """Parse a list of names and addresses, or a text with them: ``in (192.168.1.2-8, web-1) && f(x) = (…)``."""
    hint = "names and addresses, such as [web-1, 192.168.1.2-8]"
    if isinstance(value, (list, tuple)):
        _few(value, MAX_NODES)
        wrote = _written(", ".join(as_word(as_text(entry)) for entry in value))
        head, tail = wrote, ""
    else:
        wrote = _written(value)
        head, tail = _split(wrote)
        head = re.sub(r"^in(?=[\s(])", "", _without(head, attribute, ""), flags=re.IGNORECASE).strip()
        if head.startswith("(") and head.endswith(")"):
            head = head[1:-1]
    if not head.strip():
        raise InputError("names no node", hint=hint)
    return (_made("", wrote, f"{attribute} in (", head.strip(), ")", tail),)


def job_dependency(value: object) -> Texts:
    """Parse a job, or a list of them: ``JobA``, ``DependedJob = JobA``, ``group/JobA``, each optionally
    with an f(x).
    """
    return tuple(_dependency(place, text) for place, text in _listed(value, "the name of a job"))


def _dependency(place: str, text: str) -> ClauseText:
    head, tail = _split(text)
    for attribute in ("DependedJob", "JobDependency"):
        head = _without(head, attribute, "=")
    # Quote bare names: a name with `-` would be a difference.
    quote = '"' if _JOB.fullmatch(head) else ""
    return _made(place, text, f"JobDependency = {quote}", head, quote, tail)


def issue_as_whole(value: object) -> Texts:
    """Parse ``true && f(x) = (…)``, or with a minimum number ``4 && f(x) = (…)``; without f(x) return no texts."""
    if not isinstance(value, str) or "&&" not in value:
        return ()
    wrote = _written(value)
    head, tail = _split(wrote)
    head = _without(head, "IssueAsWhole", "=")
    if head.isdecimal():
        return (_made("", wrote, "IssueAsWhole = ", head, "", tail),)
    if not truth(head, "all tasks start at once, or none"):
        raise InputError(f"{shown(value)} cannot be relaxed", hint="true && f(x) = (…), or false")
    return (_made("", wrote, "IssueAsWhole = True", "", "", tail),)


nodes = partial(_nodes_clause, "Nodes")
network_adjacent = partial(_truth_clause, "NetworkAdjacent", "all tasks run on one rack or on neighbouring racks")
exclusive_disk = partial(_truth_clause, "ExclusiveDisk", "each task gets a whole disk")


def _made(place: str, wrote: str, before: str, head: str, after: str, tail: str) -> ClauseText:
    """Build a text from the part ``head`` of the original, text around it, and the ``tail`` of the original."""
    copied = [(len(before), wrote.find(head), len(head))] if head else []
    text = before + head + after
    if tail:
        text += " && "
        copied.append((len(text), wrote.rfind(tail), len(tail)))
        text += tail
    return ClauseText(place, text, wrote, tuple(copied))


def _listed(value: object, hint: str) -> tuple[tuple[str, str], ...]:
    """Return the texts of a value, a single one or a list, each with its place."""
    if not isinstance(value, (list, tuple)):
        value = (as_text(value),)
        places = [""]
    else:
        _few(value)
        places = [f"[{position}]" for position in range(len(value))]
    texts: list[tuple[str, str]] = []
    errors: list[InputError] = []
    for place, entry in zip(places, value, strict=True):
        try:
            texts.append((place, _filled(_written(entry), hint)))
        except InputError as error:
            errors.append(error.at(field=place))
    raise_all(errors)
    return tuple(texts)


def _few(value: Sequence[object], most: int = MAX_TEXTS) -> None:
    """Raise InputError if there are more texts than ``most``."""
    if len(value) > most:
        raise InputError(f"a list of {len(value):,} texts is too long", hint=f"at most {most:,}")


def _filled(text: str, hint: str) -> str:
    if not text.strip():
        raise InputError("is empty", hint=hint)
    return text


def _inner(place: str, text: str) -> ClauseText:
    """Strip the optional angle brackets of the paper (E) around a requirement or rank."""
    stripped = text.strip()
    if stripped.startswith("<") and stripped.endswith(">"):
        return _made(place, text, "", stripped[1:-1].strip(), "", "")
    return ClauseText(place, text)


def _split(text: str) -> tuple[str, str]:
    """Split at the first ``&&`` outside quotes; the second part is ``f(x) = (…)``."""
    for found in re.finditer(r"&&|(?<=\s)and(?=\s)", text, re.IGNORECASE):
        head = text[: found.start()]
        if head.count('"') % 2 == 0 and head.count("'") % 2 == 0:
            return head.strip(), text[found.end() :].strip()
    return text.strip(), ""


def _without(text: str, attribute: str, operator: str) -> str:
    """Strip the attribute from a value in the form of the paper: ``ExclusiveDisk = True``."""
    name = "[_-]?".join(re.findall("[A-Z][a-z]*", attribute))
    return re.sub(rf"^{name}\s*{operator}\s*", "", text, count=1, flags=re.IGNORECASE).strip()
