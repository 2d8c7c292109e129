"""The ``cress`` command. Each verb is a function in a file of its own; heavy imports happen inside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import cress
from cress.cli.errors import BAD_INPUT
from cress.cli.lean_httpx import leave_out_command_line
from cress.cli.plain_values import read_plainly
from cress.cli.usage_errors import usage_error
from cress.cli.verb_table import TABLE
from cress.cli.verbs import Verbs
from cress.model.foreign_words import verb_for

if TYPE_CHECKING:
    from typer._click.formatting import HelpFormatter
    from typer._click.shell_completion import CompletionItem

INTERRUPTED = 130  # 128 + SIGINT, as shells count


class ByTable(TyperGroup):
    """The verbs, in the order of the table. Their list is printed without importing one of them."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = VERBS
        read_plainly(self)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Return the verb; for the name of another system's verb, the error gives the name in Cress."""
        meant = verb_for(args[0]) if args and args[0] not in self.commands else ""
        if meant:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command; mistakes in its words are reported as all others, on one line."""
        if not more.pop("standalone_mode", True):
            return super().main(*args, **(more | {"standalone_mode": False}))
        try:
            code = super().main(*args, **(more | {"standalone_mode": False}))
        except Exception as error:
            text = usage_error(error)
            if text is None:
                raise
            typer.echo(text, err=True)
            sys.exit(BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of the verbs."""
        return [*self.commands]

    def format_commands(self, ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
        """Write the list of the verbs."""
        room = formatter.width - 6 - max(len(verb.name) for verb in TABLE)
        with formatter.section("Commands"):
            formatter.write_dl([(verb.name, _shortened(verb.about, room)) for verb in TABLE])

    def shell_complete(self, ctx: typer.Context, incomplete: str) -> list[CompletionItem]:  # type: ignore[override]
        """Return the verbs that begin so, and the options."""
        from typer._click.shell_completion import CompletionItem

        items = [CompletionItem(verb.name, help=verb.about) for verb in TABLE if verb.name.startswith(incomplete)]
        return [*items, *super(TyperGroup, self).shell_complete(ctx, incomplete)]


def _shortened(text: str, most: int) -> str:
    """Return a sentence of at most ``most`` characters, cut between two words."""
    if len(text) <= most:
        return text
    return text[: text.rindex(" ", 0, most - 2)] + "..."


VERBS = Verbs(TABLE)

app = typer.Typer(
    name="cress",
    cls=ByTable,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would take a third of the time of `cress --help`
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cress {cress.__version__}")
        raise typer.Exit


@app.callback()
def _cress(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster", "-C", metavar="NAME", help="A cluster of ~/.config/cress/config.toml (docs/configuration.md)."
        ),
    ] = "",
) -> None:
    """Cluster resource manager and job scheduler."""
    if cluster:
        from cress.client.config import choose_cluster

        choose_cluster(cluster)


def main() -> None:
    """Run the command: the entry point of the package."""
    leave_out_command_line()
    try:
        app(prog_name="cress")  # the same name also for python -m cress
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe has gone (`| head`), so nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
