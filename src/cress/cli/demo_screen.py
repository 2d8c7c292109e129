"""The screen of the demo: nodes with the groups that use them, groups and their quotas, the queue, the story."""

from __future__ import annotations

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cress.cli.demo_story import CORES, NODES, QUOTAS, DemoCheck, Seen
from cress.client import GroupView, JobView

COLOURS = {"science": "dodger_blue2", "web": "dark_orange", "office": "green3"}
WIDTH = 100
_CELL = "███████"
_FREE = "░░░░░░░"
_TOTAL = NODES * CORES
# Most lines of the story, and most jobs, on the screen.
LINES, JOBS = 4, 6


def screen(seen: Seen, story: list[tuple[float, str]], now: float) -> RenderableType:
    """Return one picture of the cluster."""
    top = Table.grid(expand=True)
    top.add_column(ratio=4)
    top.add_column(ratio=5)
    top.add_row(_panel(_nodes(seen), "nodes"), _panel(_groups(seen.groups), "groups against their quotas"))
    return Stack(top, _panel(_jobs(seen.jobs), "jobs"), _panel(_story(story), f"what happens ({now:.0f} s)"))


def _panel(content: RenderableType, title: str) -> Panel:
    return Panel(content, title=f"[bold]{title}[/]", title_align="left", border_style="grey50")


def _nodes(seen: Seen) -> Table:
    table = Table.grid(padding=(0, 1))
    for node in sorted(seen.nodes, key=lambda node: node.name):
        cells = Text()
        groups = sorted(seen.running.get(node.name, []), key=list(QUOTAS).index)[:CORES]
        for name in groups:
            cells.append(_CELL + " ", style=COLOURS[name])
        cells.append((_FREE + " ") * (CORES - len(groups)), style="grey37")
        table.add_row(Text(node.name, style="bold"), cells)
    return table


def _groups(groups: tuple[GroupView, ...]) -> Table:
    table = Table.grid(padding=(0, 1))
    for group in sorted(
        (group for group in groups if group.name in QUOTAS), key=lambda group: list(QUOTAS).index(group.name)
    ):
        colour = COLOURS[group.name]
        used = min(_TOTAL, round(group.ratio * QUOTAS[group.name]))
        bar = Text()
        for core in range(_TOTAL):
            bar.append("██" if core < used else "··", style=colour if core < used else "grey37")
            if core + 1 == QUOTAS[group.name]:
                bar.append("│", style="bold white")
        state = "cools off" if group.cooling else ""
        numbers = f"{used}/{QUOTAS[group.name]}"
        waiting = f"{group.waiting:3} wait" if group.waiting else ""
        table.add_row(Text(group.name, style=f"bold {colour}"), bar, numbers, waiting, Text(state, style="italic"))
    return table


def _jobs(jobs: tuple[JobView, ...]) -> Table:
    table = Table(box=None, expand=True, padding=(0, 1), header_style="grey62")
    for title, right in (
        ("job", True),
        ("name", False),
        ("group", False),
        ("done", True),
        ("runs", True),
        ("waits", True),
    ):
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    table.add_column("why it waits", ratio=1, no_wrap=True, overflow="ellipsis")
    for job in jobs[-JOBS:]:
        counts = job.tasks
        done = Text(f"{counts.succeeded}/{counts.total}", style="bold green" if job.state == "succeeded" else "")
        again = f"{job.preempted} preempted; " if job.preempted and counts.waiting else ""
        table.add_row(
            str(job.id),
            job.name,
            Text(job.group, style=COLOURS.get(job.group, "")),
            done,
            str(counts.running or ""),
            str(counts.waiting or ""),
            Text(again + job.reason, style="grey62"),
        )
    for _ in range(JOBS - len(jobs)):
        table.add_row(*[""] * 7)
    return table


def _story(story: list[tuple[float, str]]) -> Text:
    lines = [Text.assemble((f"{at:5.1f} s  ", "grey62"), sentence) for at, sentence in story[-LINES:]]
    return Text("\n").join(lines + [Text("")] * (LINES - len(lines)))


def summary(checks: list[DemoCheck]) -> Table:
    """Return the summary of the checks."""
    table = Table(title="What happened", title_justify="left", title_style="bold", expand=False)
    table.add_column("must hold")
    table.add_column("seen")
    table.add_column("")
    for check in checks:
        mark = Text("yes", style="bold green") if check.holds else Text("NO", style="bold red")
        table.add_row(check.what, check.seen, mark)
    return table
