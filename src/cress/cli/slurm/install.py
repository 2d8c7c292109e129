"""``cress slurm install``: write the commands of Slurm into a folder."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.common import Data
from cress.cli.errors import told
from cress.cli.slurm.__main__ import COMMANDS
from cress.cli.slurm.common import FOLDER, SITE_FILE
from cress.model.errors import InputError

EPILOG = """\
\b
Examples:
  cress slurm install ~/slurm && export PATH=~/slurm:$PATH
  sbatch train.sh                          an existing script, unchanged
  cress -C lab slurm install /opt/slurm    for a cluster of the configuration file

\b
The commands use the center that this command finds now. DIR should be on the nodes under the same path: jobs on
several nodes and `srun` need it. No token is written: each user needs access of their own (cress login).
docs/slurm.md says what the commands understand. Exit codes: 0 written, 2 bad input, 3 not possible.
"""

GROUP_EPILOG = """\
\b
Example: cress slurm install ~/slurm
Exit codes: 0 done, 2 bad input, 3 not possible.
"""

app = typer.Typer(no_args_is_help=True, help="Write commands of Slurm that speak to Cress.", epilog=GROUP_EPILOG)

MARK = "# Written by `cress slurm install`."
SITE = """\
# What names of Slurm stand for in Cress. A name that is missing here stands for the group of the same name.
# [partitions]
# gpu = {group = "research", requirement = "GPUs >= 1"}
# [accounts]
# physics = "research"
# [qos]
# high = {priority = 100}
# [features]
# a100 = 'GPUModel = "A100"'
"""


@app.command(epilog=EPILOG)
def install(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the commands; it is made if needed.")],
    data: Data = None,
) -> None:
    """Write sbatch, srun, squeue and the other commands of Slurm into a folder."""
    with told("slurm install"):
        folder = folder.expanduser().resolve()
        theirs = [name for name in COMMANDS if _is_foreign(folder / name)]
        if theirs:
            raise InputError(f"{folder / theirs[0]} is a program of somebody else", hint="another folder", field="DIR")
        folder.mkdir(parents=True, exist_ok=True)
        text = _text(folder, _center(data))
        for name in COMMANDS:
            path = folder / f".{name}.new"
            path.write_text(text.replace("@NAME", name), encoding="utf-8")
            path.chmod(0o755)
            path.replace(folder / name)
        if not (folder / SITE_FILE).exists():
            (folder / SITE_FILE).write_text(SITE, encoding="utf-8")
        print(f"{', '.join(COMMANDS)} are in {folder}")
        print(f"Use them:  export PATH={shlex.quote(str(folder))}:$PATH")


def installed() -> str:
    """Return the folder of the commands: that of the command that runs, else the one on ``PATH``; empty without one."""
    if os.environ.get(FOLDER):
        return os.environ[FOLDER]
    found = shutil.which("sbatch")
    return str(Path(found).resolve().parent) if found and not _is_foreign(Path(found)) else ""


def _is_foreign(path: Path) -> bool:
    try:
        return MARK not in path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    except PermissionError:
        return True


def _center(data: Path | None) -> dict[str, str]:
    """Return the variables that name the center of this command; never a token."""
    from cress.client.config import CA, DATA, SOCKET, URL, chosen_cluster, data_directory
    from cress.client.config_file import CLUSTER

    if data is not None:
        return {DATA: str(data_directory(data).resolve())}
    if chosen_cluster():
        return {CLUSTER: chosen_cluster()}
    found = {name: os.environ[name] for name in (URL, SOCKET, CA, DATA, CLUSTER) if os.environ.get(name)}
    if DATA in found:
        found[DATA] = str(data_directory(None).resolve())
    return found


def _text(folder: Path, center: dict[str, str]) -> str:
    """Return the text of a command. Variables of the caller that name a center go first."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in center.items()]
    named = "${CRESS_URL-}${CRESS_SOCKET-}${CRESS_DATA-}${CRESS_CLUSTER-}"
    chosen = [f'if [ -z "{named}" ]; then', *(f"  {line}" for line in lines), "fi"] if lines else []
    call = f'exec {shlex.quote(sys.executable)} -I -m cress.cli.slurm @NAME "$@"'
    return "\n".join(["#!/bin/sh", MARK, *chosen, f"export {FOLDER}={shlex.quote(str(folder))}", call, ""])
