"""Cooling-off on a live cluster: a trivial task of another group costs a borrowing group no more than its room."""

from __future__ import annotations

import time

import pytest

from tests.system.cluster import Cluster, wait_until

GROUPS = """\
Name: physics
ResourceQuota: 8
SchedPolicy: BackFill

Name: ticks
ResourceQuota: 1
"""


@pytest.mark.long
def test_a_trivial_task_of_another_group_now_and_then_leaves_a_borrowing_group_its_places(bare: Cluster) -> None:
    """Twelve places of 4 cores on three nodes of 16; every 5 s, which is less than the cooling-off of 20 s, a task of
    one core comes, for which one place is taken.
    """
    bare.start_center()
    for name in ("n1", "n2", "n3"):
        bare.start_executor(name, "<16, 64G>")
    applied = bare.cress("groups", "apply", bare.file("Group.conf", GROUPS))
    assert applied.returncode == 0, applied.stderr
    with bare.client() as client:
        borrow = {
            "name": "borrow", "group": "physics", "command": ["sleep", "8"], "tasks": 400, "resource": "<4, 64M>",
            "time_limit": "1min", "stop_grace": "0s",
        }  # fmt: skip
        number = client.submit([borrow]).jobs[0].id
        wait_until(lambda: client.job(number).tasks.running == 12, "twelve places in use")
        seen: list[int] = []
        ticks: list[int] = []
        end = time.monotonic() + 45
        while time.monotonic() < end:
            if len(ticks) * 5 < 45 - (end - time.monotonic()):
                asked = {"name": "tick", "group": "ticks", "command": ["true"], "resource": "<1, 64M>"}
                ticks.append(client.submit([asked]).jobs[0].id)
            seen.append(client.job(number).tasks.running)
            time.sleep(0.2)
        wait_until(lambda: all(client.job(tick).state == "succeeded" for tick in ticks), "the end of each tick")
        assert client.job(number).preempted, "the ticks took room"
        # Of each place that is taken, the executor needs a moment to end one program and to start the next.
        assert sum(seen) / len(seen) > 10.5, f"{sum(seen) / len(seen):.1f} of 12 places"
        assert min(seen) >= 8, "its quota and more"
        client.cancel(number)
