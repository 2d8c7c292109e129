"""Groups of verbs that do something by themselves: ``cress nodes`` lists, ``cress nodes cordon`` is a verb below."""

from __future__ import annotations

import typer
from typer.core import TyperGroup


class WithDefault(TyperGroup):
    """Verbs below a verb, of which ``list`` is meant when none is named."""

    default = "list"
    # Whether the default takes words: then an unknown word is one for it, else a mistyped verb.
    takes_words = False

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put the default before arguments that name no verb; ``--help`` is about all of them."""
        first = args[0] if args else ""
        wants_help = first in ctx.help_option_names
        named = first in self.commands or (first and not first.startswith("-") and not self.takes_words)
        if not wants_help and not named:
            args = [self.default, *args]
        return super().parse_args(ctx, args)


class WithDefaultOf(WithDefault):
    """The same, and the default takes words."""

    takes_words = True
