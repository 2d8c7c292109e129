"""Commands in tasks, seen from the API: who may, what is refused, what is kept for a slow reader."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from cress.center.connections.connection_table import MOST_OF_USER
from cress.client.blocking.http import Http
from cress.protocol.messages import EXEC_INPUT, Exec, ExecData, ExecInput, ExecOver, ExecSize
from tests.center.program import PATIENCE, Center, Executor, eventually

START = {"command": ["cat"], "environment": {"A": "b"}, "terminal": [24, 80]}


def opened(center: Center, path: str, token: str | None = None, **more: Any) -> Any:
    """A connection to a command, to be used as a context."""
    url = center.address["url"].replace("http", "ws", 1) + path
    headers = {"Authorization": f"Bearer {center.token if token is None else token}"} if token != "" else {}
    return connect(url, additional_headers=headers, compression=None, proxy=None, open_timeout=PATIENCE, **more)


def begun(center: Center, executor: Executor) -> tuple[str, int]:
    """The address of the commands in a task that runs, and its attempt."""
    id = center.submit()
    (launch,) = executor.launches()
    executor.started(launch.attempt)
    eventually(lambda: center.get(f"/v1/jobs/{id}")["tasks"]["running"])
    eventually(lambda: center.get(f"/v1/jobs/{id}/tasks/0")["state"] == "running")
    return f"/v1/jobs/{id}/tasks/0/exec", launch.attempt


def order(executor: Executor, kind: type) -> Any:
    """The next order about a command, which is to be of this kind."""
    message = executor.receive()
    assert isinstance(message, kind), message
    return message


def test_words_and_bytes_go_both_ways(center: Center) -> None:
    with center.executor() as executor:
        path, attempt = begun(center, executor)
        with opened(center, path) as person:
            person.send(json.dumps(START))
            begin = order(executor, Exec)
            assert begin == Exec(
                id=begin.id, attempt=attempt, command=("cat",), environment=(("A", "b"),), terminal=(24, 80)
            )
            person.send(b"hello")
            assert order(executor, ExecInput).data == b"hello"
            person.send('{"size": [1, 2]}')
            assert order(executor, ExecSize) == ExecSize(id=begin.id, rows=1, columns=2)
            person.send('{"end": true}')
            assert order(executor, ExecInput).over
            executor.send(ExecData(id=begin.id, data=b"out", taken=5))
            assert person.recv(PATIENCE) == b"\1out"
            assert json.loads(person.recv(PATIENCE)) == {"taken": 5}
            executor.send(ExecData(id=begin.id, data=b"err", error=True))
            assert person.recv(PATIENCE) == b"\2err"
            person.send('{"taken": 6}')
            assert order(executor, ExecInput).taken == 6
            executor.send(ExecOver(id=begin.id, code=3))
            assert json.loads(person.recv(PATIENCE)) == {"over": True, "code": 3}
            assert closed(person)
        # Nothing more is said about a command that is over.
        center.submit()
        assert executor.launches()


def test_the_client_makes_room_for_as_many_bytes_as_it_has_read(center: Center) -> None:
    with center.executor() as executor, Http(center.address["url"], center.token) as http:
        path, _ = begun(center, executor)
        with http.exec(int(path.split("/")[3]), ["cat"]) as command:
            begin = order(executor, Exec)
            written = iter(command)
            for number, data in enumerate((b"out", b"more", b"x" * 1000)):
                executor.send(ExecData(id=begin.id, data=data, error=number == 1))
                assert next(written) == (number == 1, data)
            # Of the last piece it is said when the next one is asked for.
            executor.send(ExecOver(id=begin.id, code=3))
            assert next(written, None) is None
            assert command.code == 3
            assert [order(executor, ExecInput).taken for _ in range(2)] == [3, 4]


def closed(person: ClientConnection) -> bool:
    try:
        person.recv(PATIENCE)
    except ConnectionClosed:
        return True
    return False


def test_one_user_does_not_take_the_places_of_others(center: Center) -> None:
    token = str(center.post("/v1/tokens", {"name": "another", "user": "ann", "role": "user"}, 201)["secret"])
    with center.executor() as executor, ExitStack() as commands:
        path, _ = begun(center, executor)
        for _ in range(MOST_OF_USER):
            commands.enter_context(opened(center, path)).send(json.dumps(START))
            order(executor, Exec)
        with opened(center, path) as further:
            further.send(json.dumps(START))
            assert f"{MOST_OF_USER} commands of " in json.loads(further.recv(timeout=PATIENCE))["why"]
        answer = httpx.post(
            center.address["url"] + "/v1/jobs",
            json={"jobs": [{"command": "true"}]},
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )
        (launch,) = executor.launches()
        executor.started(launch.attempt)
        path = f"/v1/jobs/{answer.json()['jobs'][0]['id']}/tasks/0"
        eventually(lambda: center.get(path)["state"] == "running")
        with opened(center, f"{path}/exec", token) as other:
            other.send(json.dumps(START))
            order(executor, Exec)


def test_a_reader_that_goes_is_the_end_of_the_command(center: Center) -> None:
    with center.executor() as executor:
        path, _ = begun(center, executor)
        with opened(center, path) as person:
            person.send(json.dumps(START))
            begin = order(executor, Exec)
        assert order(executor, ExecOver).id == begin.id


def test_an_executor_that_goes_is_told(center: Center) -> None:
    with center.executor() as executor:
        path, _ = begun(center, executor)
        person = opened(center, path).__enter__()
        person.send(json.dumps(START))
        order(executor, Exec)
    word = json.loads(person.recv(PATIENCE))
    assert word["over"]
    assert word["why"] == "node n1 is away: the command was ended there"
    person.close()


def test_input_is_held_back_as_the_executor_takes_it_and_too_much_ends_the_command(center: Center) -> None:
    with center.executor() as executor:
        path, _ = begun(center, executor)
        with opened(center, path) as person:
            person.send(json.dumps(START))
            begin = order(executor, Exec)
            for _ in range(10):
                person.send(b"x" * 50_000)
            person.send('{"end": true}')
            got = 0
            while got < EXEC_INPUT:
                got += len(order(executor, ExecInput).data)
            assert got == EXEC_INPUT, "the window, and no byte more"
            executor.send(ExecData(id=begin.id, taken=1000))
            assert len(order(executor, ExecInput).data) == 1000
            part = ExecInput(id=begin.id)
            while got < 500_000:
                executor.send(ExecData(id=begin.id, taken=60_000))
                part = order(executor, ExecInput)
                got += len(part.data) + (1000 if got == EXEC_INPUT else 0)
            assert part.over
        assert order(executor, ExecOver).id == begin.id
        with opened(center, path) as person:
            person.send(json.dumps(START))
            for _ in range(30):
                person.send(b"x" * 50_000)
            last = ""
            while "over" not in last:
                last = str(person.recv(PATIENCE))
            assert "more than 1048576 bytes of input were sent that the command has not read yet" in last


BAD = [
    ("no JSON", "a message cannot be read"),
    ('{"command": "sh"}', "a message cannot be read"),
    ('{"command": []}', "no command"),
    ('{"command": [""]}', "no command"),
    ('{"command": ["a\\u0000b"]}', "a zero byte"),
    ('{"command": ["a"], "environment": {"A=B": ""}}', "is not the name of a variable"),
    ('{"command": ["a"], "environment": {"CRESS_TOKEN": ""}}', "is not the name of a variable"),
    ('{"command": ["a"], "terminal": [-1, 4]}', "-1 × 4 is not a size of a terminal"),
    (json.dumps({"command": ["x" * 70_000]}), "a command of 70000 bytes"),
    (json.dumps({"command": ["\ud800"]}), "a message cannot be read"),
    (b"bytes", "the first message is a text"),
]


def test_a_bad_beginning_is_told_and_nothing_runs(center: Center) -> None:
    with center.executor() as executor:
        path, _ = begun(center, executor)
        for first, why in BAD:
            with opened(center, path) as person:
                person.send(first)
                word = json.loads(person.recv(PATIENCE))
                assert word["over"], first
                assert why in word["why"], first
        center.submit()
        assert executor.launches(), "the first thing that it hears"


@pytest.mark.parametrize(
    ("token", "origin", "status"),
    [("", None, 401), ("wrong", None, 401), (None, "http://evil.example", 403), (None, "null", 403)],
)
def test_only_the_owner_of_the_token_gets_in_and_no_page_of_others(
    shared: Center, token: str | None, origin: Any, status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused, opened(shared, "/v1/jobs/1/tasks/0/exec", token, origin=origin):
        pass
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"")["code"] in {"unauthorized", "forbidden"}


def test_where_nothing_runs_the_handshake_says_so(center: Center) -> None:
    with center.executor() as executor:
        path, _ = begun(center, executor)
        waiting = center.submit(resource="<4, 1G>")
        job = path.split("/")[3]
        for there, status, code in (
            ("/v1/jobs/99/tasks/0/exec", 404, "not_found"),
            ("/v1/jobs/x/tasks/0/exec", 404, "not_found"),
            (f"/v1/jobs/{job}/tasks/1/exec", 404, "not_found"),
            (f"/v1/jobs/{waiting}/tasks/0/exec", 409, "not_accepted"),
        ):
            refused = refusal(center, there)
            assert (refused.response.status_code, json.loads(refused.response.body or b"")["code"]) == (status, code)
    eventually(lambda: center.get("/v1/nodes/n1")["state"] == "away")
    refused = refusal(center, path)
    assert refused.response.status_code == 503
    assert json.loads(refused.response.body or b"")["message"] == "node n1 is away"


def refusal(center: Center, path: str) -> InvalidStatus:
    with pytest.raises(InvalidStatus) as refused, opened(center, path):
        pass
    return refused.value
