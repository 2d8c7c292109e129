"""Who follows a log that keeps only its end, over restarts of the center."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys

from tests.system.cluster import Cluster, wait_until

BURSTS, LINES = 150, 1000
LINE = re.compile(rb"(\d{8}) x{90}")
GONE = re.compile(rb"\[(the first )?\S+( bytes)? (from here on )?are gone: the log keeps its last ")


def test_every_line_that_is_kept_comes_once_over_restarts_of_the_center(own: Cluster) -> None:
    script = (
        f"for i in $(seq 0 {BURSTS - 1}); do seq -f '%08.0f {'x' * 90}' $((i * {LINES})) $((i * {LINES} + "
        f"{LINES - 1})); "
        "sleep 0.05; done; while [ ! -e go ]; do sleep 0.05; done; echo last"
    )
    with own.client() as client:
        id = client.submit([{"command": script, "directory": str(own.folder), "log_size": "200K"}]).jobs[0].id
        wait_until(lambda: client.job(id).state == "running")
    seen = own.folder / "seen"
    command = [sys.executable, "-m", "cress", "logs", str(id), "--follow"]
    with (
        seen.open("wb") as out,
        # A center that starts slowly is told of between two parts of a line.
        (own.folder / "told").open("wb") as told,
        subprocess.Popen(command, stdout=out, stderr=told, env=own.environment) as follower,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(follower.kill)
        for kill in (True, False):
            size = seen.stat().st_size
            wait_until(lambda size=size: seen.stat().st_size > size, "something to be written")  # type: ignore[misc]
            if kill:
                own.kill_center()
            else:
                own.stop_center()
            own.start_center()
        wait_until(lambda: b"%08d " % (BURSTS * LINES - 1) in seen.read_bytes(), "the last line but one", 40)
        (own.folder / "go").touch()
        assert follower.wait(60) == 0
    lines = seen.read_bytes().splitlines()
    assert lines[-1] == b"last"
    before, gap, gaps = -1, False, 0
    for line in lines[:-1]:
        match = LINE.fullmatch(line)
        if match:
            number = int(match[1])
            assert number == before + 1 or (gap and number > before), (before, line)
            before, gap = number, False
        elif GONE.search(line):
            gap, gaps = True, gaps + 1
        else:
            # Where a part is gone the lines at its ends may be in pieces, and nowhere else.
            assert gap or GONE.search(lines[lines.index(line) + 1]), line
    assert before == BURSTS * LINES - 1
    assert gaps
