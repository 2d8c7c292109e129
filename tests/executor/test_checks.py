"""Checks: what the center hears of tasks that are ready, and alive, from a real agent with real tasks."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from cress.executor import checks
from cress.executor.exec.helper_process import HelperProcess
from cress.executor.probes import Target
from cress.model.reports import Checked, Started
from cress.model.run import Check
from cress.model.times import MILLISECOND, SECOND
from tests.counted import system_calls_of
from tests.executor.centers import AgentProcess, Center, Session, center, clean_up
from tests.executor.harness import shell, until
from tests.ports import free_port

Start = Callable[..., AgentProcess]
SOON = 100 * MILLISECOND
# A loaded machine may take long to run a command; none of these tests is about that.
PATIENT = 60 * SECOND


@pytest.fixture
def above() -> Iterator[Center]:
    with center() as it:
        yield it


@pytest.fixture
def start(tmp_path: Path, above: Center) -> Iterator[Start]:
    agents: list[AgentProcess] = []

    def begin() -> AgentProcess:
        agents.append(AgentProcess(tmp_path / "e", above.port))
        return agents[-1]

    yield begin
    for agent in agents:
        agent.close()
    clean_up(tmp_path / "e")


def there(path: Path, *, failures: int = 2) -> Check:
    """A command that succeeds while a file is there."""
    return Check(command=("test", "-e", str(path)), interval=SOON, timeout=PATIENT, failures=failures)


def says(session: Session, *, ready: bool = True, alive: bool = True) -> Checked:
    """The next report, which is to be this one."""
    report = session.wait_checked()
    assert (report.ready, report.alive) == (ready, alive), report
    return report


def quiet(session: Session, seconds: float = 0.7) -> None:
    """Nothing is told for several intervals."""
    with pytest.raises(queue.Empty):
        session.checked.get(timeout=seconds)


def test_what_changes_is_told_and_nothing_else(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    up, well = tmp_path / "up", tmp_path / "well"
    well.touch()
    session.launch(shell("sleep 1000", ready=there(up), alive=there(well)), 7)
    session.wait_started(7)
    # That it is not ready, which the center takes for granted, is told once with the reason.
    assert says(session, ready=False).why == "test exited with 1"
    up.touch()
    assert says(session).why == ""
    quiet(session)
    up.unlink()
    assert says(session, ready=False).attempt == 7
    up.touch()
    says(session)
    well.unlink()
    assert says(session, alive=False).why == "test exited with 1"
    session.stop(7, 0)
    session.wait_ended(7)
    quiet(session)


def test_a_port_by_name_is_the_number_of_the_attempt(start: Start, above: Center) -> None:
    start()
    session = above.session()
    port = free_port()
    code = (
        "import os, socket, time; s = socket.create_server(('', int(os.environ['CRESS_PORT_http']))); time.sleep(1000)"
    )
    run = shell(
        f'exec python3 -c "{code}"', ports=(("http", 0),), ready=Check(port="http", interval=SOON, failures=10_000)
    )
    session.launch(run, 7, ports=(port,))
    says(session)


def test_only_alive_is_told_when_it_is_not_and_ready_is_by_time_alone(
    start: Start, above: Center, tmp_path: Path
) -> None:
    start()
    session = above.session()
    session.launch(shell("sleep 1000", alive=there(tmp_path / "well")), 7)
    says(session, alive=False)


def test_a_delay_comes_first(start: Start, above: Center) -> None:
    start()
    session = above.session()
    check = Check(command=("true",), interval=SOON, timeout=PATIENT, delay=3600 * SECOND)
    session.launch(shell("sleep 1000", ready=check), 7)
    session.wait_started(7)
    quiet(session)


def test_one_failure_is_none_when_several_count(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    count = tmp_path / "count"
    # Fails every second time.
    script = f"n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}; test $((n % 2)) = 0"
    check = Check(command=("sh", "-c", script), interval=SOON, timeout=PATIENT, failures=2)
    session.launch(shell("sleep 1000", ready=check), 7)
    says(session)
    until(lambda: int(count.read_text() or 0) > 6, "some more questions")
    assert session.checked.empty()


def test_a_center_that_comes_back_hears_of_all(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    session.launch(shell("sleep 1000", ready=there(tmp_path)), 7, 8)
    assert {says(session).attempt, says(session).attempt} == {7, 8}
    session.connection.close()
    session = above.session()
    told = [report for report in session.hello.reports if isinstance(report, Checked)]
    assert sorted((each.attempt, each.ready, each.alive) for each in told) == [(7, True, True), (8, True, True)]
    session.stop(7, 0)
    session.wait_ended(7)
    session.durable(7)


def test_a_killed_agent_is_no_end_of_the_checks(start: Start, above: Center, tmp_path: Path) -> None:
    agent = start()
    session = above.session()
    up = tmp_path / "up"
    up.touch()
    session.launch(shell("sleep 1000", ready=there(up)), 7)
    says(session)
    agent.kill()
    up.unlink()
    start()
    session = above.session()
    # Nothing is told that is not known by now: what the center has heard holds.
    assert [report for report in session.hello.reports if isinstance(report, Checked)] == []
    assert says(session, ready=False).attempt == 7
    up.touch()
    says(session)


def test_nothing_is_left_of_the_checks_of_attempts_that_are_over(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    session.launch(shell("sleep 0.3", ready=there(tmp_path)), *range(1, 9))
    for attempt in range(1, 9):
        session.wait_ended(attempt)
    until(lambda: not list((tmp_path / "e" / "checks").iterdir()), "the end of the files")


def test_attempts_without_checks_ask_nothing_of_the_system(tmp_path: Path) -> None:
    """Nearly all attempts are such, and a folder of another agent's files made each of them three calls."""
    # The second one is a digit and no number.
    for name in ("3", "²"):
        (tmp_path / name).write_bytes(b"")
    found = checks.Checks(tmp_path, cast(HelperProcess, None))
    found.ended(3)
    assert [path.name for path in tmp_path.iterdir()] == ["²"]

    def pass_by() -> None:
        for attempt in range(10, 20):
            found.started(Started(attempt=attempt, at=1, pid=1))
            found.ended(attempt)

    assert system_calls_of(pass_by) == 0


def test_probes_of_one_user_that_hang_take_no_place_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(_check: Check, _port: int, target: Target, _helper: HelperProcess) -> str:
        if target.attempt != 1:
            await asyncio.sleep(3600)
        return "asked"

    monkeypatch.setattr(checks, "ask", asked)

    async def story() -> None:
        found = checks.Checks(tmp_path, cast(HelperProcess, None))
        check = Check(port="1")
        hanging = [
            asyncio.create_task(found.ask(check, 1, Target(number, 1), "ann"))
            for number in range(2, 2 * checks.MOST_ASKED)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            assert await found.ask(check, 1, Target(1, 1), "bob") == "asked"
        for task in hanging:
            task.cancel()

    asyncio.run(story())


def test_a_task_cannot_change_its_checks(start: Start, above: Center, tmp_path: Path) -> None:
    start()
    session = above.session()
    session.launch(shell("sleep 1000", ready=there(tmp_path)), 7)
    says(session)
    assert (tmp_path / "e" / "checks").stat().st_mode & 0o777 == 0o700
    assert not list((tmp_path / "e" / "attempts" / "7").glob("*check*"))
