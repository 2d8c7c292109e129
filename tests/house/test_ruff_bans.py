"""ruff holds the bans too, while one types: in the pure rooms, under any alias, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def codes(source: str, file: str) -> set[str]:
    """The codes of what ruff complains about in ``source``, taken for ``file``."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "--select", "TID251"]
    result = subprocess.run(
        [*command, "--stdin-filename", file, "-"], input=source, capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert result.returncode in (0, 1), result.stderr
    return {"TID251"} if "TID251" in result.stdout else set()


CLOCKED = "import time as t\n\nt.time()\n"


@pytest.mark.parametrize(
    "source",
    [
        CLOCKED,
        "from time import monotonic as m\n",
        "import datetime as d\n\nd.datetime.now()\n",
        "import numpy as np\n\nnp.random.default_rng(1)\n",
        "from asyncio import Queue\n",
        "from os import urandom\n",
    ],
)
@pytest.mark.parametrize("room", ["model", "language", "core", "core/groups/policies", "lifecycle"])
def test_banned_in_pure_rooms(source: str, room: str) -> None:
    assert codes(source, f"src/cress/{room}/example.py") == {"TID251"}


@pytest.mark.parametrize(
    "folder", ["src/cress/simulator/traces", "src/cress/cli", "src/cress/center", "tests/core", "tools"]
)
def test_free_elsewhere(folder: str) -> None:
    assert codes(CLOCKED, f"{folder}/example.py") == set()
