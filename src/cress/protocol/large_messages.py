"""Large messages of executors: read in parts, with pauses in which the center's event loop does other work.

Only lists of reports are long: all other lists are short (see ``messages``), and texts and bytes are quickly copied.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Raw

from cress.model.reports import Report
from cress.protocol.messages import MOST_REPORTS, FromAgent, Hello, Reports, decode_from_agent

# Bytes from which on a message is read in parts, and reports in one part.
LARGE = 65_536
PART = 500
# Most fields of a message, including those of newer versions.
_MOST_FIELDS = 1_024

Reading: TypeAlias = Generator[None, None, FromAgent]

_fields = msgspec.msgpack.Decoder(Annotated[dict[str, Raw], Meta(max_length=_MOST_FIELDS)]).decode
_list = msgspec.msgpack.Decoder(Annotated[list[Raw], Meta(max_length=MOST_REPORTS)]).decode
_report = msgspec.msgpack.Decoder(Report).decode
_NONE = Raw(msgspec.msgpack.encode([]))


def reading(data: bytes) -> Reading:
    """Read a message of the present version; yields at each pause. Raises ``msgspec.MsgspecError``."""
    fields: dict[str, Any] = _fields(data)
    if "reports" not in fields:
        whole: FromAgent = decode_from_agent(data)
        return whole
    try:
        packed = _list(fields["reports"])
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `$.reports`") from None
    message: FromAgent = decode_from_agent(msgspec.msgpack.encode({**fields, "reports": _NONE}))
    if not isinstance(message, (Hello, Reports)):
        return message
    reports: list[Report] = []
    for first in range(0, len(packed), PART):
        yield
        for number, report in enumerate(packed[first : first + PART], first):
            try:
                reports.append(_report(report))
            except msgspec.ValidationError as error:
                raise msgspec.ValidationError(f"{error} (report {number})") from None
    return msgspec.structs.replace(message, reports=tuple(reports))
