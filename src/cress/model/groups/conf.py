"""Reader and writer of ``Group.conf``, the file of groups (G).

Blocks of ``Keyword: value`` lines with blank lines between them, one for each group and one for the time zone, ``#``
comments; keywords, policies and units in any case. The reader reports all mistakes of a file at once, and a file with a
mistake yields nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from cress.model.errors import MAX_ERRORS, InputError, InputErrors, MoreErrors, Note
from cress.model.group import (
    DEFAULT_GROUP,
    EVERYONE,
    MAX_GROUP_NAME_LENGTH,
    Group,
    PreemptivePolicy,
    SchedPolicy,
)
from cress.model.groups.contradictions import contradictions
from cress.model.groups.limits import BY_KEYWORD, LIMIT_KEYS, check_limits, limit_values, parse_limit
from cress.model.groups.quota_text import (
    CPU,
    SCALE,
    format_bound,
    format_resource_quota,
    parse_bound,
    parse_resource_quota,
)
from cress.model.groups.tree import LENDABLE, MAX_QUOTA, NO_QUOTA, PARENT, children_of, problems
from cress.model.limits import Limits
from cress.model.notify import OF_GROUPS, checked_all, parse_notify
from cress.model.option_text import (
    camel_case,
    find_option,
    format_option,
    group_options,
    not_per_group,
    parse_option,
    plain_key,
)
from cress.model.resources import Dimensions, ResourceVector
from cress.model.units import one_of, parse_count
from cress.model.vectors import format_vector
from cress.model.zones import zone_of

NAME, QUOTA, USERS = "Name", "ResourceQuota", "Users"
POLICY, PREEMPTIVE = "SchedPolicy", "PreemptiveSchedPolicy"
WEIGHT, USER_WEIGHTS = "Weight", "UserWeights"
SUBMIT, ADMINS, PREEMPT_PRIORITY, NOTIFY = "Submit", "Admins", "PreemptPriority", "Notify"
PRIORITY, USED = "Priority", "UsedResource"
# Not a keyword of groups: it has a block of its own.
ZONE = "Zone"
KEYWORDS = (
    *(NAME, PARENT, QUOTA, MAX_QUOTA, LENDABLE, USERS, POLICY, PREEMPTIVE, WEIGHT, USER_WEIGHTS, SUBMIT, ADMINS),
    *(PREEMPT_PRIORITY, NOTIFY),
    *BY_KEYWORD,
    *(PRIORITY, USED, ZONE),
)
OPEN, CLOSED = "open", "closed"
MAX_WEIGHT = 1_000_000
MAX_PREEMPT_PRIORITY = 1_000_000
# The options that also hold for a level of the tree.
OF_LEVELS = ("preempt_below", "preempt_above")
# Maximum number of names in one remark.
MOST_ALIKE = 3
# Number of mistakes after which the rest of a file is skipped.
MOST_COLLECTED = 10 * MAX_ERRORS
# Maximum length of a file, and of a line other than a list of users, in characters.
MAX_CHARACTERS = 4 * 2**20
MAX_LINE = 1_000
MAX_GROUPS = 2_000
# Maximum number of users of one group, and of windows of all groups.
MAX_USERS = 20_000
MAX_ALL_WINDOWS = 5_000

_GARBAGE = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff\ufffd\ufeff]")
_PLAIN = {plain_key(keyword): keyword for keyword in KEYWORDS}
_USER = re.compile(r"[^\s|#=,;:<>*]+")
_EnumT = TypeVar("_EnumT", bound=Enum)


@dataclass(frozen=True, slots=True)
class ParsedGroups:
    """The contents of a ``Group.conf``, notes about it, and the line of each group's quota.

    ``zone`` is the time zone that the file names for its timetables; empty: that of the cluster.
    """

    groups: tuple[Group, ...]
    notes: tuple[Note, ...] = ()
    file: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    zone: str = ""


@dataclass(slots=True)
class _Line:
    number: int
    keyword: str  # canonical: one of KEYWORDS, or the CamelCase name of an option
    value: str


@dataclass(slots=True)
class _Block:
    first: int
    lines: list[_Line] = field(default_factory=list)
    broken: bool = False  # some lines could not be read, so keywords that seem to be missing may be there


@dataclass(slots=True)
class _ConfReader:
    """The mistakes and notes collected while a file is read."""

    file: str
    accounting: str
    dimensions: Dimensions
    errors: list[InputError] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    windows: int = 0
    more_notes: int = 0
    # The time zone, and its line.
    zone: str = ""
    zone_line: int = 0
    # The ignored computed keywords: the line of the first of each, and their number.
    ignored: dict[str, tuple[int, int]] = field(default_factory=dict)
    # By group: the lines of its keywords.
    places: dict[str, dict[str, int]] = field(default_factory=dict)
    # The parents that groups name, including groups with another mistake.
    parents: set[str] = field(default_factory=set)
    without_quota: list[tuple[str, int]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Flag: the limit of mistakes is reached, and the rest of the file is skipped."""
        return len(self.errors) > MOST_COLLECTED

    def error(self, error: InputError, line: int, keyword: str = "") -> None:
        for mistake in error.errors if isinstance(error, InputErrors) else [error]:
            inner = mistake.field if plain_key(mistake.field) != plain_key(keyword) else ""
            what = f"{inner}: {mistake.what}" if inner and keyword else mistake.what
            self.errors.append(InputError(what, hint=mistake.hint, file=self.file, line=line, field=keyword or inner))

    def note(self, what: str, line: int, keyword: str, hint: str = "") -> None:
        if len(self.notes) < MAX_ERRORS:
            self.notes.append(Note(what, hint=hint, file=self.file, line=line, field=keyword))
        else:
            self.more_notes += 1


def parse_groups(
    text: str | bytes, *, dimensions: Dimensions, file: str = "Group.conf", accounting: str = CPU
) -> ParsedGroups:
    """Parse ``text``, the content of ``file`` (bytes are UTF-8), into groups.

    Raises InputErrors with every mistake (at most the first ``MAX_ERRORS``), each with file, line and keyword. A file
    without any group is a mistake too: it is probably cut off.
    """
    reader = _ConfReader(file, accounting, dimensions)
    groups: list[Group] = []
    names: dict[str, int] = {}
    alike: dict[str, list[str]] = {DEFAULT_GROUP.lower(): [DEFAULT_GROUP]}
    lines: dict[str, int] = {}
    if len(text) > MAX_CHARACTERS:
        raise InputErrors(
            [InputError(f"it has more than {MAX_CHARACTERS >> 20} MB", hint="a file of groups", file=file)]
        )
    for block in _blocks(_decoded(text, file), reader):
        if _took_zone(block, reader):
            continue
        # Before the rest of the block: a group with another mistake still takes its name.
        _check_unique(block, names, alike, reader)
        group = _group(block, reader)
        if group is not None:
            groups.append(group)
            reader.places[group.name] = {line.keyword: line.number for line in block.lines}
            lines[group.name] = reader.places[group.name].get(QUOTA, block.first)
        if len(groups) > MAX_GROUPS:
            reader.error(InputError("there are too many groups", hint=f"at most {MAX_GROUPS:,}"), block.first)
            break
        if reader.windows > MAX_ALL_WINDOWS:
            what = "the groups have too many windows together"
            reader.error(InputError(what, hint=f"at most {MAX_ALL_WINDOWS:,}"), block.first, QUOTA)
            break
    for name, line in reader.without_quota:
        if name not in reader.parents:
            reader.error(InputError(f"group {name!r} has no quota", hint="ResourceQuota: 10"), line, QUOTA)
    if groups and not reader.errors:
        _check_tree(groups, reader)
        _note_inner(groups, reader)
    if not groups and not reader.errors:
        reader.errors.append(
            InputError(
                "there is no group in it", hint=f"for the default group alone: a block Name: {DEFAULT_GROUP}", file=file
            )
        )
    if reader.errors:
        raise InputErrors(sorted(reader.errors, key=lambda error: error.line))
    for keyword, (line, number) in reader.ignored.items():
        more = f", here and {number - 1:,} more times" if number > 1 else ""
        reader.note(f"is computed and was ignored{more}", line, keyword)
    notes = sorted(reader.notes, key=lambda note: note.line)
    if reader.more_notes:
        notes.append(Note(f"and {reader.more_notes:,} more remarks", file=file))
    return ParsedGroups(tuple(groups), tuple(notes), file, lines, reader.zone)


def group_values(group: Group, *, accounting: str, dimensions: Dimensions) -> dict[str, str]:
    """Return every keyword of ``group`` with its value as text, in the order of writing."""
    values = {NAME: group.name}
    if group.parent:
        values[PARENT] = group.parent
    if group.quota != NO_QUOTA:
        values[QUOTA] = format_resource_quota(group.quota, group.windows, accounting, dimensions)
    for keyword, bound in ((MAX_QUOTA, group.max_quota), (LENDABLE, group.lendable)):
        if bound is not None:
            values[keyword] = format_bound(bound, accounting, dimensions)
    values |= {
        USERS: " | ".join(group.users),
        POLICY: group.policy.value,
        PREEMPTIVE: group.preemptive.value,
        WEIGHT: str(group.weight),
        USER_WEIGHTS: " | ".join(f"{user}={weight}" for user, weight in group.user_weights),
    }
    if group.closed:
        values[SUBMIT] = CLOSED
    if group.admins:
        values[ADMINS] = " | ".join(group.admins)
    if group.notify:
        values[NOTIFY] = " | ".join(map(str, group.notify))
    if group.preempt_priority:
        values[PREEMPT_PRIORITY] = str(group.preempt_priority)
    values |= limit_values(group.limits, accounting, dimensions)
    return values | {camel_case(name): text for name, text in group.options}


def format_groups(
    groups: Sequence[Group],
    *,
    dimensions: Dimensions,
    accounting: str = CPU,
    used: Mapping[str, int | str | ResourceVector] | None = None,
    priority: Mapping[str, int | str] | None = None,
    zone: str = "",
) -> str:
    """Return a ``Group.conf`` that ``parse_groups`` reads as ``groups``, with the time zone of their timetables.

    ``used`` and ``priority`` are the computed attributes by name of group: ``used`` in millicores, in millionths of a
    server, or as a vector or its text. They are written for people and ignored by the reader.
    """
    return "\n".join(
        group_blocks(groups, dimensions=dimensions, accounting=accounting, used=used, priority=priority, zone=zone)
    )


def group_blocks(
    groups: Iterable[Group],
    *,
    dimensions: Dimensions,
    accounting: str = CPU,
    used: Mapping[str, int | str | ResourceVector] | None = None,
    priority: Mapping[str, int | str] | None = None,
    zone: str = "",
) -> Iterator[str]:
    """Yield the blocks of a ``Group.conf`` one by one; between them is an empty line. See ``format_groups``."""
    if zone:
        yield f"{ZONE}: {zone}\n"
    for group in groups:
        values = group_values(group, accounting=accounting, dimensions=dimensions)
        if group.weight == 1:
            del values[WEIGHT]
        if not group.user_weights:
            del values[USER_WEIGHTS]
        if priority and group.name in priority:
            values[PRIORITY] = str(priority[group.name])
        if used and group.name in used:
            values[USED] = _used_text(used[group.name], accounting, dimensions)
        yield "".join(f"{keyword}: {value}\n" for keyword, value in values.items())


def _used_text(used: int | str | ResourceVector, accounting: str, dimensions: Dimensions) -> str:
    if isinstance(used, str):
        return used
    if isinstance(used, tuple):
        return format_vector(used, dimensions)
    whole, rest = divmod(used, SCALE[accounting])
    digits = len(str(SCALE[accounting])) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputErrors([InputError("it is UTF-16", hint="save it as UTF-8", file=file, line=1)])
    try:
        return text.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = len(re.split(rb"\r\n|\n|\r", text[: error.start]))
        what = f"byte 0x{text[error.start]:02x} is not UTF-8"
        raise InputErrors([InputError(what, hint="save it as UTF-8", file=file, line=line)]) from None


def _blocks(text: str, reader: _ConfReader) -> Iterator[_Block]:
    """Yield the blocks of the file, with their readable lines."""
    block: _Block | None = None
    # Not splitlines(): it also splits at characters that are invalid here.
    for number, raw in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if not raw.strip(" \t"):
            if block:
                yield block
            block = None
            continue
        content = raw.partition("#")[0].strip()
        if not content and not _garbage(raw):
            continue
        block = block or _Block(first=number)
        if reader.full:
            reader.errors.append(MoreErrors(0, rest=f"the text from line {number} on", file=reader.file))
            return
        try:
            block.lines.append(_line(number, raw, content))
        except InputError as error:
            reader.error(error, number)
            block.broken = True
    if block:
        yield block


def _took_zone(block: _Block, reader: _ConfReader) -> bool:
    """Read the time zone if the block gives it. Return whether the block has nothing else."""
    found = [line for line in block.lines if line.keyword == ZONE]
    if not found:
        return False
    others = [line for line in block.lines if line.keyword != ZONE]
    for line in found:
        try:
            _check_value(line)
            _check_zone(bool(others), reader)
            reader.zone, reader.zone_line = str(zone_of(line.value)), line.number
        except InputError as error:
            reader.error(error, line.number, ZONE)
    block.lines = others
    if others:
        block.first = others[0].number
    return not others


def _check_zone(in_group: bool, reader: _ConfReader) -> None:
    if in_group:
        what = "applies to all groups and cannot be in the block of one group"
        raise InputError(what, hint="a block of its own, with a blank line before and after it")
    if reader.zone_line:
        raise InputError(f"is given a second time, first on line {reader.zone_line}", hint="once in the file")


def _garbage(raw: str) -> str:
    """Return the first character of a line that no text file has, or ""."""
    found = _GARBAGE.search(raw)
    return found.group() if found else ""


def _line(number: int, raw: str, content: str) -> _Line:
    bad = _garbage(raw)
    if bad:
        raise InputError(f"character U+{ord(bad):04X} is not a text", hint="a text file in UTF-8")
    word, colon, value = content.partition(":")
    if not colon:
        for other in ("\uff1a", "="):  # the full-width colon of Chinese keyboards
            if other in content:
                fixed = ": ".join(part.strip() for part in content.split(other, 1))
                raise InputError(f"{_shown(content)} has no colon", hint=f"did you mean {fixed[:MAX_LINE]}?")
        raise InputError(f"{_shown(content)} is not a line of a group", hint="Keyword: value, such as Name: news")
    keyword = _PLAIN.get(plain_key(word[:MAX_LINE]))
    if keyword is None:
        option = find_option(word[:MAX_LINE])
        if option is None:
            known = (*KEYWORDS, *(camel_case(name) for name in group_options()))
            raise InputError(f"unknown keyword {_shown(word.strip())}", hint=one_of(word, known))
        if option not in group_options():
            raise not_per_group(option)
        keyword = camel_case(option)
    value = value.strip()
    if len(value) > MAX_LINE and keyword not in (QUOTA, USERS, USER_WEIGHTS, ADMINS, NOTIFY, PRIORITY, USED):
        what = f"{keyword}: a value of {len(value):,} characters is too long"
        raise InputError(what, hint=f"at most {MAX_LINE:,}")
    return _Line(number, keyword, value)


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_LINE else text[:MAX_LINE] + "…")


def _group(block: _Block, reader: _ConfReader) -> Group | None:
    """Return the group that a block describes; note its mistakes and return None if there are any."""
    before = len(reader.errors)
    seen: dict[str, _Line] = {}
    values: dict[str, Any] = {}
    options: dict[str, str] = {}
    limits: dict[str, Any] = {}
    for line in block.lines:
        if reader.full:
            return None
        if line.keyword in seen:
            hint = "a blank line before the next group" if line.keyword == NAME else "each keyword once in a group"
            twice = InputError(f"is given a second time, first on line {seen[line.keyword].number}", hint=hint)
            reader.error(twice, line.number, line.keyword)
            continue
        seen[line.keyword] = line
        if line.keyword in (PRIORITY, USED):
            first, number = reader.ignored.get(line.keyword, (line.number, 0))
            reader.ignored[line.keyword] = (first, number + 1)
            continue
        try:
            _check_value(line)
            if line.keyword in _PARSERS:
                values.update(_PARSERS[line.keyword](line, reader))
            elif line.keyword in BY_KEYWORD:
                limits |= parse_limit(line.keyword, line.value, reader.accounting, reader.dimensions)
            else:
                name, value = parse_option(line.keyword, line.value)
                options[name] = format_option(name, value)
        except InputError as error:
            reader.error(error, line.number, line.keyword)
    values["limits"] = Limits(**limits)
    _check_limits(values["limits"], seen, reader)
    if not block.broken:
        _check_complete(block, seen, reader)
    if block.broken or len(reader.errors) > before:
        return None
    values["options"] = tuple((name, options[name]) for name in group_options() if name in options)
    group = Group(**values)
    _note_weights(group, seen, reader)
    return group


def _check_value(line: _Line) -> None:
    if not line.value:
        raise InputError("has no value", hint=_EMPTY_HINTS.get(line.keyword, "Keyword: value"))


def _check_complete(block: _Block, seen: Mapping[str, _Line], reader: _ConfReader) -> None:
    if NAME not in seen:
        hint = "Name: …; a blank line ends a group"
        reader.error(InputError("a group without a name", hint=hint), block.first, NAME)
    if QUOTA not in seen:
        # It may be an inner group.
        reader.without_quota.append((seen[NAME].value if NAME in seen else "", block.first))


def _check_tree(groups: Sequence[Group], reader: _ConfReader) -> None:
    found = problems(groups, accounting=reader.accounting, dimensions=reader.dimensions)
    found = found or contradictions(groups, accounting=reader.accounting, dimensions=reader.dimensions)
    for problem in found:
        places = reader.places[problem.group]
        line = places.get(problem.keyword, places[NAME])
        reader.error(InputError(problem.what, hint=problem.hint), line, problem.keyword)


def _check_limits(limits: Limits, seen: Mapping[str, _Line], reader: _ConfReader) -> None:
    try:
        check_limits(limits)
    except InputError as error:
        reader.error(error, seen[error.field].number, error.field)


def _check_unique(block: _Block, names: dict[str, int], alike: dict[str, list[str]], reader: _ConfReader) -> None:
    """Note a duplicate name; otherwise add it to ``names`` (name to line).

    ``alike`` has the names by their lower-case form, including that of the default group.
    """
    line = next((entry for entry in block.lines if entry.keyword == NAME and entry.value), None)
    if line is None:
        return
    name = line.value
    if name in names:
        what = f"there is a group {name!r} already, on line {names[name]}"
        reader.error(InputError(what, hint="each name once"), line.number, NAME)
        return
    others = alike.setdefault(name.lower(), [])
    for other in others[:MOST_ALIKE]:
        if other != name:
            reader.note(f"{name!r} and {other!r} differ only in case and are two groups", line.number, NAME)
    names[name] = line.number
    if name not in others:
        others.append(name)


def _note_weights(group: Group, seen: Mapping[str, _Line], reader: _ConfReader) -> None:
    if not group.user_weights:
        return
    line = seen[USER_WEIGHTS].number
    if group.policy is not SchedPolicy.CAPACITY:
        reader.note(
            f"has no effect under SchedPolicy {group.policy.value}", line, USER_WEIGHTS, "SchedPolicy: Capacity"
        )
    users = frozenset(group.users)
    for user, _ in group.user_weights:
        if EVERYONE not in users and user not in users:
            reader.note(f"{user} has a weight and may not submit to this group", line, USER_WEIGHTS)


def _note_inner(groups: Sequence[Group], reader: _ConfReader) -> None:
    """Note the settings of jobs in groups that contain groups and hold no jobs themselves.

    Values like the default are left out, because written files have them.
    """
    children = children_of(groups)
    for group in groups:
        inside = children.get(group.name, ())
        odd = {
            USERS: group.users != (EVERYONE,),
            POLICY: group.policy is not SchedPolicy.FIFO,
            PREEMPTIVE: group.preemptive is not PreemptivePolicy.LOW_PRIORITY_FIRST,
            USER_WEIGHTS: bool(group.user_weights),
            **{camel_case(name): name not in OF_LEVELS for name, _ in group.options},
        }
        for keyword, has_no_effect in odd.items() if inside else ():
            if has_no_effect:
                names = ", ".join(each.name for each in inside[:MOST_ALIKE]) + ", …" * (len(inside) > MOST_ALIKE)
                what = f"has no effect in group {group.name}, which contains groups and holds no jobs"
                reader.note(what, reader.places[group.name][keyword], keyword, f"in the blocks of {names}")


def _parse_name(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    if not re.fullmatch(r"[A-Za-z0-9_]+", line.value):
        raise InputError(f"{line.value!r} is not a name of a group", hint="letters A-Z and a-z, digits and _")
    if len(line.value) > MAX_GROUP_NAME_LENGTH:
        raise InputError(f"a name of {len(line.value)} characters", hint=f"at most {MAX_GROUP_NAME_LENGTH}")
    return {"name": line.value}


def _parse_parent(line: _Line, reader: _ConfReader) -> dict[str, Any]:
    name: str = _parse_name(line, reader)["name"]
    reader.parents.add(name)
    return {"parent": name}


def _parse_max_quota(line: _Line, reader: _ConfReader) -> dict[str, Any]:
    return {"max_quota": parse_bound(line.value, reader.accounting, reader.dimensions)}


def _parse_lendable(line: _Line, reader: _ConfReader) -> dict[str, Any]:
    return {"lendable": parse_bound(line.value, reader.accounting, reader.dimensions, zero=True)}


def _parse_quota(line: _Line, reader: _ConfReader) -> dict[str, Any]:
    quota, windows = parse_resource_quota(line.value, reader.accounting, reader.dimensions)
    reader.windows += len(windows)
    return {"quota": quota, "windows": windows}


def _parse_users(line: _Line, reader: _ConfReader) -> dict[str, Any]:
    return {"users": _users(line, reader)}


def _parse_admins(line: _Line, reader: _ConfReader) -> dict[str, Any]:
    admins = _users(line, reader)
    if EVERYONE in admins:
        raise InputError("not everyone can administer a group", hint="names of users such as alice | bob")
    return {"admins": admins}


def _parse_notify(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    return {"notify": checked_all([parse_notify(part, OF_GROUPS) for part in _listed(line)])}


def _users(line: _Line, reader: _ConfReader) -> tuple[str, ...]:
    users: dict[str, None] = {}
    for part in _listed(line):
        user = part.strip()
        if user != EVERYONE and not _USER.fullmatch(user):
            what = f"{_shown(user)} is not a name of a user" if user else "a name is missing"
            raise InputError(what, hint="names with | between them, such as alice | bob; * for everyone")
        if user in users:
            reader.note(f"{user} is named twice", line.number, line.keyword)
        users[user] = None
    return tuple(users)


def _listed(line: _Line) -> list[str]:
    """Split a line that lists users."""
    number = line.value.count("|") + 1
    if number > MAX_USERS:
        raise InputError(f"{number:,} users are too many", hint=f"at most {MAX_USERS:,}; * for everyone")
    return line.value.split("|")


def _parse_policy(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    return {"policy": _choice(line.value, SchedPolicy)}


def _parse_preemptive(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    return {"preemptive": _choice(line.value, PreemptivePolicy)}


def _choice(text: str, kind: type[_EnumT]) -> _EnumT:
    for member in kind:
        if plain_key(member.value) == plain_key(text):
            return member
    raise InputError(f"unknown policy {text!r}", hint=one_of(text, [member.value for member in kind]))


def _parse_weight(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    return {"weight": parse_count(line.value, least=1, most=MAX_WEIGHT)}


def _parse_user_weights(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    weights: dict[str, int] = {}
    for part in _listed(line):
        user, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals or not _USER.fullmatch(user):
            raise InputError(f"{_shown(part.strip())} is not a weight of a user", hint="such as alice=2 | bob=1")
        if user in weights:
            raise InputError(f"{user} has two weights", hint="each user once")
        try:
            weights[user] = parse_count(text, least=1, most=MAX_WEIGHT)
        except InputError as error:
            raise error.at(field=user) from None
    return {"user_weights": tuple(weights.items())}


def _parse_submit(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    word = line.value.lower()
    if word not in (OPEN, CLOSED):
        raise InputError(f"{_shown(line.value)} is neither {OPEN} nor {CLOSED}", hint=f"{SUBMIT}: {CLOSED}")
    return {"closed": word == CLOSED}


def _parse_preempt_priority(line: _Line, _reader: _ConfReader) -> dict[str, Any]:
    sign, digits = (-1, line.value[1:]) if line.value.startswith("-") else (1, line.value)
    if not re.fullmatch(r"[0-9]{1,20}", digits) or int(digits) > MAX_PREEMPT_PRIORITY:
        what = f"{_shown(line.value)} is not a priority for preemption"
        raise InputError(what, hint=f"a whole number from -{MAX_PREEMPT_PRIORITY} to {MAX_PREEMPT_PRIORITY}")
    return {"preempt_priority": sign * int(digits)}


_PARSERS: Mapping[str, Callable[[_Line, _ConfReader], dict[str, Any]]] = {
    NAME: _parse_name,
    PARENT: _parse_parent,
    QUOTA: _parse_quota,
    MAX_QUOTA: _parse_max_quota,
    LENDABLE: _parse_lendable,
    USERS: _parse_users,
    POLICY: _parse_policy,
    PREEMPTIVE: _parse_preemptive,
    WEIGHT: _parse_weight,
    USER_WEIGHTS: _parse_user_weights,
    SUBMIT: _parse_submit,
    ADMINS: _parse_admins,
    PREEMPT_PRIORITY: _parse_preempt_priority,
    NOTIFY: _parse_notify,
}
_EMPTY_HINTS = {
    **{key.keyword: f"{key.keyword}: {'12h' if key.is_time else 10}" for key in LIMIT_KEYS},
    SUBMIT: f"{SUBMIT}: {OPEN} or {CLOSED}",
    ADMINS: "Admins: alice | bob",
    NOTIFY: "Notify: https://HOST/PATH on failed late | mailto:NAME@DOMAIN",
    PREEMPT_PRIORITY: "PreemptPriority: 10",
    ZONE: "Zone: Europe/Berlin",
    NAME: "Name: news",
    PARENT: "Parent: media",
    MAX_QUOTA: "MaxQuota: 40",
    LENDABLE: "Lendable: 10; 0 for nothing",
    QUOTA: "ResourceQuota: 10",
    USERS: "Users: alice | bob; * for everyone",
    POLICY: "SchedPolicy: " + ", ".join(policy.value for policy in SchedPolicy),
    PREEMPTIVE: "PreemptiveSchedPolicy: " + ", ".join(policy.value for policy in PreemptivePolicy),
}
