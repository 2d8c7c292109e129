"""Expected starts with real processes: in the views of waiting jobs, in the tables, and learned from what came."""

from __future__ import annotations

from tests.system.cluster import Cluster, wait_until

# Stays until it may go.
STAYS = ["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done"]


def test_a_waiting_job_shows_when_it_is_expected_to_start_and_behind_whom(bare: Cluster) -> None:
    bare.start_center()
    bare.start_executor("n1", "cpu=2, memory=2G")
    job = {"command": STAYS, "resource": "<2, 64M>", "time_limit": "10m", "directory": str(bare.folder)}
    with bare.client() as client:
        first, second, third = (client.submit([job]).jobs[0].id for _ in range(3))
        wait_until(lambda: client.job(third).expected_start is not None, "the expected start of the third job")
        start, now = client.job(third).expected_start, client.job(third).submitted
        assert start is not None
        assert start.earliest is not None
        assert start.likely is not None
        assert start.latest is not None
        # The first one has begun by its limit, the second one runs for another ten minutes.
        assert start.earliest < start.likely < start.latest
        assert abs(start.likely - now - 1200) < 60
        assert (start.because, start.behind, start.ahead) == (second, 1, "default")
        assert client.job(first).expected_start is None
        told = bare.cress("job", third).stdout
        assert f", behind 1 job of default, when job {second} ends" in told
        table = bare.cress("jobs").stdout.splitlines()
        assert "STARTS" in table[0].split()
        assert "to" in table[1].split()
        # What has started is not expected any more.
        (bare.folder / "go").touch()
        wait_until(lambda: client.job(third).state == "succeeded", "the end of the third job")
        assert client.job(third).expected_start is None
        assert "STARTS" not in bare.cress("jobs").stdout
