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

# Seconds in which a body must arrive.
PATIENCE = 60.0

_T = TypeVar("_T", bound=msgspec.Struct)


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that the API takes."""


class SubmitBody(Body, frozen=True):
    """Jobs to be accepted together or not at all; each as in a job file (docs/commands.md)."""

    jobs: list[dict[str, Any]]


class ApplyBody(Body, frozen=True):
    """Services, databases and cron jobs as they are to be; a dry run changes nothing."""

    jobs: list[dict[str, Any]]
    dry_run: bool = False


class ScaleBody(Body, frozen=True):
    """How many tasks a service or database is to have."""

    tasks: int


class SignalBody(Body, frozen=True):
    """A signal by name (``INT``, ``SIGUSR1``) or number, for the running attempts of a job or of one task."""

    signal: str | int
    task: int | None = None


class GroupsBody(Body, frozen=True):
    """The text of a file of groups; ``file`` names it in messages; ``moves``: where jobs of removed groups go."""

    text: str
    file: str = ""
    moves: dict[str, str] = {}


class CordonBody(Body, frozen=True):
    """Why a node takes no new tasks."""

    reason: str = ""


class DrainBody(Body, frozen=True):
    """Why a node is to be empty, and after how many seconds at the latest."""

    deadline: float
    reason: str = ""


async def read(request: Request, kind: type[_T]) -> _T:
    """The body as a struct; without one its defaults. Raises InputError and TooLarge."""
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
    """A view as a response."""
    return Response(to_json(view), status_code=status, media_type="application/json")
