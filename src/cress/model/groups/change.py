"""Changes of single keywords of a group, as ``cress groups set`` makes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cress.model.errors import InputError, InputErrors
from cress.model.group import Group
from cress.model.groups.conf import (
    KEYWORDS,
    NAME,
    PRIORITY,
    SUBMIT,
    USED,
    ZONE,
    format_groups,
    group_values,
    parse_groups,
)
from cress.model.groups.limits import BY_KEYWORD
from cress.model.option_text import camel_case, find_option, group_options, plain_key
from cress.model.resources import Dimensions
from cress.model.units import one_of

# Keywords that the administrators of a group may change.
OF_ADMINS = frozenset({SUBMIT, *BY_KEYWORD})
_FIXED = (NAME, ZONE, PRIORITY, USED)

# Keywords with their new values; None removes the keyword.
Values = Sequence[tuple[str, str | None]]


def canonical(keyword: str) -> str:
    """Return the canonical spelling of a keyword or of the name of an option. Raises InputError."""
    known = {plain_key(known_keyword): known_keyword for known_keyword in KEYWORDS if known_keyword not in _FIXED}
    found = known.get(plain_key(keyword))
    if found is not None:
        return found
    option = find_option(keyword)
    if option in group_options():
        return camel_case(option)
    names = (*known.values(), *(camel_case(name) for name in group_options()))
    raise InputError(f"{keyword[:40]!r} cannot be set", hint=one_of(keyword, names), field=keyword[:40])


def changed(group: Group, values: Values, groups: Iterable[Group], *, accounting: str, dimensions: Dimensions) -> Group:
    """Return a group with new values of these keywords; ``groups`` are the others.

    Raises InputError(s), each with its keyword as the field.
    """
    texts = {plain_key(keyword): (keyword, text) for keyword, text in _texts(group, accounting, dimensions)}
    for keyword, value in values:
        name = canonical(keyword)
        if value is not None and ("\n" in value or "\r" in value or "#" in value):
            raise InputError("has more than a value", hint="one line without #", field=name)
        texts.pop(plain_key(name), None)
        if value is not None:
            texts[plain_key(name)] = (name, value)
    block = "".join(f"{keyword}: {text}\n" for keyword, text in texts.values())
    # The validity of this change depends on the groups above and below.
    others = [other for other in groups if other.name != group.name]
    try:
        parsed = parse_groups(
            block + "\n" + format_groups(others, dimensions=dimensions, accounting=accounting),
            dimensions=dimensions,
            file="",
            accounting=accounting,
        )
    except InputErrors as error:
        found = [InputError(mistake.what, hint=mistake.hint, field=mistake.field) for mistake in error.errors]
        raise found[0] if len(found) == 1 else InputErrors(found) from None
    return parsed.groups[0]


def with_closing_times(groups: Iterable[Group], before: Iterable[Group], utc: int) -> tuple[Group, ...]:
    """Return groups with their times of closing (µs, wall clock): as in ``before``, else ``utc``."""
    since = {group.name: group.closed_at for group in before if group.closed}
    return tuple(_closed_at(group, since.get(group.name, utc) if group.closed else 0) for group in groups)


def without_times(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups as written, without times of closing."""
    return tuple(_closed_at(group, 0) for group in groups)


def _closed_at(group: Group, at: int) -> Group:
    return group if group.closed_at == at else msgspec.structs.replace(group, closed_at=at)


def _texts(group: Group, accounting: str, dimensions: Dimensions) -> Iterable[tuple[str, str]]:
    values = group_values(group, accounting=accounting, dimensions=dimensions)
    return ((keyword, text) for keyword, text in values.items() if text)
