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
