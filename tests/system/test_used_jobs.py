"""Jobs that other jobs use: a task starts when they are ready, and finds their addresses in its environment."""

from __future__ import annotations

from tests.system.cluster import Cluster, wait_until


def test_a_task_gets_the_address_of_a_job_that_is_ready_after_it_was_submitted(shared: Cluster) -> None:
    script = 'echo "$CRESS_SERVICE_KEY_STORE $CRESS_SERVICE_KEY_STORE_ALL"'
    with shared.client() as client:
        # Both are placed in one step on the same node, the one that waits first.
        user, store = client.submit(
            [
                {"name": "user", "command": script, "uses": "key-store", "resource": "<0.1, 100M>"},
                {"name": "key-store", "command": "sleep 1000", "port": {"redis": "dynamic"}, "resource": "<0.1, 100M>"},
            ]
        ).jobs
        wait_until(lambda: client.job(user.id).state == "succeeded", "the end of the job that uses the other")
        (place,) = client.resolve("key-store")
        address = f"{place.address}:{place.ports['redis']}"
        assert shared.cress("logs", user.id).stdout.split() == [address, address]
        client.cancel(store.id)


def test_a_task_that_waits_for_a_job_says_so_everywhere(shared: Cluster) -> None:
    with shared.client() as client:
        user = client.submit([{"name": "reader", "command": "true", "uses": "late", "resource": "<0.1, 100M>"}]).jobs[0]
        wait_until(lambda: client.job(user.id).reason, "the reason")
        why = shared.cress("why", user.id).stdout
        assert "starts when a task of late is ready; if none is within 90 s, the start fails and is tried again" in why
        assert "docs/waiting.md#uses" in why
        assert "docs/waiting.md#uses" in shared.cress("job", user.id).stdout
        jobs = shared.cress("jobs", "--name", "reader")
        assert "what the reasons mean: docs/waiting.md#uses; or cress why JOB" in jobs.stderr
        assert shared.cress("jobs", "--name", "reader", "--format", "{id} {kind}").stdout == f"{user.id} uses\n"
        explained = shared.cress("explain", user.id).stdout
        assert "No single change" not in explained
        assert "Expected start" not in explained
        late = client.submit([{"name": "late", "command": "sleep 1000", "resource": "<0.1, 100M>"}]).jobs[0]
        wait_until(lambda: client.job(user.id).state == "succeeded", "the end of the job that uses the other")
        client.cancel(late.id)
