"""The whole table, and the settings of each program.

Options, keys of configuration files, environment variables, defaults and the tables in docs/configuration.md are made
from the table (design note 0037).
"""

from __future__ import annotations

from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.executor_settings import EXECUTOR_SETTINGS
from cress.model.program_settings.local_settings import LOCAL_SETTINGS
from cress.model.program_settings.setting import Setting

TABLE = (*LOCAL_SETTINGS, *CENTER_SETTINGS, *EXECUTOR_SETTINGS)


def settings_of(program: str) -> tuple[Setting, ...]:
    """Return the settings of a program, in the order of its help."""
    return tuple(setting for setting in TABLE if program in setting.programs)
