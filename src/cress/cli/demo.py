"""``cress demo``: a cluster of three executors for half a minute, shown live and then checked."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.errors import told

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cress.client import Client

EPILOG = """\
\b
Three groups with quotas of 6, 3 and 3 cores share three executors of 4 cores; the tasks are real processes.
Exit codes: 0 all checks passed, 1 a check failed, 130 interrupted.
"""

# Seconds between two looks at the cluster.
LOOK_EVERY = 0.1
# Seconds: the story takes about 25; a machine that needs this long has a problem that waiting does not solve.
PATIENCE = 120.0
# Seconds after science and web started until the picture is taken: all three groups are busy, and some jobs wait.
PICTURE_AFTER = 5.0
# The width of tables in a pipe or a file, which set no limit.
WIDEST = 140


def demo(
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a picture of the screen under load, as SVG.")
    ] = None,
) -> None:
    """Run a mixed workload on its own cluster, and check it."""
    with told("demo", "center"):
        from cress.cli.demo_story import OPTIONS, RESOURCE
        from cress.cli.local import LocalCluster, LocalSetup, NotStarted

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        # Short, since the paths of Unix sockets are limited to 107 bytes.
        data = Path(tempfile.mkdtemp(prefix="cress-"))
        options = [argument for option in OPTIONS for argument in ("--option", option)]
        cluster = LocalCluster(LocalSetup(data=data, executors=3, resource=RESOURCE, center=options), _say)
        try:
            _say("starting a center and three executors")
            cluster.start()
            held = _play(cluster.client(), data, picture)
        except NotStarted as error:
            _say(str(error) or "the cluster did not start")
            raise typer.Exit(error.code) from None
        finally:
            cluster.stop()
            shutil.rmtree(data, ignore_errors=True)
    raise typer.Exit(0 if held else 1)


def _play(client: Client, data: Path, picture: Path | None) -> bool:
    """Run the story to its end; return whether all checks passed."""
    from rich.console import Console
    from rich.live import Live

    from cress.cli.demo_screen import WIDTH, screen, summary
    from cress.cli.demo_story import GROUPS, Story

    console = Console(width=None if sys.stdout.isatty() else WIDEST)
    told: list[tuple[float, str]] = []

    def tell(sentence: str) -> None:
        told.append((story.now, sentence))
        if not console.is_terminal:
            print(f"{story.now:5.1f} s  {sentence}", flush=True)

    with client:
        client.apply_groups(GROUPS, file="the demo's groups")
        story = Story(client, data / "ran", tell)
        with Live(console=console, refresh_per_second=8, transient=False) as live:
            while not story.over:
                seen = story.tick()
                shown = screen(seen, told, story.now)
                if console.is_terminal:
                    live.update(shown)
                if picture is not None and story.act == 2 and story.now - story.since > PICTURE_AFTER:
                    _save(shown, picture, WIDTH)
                    picture = None
                if story.now > PATIENCE:
                    _say(f"the story did not end within {PATIENCE:.0f} s")
                    return False
                time.sleep(LOOK_EVERY)
        checks = story.checks()
    console.print()
    console.print(summary(checks))
    held = all(check.holds for check in checks)
    jobs, tasks = len(story.jobs), sum(story.tasks.values())
    console.print(
        f"{jobs} jobs, {tasks} tasks, {story.now:.0f} s: {'all checks passed' if held else 'NOT all checks passed'}"
    )
    return held


def _save(shown: RenderableType, picture: Path, width: int) -> None:
    from io import StringIO

    from rich.console import Console

    paper = Console(record=True, width=width, file=StringIO(), force_terminal=True, color_system="truecolor")
    paper.print(shown)
    picture.parent.mkdir(parents=True, exist_ok=True)
    paper.save_svg(str(picture), title="cress demo")


def _say(sentence: str) -> None:
    typer.echo(f"cress demo: {sentence}", err=True)
