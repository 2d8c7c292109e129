"""`cress top`, driven by Textual's own pilot: tables, order, filter, stories, and a center that does not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec
import pytest

from cress.cli.top_rows import GROUPS, NODES, WAITING, heading, shown
from cress.cli.top_source import Look
from cress.client import EventView, GroupView, JobView, NodeView, StateView
from cress.protocol.job_views import ExpectedStartView, TaskCounts

pytest.importorskip("textual", reason="textual is not installed: pip install 'cress[top]'")

from textual.pilot import Pilot
from textual.widgets import Static

from cress.cli import top_app
from cress.cli.top_app import Panel, StoryScreen, TopApp

NOW = 1_700_000_000.0


def job(number: int, name: str, reason: str, waits: float = 60.0) -> JobView:
    return JobView(
        id=number, name=name, group="ads", user="ann", type="batch", state="waiting",
        tasks=TaskCounts(total=1, waiting=1), priority=0, gang=False, resource={}, time_limit=None,
        submitted=NOW - waits, reason=reason,
    )  # fmt: skip


def node(name: str) -> NodeView:
    return NodeView(name=name, state="up", capacity={"cpu": "4"}, used={"cpu": "3"}, running=3)


LOOK = Look(
    state=StateView(
        version="1", epoch=1, started=NOW, now=NOW, nodes=10_000, nodes_up=9_998, jobs_waiting=2, jobs_running=7,
        tasks_waiting=2, tasks_running=7, capacity={"cpu": "40000"}, used={"cpu": "39000"},
    ),
    groups=(
        GroupView(name="ads", quota="cpu=4", used="4", ratio=1.25, policy="FIFO", weight=1, users=(), running=4,
                  waiting=2, cooling=True),
        GroupView(name="web", quota="cpu=4", used="1", ratio=0.25, policy="FIFO", weight=1, users=(), running=1,
                  waiting=0),
    ),
    waiting=(job(12, "train", "group ads is at its bound", 60), job(9, "etl", "no node has 64G of memory free", 600)),
    nodes=(node("n1"), node("n2")),
    events=(EventView(number=1, at=NOW, kind="job.submitted", job=12, group="ads", name="train"),),
)  # fmt: skip


class Told:
    """A source that answers with one look, or with an error."""

    def __init__(self) -> None:
        self.error = ""
        self.looks = 0
        self.asked: list[bool] = []
        self.stories: list[tuple[str, str]] = []

    def look(self, *, nodes: bool, word: str) -> Look:
        self.looks += 1
        self.asked.append(nodes)
        if self.error:
            raise OSError(self.error)
        return LOOK

    def story(self, kind: str, name: str) -> list[tuple[float, str]]:
        self.stories.append((kind, name))
        return [(NOW, f"the story of {kind} {name}")]


def played(source: Told, story: Callable[[TopApp, Pilot[None]], Awaitable[None]]) -> None:
    """Play a story on a screen of 80×24."""

    async def play() -> None:
        app = TopApp(source, every=3600)
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(pilot, lambda: app.seen is not None or bool(source.error))
            await story(app, pilot)

    asyncio.run(play())


async def settled(pilot: Pilot[None], done: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + 30
    while not done():
        assert time.monotonic() < until
        await pilot.pause(0.01)
    await pilot.pause()


def cells(app: TopApp, name: str) -> list[list[str]]:
    panel = app.query_one(f"#{name}", Panel)
    return [[str(cell) for cell in panel.get_row_at(row)] for row in range(panel.row_count)]


def test_the_screen_has_groups_what_waits_and_events_in_80_columns() -> None:
    async def story(app: TopApp, _: Pilot[None]) -> None:
        assert "9,998 of 10,000 nodes up" in str(app.query_one("#heading", Static).content)
        assert [row[0] for row in cells(app, "groups")] == ["ads", "web"]
        assert cells(app, "groups")[0][1] == "██████████ 125%"
        assert [row[0] for row in cells(app, "waiting")] == ["12", "9"]
        assert cells(app, "waiting")[1][4].startswith("no node has 64G")
        assert str(app.query_one("#detail", Static).content) == "job 12: group ads is at its bound"
        assert cells(app, "events")[0][1] == "job.submitted"
        assert all(
            sum(map(len, row)) + 2 * len(row) <= 78 for name in ("groups", "waiting") for row in cells(app, name)
        )
        assert all(app.query_one(f"#{name}", Panel).size.height >= 3 for name in ("groups", "waiting", "events"))

    played(Told(), story)


def test_groups_are_a_tree_and_the_marked_job_says_when_it_is_expected_to_start() -> None:
    lab, top = (msgspec.structs.replace(LOOK.groups[0], name=name) for name in ("lab", "top"))
    inner = msgspec.structs.replace(lab, name="ads", parent="top")
    start = ExpectedStartView(earliest=NOW + 600, likely=NOW + 900, latest=NOW + 1200)
    late = msgspec.structs.replace(LOOK.waiting[0], expected_start=start)
    look = replace(LOOK, groups=(inner, lab, top), waiting=(late,))
    assert [row.cells[0] for row in shown(GROUPS, look)] == ["lab", "top", "└─ ads"]
    assert shown(WAITING, look)[0].text == "job 12, expected start 10m to 20m: group ads is at its bound"


def test_a_look_changes_the_cells_that_differ_and_the_marked_row_stays_marked() -> None:
    source = Told()

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        panel = app.query_one("#waiting", Panel)
        rows, (first, second) = list(panel.rows), LOOK.waiting
        app._show(replace(LOOK, waiting=(first, msgspec.structs.replace(second, reason="another reason"))))
        await pilot.pause()
        assert list(panel.rows) == rows, "no row is new"
        assert cells(app, "waiting")[1][4] == "another reason"
        await pilot.press("down")
        assert str(app.query_one("#detail", Static).content) == "job 9: another reason"
        # The same rows in another order: the mark goes with its job, and its new text is told.
        app._show(replace(LOOK, waiting=(msgspec.structs.replace(second, reason="now first"), first)))
        await pilot.pause()
        assert panel.marked == ("job", "9")
        assert str(app.query_one("#detail", Static).content) == "job 9: now first"

    played(source, story)


def test_sort_turn_and_filter() -> None:
    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("s")
        assert [row[0] for row in cells(app, "waiting")] == ["9", "12"]
        await pilot.press("S")
        assert [row[0] for row in cells(app, "waiting")] == ["12", "9"]
        await pilot.press("slash", *"64g", "enter")
        assert [row[0] for row in cells(app, "waiting")] == ["9"]
        await pilot.press("escape")
        assert len(cells(app, "waiting")) == 2

    played(Told(), story)


def test_enter_opens_the_story_of_the_marked_job_and_escape_closes_it() -> None:
    source = Told()

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("enter")
        await settled(pilot, lambda: bool(source.stories))
        assert isinstance(app.screen, StoryScreen)
        await settled(pilot, lambda: "the story of job 12" in str(app.screen.query_one("#story", Static).content))
        await pilot.press("escape")
        assert not isinstance(app.screen, StoryScreen)

    played(source, story)
    assert source.stories == [("job", "12")]


def test_nodes_are_asked_for_only_while_they_are_shown() -> None:
    source = Told()

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        assert source.asked == [False]
        await pilot.press("n")
        await settled(pilot, lambda: source.looks == 2)
        assert source.asked == [False, True]
        assert [row[0] for row in cells(app, "nodes")] == ["n1", "n2"]

    played(source, story)


def test_a_center_that_does_not_answer_is_told_over_the_old_tables() -> None:
    source = Told()

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        source.error = "connection refused"
        app.look()
        line = app.query_one("#heading", Static)
        await settled(pilot, lambda: "connection refused" in str(line.content))
        assert len(cells(app, "waiting")) == 2

    played(source, story)


def test_rows_are_sorted_by_values_not_by_text() -> None:
    assert [row.key[1] for row in shown(WAITING, LOOK, sort=3)] == ["12", "9"]
    assert [row.key[1] for row in shown(NODES, LOOK, word="N2")] == ["n2"]
    assert "7 jobs run, 2 wait" in heading(LOOK)


def test_looks_that_took_more_than_their_part_of_a_processor_are_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Told()

    async def story(app: TopApp, pilot: Pilot[None]) -> None:
        await settled(pilot, lambda: source.looks == 1)
        monkeypatch.setattr(top_app, "PART", -1.0)
        app.look_again()
        monkeypatch.setattr(top_app, "PART", 1e9)
        app.look_again()
        await settled(pilot, lambda: source.looks == 2)

    played(source, story)
