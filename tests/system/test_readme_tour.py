"""The tour of the README, from top to bottom, on a machine of two cores."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.cluster import PATIENCE, Cluster, Program, wait_until

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "README.md").read_text().partition("## A quick tour")[2].partition("**Simulate first.**")[0]
TWO_CORES = "<2, 8G>"
# A command with another code than 0 on purpose.
CODES = {"cress run -- sh -c 'echo hello from $CRESS_NODE; exit 3'": 3}

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0
    or "postgres" not in {each.pw_name for each in pwd.getpwall()}
    or not any(Path("/usr/lib/postgresql").glob("*/bin/postgres")),
    reason="the guestbook of the tour needs root, and PostgreSQL from Debian's packages",
)


class Tourist:
    """Someone who types the commands of the tour, with `cress up` in a terminal of its own."""

    def __init__(self, home: Cluster) -> None:
        self.home = home
        self.folder = home.folder / "tour"
        self.folder.mkdir()
        home.folder.chmod(0o755)
        (self.folder / "examples").symlink_to(ROOT / "examples")
        # `cress` is that of this Python.
        (program := home.folder / "bin" / "cress").parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m cress "$@"\n')
        program.chmod(0o755)
        home.environment["PATH"] = f"{program.parent}:{Path(sys.executable).parent}:{home.environment['PATH']}"
        self.up: Program | None = None

    def start(self, command: str) -> None:
        """Run `cress up`, instead of the one before, on nodes of two cores if it names none."""
        self.stop()
        words = [*shlex.split(command)[1:], "--port", "0"]
        if "--node-resource" not in words:
            words += ["--node-resource", TWO_CORES]
        log = f"up{len(list(self.home.folder.glob('up*.log')))}.log"
        words = [str(self.folder / word) if word == "devices.yaml" else word for word in words]
        self.up = self.home.start(*words, log=log)
        wanted = int(words[words.index("--executors") + 1]) if "--executors" in words else 1

        def is_up() -> bool:
            if "Cress is up" not in self.home.log(log):
                return False
            with self.home.client() as client:
                return sum(node.state == "up" for node in client.nodes()) == wanted

        wait_until(is_up, "cress up")

    def stop(self) -> None:
        """Ctrl-C."""
        if self.up is not None:
            self.up.terminate()
            self.up.wait(PATIENCE)

    def type(self, command: str) -> str:
        """What a command says."""
        place = str(self.home.folder / "guestbook")
        done = subprocess.run(
            command.replace("/srv/guestbook", place).replace("/srv/", f"{self.home.folder}/"),
            shell=True,
            capture_output=True,
            text=True,
            env=self.home.environment,
            cwd=self.folder,
            timeout=2 * PATIENCE,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == CODES.get(command, 0), (command, done.stdout, done.stderr)
        guestbook = self.home.folder / "guestbook" / "guestbook.yaml"
        if guestbook.exists():
            guestbook.write_text(guestbook.read_text().replace("/srv/guestbook", place))
        return done.stdout + done.stderr


def steps() -> list[tuple[str, str]]:
    """The blocks of the tour in their order: commands, each with what the page says behind it, and Python."""
    found: list[tuple[str, str]] = []
    for kind, block in re.findall(r"```(console|python)\n(.*?)```", TOUR, re.DOTALL):
        if kind == "python":
            found.append(("python", block))
            continue
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = each.partition("\n")
            found.append((re.sub(r"\s{2,}#.*", "", command), output))
    return found


def heads(output: str) -> set[tuple[str, ...]]:
    """The heads of the tables of an output."""
    return {tuple(line.split()) for line in output.splitlines() if re.fullmatch(r"[A-Z/]{2,}(?: +[A-Z/]{2,})+", line)}


@pytest.mark.long
def test_the_tour_runs_from_top_to_bottom(bare: Cluster) -> None:
    tourist = Tourist(bare)
    seen = []
    for command, output in steps():
        if command == "python":
            (tourist.folder / "tour.py").write_text(output + "print(len(squares), squares[-1])\n")
            said = tourist.type(f"{shlex.quote(sys.executable)} tour.py")
            assert said == f"10000 {9999**2}\n"
        elif command.startswith("cress up"):
            tourist.start(command)
        elif not command.startswith("echo $?"):
            said = tourist.type(command)
            # Numbers of jobs, what was done, and heads of tables; places, times and loads are those of another machine.
            for line in re.findall(r"^(?:job \d+ \(|cress ).*", output, re.MULTILINE):
                assert line in said.splitlines(), (command, said)
            # The column is there while something waits whose start is known: sometimes in this second.
            assert heads(output) <= heads(said.replace(" STARTS", "")), (command, said)
        seen.append(command.split()[1] if command.startswith("cress") else command.split()[0])
    tourist.stop()
    assert {"up", "run", "seq", "groups", "submit", "apply", "scale", "exec", "cancel", "python"} <= set(seen)
