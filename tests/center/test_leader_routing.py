"""What a center answers that believes it leads: its own decisions count only while no other center can lead."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cress.center.api.leader_routing import EXPLANATIONS, LISTS, LeaderRouting
from cress.center.committing.committer import NotStored
from cress.center.web.asgi import Message, Receive, Scope, Send
from cress.protocol.calls import job_calls
from cress.protocol.calls.row import CallRow

OTHER = "http://other"


class Deposed:
    """A leader that was deposed, which is known only when the servers were asked; with ``doubt`` they do not answer."""

    is_shared, is_changing = True, False

    def __init__(self, *, doubt: bool = False, still: bool = False, age: float = 0.0) -> None:
        self.leads, self.leader, self.age = True, "http://here", age
        self._doubt, self._still = doubt, still
        self.asked = 0
        self.is_reloading = False

    async def confirmed(self, seconds: float) -> bool:
        # Before a read it was certain.
        self.asked += 1
        if self._still:
            return True
        if not self._doubt:
            self.leads, self.leader = False, OTHER
        return False

    async def settled(self) -> str:
        return self.leader

    async def ready(self) -> None:
        """Load the state; meanwhile another center may have taken the lead."""
        if self.is_reloading:
            self.leads, self.leader = False, OTHER


class Standby(Deposed):
    """A center that stands by, two seconds behind."""

    def __init__(self) -> None:
        super().__init__(age=2.0)
        self.leads, self.leader = False, OTHER


def answered(
    method: str,
    status: int,
    failover: Deposed,
    query: str = "",
    *,
    stored: bool = True,
    path: str = "/v1/jobs/1/cancel",
) -> tuple[int, str]:
    """How a request is answered that the application answers with this status: the status, and where it is sent."""
    told: list[Message] = []

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"own"})

    async def send(message: Message) -> None:
        told.append(message)

    async def receive() -> Message:
        raise AssertionError

    async def durable() -> None:
        if not stored:
            raise NotStored("the disk is full")

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
    }
    routing = LeaderRouting(app, failover, durable)  # type: ignore[arg-type]
    asyncio.run(routing(scope, receive, send))
    start, body = told
    assert (body["body"] == b"own") == (start["status"] == status)
    return start["status"], dict(start["headers"]).get(b"cress-leader", b"").decode()


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_what_it_refuses_by_a_state_that_may_be_old_is_decided_by_the_leader(status: int) -> None:
    """Found by real faults: a center that woke told a user that a job is not there which another one had taken."""
    assert answered("POST", status, Deposed()) == (307, OTHER)
    assert answered("POST", status, Deposed(doubt=True)) == (503, "")
    assert answered("POST", status, Deposed(still=True)) == (status, "")


def test_a_read_while_the_servers_do_not_answer_says_how_old_it_is_and_does_not_say_what_is_not_there() -> None:
    """Found by a slow machine: a center that woke told a user that a job is not there which another one had taken."""
    assert answered("GET", 200, Deposed(doubt=True, age=4.0)) == (200, "http://here")
    assert answered("GET", 404, Deposed(doubt=True, age=4.0)) == (503, "")
    # Who takes an old answer gets one.
    assert answered("GET", 404, Deposed(doubt=True, age=4.0), "stale=ok") == (404, "http://here")


def test_what_it_has_stored_is_answered() -> None:
    failover = Deposed()
    assert answered("POST", 201, failover) == (201, "")
    assert failover.asked == 0


def test_a_read_of_this_moment_is_of_what_is_stored() -> None:
    assert answered("GET", 200, Deposed(still=True), "stale=no") == (200, "")
    assert answered("GET", 200, Deposed(still=True), "stale=no", stored=False) == (503, "")
    assert answered("GET", 200, Deposed(), "stale=no") == (307, OTHER)


def test_a_change_that_comes_while_the_state_is_loaded_again_waits_and_goes_to_the_new_leader() -> None:
    """Found by a fail-over: a new configuration was refused, since the lead had not been confirmed in time."""
    failover = Deposed(still=True)
    failover.is_reloading = True
    assert answered("PUT", 503, failover) == (307, OTHER)


@pytest.mark.parametrize("call", [*LISTS, *EXPLANATIONS], ids=lambda call: call.path)
def test_a_standby_answers_lists_and_explanations(call: CallRow[Any]) -> None:
    """Found by reading: the paths were spelled a second time, and those of explanations not as in the table."""
    path = call.at(*["7"] * call.path.count("{"))
    assert answered("GET", 200, Standby(), path=path) == (200, OTHER)
    assert answered("GET", 200, Standby(), "stale=no", path=path) == (307, OTHER)


def test_what_a_standby_cannot_explain_may_be_known_to_the_leader() -> None:
    path = job_calls.EXPLAIN.at(7)
    assert answered("GET", 404, Standby(), path=path) == (307, OTHER)
    # Who takes an old answer gets one.
    assert answered("GET", 404, Standby(), "stale=ok", path=path) == (404, OTHER)
    assert answered("GET", 200, Standby(), path=job_calls.JOB.at(7)) == (307, OTHER)
