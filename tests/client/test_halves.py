"""Both halves of the client: the blocking one is written by a tool, of the one for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest

from cress.client.aio.client import AsyncClient
from cress.client.aio.handles import AsyncJobHandle
from cress.client.aio.http import AsyncHttp
from cress.client.aio.leases import AsyncLeases
from cress.client.blocking.client import Client
from cress.client.blocking.handles import JobHandle
from cress.client.blocking.http import Http
from cress.client.blocking.leases import Leases
from cress.client.config import Address
from cress.client.errors import Unreachable
from tests.client.server import serving
from tools import blocking_client


def test_the_blocking_client_is_what_the_tool_writes() -> None:
    folder: Path = blocking_client.GENERATED
    there = {path.name: path.read_text() for path in folder.glob("*.py") if path.name not in blocking_client.BY_HAND}
    assert there == blocking_client.files(), "python -m tools.blocking_client"


def test_waiting_words_go_and_names_lose_their_prefix() -> None:
    text = """\
from cress.client.aio.http import AsyncHttp


async def first(http: AsyncHttp) -> AsyncGenerator[list[int], None]:
    async with aclosing(http.read()) as pieces:
        yield [await anext(pieces)]
    await http.aclose()
"""
    assert blocking_client.blocking("x.py", text).splitlines()[1:] == [
        "from cress.client.blocking.http import Http",
        "",
        "",
        "def first(http: Http) -> Generator[list[int], None, None]:",
        "    with closing(http.read()) as pieces:",
        "        yield [next(pieces)]",
        "    http.close()",
    ]


@pytest.mark.parametrize(
    ("waiting", "blocking"),
    [(AsyncClient, Client), (AsyncJobHandle, JobHandle), (AsyncLeases, Leases), (AsyncHttp, Http)],
)
def test_both_halves_have_the_same_methods_with_the_same_arguments(waiting: type, blocking: type) -> None:
    def methods(half: type) -> dict[str, list[str]]:
        found = inspect.getmembers(half, inspect.isfunction)
        return {name: list(inspect.signature(method).parameters) for name, method in found if name[0] != "_"}

    assert methods(waiting) == methods(blocking)


def test_both_halves_find_another_center_by_themselves() -> None:
    with serving() as gone:
        nowhere = gone.url
    with serving() as there:
        there.body = {"licences": []}
        address = Address(there.url, "secret")
        with Http(nowhere, "secret", find=lambda: address) as http:
            assert http.licences().licences == ()
            assert http.url == there.url

        async def ask() -> str:
            async with AsyncHttp(nowhere, "secret", find=lambda: address) as http:
                assert (await http.licences()).licences == ()
                # What must not be sent twice is not.
                lost = AsyncHttp(nowhere, "secret", find=lambda: address)
                with pytest.raises(Unreachable):
                    await lost.signal(1, "INT")
                await lost.close()
                return http.url

        assert asyncio.run(ask()) == there.url
        assert [asked.line for asked in there.asked] == ["GET /v1/licences"] * 2
