"""Bodies of requests: read as a whole up to a limit, and decoded strictly into structs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from cress.center.api.errors import TooLarge
from cress.center.process.turns import LongRequests, chunks
from cress.model.errors import InputError
from cress.protocol.bodies import Body, JobsBody, WhatIfBody
from cress.protocol.views import View, to_json

# Seconds within which a body must arrive.
PATIENCE = 60.0
# Most bytes of a body without jobs; those with jobs have MOST_BODY.
SMALL = 64 * 2**10
# Bytes of a list of 100,000 ids.
MOST_ID_BYTES = 2 * 2**20
JSON_HINT = "JSON in UTF-8, such as {}; files in YAML are read by `cress submit`, `cress apply` and `cress validate`"
# Most values in one body; each list and mapping counts as one more.
MOST_VALUES = 2_000_000
# Most values and keys of one job: it is decoded as a whole, which blocks all threads for some milliseconds.
MOST_JOB_VALUES, MOST_JOB_KEYS = 150_000, 60_000

_T = TypeVar("_T", bound=msgspec.Struct)


class RawSubmitBody(Body, frozen=True):
    """A ``SubmitBody`` with jobs that are not decoded."""

    jobs: list[msgspec.Raw]


class RawApplyBody(Body, frozen=True):
    """An ``ApplyBody`` with jobs that are not decoded."""

    jobs: list[msgspec.Raw]
    dry_run: bool = False


class RawWhatIfBody(WhatIfBody, frozen=True):
    """A ``WhatIfBody`` with jobs that are not decoded."""

    jobs: list[msgspec.Raw] = msgspec.field(default_factory=list)  # type: ignore[assignment]


async def read(request: Request, kind: type[_T], most: int = SMALL) -> _T:
    """Return the body as a struct; an empty body gives the defaults. Raises InputError and TooLarge."""
    return decoded(await receive(request, most), kind)


async def read_ids(request: Request, turns: LongRequests, most: int) -> list[int]:
    """Return the 1 to ``most`` ids of a ``JobsBody`` without repetitions. Raises InputError and TooLarge."""
    data = await receive(request, MOST_ID_BYTES)

    def ids() -> list[int]:
        jobs = decoded(data, JobsBody).jobs
        if not 0 < len(jobs) <= most:
            raise InputError(f"{len(jobs)} jobs", hint=f"1 to {most} ids", field="jobs")
        return list(dict.fromkeys(jobs))

    return await turns.check(len(data), ids)


async def receive(request: Request, most: int) -> bytes:
    """Return the body, at most ``most`` bytes. Raises InputError and TooLarge."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise TooLarge(f"the body has more than {size_text(most)}")
                parts.append(part)
    except TimeoutError:
        raise InputError(f"the body did not arrive within {PATIENCE:g} s") from None
    return b"".join(parts)


def size_text(size: int) -> str:
    """Return a limit in words."""
    return f"{size >> 20} MB" if size >= 2**20 else f"{size >> 10} KB"


def decoded(data: bytes, kind: type[_T]) -> _T:
    """Return a body as a struct; an empty body gives the defaults. Raises InputError."""
    if _values(data) > MOST_VALUES:
        raise InputError("the body has too many values", hint=f"at most {MOST_VALUES:,}")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        raise InputError(what, field=place.strip("`").removeprefix("$").removeprefix(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body is not JSON: {error}", hint=JSON_HINT) from None


def _values(data: bytes) -> int:
    """Return an upper bound of the number of values in JSON."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def decoded_jobs(raws: list[msgspec.Raw]) -> list[dict[str, Any]]:
    """Return the jobs of a body, decoded one by one, since decoding them together would block all threads.

    Raises InputError.
    """
    jobs: list[dict[str, Any]] = []
    for position, raw in enumerate(raws):
        text = bytes(raw)
        if _values(text) > MOST_JOB_VALUES or text.count(b":") > MOST_JOB_KEYS:
            hint = f"at most {MOST_JOB_VALUES:,}, and {MOST_JOB_KEYS:,} keys"
            raise InputError("the job has too many values", hint=hint, field=f"jobs[{position}]")
        try:
            jobs.append(msgspec.json.decode(raw, type=dict[str, Any]))
        except msgspec.ValidationError as error:
            what, _, place = str(error).partition(" - at ")
            raise InputError(what, field=f"jobs[{position}]{place.strip('`').removeprefix('$')}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"the body is not JSON: {error}", hint=JSON_HINT) from None
    return jobs


async def reply_with_jobs(views: AsyncIterable[View]) -> Response:
    """Return views as the ``jobs`` of a response, encoded one by one: thousands at once would block other requests."""
    parts = [b'{"jobs":[']
    async for view in views:
        parts += (to_json(view), b",")
    parts[max(1, len(parts) - 1) :] = [b"]}"]

    async def sent() -> AsyncIterator[bytes]:
        for part in chunks(parts):
            yield b"".join(part)
            await asyncio.sleep(0)

    size = sum(map(len, parts))
    return StreamingResponse(sent(), media_type="application/json", headers={"Content-Length": str(size)})


def reply(view: View, status: int = 200) -> Response:
    """Return a view as a response."""
    return Response(to_json(view), status_code=status, media_type="application/json")
