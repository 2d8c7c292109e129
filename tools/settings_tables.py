"""Writes the tables of settings into docs/configuration.md, from the table of settings (design note 0037).

Run it with ``python -m tools.settings_tables``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.executor_settings import EXECUTOR_SETTINGS
from cress.model.program_settings.local_settings import LOCAL_SETTINGS
from cress.model.program_settings.setting import CENTER, EXECUTOR, UP, Setting
from cress.model.program_settings.table import settings_of

PAGE = Path(__file__).parents[1] / "docs/configuration.md"


def keys(program: str) -> str:
    """Return the keys of a program's file as a Markdown table."""
    rows = [
        (
            f"`{each.name}`",
            each.form,
            ", ".join(f"`{name}`" for name in each.variables(program)),
            _default(each),
            _about(each),
        )
        for each in settings_of(program)
    ]
    return _table(("key", "value", "variable", "default", "meaning"), rows)


def options_of_up() -> str:
    """Return the options that only ``cress up`` has as a Markdown table, and those that it shares."""
    rows = [(f"`{each.flag}`", _default(each), _about(each)) for each in LOCAL_SETTINGS]
    table = _table(("option", "default", "meaning"), rows)
    return f"{table}\nOf the center: {_shared(CENTER_SETTINGS)}.\n\nOf all executors: {_shared(EXECUTOR_SETTINGS)}.\n"


def page(text: str) -> str:
    """Return the text of the page with its tables as the settings are now."""
    for name, table in ((CENTER, keys(CENTER)), (EXECUTOR, keys(EXECUTOR)), (UP, options_of_up())):
        begin, end = f"<!-- {name}: begin (python -m tools.settings_tables) -->\n", f"<!-- {name}: end -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise SystemExit(f"{PAGE}: there is no place for the table of {name}: {begin}{end}")
        text = before + begin + table + end + after
    return text


def _shared(settings: Iterable[Setting]) -> str:
    return ", ".join(f"`{each.flag}`" for each in settings if UP in each.programs)


def _default(setting: Setting) -> str:
    default = setting.default
    return "–" if default is None else f"`{default.value if isinstance(default, Enum) else default}`"


def _about(setting: Setting) -> str:
    return re.sub(r"\(docs/([\w-]+)\.md\)", r"([\1](\1.md))", setting.about)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
