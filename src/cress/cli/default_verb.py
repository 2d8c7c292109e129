"""Command groups with a default verb: ``cress nodes`` lists, ``cress nodes cordon`` is a verb below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer._click.formatting import HelpFormatter


class WithDefault(TyperGroup):
    """A group of verbs with ``list`` as the default."""

    default = "list"
    # The default takes arguments: an unknown word is then its argument, otherwise a mistyped verb.
    takes_words = False

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put the default before arguments that name no verb; ``--help`` describes all verbs."""
        first = args[0] if args else ""
        wants_help = first in ctx.help_option_names
        named = first in self.commands or (first and not first.startswith("-") and not self.takes_words)
        if not wants_help and not named:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: typer.Context, formatter: HelpFormatter) -> None:  # type: ignore[override]
        """Describe the options of the default too, since most users need these."""
        super().format_options(ctx, formatter)
        default = self.get_command(ctx, self.default)
        told = [] if default is None else [param.get_help_record(ctx) for param in default.params]
        with formatter.section(f"Options of {self.default} (the default subcommand)"):
            formatter.write_dl([record for record in told if record is not None])


class WithDefaultOf(WithDefault):
    """A group of verbs whose default verb takes arguments."""

    takes_words = True
