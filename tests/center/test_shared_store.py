"""A center whose store several centers share: another one goes on from it, and it moves between all kinds of stores."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from contextlib import ExitStack, closing
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from cress.center.keeping.store_migration import migrate
from cress.client import Client, connect
from cress.model.errors import InputError
from cress.model.reports import Started
from cress.protocol.messages import Beat, Reports, Term
from cress.store.base import StoreError
from cress.store.opening import open_store
from tests.budget import slowness_now
from tests.center.program import Center, ended, eventually
from tests.forked import run_cress
from tests.servers.door import Door
from tests.servers.logs import empty_place
from tests.servers.postgresql import PostgreSql
from tests.servers.zookeeper import Ensemble

KINDS = ["zookeeper", pytest.param("postgresql", marks=pytest.mark.long)]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """The address of an empty store."""
    return empty_place(request.getfixturevalue(request.param))


def cress(*words: str) -> tuple[int, str]:
    told = run_cress(words)
    return told.returncode, told.stdout + told.stderr


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_another_center_on_another_machine_goes_on_after_a_kill(place: str, tmp_path: Path) -> None:
    with Center(tmp_path / "one", forked=True, store=place) as first:
        over, waits = first.submit(name="over"), first.submit(name="waits", tasks=3)
        with first.executor(resource="<1, 1G>") as executor:
            executor.ended(executor.launches()[0].attempt)
            runs = executor.launches()[0].attempt
            epoch = executor.epoch
        first.kill()
    # All that the other one has of the first is the secret.
    (tmp_path / "two").mkdir(mode=0o700)
    shutil.copy(tmp_path / "one" / "token", tmp_path / "two" / "token")
    with Center(tmp_path / "two", forked=True, store=place) as second:
        states = {job["id"]: job["state"] for job in second.get("/v1/jobs")["jobs"]}
        assert states == {over: "succeeded", waits: "running"}
        known = (Started(attempt=runs, at=1, pid=1),)
        with second.executor(resource="<1, 1G>", reports=known) as executor:
            assert executor.epoch == epoch + 1
            executor.ended(runs)
            assert executor.launches()[0].attempt > runs
        assert second.submit() == waits + 1
    # Its uploads are not shared, as nobody named a folder for them.
    assert "a center that takes over lacks them" in (tmp_path / "said").read_text()


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_centers_that_share_a_store_have_one_secret(place: str, tmp_path: Path) -> None:
    two, three = tmp_path / "two", tmp_path / "three"
    two.mkdir(mode=0o700)
    (two / "token").write_text("b" * 30)
    (two / "token").chmod(0o600)
    with Center(tmp_path / "one", forked=True, store=place) as first:
        for data, what in ((two, "was changed, or belongs to another cluster"), (three, "is missing")):
            code, told = cress("center", "--data", str(data), "--store", place, "--port", "0", "--executor-port", "0")
            assert code == 2, told
            assert f"{data / 'token'}: the token {what}" in told
        with Center(three, forked=True, store=place, standby=True) as third:
            # A new one fences off the leader, and neither of them may lead with the old one.
            code, told = cress("store", "secret", "--new", "--data", str(two), "--store", place)
            assert code == 0, told
            # It hears of it when it stores something.
            assert first.http.post("/v1/jobs", json={"jobs": [{"command": ["true"]}]}).status_code == 503
            assert (first.process.wait(60), third.process.wait(60)) == (2, 2)
    shutil.copy(two / "token", first.data / "token")
    with Center(first.data, forked=True, store=place) as first, first.executor() as executor:
        assert executor.epoch > 1


def _with_a_node(center: Center) -> Any:
    """What a center shows of the cluster, once a node is up there."""
    shown = center.get("/v1/state")
    return shown if shown["nodes_up"] else None


def test_a_standby_takes_over_when_the_leader_dies_or_stops(zookeeper: Ensemble, tmp_path: Path) -> None:
    place = empty_place(zookeeper)
    with (
        Center(tmp_path / "one", forked=True, store=place) as first,
        Center(tmp_path / "two", forked=True, store=place, standby=True) as second,
        Center(tmp_path / "three", forked=True, store=place, standby=True) as third,
    ):
        jobs = [first.submit(name="first")]
        with first.executor():
            shown = [eventually(partial(_with_a_node, each)) for each in (second, third)]
            assert [(each["nodes"], each["problem"]) for each in shown] == [(1, "")] * 2
        first.kill()
        killed = time.monotonic()
        eventually(lambda: second.leads() or third.leads())
        taken = time.monotonic() - killed
        leader, other = (second, third) if second.leads() else (third, second)
        assert leader.get(f"/v1/jobs/{jobs[0]}")["name"] == "first"
        jobs.append(leader.submit(name="second"))
        assert leader.process.poll() is other.process.poll() is None
        assert not other.leads()
        # One that stops gives the lead away at once.
        assert leader.stop() == 0
        stopped = time.monotonic()
        eventually(other.leads)
        handed_over = time.monotonic() - stopped
        assert [other.get(f"/v1/jobs/{job}")["name"] for job in jobs] == ["first", "second"]
        # Not a measurement: a session lasts 2 s, or the 4 s that a server with usual ticks insists on.
        slower = slowness_now().wall
        assert (taken < 20 * slower, handed_over < 10 * slower) == (True, True)


def test_a_standby_explains_as_the_leader_does(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Found by reading: its path was spelled in another way than in the table, so the leader explained everything."""
    place = empty_place(zookeeper)
    with (
        Center(tmp_path / "one", forked=True, store=place) as first,
        Center(tmp_path / "two", forked=True, store=place, standby=True) as second,
        first.executor(resource="<4, 4G>"),
    ):
        job = first.submit(name="large", resource="<3, 1G>", tasks=2)
        eventually(lambda: second.http.get("/v1/jobs?name=large").json()["jobs"])
        for path in (f"/v1/jobs/{job}/explanation", "/v1/groups/default/explanation", "/v1/nodes/n1/explanation"):
            answer = second.http.get(path)
            assert answer.status_code == 200, answer.text
            assert "Cress-Age" in answer.headers
            # Except for what has a duration, of another moment.
            said, expected = answer.json(), first.get(path)
            assert bool(said.pop("starting", "")) == bool(expected.pop("starting", "")), path
            assert said == expected, path
        # What it does not know, the leader may.
        assert second.http.get(f"/v1/jobs/{job + 100}/explanation").status_code == 307


@pytest.mark.long  # finished work moves every ten seconds
def test_after_a_kill_the_next_leader_knows_what_had_moved_to_the_history_of_the_last(
    zookeeper: Ensemble, tmp_path: Path
) -> None:
    place = empty_place(zookeeper)
    dag = {"name": "d", "type": "dag", "steps": {"a": {"command": ["true"]}, "b": {"command": ["true"], "after": "a"}}}
    with (
        Center(tmp_path / "one", forked=True, store=place) as first,
        Center(tmp_path / "two", forked=True, store=place, standby=True) as second,
    ):
        job = first.submit(name="over")
        broken = first.post("/v1/jobs", {"jobs": [dag]}, 201)["jobs"][0]["id"]
        with first.executor() as executor:
            launches = {each.job: each.attempt for each in executor.launches()}
            executor.ended(launches.pop(job))
            executor.ended(*launches.values(), code=1)
        eventually(lambda: first.get(f"/v1/jobs/{broken}")["state"] == "failed")
        eventually((tmp_path / "two" / "history.mark").exists)
        first.kill()
        eventually(second.leads)
        found = second.get(f"/v1/jobs/{job}")
        assert (found["name"], found["state"]) == ("over", "succeeded")
        assert second.get(f"/v1/jobs/{job}/tasks/0")["attempts"][0]["node"] == "n1"
        assert {each["id"] for each in second.get("/v1/jobs?state=all")["jobs"]} >= {job, broken}
        second.submit(name="behind", after=[job])
        assert second.post(f"/v1/jobs/{broken}/resume", {}, 201)["jobs"]
        assert second.stop() == 0
    # One that begins behind the checkpoint which the last one left does not have it, and says so.
    with Center(tmp_path / "three", forked=True, store=place) as third:
        answer = third.get(f"/v1/jobs/{job}", 404)
        assert f"the record of job {job} is not on this machine" in answer["message"]


def test_a_leader_that_sleeps_finds_another_one_and_stands_by(zookeeper: Ensemble, tmp_path: Path) -> None:
    place = empty_place(zookeeper)
    with Center(tmp_path / "one", store=place, forked=True) as first:
        kept = first.submit(name="kept")
        with first.executor() as executor:
            attempt = executor.launches()[0].attempt
            executor.started(attempt)
            with (
                Center(tmp_path / "two", forked=True, store=place, standby=True) as second,
                first.http.stream("GET", "/v1/names/x/watch") as names,
            ):
                first.process.send_signal(signal.SIGSTOP)
                eventually(second.leads)
                here = second.submit(name="here")
                executor.send(Beat(sent=1))
                first.process.send_signal(signal.SIGCONT)
                # It answers nothing from the time before it fell asleep, however long the servers take to tell it.
                told = eventually(lambda: (one := first.http.get(f"/v1/jobs/{here}")).status_code != 503 and one)
                assert (told.status_code, told.headers.get("Cress-Leader")) == (307, second.address["url"])
                # It confirms no term, and gives no order.
                assert executor.closed()
                # It stands by then.
                eventually(lambda: not first.leads())
                assert first.process.poll() is None
                # Who watches names has to go to the other one.
                assert "data: " in "".join(names.iter_lines())
                assert [second.get(f"/v1/jobs/{job}")["name"] for job in (kept, here)] == ["kept", "here"]
                assert second.stop() == 0
            eventually(first.leads)
            assert [first.get(f"/v1/jobs/{job}")["name"] for job in (kept, here)] == ["kept", "here"]


def test_without_its_store_a_leader_confirms_no_term_for_longer_than_it_leads(
    zookeeper: Ensemble, tmp_path: Path
) -> None:
    host, _, port = zookeeper.hosts.partition(":")
    with closing(Door(host, int(port))) as door:
        place = f"zookeeper://127.0.0.1:{door.port}/{empty_place(zookeeper).rpartition('/')[2]}"
        with Center(tmp_path / "one", forked=True, store=place) as center, center.executor() as executor:
            executor.send(Beat(sent=1))
            assert isinstance(executor.receive(), Term)
            door.cut()
            time.sleep(4.2)
            executor.send(Beat(sent=2))
            with pytest.raises(TimeoutError):
                executor.wire.recv(1)
            # Another center may lead by now: what this one has may be old, and says so.
            for path in ("/v1/jobs", "/v1/nodes/n1"):
                answer = center.http.get(path)
                assert (answer.status_code, float(answer.headers["Cress-Age"]) > 2) == (200, True)
            assert "Retry-After" in center.http.get("/v1/nodes/n1", params={"stale": "no"}).headers
            door.closed = False

            def is_writable() -> bool:
                answer = center.http.post("/v1/jobs", json={"jobs": [{"command": ["true"]}]})
                assert answer.status_code in (201, 503), answer.text
                return answer.status_code == 201

            eventually(is_writable)


def test_a_store_moves_while_tasks_run_and_back(zookeeper: Ensemble, postgresql: PostgreSql, tmp_path: Path) -> None:
    data = tmp_path / "data"
    places = [empty_place(zookeeper), empty_place(postgresql)]
    with Center(data, forked=True) as center:
        job = center.submit(name="long")
        with center.executor() as executor:
            attempt = executor.launches()[0].attempt
            executor.started(attempt)
            eventually(lambda: center.get(f"/v1/jobs/{job}")["state"] == "running")
        assert center.stop() == 0
    known = (Started(attempt=attempt, at=1, pid=1),)
    source = str(data)
    for target in places:
        assert cress("store", "migrate", source, target)[0] == 0
        with Center(data, forked=True, store=target) as center:
            with center.executor(reports=known):
                assert center.get(f"/v1/jobs/{job}")["state"] == "running"
                center.submit(name=target.partition(":")[0])
            center.kill()
        source = target
    assert (data / "moved-1" / "cress.db").exists()
    back = tmp_path / "back"
    code, told = cress("store", "migrate", source, str(back))
    assert (code, "the token is missing" in told) == (0, True), told
    shutil.copy(data / "token", back / "token")
    with Center(back, forked=True) as center:
        names = {each["name"] for each in center.get("/v1/jobs")["jobs"]}
        assert names == {"long", "zookeeper", "postgresql"}
        with center.executor(reports=known) as executor:
            executor.send(Reports(reports=(ended(attempt),)))
            eventually(lambda: center.get(f"/v1/jobs/{job}")["state"] == "succeeded")


def test_a_center_that_runs_on_a_shared_store_is_fenced_off_by_a_migration(zookeeper: Ensemble, tmp_path: Path) -> None:
    place = empty_place(zookeeper)
    with Center(tmp_path / "one", forked=True, store=place) as center:
        kept = center.submit()
        migrate(place, str(tmp_path / "two"))
        assert center.http.post("/v1/jobs", json={"jobs": [{"command": ["true"]}]}).status_code == 503
    shutil.copy(tmp_path / "one" / "token", tmp_path / "two" / "token")
    with Center(tmp_path / "two", forked=True) as center:
        assert [job["id"] for job in center.get("/v1/jobs")["jobs"]] == [kept]


@pytest.mark.parametrize("place", KINDS, indirect=True)
def test_check_backup_and_restore(place: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    with Center(tmp_path / "data", forked=True, store=place) as center:
        kept = center.submit(name="kept")
        code, text = cress("store", "check", "--store", place)
        assert (code, "all is well" in text, "1 job" in text) == (0, True, True), text
        assert cress("store", "backup", str(file), "--store", place)[0] == 0
        lost = center.submit(name="lost")
    code, text = cress("store", "restore", str(file), "--store", place)
    assert (code, "1 job" in text) == (0, True), text
    with Center(tmp_path / "other", forked=True, store=place) as center:
        assert [job["id"] for job in center.get("/v1/jobs")["jobs"]] == [kept]
        # A number that was given out is not given out again.
        assert center.submit() > lost


class TestRefusals:
    """What would lose work or begin an empty cluster unasked is refused, and changes nothing."""

    def test_a_target_that_is_not_empty(self, zookeeper: Ensemble, tmp_path: Path) -> None:
        place = empty_place(zookeeper)
        with Center(tmp_path / "a", forked=True) as center:
            center.submit()
            with pytest.raises(InputError, match="a center runs on"):
                migrate(str(tmp_path / "a"), place)
        with Center(tmp_path / "b", forked=True, store=place) as center:
            center.submit()
        with pytest.raises(StoreError, match="is not empty; nothing was changed"):
            migrate(str(tmp_path / "a"), place)
        with Center(tmp_path / "a", forked=True) as center:
            assert len(center.get("/v1/jobs")["jobs"]) == 1

    @pytest.mark.parametrize(
        ("address", "why"),
        [
            ("redis://x/y", "'redis' is not a kind of store"),
            ("zookeeper://h1,h2", "has no path"),
            ("zookeeper:///cress", "'zookeeper' is not"),
            ("nonsense", "'nonsense' is not a kind of store"),
        ],
    )
    def test_addresses(self, address: str, why: str, tmp_path: Path) -> None:
        code, text = cress("center", "--data", str(tmp_path / "data"), "--port", "0", "--store", address)
        assert code == 2
        assert why in text
        assert "--store" in text

    def test_a_password_in_an_address_is_not_repeated(self, tmp_path: Path) -> None:
        (tmp_path / "cress.db").touch()
        with pytest.raises(InputError, match=r"cress store migrate .* zookeeper://ann@h1,h2/cress`") as error:
            open_store("zookeeper://ann:pass@word@h1,h2/cress?session=2", tmp_path)
        assert "pass@word" not in str(error.value)

    def test_a_directory_that_has_a_store_or_belongs_to_one_elsewhere(
        self, zookeeper: Ensemble, tmp_path: Path
    ) -> None:
        place = empty_place(zookeeper)
        with Center(tmp_path / "own", forked=True):
            pass
        code, text = cress("center", "--data", str(tmp_path / "own"), "--port", "0", "--store", place)
        assert (code, "has a store already" in text, "cress store migrate" in text) == (2, True, True), text
        with Center(tmp_path / "shared", forked=True, store=place):
            pass
        code, text = cress("center", "--data", str(tmp_path / "shared"), "--port", "0")
        assert (code, "an empty cluster would begin" in text) == (2, True), text


def _has_more_than(ids: list[int], count: int) -> bool:
    return len(ids) > count


def answered_before_the_body_comes(center: Center) -> list[int]:
    """How a submit and a request after it on the same connection are answered, when the body is sent after the first
    answer.
    """
    headers = {"Authorization": f"Bearer {center.token}", "Content-Type": "application/json", "Content-Length": "12"}
    with closing(HTTPConnection(center.address["url"].removeprefix("http://"), timeout=10)) as connection:
        connection.putrequest("POST", "/v1/jobs")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        first = connection.getresponse()
        first.read()
        connection.auto_open = 0
        connection.send(b'{"jobs": []}')
        connection.request("GET", "/v1/health")
        return [first.status, connection.getresponse().status]


def test_the_lead_is_handed_over_while_calls_come_in(
    zookeeper: Ensemble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = empty_place(zookeeper)
    (tmp_path / "two").mkdir(mode=0o700)
    with Center(tmp_path / "one", forked=True, store=place) as first, ExitStack() as stack:
        shutil.copy(tmp_path / "one" / "token", tmp_path / "two" / "token")
        assert (
            first.http.post("/v1/centers/hand-over", json={}).json()["message"].startswith("no other center stands by")
        )
        second = stack.enter_context(Center(tmp_path / "two", forked=True, store=place, standby=True))
        eventually(lambda: len(first.get("/v1/centers")["centers"]) == 2)
        clients = [stack.enter_context(Client(each.address["url"], first.token)) for each in (first, second)]
        ids: list[int] = []
        failures: list[Exception] = []
        stop = threading.Event()

        def calls(client: Client) -> None:
            try:
                while not stop.is_set():
                    ids.extend(job.id for job in client.submit([{"command": ["true"], "name": "x"}]).jobs)
            except Exception as error:  # noqa: BLE001 – every one is a failure
                failures.append(error)

        threads = [threading.Thread(target=calls, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for old, new in ((first, second), (second, first)):
            eventually(old.leads)
            count = len(ids)
            leader = old.post("/v1/centers/hand-over")["leader"]
            assert leader == new.address["url"]
            eventually(new.leads)
            eventually(partial(_has_more_than, ids, count + 10))
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(set(ids)) == len(ids)
        # Lists come from any center, and say how old they may be.
        answer = second.http.get("/v1/jobs", params={"limit": 500})
        assert float(answer.headers["Cress-Age"]) < 5
        eventually(lambda: max(ids) in {job["id"] for job in second.get("/v1/jobs")["jobs"]})
        # What cannot wait goes to the leader, and so does what must be of this moment.
        elsewhere: tuple[tuple[str, dict[str, str]], ...] = (
            (f"/v1/jobs/{ids[0]}", {}),
            ("/v1/jobs", {"stale": "no"}),
            ("/v1/names/x", {"stale": "ok"}),
        )
        for path, query in elsewhere:
            answer = second.http.get(path, params=query)
            assert (answer.status_code, answer.headers["Cress-Leader"]) == (307, first.address["url"])
        assert second.get(f"/v1/jobs/{ids[0]}", stale="ok")["name"] == "x"
        assert answered_before_the_body_comes(second) == [307, 200]
        assert second.get("/v1/jobs", 422, stale="maybe")["code"] == "bad_input"
        # A client that knows several addresses stays through a death.
        monkeypatch.setenv("CRESS_URL", ",".join(each.address["url"] for each in (first, second)))
        monkeypatch.setenv("CRESS_TOKEN", first.token)
        with connect() as client:
            assert client.job(ids[0]).id == ids[0]
            first.kill()
            eventually(second.leads)
            assert client.job(ids[0]).id == ids[0]
