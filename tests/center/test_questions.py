"""Commands that show on a terminal what a change would do, and ask; scripts are not asked. With a real center."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

from tests.center.program import Center, eventually
from tests.forked import run_cress

GROUPS = "Name: a\nResourceQuota: 1\n\nName: b\nResourceQuota: 2\n"


def on_a_terminal(center: Center, *words: str, answer: str) -> tuple[int, str]:
    """The exit code and the output of a command on a terminal, whose question is answered."""
    pid, terminal = pty.fork()
    if not pid:
        environment = os.environ | {"CRESS_DATA": str(center.data), "TERM": "xterm", "COLUMNS": "120"}
        os.execvpe(sys.executable, [sys.executable, "-m", "cress", *words], environment)
    told, answered = b"", False
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        told += part
        if b"[y/N]" in told and not answered:
            answered = True
            os.write(terminal, answer.encode())
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, re.sub(r"\x1b\[[0-9;]*m", "", told.decode()).replace("\r", "")


def cress(center: Center, *words: str) -> tuple[int, str]:
    done = run_cress(words, environment=os.environ | {"CRESS_DATA": str(center.data)})
    return done.returncode, done.stdout + done.stderr


def test_a_drain_is_shown_and_asked_for_on_a_terminal_only(center: Center) -> None:
    with center.executor("n1") as n1:
        number = center.submit(name="one", resource="<1, 1G>", time_limit="1h")
        (launch,) = n1.launches()
        n1.started(launch.attempt)
        eventually(lambda: center.get(f"/v1/jobs/{number}")["started"])
        code, told = on_a_terminal(center, "nodes", "drain", "n1", "--deadline", "10m", answer="n\n")
        assert code == 3
        assert "1 running task would be stopped and begin again" in told
        assert "drained" in told
        assert told.rstrip().endswith("nothing was changed")
        assert center.get("/v1/nodes/n1")["state"] == "up"
        # A script is not asked.
        code, told = cress(center, "nodes", "drain", "n1", "--deadline", "10m")
        assert (code, told) == (0, "node n1 takes no new tasks; its running tasks have 10m\n")


def test_groups_are_applied_after_a_yes(center: Center, tmp_path: Path) -> None:
    file = tmp_path / "Group.conf"
    file.write_text(GROUPS)
    with center.executor("n1"):
        eventually(lambda: center.get("/v1/nodes")["nodes"])
        code, told = on_a_terminal(center, "groups", "apply", str(file), answer="y\n")
        assert code == 0
        assert "Apply these groups? [y/N] y" in told
        assert told.rstrip().endswith("2 changes made")
        assert {group["name"] for group in center.get("/v1/groups")["groups"]} >= {"a", "b"}
