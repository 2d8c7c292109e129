"""A center whose store several centers share: another one goes on from it, and it moves between all kinds of stores."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cress.center.store_migration import migrate
from cress.model.errors import InputError
from cress.model.reports import Started
from cress.protocol.messages import Reports
from cress.store.base import StoreError
from tests.center.program import Center, ended, eventually
from tests.servers.logs import empty_place

KINDS = ["zookeeper", pytest.param("postgresql", marks=pytest.mark.long)]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> str:
    """The address of an empty store."""
    return empty_place(request.getfixturevalue(request.param))


def cress(*words: str) -> tuple[int, str]:
    told = subprocess.run([sys.executable, "-m", "cress", *words], capture_output=True, text=True, check=False)
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


def test_the_older_of_two_centers_stores_nothing_more(zookeeper: object, tmp_path: Path) -> None:
    place = empty_place(zookeeper)  # type: ignore[arg-type]
    with Center(tmp_path / "one", forked=True, store=place) as first:
        kept = first.submit()
        with Center(tmp_path / "two", forked=True, store=place) as second:
            answer = first.http.post("/v1/jobs", json={"jobs": [{"command": ["true"]}]})
            assert answer.status_code == 503
            assert "not in charge any more" in answer.text
            assert second.submit() == kept + 1


def test_a_store_moves_while_tasks_run_and_back(zookeeper: object, postgresql: object, tmp_path: Path) -> None:
    data = tmp_path / "data"
    places = [empty_place(zookeeper), empty_place(postgresql)]  # type: ignore[arg-type]
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
    assert migrate(source, str(back)) is None
    with Center(back, forked=True) as center:
        names = {each["name"] for each in center.get("/v1/jobs")["jobs"]}
        assert names == {"long", "zookeeper", "postgresql"}
        with center.executor(reports=known) as executor:
            executor.send(Reports(reports=(ended(attempt),)))
            eventually(lambda: center.get(f"/v1/jobs/{job}")["state"] == "succeeded")


def test_a_center_that_runs_on_a_shared_store_is_fenced_off_by_a_migration(zookeeper: object, tmp_path: Path) -> None:
    place = empty_place(zookeeper)  # type: ignore[arg-type]
    with Center(tmp_path / "one", forked=True, store=place) as center:
        kept = center.submit()
        migrate(place, str(tmp_path / "two"))
        assert center.http.post("/v1/jobs", json={"jobs": [{"command": ["true"]}]}).status_code == 503
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

    def test_a_target_that_is_not_empty(self, zookeeper: object, tmp_path: Path) -> None:
        place = empty_place(zookeeper)  # type: ignore[arg-type]
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

    def test_a_directory_that_has_a_store_or_belongs_to_one_elsewhere(self, zookeeper: object, tmp_path: Path) -> None:
        place = empty_place(zookeeper)  # type: ignore[arg-type]
        with Center(tmp_path / "own", forked=True):
            pass
        code, text = cress("center", "--data", str(tmp_path / "own"), "--port", "0", "--store", place)
        assert (code, "has a store already" in text, "cress store migrate" in text) == (2, True, True), text
        with Center(tmp_path / "shared", forked=True, store=place):
            pass
        code, text = cress("center", "--data", str(tmp_path / "shared"), "--port", "0")
        assert (code, "an empty cluster would begin" in text) == (2, True), text
