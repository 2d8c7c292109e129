"""File formats of functions, items and results: a payload with an index to the tasks, a file for each chunk back.

``payload``: a head (JSON), the function, and the chunks one after another, each a pickle. ``index``: offset and size of
the head, the function and each chunk, so that a task reads only its own part. ``N.result``: a frame for each item of
chunk N, with a byte for its kind and the size of a pickle. Pickles have protocol 5, and are written and read without
copies of large arrays. This module is loaded in every worker, so it imports little.
"""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from cress.client.spool import Spool

PAYLOAD, INDEX, RESULT, BEGUN, SKIP = "payload", "index", ".result", ".begun", ".skip"
PROTOCOL = 5
HEAD, FUNCTION, FIRST = 0, 1, 2
VALUE, RAISED, TOLD, BROKEN = 0, 1, 2, 3

_PLACE = struct.Struct("<QQ")
_FRAME = struct.Struct("<BQ")


class CallResult(NamedTuple):
    """The result of one item: a ``value``, or the ``error`` that was raised, with its traceback as text."""

    value: Any = None
    error: BaseException | None = None
    trace: str = ""


class Lost(Exception):
    """An exception of a function that cannot be pickled itself; ``str()`` has its type and message."""


# --- to the tasks -----------------------------------------------------------------------------------------------------


class Writer:
    """Writes the payload; each part is readable from the next ``add`` on."""

    def __init__(self, payload: BinaryIO, index: BinaryIO) -> None:
        self._payload = payload
        self._index = index

    def add(self, dump: Callable[[BinaryIO], None]) -> None:
        """Add a part, which ``dump`` writes."""
        offset = self._payload.tell()
        dump(self._payload)
        self._index.write(_PLACE.pack(offset, self._payload.tell() - offset))


def head_of(spool: Spool) -> dict[str, Any]:
    """Return the head of the payload."""
    with _at(spool, HEAD) as (payload, size):
        found: dict[str, Any] = json.loads(payload.read(size))
    return found


def load(spool: Spool, number: int) -> Any:
    """Return the function or a chunk."""
    with _at(spool, number) as (payload, _):
        return pickle.load(payload)  # noqa: S301 – the user's own


@contextlib.contextmanager
def _at(spool: Spool, number: int) -> Iterator[tuple[BinaryIO, int]]:
    with spool.read(INDEX) as index:
        index.seek(number * _PLACE.size)
        offset, size = _PLACE.unpack(index.read(_PLACE.size))
    with spool.read(PAYLOAD) as payload:
        payload.seek(offset)
        yield payload, size


# --- back to the client -----------------------------------------------------------------------------------------------


def write_outcomes(file: BinaryIO, outcomes: Iterable[CallResult], dump: Callable[[Any, BinaryIO], None]) -> None:
    """Write outcomes as they come; one that cannot be written becomes an error of its item."""
    for outcome in outcomes:
        begin = file.tell()
        if outcome.error is None:
            try:
                _frame(file, VALUE, outcome.value, dump)
                continue
            except BaseException as error:  # noqa: BLE001 – whatever a value does when it is pickled
                outcome = raised(error, f"the result, of type {type(outcome.value).__name__}, cannot be sent back")
                file.seek(begin)
                file.truncate()
        try:
            # A value that cannot be restored from its own pickle must fail here, not in the client.
            tried = io.BytesIO()
            dump(outcome.error, tried)
            pickle.loads(tried.getvalue())  # noqa: S301
            _frame(file, RAISED, (outcome.error, outcome.trace), dump)
        except BaseException:  # noqa: BLE001 – pickling runs code of the caller
            file.seek(begin)
            file.truncate()
            said = "".join(traceback.format_exception_only(outcome.error)).strip()
            _frame(file, TOLD, (said, outcome.trace), dump)


def write_broken(file: BinaryIO, sentence: str, trace: str) -> None:
    """Write that a whole chunk failed permanently."""
    _frame(file, BROKEN, (sentence, trace), lambda value, where: pickle.dump(value, where, PROTOCOL))


def raised(error: BaseException, note: str = "") -> CallResult:
    """Return the result of an item that raised, without the stack frames of Cress."""
    shown = error.__traceback__.tb_next if error.__traceback__ is not None and not note else error.__traceback__
    text = "".join(traceback.format_exception(type(error), error, shown or error.__traceback__))
    if note:
        error = TypeError(f"{note}: {error}")
    return CallResult(error=error, trace=text)


def _frame(file: BinaryIO, kind: int, value: Any, dump: Callable[[Any, BinaryIO], None]) -> None:
    begin = file.tell()
    file.write(_FRAME.pack(kind, 0))
    dump(value, file)
    end = file.tell()
    file.seek(begin)
    file.write(_FRAME.pack(kind, end - begin - _FRAME.size))
    file.seek(end)


def read_outcomes(file: BinaryIO, count: int) -> list[CallResult]:
    """Return the outcomes of a chunk of ``count`` items; each is ``Lost`` if the chunk failed as a whole."""
    found: list[CallResult] = []
    place = 0
    while len(found) < count:
        file.seek(place)
        kind, size = _FRAME.unpack(file.read(_FRAME.size))
        place += _FRAME.size + size
        try:
            content = pickle.load(file)  # noqa: S301 – the user's own
        except Exception as error:  # noqa: BLE001 – whatever the class of a value does
            error.add_note("when the result of a task was read")
            found.append(CallResult(error=error))
            continue
        if kind == VALUE:
            found.append(CallResult(value=content))
        elif kind == RAISED:
            found.append(CallResult(error=content[0], trace=content[1]))
        elif kind == TOLD:
            found.append(CallResult(error=Lost(content[0]), trace=content[1]))
        else:
            found = [CallResult(error=Lost(content[0]), trace=content[1]) for _ in range(count)]
    return found
