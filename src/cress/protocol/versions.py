"""Versions of the protocol: the common version of two sides, and messages in the form of the other side's version.

A version is (major, minor). Within a major version messages and fields are only added; a reader ignores unknown fields,
and unknown messages of a newer minor version. Other changes (a field that changes its meaning, a new kind of report or
cause) begin a new major version, with converters in ``STEPS``. A side supports its own major version and the previous
one; the newer side converts. Hello, Welcome, Refused, Inventory and Greeting, which negotiate the version, only ever
gain fields.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from cress.model.errors import InputError
from cress.protocol import messages
from cress.protocol.large_messages import LARGE, reading
from cress.protocol.messages import OLDEST, PROTOCOL, FromAgent, FromCenter, FromSupervisor, ToSupervisor

Version: TypeAlias = tuple[int, int]
Fields: TypeAlias = dict[str, Any]
Converter: TypeAlias = Callable[[Fields], Fields | None]
Message: TypeAlias = FromAgent | FromCenter | FromSupervisor | ToSupervisor

_M = TypeVar("_M")


class VersionStep(NamedTuple):
    """The changes of a major version, by message type; ``newer`` converts messages of the previous version.

    ``older`` does the reverse, and returns ``None`` for a message that the previous version lacks and that is left out.
    Messages have their fields as in msgpack, and may be changed in place. Types without an entry are unchanged.
    """

    newer: Mapping[str, Converter]
    older: Mapping[str, Converter]


def _leave_out(_: Fields) -> None:
    return None


# Messages that executors of protocol 5 do not know.
_SINCE_6 = (
    *("Greeting", "AskMaterial", "Material", "TimeLimits", "Bulk", "OpenBulk", "Strangers"),
    *("ListFiles", "ReadFile", "FileList"),
)
# By major version, its changes from the previous one.
STEPS: Mapping[int, VersionStep] = {
    6: VersionStep(
        newer={},
        older=dict.fromkeys(_SINCE_6, _leave_out),
    )
}


class VersionError(InputError):
    """Two sides have no version in common; ``permanent`` says that trying again does not help."""

    def __init__(self, what: str, *, hint: str, permanent: bool) -> None:
        super().__init__(what, hint=hint)
        self.permanent = permanent


def agreed(them: str, theirs: Version, their_oldest: int, us: str) -> Version:
    """Return the version that both sides support, that of the older one. Raises VersionError."""
    if theirs[0] < OLDEST:
        raise VersionError(
            f"the {them} speaks protocol {theirs[0]}, this {us} {OLDEST} to {PROTOCOL[0]}",
            hint=f"upgrade the {them} to the release of this {us}",
            permanent=True,
        )
    if their_oldest > PROTOCOL[0]:
        raise VersionError(
            f"the {them} speaks protocol {their_oldest} to {theirs[0]}, this {us} {OLDEST} to {PROTOCOL[0]}",
            hint=f"upgrade this {us} first",
            permanent=False,
        )
    return min(theirs, PROTOCOL)


class Dialect:
    """Messages to and from a side with the version ``theirs``; those of an older side are converted.

    ``ours`` and ``steps`` are those of this release; tests use others.
    """

    def __init__(
        self, theirs: Version = PROTOCOL, ours: Version = PROTOCOL, steps: Mapping[int, VersionStep] = STEPS
    ) -> None:
        self.version = min(theirs, ours)
        self._newer = theirs > ours
        # From the version after theirs up to ours.
        self._steps = [steps[major] for major in range(self.version[0] + 1, ours[0] + 1) if major in steps]
        self._up = {kind for step in self._steps for kind in step.newer}
        self._down = {kind for step in self._steps for kind in step.older}

    def encode(self, message: Message) -> bytes | None:
        """Return the message in their version; ``None`` if their version lacks it, so that it is not sent."""
        if type(message).__name__ not in self._down:
            return messages.encode(message)
        fields: Fields | None = msgspec.to_builtins(message, builtin_types=(bytes,))
        for step in reversed(self._steps):
            if fields is not None and fields["type"] in step.older:
                fields = step.older[fields["type"]](fields)
        return None if fields is None else msgspec.msgpack.encode(fields)

    def hand_on(self, message: Message, data: bytes, source: Dialect) -> bytes | None:
        """Return a message from another side: its ``data`` unchanged if both sides have the same version."""
        return data if source.version == self.version else self.encode(message)

    def from_agent(self, data: bytes) -> FromAgent | None:
        """Return a message of an agent; ``None`` if it belongs to a newer version and is to be ignored."""
        return self._read(_FROM_AGENT, data)

    def reading_from_agent(self, data: bytes) -> Generator[None, None, FromAgent | None]:
        """Read a message of an agent as ``from_agent`` does, with pauses if it is large."""
        if len(data) < LARGE or self._up:
            return self.from_agent(data)
        work = reading(data)
        while True:
            try:
                next(work)
            except StopIteration as done:
                message: FromAgent = done.value
                return message
            except msgspec.ValidationError:
                if self._is_newer(_FROM_AGENT, data):
                    return None
                raise
            except _FAULTS as error:
                raise _unreadable(error) from None
            yield

    def from_center(self, data: bytes) -> FromCenter | None:
        """Return a message of a center; ``None`` as in ``from_agent``."""
        return self._read(_FROM_CENTER, data)

    def from_supervisor(self, data: bytes) -> FromSupervisor | None:
        """Return a message of a supervisor; ``None`` as in ``from_agent``."""
        return self._read(_FROM_SUPERVISOR, data)

    def to_supervisor(self, data: bytes) -> ToSupervisor | None:
        """Return a message of an agent to its supervisor; ``None`` as in ``from_agent``."""
        return self._read(_TO_SUPERVISOR, data)

    def _read(self, reader: _MessageReader[_M], data: bytes) -> _M | None:
        """Return a message. Raises ``msgspec.MsgspecError`` for all data that are not one."""
        try:
            return self._converted(reader, data)
        except _FAULTS as error:
            raise _unreadable(error) from None

    def _converted(self, reader: _MessageReader[_M], data: bytes) -> _M | None:
        if self._up:
            fields: Fields | None = msgspec.msgpack.decode(data, type=dict[str, Any])
            if fields is not None and fields.get("type") in self._up:
                for step in self._steps:
                    if fields is not None and fields["type"] in step.newer:
                        fields = step.newer[fields["type"]](fields)
                return None if fields is None else msgspec.convert(fields, reader.type)
        try:
            return reader.decode(data)
        except msgspec.ValidationError:
            if self._is_newer(reader, data):
                return None
            raise

    def _is_newer(self, reader: _MessageReader[Any], data: bytes) -> bool:
        """Return whether a message that cannot be read belongs to a newer version."""
        return self._newer and _kind(data) not in reader.kinds


# Messages that are nested too deeply, bytes that are not UTF-8, or messages of older versions without the fields needed
# for conversion.
_FAULTS = (RecursionError, LookupError, TypeError, AttributeError, ValueError)


def _unreadable(error: Exception) -> msgspec.MsgspecError:
    """Return the error of msgspec for an error that reading a message raised."""
    if isinstance(error, msgspec.MsgspecError):
        return error
    if isinstance(error, RecursionError):
        return msgspec.DecodeError("it is nested too deeply")
    return msgspec.DecodeError(f"it is not a message ({type(error).__name__})")


class _MessageReader(Generic[_M]):
    """Reads the messages of one direction. ``kinds`` are their types."""

    def __init__(self, union: Any) -> None:
        self.type = union
        self.decode: Callable[[bytes], _M] = msgspec.msgpack.Decoder(union).decode
        self.kinds = {message.__name__ for message in union.__args__}


_FROM_AGENT: _MessageReader[FromAgent] = _MessageReader(FromAgent)
_FROM_CENTER: _MessageReader[FromCenter] = _MessageReader(FromCenter)
_FROM_SUPERVISOR: _MessageReader[FromSupervisor] = _MessageReader(FromSupervisor)
_TO_SUPERVISOR: _MessageReader[ToSupervisor] = _MessageReader(ToSupervisor)


class _TypedMessage(msgspec.Struct):
    type: str = ""


def _kind(data: bytes) -> str:
    """Return the type named in a message."""
    return msgspec.msgpack.decode(data, type=_TypedMessage).type
