"""Bodies of requests: read as a whole up to a limit, decoded strictly into structs."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response

from cress.center.api.errors import TooLarge
from cress.center.security import MOST_BODY
from cress.model.errors import InputError
from cress.protocol.views import View, to_json

# Seconds within which a body must arrive.
PATIENCE = 60.0

_T = TypeVar("_T", bound=msgspec.Struct)


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request."""


class SubmitBody(Body, frozen=True):
    """Jobs to be accepted together or not at all; each as in a job file (docs/commands.md)."""

    jobs: list[dict[str, Any]]


class ApplyBody(Body, frozen=True):
    """The wanted services, databases and cron jobs; a dry run changes nothing."""

    jobs: list[dict[str, Any]]
    dry_run: bool = False


class CancelBody(Body, frozen=True):
    """The ids of jobs to be cancelled."""

    jobs: list[int]


class ScaleBody(Body, frozen=True):
    """The wanted number of tasks of a service or database."""

    tasks: int


class SignalBody(Body, frozen=True):
    """A signal by name (``INT``, ``SIGUSR1``) or number, for the running attempts of a job or of one task."""

    signal: str | int
    task: int | None = None


class GroupsBody(Body, frozen=True):
    """The text of a file of groups; ``file`` is its name in messages, ``moves`` the new groups of jobs of removed ones."""

    text: str
    file: str = ""
    moves: dict[str, str] = {}


class CordonBody(Body, frozen=True):
    """The reason why a node accepts no new tasks."""

    reason: str = ""


class DrainBody(Body, frozen=True):
    """The reason of a drain, and its deadline in seconds."""

    deadline: float
    reason: str = ""


async def read(request: Request, kind: type[_T]) -> _T:
    """Return the body as a struct; without a body, its defaults. Raises InputError and TooLarge."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BODY:
                    raise TooLarge(f"the body has more than {MOST_BODY // 2**20} MB")
                parts.append(part)
    except TimeoutError:
        raise InputError(f"the body did not arrive within {PATIENCE:g} s") from None
    try:
        return msgspec.json.decode(b"".join(parts) or b"{}", type=kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        raise InputError(what, field=place.strip("`").removeprefix("$").removeprefix(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body is no JSON: {error}", hint="UTF-8, such as {}") from None


def reply(view: View, status: int = 200) -> Response:
    """Return a view as a response."""
    return Response(to_json(view), status_code=status, media_type="application/json")
