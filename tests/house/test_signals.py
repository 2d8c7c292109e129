"""Ctrl-C reaches the programs of tests, however the tests were started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# As a shell starts a program in the background (`make test &` in a script).
BACKGROUND = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.executable, "
    "[sys.executable, '-c', sys.argv[1]])"
)


def test_programs_of_tests_that_run_in_the_background_obey_ctrl_c() -> None:
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    program = f"import subprocess, sys, tests.conftest; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    done = subprocess.run(
        [sys.executable, "-c", BACKGROUND, program], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60
    )
    assert done.stdout == "True\n"
