"""``python -m cress.cli.slurm NAME …``: one of the commands; each is a function in a file of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module

# The commands, with the modules of their functions.
COMMANDS = {
    "sbatch": "batch",
    "srun": "steps",
    "salloc": "allocations",
    "squeue": "queue",
    "scancel": "cancelling",
    "sinfo": "nodes",
    "sacct": "accounting",
    "scontrol": "control",
    "sacctmgr": "accounts",
    "sprio": "reports",
    "sreport": "reports",
    "seff": "reports",
    "sshare": "reports",
    "sstat": "accounting",
    "sbcast": "copying",
    **dict.fromkeys(("sattach", "scrontab", "sdiag", "strigger", "smap", "sview"), "unsupported"),
}


def main() -> None:
    """Run a command; its errors are sentences on standard error."""
    name, words = sys.argv[1], sys.argv[2:]
    from cress.cli.lean_httpx import leave_out_command_line
    from cress.cli.slurm.common import run

    leave_out_command_line()
    try:
        code = run(name, getattr(import_module(f"cress.cli.slurm.{COMMANDS[name]}"), name), words)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
