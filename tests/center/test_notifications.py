"""The process that sends notifications: what it tries again, what it gives up, and whom it refuses to call."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from cress.center.committing.committer import Committer
from cress.center.notifications.delivery import Delivery, DeliveryResult, SenderSettings, encode
from cress.center.notifications.notifier import Notifier
from cress.center.notifications.outbox import Outbox
from cress.center.notifications.sender import AT_ONE_HOST, GivenUp, Sender, by_mail, to_urls
from cress.center.notifications.watched_jobs import WatchedJobs
from cress.model.notify import Notify, Occasion
from cress.model.run import Run
from cress.protocol.cluster_views import EventView
from tests.center.notification_receivers import MailReceiver, WebReceiver

URL = "http://hook.example.org/"


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 – nothing tells of it
        await asyncio.sleep(0.001)


def sent_by(handler: Callable[[httpx.Request], httpx.Response], *deliveries: Delivery) -> list[DeliveryResult]:
    """The results of deliveries with pauses of a millisecond."""

    async def run() -> list[DeliveryResult]:
        found: list[DeliveryResult] = []
        async with httpx.AsyncClient(transport=httpx.MockTransport(handler)) as client:
            sender = Sender(to_urls(SenderSettings(), client), found.append, (0.001, 0.001), 0.2)
            for delivery in deliveries:
                sender.begin(delivery)
            await until(lambda: len(found) == len(deliveries))
        return found

    return asyncio.run(run())


def test_what_passes_is_tried_again_and_what_stays_is_given_up() -> None:
    for answers, tries, problem in (
        ([200], 1, ""),
        ([503, 429, 204], 3, ""),
        ([500, 500, 500], 3, "answered 500 Internal Server Error"),
        ([404], 1, "answered 404 Not Found"),
        ([302], 1, "answered 302 Found; redirects are not followed"),
        ([799] * 3, 3, "answered 799"),
    ):
        seen: list[str] = []

        def handler(request: httpx.Request, seen: list[str] = seen, answers: list[int] = answers) -> httpx.Response:
            seen.append(request.headers["Cress-Delivery"])
            return httpx.Response(answers[len(seen) - 1], headers={"Location": URL})

        assert sent_by(handler, Delivery("7.0", URL, "{}")) == [DeliveryResult("7.0", problem)], answers
        assert seen == ["7.0"] * tries


def test_a_host_that_hangs_holds_up_no_other() -> None:
    async def run() -> list[str]:
        order: list[str] = []
        free = asyncio.Event()

        async def send(delivery: Delivery) -> None:
            if "slow" in delivery.to:
                await free.wait()

        sender = Sender(send, lambda result: order.append(result.id), (), 5.0)
        for number in range(50):
            sender.begin(Delivery(f"slow {number}", "http://slow/", "{}", owner="ann"))
        sender.begin(Delivery("quick", "http://quick/", "{}", owner="ann"))
        await until(lambda: bool(order))
        # Nor do the many hosts of one user hold up those of others.
        for number in range(50):
            sender.begin(Delivery(f"slow of {number}", f"http://slow{number}/", "{}", owner="ann"))
            sender.begin(Delivery(f"quick of {number}", "http://quick/", "{}", owner="ann"))
        sender.begin(Delivery("bob's", "http://quick/", "{}", owner="bob"))
        await until(lambda: "bob's" in order)
        free.set()
        await until(lambda: len(order) == 152)
        assert not sender._hosts
        return order

    assert AT_ONE_HOST < 50
    assert asyncio.run(run())[0] == "quick"


def test_a_host_without_an_answer_is_given_up_in_time() -> None:
    async def run() -> DeliveryResult:
        done: asyncio.Future[DeliveryResult] = asyncio.get_running_loop().create_future()

        async def send(_: Delivery) -> None:
            await asyncio.sleep(60)

        Sender(send, done.set_result, (0.001,), 0.02).begin(Delivery("1", URL, "{}"))
        return await done

    assert asyncio.run(run()).problem == "no answer within 0.02 s"


def test_the_process_calls_no_protected_address_and_a_new_one_continues_its_work() -> None:
    async def run(receiver: WebReceiver) -> dict[str, str]:
        results: dict[str, str] = {}
        box = Outbox(
            SenderSettings(hosts=("any", "127.0.0.1")), lambda sent, told: results.update({sent.id: told.problem})
        )
        strict = Outbox(SenderSettings(), lambda sent, told: results.update({sent.id: told.problem}))
        receiver.answers = [503]
        for delivery in (Delivery("again", receiver.url, "{}", event=7), Delivery("ok", receiver.url, "{}", event=8)):
            assert box.put(delivery)
        assert strict.put(Delivery("refused", receiver.url, "{}"))
        assert box.first_open == 7
        running = [asyncio.create_task(outbox.run()) for outbox in (box, strict)]
        await until(lambda: {"ok", "refused"} <= results.keys())
        # One is left, and waits for its second try, when the process dies.
        if "again" not in results:
            assert box.process is not None
            os.kill(box.process, signal.SIGKILL)
        await until(lambda: "again" in results)
        assert box.first_open is None
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        return results

    with WebReceiver() as receiver:
        results = asyncio.run(run(receiver))
    assert (results["ok"], results["again"]) == ("", "")
    assert results["refused"] == "127.0.0.1 is a loopback address, which jobs may not use (--notify-host)"


def test_mail_goes_to_the_domains_that_the_operator_allows() -> None:
    with MailReceiver() as receiver:
        settings = SenderSettings(hosts=("*.example.org",), smtp=receiver.url, sender="c@h.org")
        send = by_mail(settings)
        asyncio.run(send(Delivery("1", "mailto:ann@lab.example.org", "{}", "subject", "text")))
        with pytest.raises(GivenUp, match=r"^elsewhere.org is not among the domains that jobs may use"):
            asyncio.run(send(Delivery("2", "mailto:ann@elsewhere.org", "{}", "subject", "text")))
        assert [letter["To"] for letter in receiver.mails] == ["ann@lab.example.org"]


def test_jobs_of_one_user_push_no_watched_job_of_another_out() -> None:
    watched = WatchedJobs(4)
    watched.add(1, "ann")
    for number in range(2, 10):
        watched.add(number, "bob")
    assert list(watched) == [1, 7, 8, 9]
    watched.add(10, "ann")
    assert list(watched) == [1, 8, 9, 10]
    watched.tell(1, 5.0)
    watched.tell(7, 5.0)
    # Nothing is kept of a job that was dropped.
    assert watched._told == {1: 5.0}
    for number in (1, 1, 8, 9, 10, 77):
        watched.discard(number)
    assert (list(watched), watched.told(1)) == ([], None)
    watched.add(11, "ann")
    assert list(watched) == [11]


def test_a_new_leader_watches_the_jobs_of_each_user_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.center.notifications.notifier.MOST_WATCHED", 4)
    told = (Notify(URL, (Occasion.START_CHANGED,)),)
    # Of ann, of bob, and newer ones that tell nobody.
    runs = {
        number: Run(job=number, command=("x",), user="ann" if number < 3 else "bob", notify=told)
        for number in range(1, 9)
    }
    runs |= {number: Run(job=number, command=("x",), user="bob") for number in range(9, 20)}
    jobs = {number: SimpleNamespace(waiting=number != 1) for number in runs}
    core = SimpleNamespace(jobs=jobs)
    committer = SimpleNamespace(machine=SimpleNamespace(core=core), run=runs.get)
    notifier = Notifier(cast("Committer", committer), SenderSettings(), None)
    asyncio.run(notifier._watch_earlier())
    assert list(notifier._watched) == [2, 6, 7, 8]


def test_the_position_is_stored_at_once_only_if_somebody_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the machine would else wait for the disk, and most jobs tell nobody."""
    stored: list[int] = []
    waited: list[float] = []
    monkeypatch.setattr("cress.center.notifications.notifier.write_position", lambda _, number: stored.append(number))
    monkeypatch.setattr("cress.center.notifications.notifier.STORED_EVERY", 3600.0)
    quiet, told = Run(job=1, command=("x",)), Run(job=2, command=("x",), notify=(Notify(URL, (Occasion.ENDED,)),))
    job_of = {7: 2}

    class Feed:
        first, last = 1, 9

        async def wait(self, _handled: int, seconds: float) -> None:
            waited.append(seconds)

        def after(self, handled: int, _most: int) -> list[EventView]:
            return [EventView(kind="job.ended", number=handled + 1, job=job_of.get(handled + 1, 1), state="succeeded")]

    committer = SimpleNamespace(
        events=Feed(),
        run={1: quiet, 2: told}.get,
        settings=SimpleNamespace(data=tmp_path, cluster="c"),
        counters=SimpleNamespace(notifications=Counter()),
        machine=SimpleNamespace(core=SimpleNamespace(groups=SimpleNamespace(by_name={}), jobs={})),
    )
    notifier = Notifier(cast("Committer", committer), SenderSettings(), None)

    async def look(times: int) -> list[int]:
        for _ in range(times):
            await notifier._look()
        return stored

    # The first position, then none until event 7 waits to be told; what comes later is told again after a crash.
    assert asyncio.run(look(6)) == [1]
    assert asyncio.run(look(2)) == [1, 6]
    # The position may move on by a delivery, of which no event tells.
    asyncio.run(look(1))
    assert waited[-1] == 3600
    asyncio.run(notifier._urls._take_result(encode(DeliveryResult("7.0"))))
    assert asyncio.run(look(2)) == [1, 6, 10]

    async def stop() -> None:
        monkeypatch.setattr(notifier._urls, "run", asyncio.Event().wait)
        running = asyncio.create_task(notifier.run())
        await until(lambda: notifier._handled >= 20)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    # A clean stop leaves nothing to be told again.
    asyncio.run(stop())
    assert stored[-1] == notifier._handled >= 20


def test_what_does_not_fit_is_dropped_and_one_user_leaves_room_for_others() -> None:
    async def run() -> list[bool]:
        box = Outbox(SenderSettings(), lambda *_: None, most=4, most_of_owner=2)
        put = [box.put(Delivery(str(number), URL, "{}", owner="ann")) for number in range(3)]
        # Told again, and of others.
        put += [box.put(Delivery("1", URL, "{}", owner="ann")), box.put(Delivery("b", URL, "{}", owner="bob"))]
        await box._take_result(encode(DeliveryResult("0")))
        return [*put, *(box.put(Delivery(str(number), URL, "{}", owner="ann")) for number in (7, 8))]

    assert asyncio.run(run()) == [True, True, False, True, True, True, False]
