"""Hook of the build: the launcher of tasks is compiled into wheels and editable installations.

Without a C compiler nothing is added, and an executor builds it at its first use or does without it: see
``src/cress/executor/runtimes/launcher.py``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MODULE = Path("src", "cress", "executor", "runtimes", "launcher.py")


class LauncherHook(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that hatchling calls."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the launcher beside its source, and add it to the wheel."""
        source = Path(self.root, _MODULE)
        spec = importlib.util.spec_from_file_location("cress_launcher", source)
        assert spec is not None
        assert spec.loader is not None
        launcher = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(launcher)
        program = source.with_name(launcher.name())
        try:
            if not program.exists():
                launcher.build(program)
        except OSError as error:
            self.app.display_warning(f"the launcher is not built: {error}")
            return
        if version == "editable":
            return  # used where it is
        # Files that git ignores are left out of a wheel unless they are named.
        build_data["force_include"][str(program)] = str(Path(*_MODULE.parts[1:-1], program.name))
