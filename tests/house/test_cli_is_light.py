"""The command line starts fast: what a verb needs is imported when the verb runs."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY = ("numpy", "numba", "llvmlite", "polars", "plotly", "yaml", "asyncio", "cress.core", "cress.simulator")


# All verbs, not only the one that runs.
EVERY_VERB = (
    "import sys, cress.cli.main; from cress.cli.verbs import found; from cress.cli.verb_table import TABLE\n"
    "for verb in TABLE: found(verb.place)\n"
)


def test_importing_the_command_imports_nothing_heavy() -> None:
    code = EVERY_VERB + "print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    loaded = result.stdout.split()
    assert "cress.cli.main" in loaded
    heavy = [name for name in loaded for each in HEAVY if name == each or name.startswith(each + ".")]
    assert heavy == []


def test_an_executor_loads_its_own_part_of_the_shell_and_nothing_that_decides_for_the_cluster() -> None:
    code = "import sys, cress.executor.agent, cress.executor.supervisor; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    heavy = {each for each in loaded if each.split(".")[0] in {"numpy", "numba"}}
    rooms = {
        each for each in loaded if each.startswith(("cress.core", "cress.lifecycle", "cress.store", "cress.center"))
    }
    shell = {each for each in loaded if each.startswith("cress.shell.") and not each.startswith("cress.shell.executor")}
    assert (heavy, rooms, shell) == (set(), set(), set())


def test_only_the_verb_that_runs_is_imported_and_plain_values_need_no_other_library() -> None:
    code = (
        "import sys; from cress.cli import main; from cress.cli.verb_table import TABLE\n"
        "sys.argv[1:] = ['jobs', '--state', 'running', '--limit', '7', '--data', '/nowhere']\n"
        "try: main.main()\n"
        "except SystemExit as end: assert end.code == 3, end.code\n"
        "verbs = {f'cress.cli.{verb.place.partition(chr(58))[0]}' for verb in TABLE}\n"
        "print(sorted(({*sys.modules} & verbs) | ({*sys.modules} & {'pydantic', 'typer._adapters'})))"
    )
    # A center of whoever runs the tests is not asked.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CRESS_")}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.splitlines()[-1] == "['cress.cli.jobs']"


def test_a_center_imports_no_framework_that_examines_functions() -> None:
    code = "import sys, cress.center.run; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"fastapi", "pydantic"} & set(loaded) == set()
