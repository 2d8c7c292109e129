"""The command line starts fast: what a verb needs is imported when the verb runs."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numpy", "numba", "llvmlite", "polars", "plotly", "ruamel", "asyncio", "cress.core", "cress.simulator")


def test_importing_the_command_imports_nothing_heavy() -> None:
    code = "import sys, cress.cli.main; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.split()
    assert "cress.cli.main" in loaded
    heavy = [name for name in loaded for each in HEAVY if name == each or name.startswith(each + ".")]
    assert heavy == []
