"""Tokens of jobs in a real cluster over TLS: a task asks the center about its own job with them, and for nothing
else.
"""

from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.system.cluster import PATIENCE, Cluster, wait_until
from tests.system.test_tls import bundle, join


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    cluster = Cluster()
    try:
        assert cluster.cress("tls", "init").returncode == 0
        bundle(cluster, "n1")
        cluster.start_center()
        join(cluster, "n1", "n1.tls")
        with cluster.client() as client:
            wait_until(lambda: [node.name for node in client.nodes() if node.state == "up"] == ["n1"], "n1 being up")
        yield cluster
    finally:
        cluster.stop()


def submit(cluster: Cluster, script: str, **more: object) -> int:
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(cluster.folder)}
    job = {"command": ["sh", "-c", script], "environment": environment, "resource": "<0.1, 100M>", **more}
    with cluster.client() as client:
        return client.submit([job]).jobs[0].id


def output(cluster: Cluster, job: int, lines: int) -> list[str]:
    def read() -> list[str]:
        return cluster.cress("logs", job).stdout.splitlines()

    return wait_until(lambda: found if len(found := read()) >= lines else [], "the output")


def test_a_task_steers_its_own_job_and_nothing_else(cluster: Cluster) -> None:
    other = submit(cluster, "sleep 1000")
    job = submit(cluster, 'echo "$CRESS_URL"; echo "$CRESS_TOKEN"; exec sleep 1000', job_token=True)
    url, token = output(cluster, job, 2)
    assert url == f"https://127.0.0.1:{cluster.port('url')}"
    context = ssl.create_default_context(cafile=cluster.data / "tls" / "ca.pem")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, verify=context, trust_env=False, timeout=PATIENCE) as http:
        assert http.get("/v1/whoami").json()["how"] == f"job {job}"
        assert http.get(f"/v1/jobs/{job}").json()["state"] == "running"
        assert http.get(f"/v1/jobs/{job}/logs").text.startswith("https://")
        for method, path in (
            ("GET", f"/v1/jobs/{other}"),
            ("POST", f"/v1/jobs/{other}/cancel"),
            ("GET", "/v1/jobs"),
            ("POST", "/v1/jobs"),
            ("POST", "/v1/tokens"),
            ("GET", "/v1/nodes"),
            ("GET", "/v1/events"),
        ):
            answer = http.request(method, path, json={} if method == "POST" else None)
            assert (answer.status_code, "about that job only" in answer.text) == (403, True), (path, answer.text)
        for verb in ("cancel", "hold", "release"):
            answer = http.post(f"/v1/jobs/{verb}", json={"jobs": [job, other]})
            assert (answer.status_code, f"there is no job {other}" in answer.text) == (404, True), answer.text
        # Names of its own group are what DNS shows to everybody.
        assert http.get("/v1/names/nobody").json()["places"] == []
        answer = http.get("/v1/names/nobody", params={"group": "other"})
        assert (answer.status_code, "finds names of group default only" in answer.text) == (403, True), answer.text
        # It is in the task and its log alone, with the attempt alone.
        text = token.encode()
        found = [path for path in cluster.folder.rglob("*") if path.is_file() and text in path.read_bytes()]
        assert {path.name for path in found} == {"stdout"}
        assert http.post(f"/v1/jobs/{job}/cancel", json={}).status_code == 200
        wait_until(lambda: http.get(f"/v1/jobs/{job}").status_code == 401, "the end of the attempt")
    assert cluster.cress("cancel", other).returncode == 0


def test_commands_in_a_task_find_the_center_by_themselves(cluster: Cluster) -> None:
    cress = f"{sys.executable} -m cress"
    script = f"{cress} whoami; {cress} jobs 2>&1; echo $?; {cress} cancel $CRESS_JOB_ID; exec sleep 1000"
    job = submit(cluster, script, job_token=True)
    wait_until(lambda: "cancelled" in cluster.cress("job", job).stdout, "the cancel of the task by itself")
    who, refused, code, *_ = cluster.cress("logs", job).stdout.splitlines()
    assert who.endswith(f"(job {job})")
    assert f"the token of job {job} opens calls about that job only" in refused
    assert code == "3"


def test_without_asking_for_it_a_task_has_no_token(cluster: Cluster) -> None:
    job = submit(cluster, 'echo "${CRESS_TOKEN:-none} ${CRESS_URL:-none}"')
    assert output(cluster, job, 1) == ["none none"]
