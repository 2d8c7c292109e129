"""An executor that has the addresses of several centers finds the one that leads, and notices when another one does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from cress.executor import center_wire
from cress.executor.center_wire import NotReached
from cress.executor.centers import Centers
from tests.executor.centers import TOKEN, Center
from tests.ports import free_port
from tests.waiting import PATIENCE


@contextmanager
def asleep() -> Iterator[str]:
    """The address of a center that is stopped: the kernel takes its connections, and nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"ws://127.0.0.1:{listening.getsockname()[1]}"


def centers(*urls: str) -> Centers:
    return Centers(urls, TOKEN, ping_interval=20, ping_timeout=20)


def url_of(port: int) -> str:
    return f"ws://127.0.0.1:{port}"


def test_one_that_sleeps_holds_up_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    # Who waits for the one that sleeps waits for ever.
    monkeypatch.setattr(center_wire, "OPEN_TIMEOUT", 3600)
    with closing(Center()) as old, asleep() as sleeping:
        port = free_port()

        async def story() -> None:
            known = centers(url_of(old.port), sleeping, url_of(port))
            await (await known.connect()).close()
            old.close()
            looking = asyncio.create_task(known.connect())
            # All three have been tried by now.
            await asyncio.sleep(0.5)
            assert not looking.done()
            with closing(Center(port)):
                await (await asyncio.wait_for(looking, PATIENCE)).close()

        asyncio.run(story())


def test_after_a_refusal_the_others_are_tried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.executor.centers.STAGGER", 3600)
    with closing(Center()) as third:

        async def story() -> None:
            known = centers(url_of(free_port()), url_of(free_port()), url_of(third.port))
            await (await asyncio.wait_for(known.connect(), PATIENCE)).close()

        asyncio.run(story())


def test_a_silent_center_is_compared_with_the_others_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.executor.centers.LOOK", 3600)
    port = free_port()

    async def story() -> None:
        with closing(Center()) as first:
            known = centers(url_of(port), url_of(first.port))
            wire = await known.connect()
            moved = asyncio.create_task(known.moved(lambda: True))
            await asyncio.sleep(0.2)
            with closing(Center(port)):
                assert await asyncio.wait_for(moved, PATIENCE) == url_of(port)
                await wire.close()
                await (await known.connect()).close()

    asyncio.run(story())


def test_a_center_that_stays_silent_is_compared_as_often_as_others_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A store that hangs for minutes would else have thousands of executors knock at all centers."""
    for name, seconds in (("LOOK", 3600), ("SILENT", 0.001), ("FIRST", 0.05)):
        monkeypatch.setattr(f"cress.executor.centers.{name}", seconds)
    looks = 0

    def is_silent() -> bool:
        nonlocal looks
        looks += 1
        return True

    async def story() -> None:
        known = centers(url_of(free_port()), url_of(free_port()))
        moved = asyncio.create_task(known.moved(is_silent))
        await asyncio.sleep(0.3)
        before = looks
        await asyncio.sleep(0.2)
        assert looks == before > 1
        moved.cancel()

    asyncio.run(story())


def test_another_one_that_begins_to_listen_is_noticed_and_the_next_one() -> None:
    port = free_port()

    async def story() -> None:
        with closing(Center()) as first:
            known = centers(url_of(port), url_of(first.port))
            wire = await known.connect()
            moved = asyncio.create_task(known.moved())
            await asyncio.sleep(0.5)
            assert not moved.done()
            with closing(Center(port)):
                assert await asyncio.wait_for(moved, PATIENCE) == url_of(port)
                await wire.close()
                wire = await known.connect()
                # The one that it has left still listens, which is no news.
                moved = asyncio.create_task(known.moved())
                await asyncio.sleep(0.6)
                assert not moved.done()
                moved.cancel()
                await wire.close()

    asyncio.run(story())


def test_the_only_one_is_not_left() -> None:
    async def story() -> None:
        port = free_port()
        with closing(Center(port)) as only:
            known = centers(url_of(port))
            wire = await known.connect()
            moved = asyncio.create_task(known.moved())
            # On a machine with too much to do it takes no connection for a while.
            await asyncio.to_thread(only.close)
            await asyncio.sleep(0.6)
            with closing(Center(port)):
                await asyncio.sleep(0.6)
                assert not moved.done()
                moved.cancel()
            await wire.close()

    asyncio.run(story())


def test_one_that_wakes_and_does_not_lead_is_no_other_center() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async def story() -> None:
        port = free_port()
        with closing(Center()) as leader:
            known = centers(url_of(leader.port), url_of(port))
            wire = await known.connect()
            moved = asyncio.create_task(known.moved())
            await asyncio.sleep(0.6)
            async with await asyncio.start_server(refuse, "127.0.0.1", port):
                await asyncio.sleep(0.8)
                assert not moved.done()
            with closing(Center(port)):
                assert await asyncio.wait_for(moved, PATIENCE) == url_of(port)
                await wire.close()
                await (await known.connect()).close()

    asyncio.run(story())


def test_without_any_center_the_last_address_is_told() -> None:
    known = centers(url_of(free_port()), "ws://127.0.0.1:1")
    with pytest.raises(NotReached, match=r"127\.0\.0\.1:1 cannot be reached"):
        asyncio.run(known.connect())
