"""A service that is checked, on a real cluster: resolved when it is ready, started again when it is not alive."""

from __future__ import annotations

import sys

from tests.system.cluster import Cluster, wait_until

# Answers 503 until the file ``up`` is there.
SERVER = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if os.path.exists("up") else 503)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["CRESS_PORT_http"])), Page).serve_forever()
"""


def test_a_service_is_resolved_when_it_is_ready_and_started_again_when_it_is_not_alive(shared: Cluster) -> None:
    folder = shared.folder / "service"
    folder.mkdir()
    (folder / "server.py").write_text(SERVER)
    (folder / "well").touch()
    every = {"every": "0.2s", "timeout": "30s", "failures": 2}
    job = {
        "name": "page",
        "type": "service",
        "command": [sys.executable, "server.py"],
        "directory": str(folder),
        "resource": "<0.1, 50M>",
        "ports": {"http": "dynamic"},
        "backoff": "0.1s",
        "ready": {"url": "/health?a=b", "on": "http", **every},
        "alive": {"command": ["test", "-e", "well"], **every},
    }
    with shared.client() as client:
        id = client.submit([job]).jobs[0].id
        wait_until(lambda: client.task(id, 0).state == "running", "the start")
        assert client.resolve("page") == ()
        (folder / "up").touch()
        (place,) = wait_until(lambda: client.resolve("page"), "being ready")
        # Commands are run in the task that stands for this index now.
        assert client.exec(id, ["sh", "-c", "echo $CRESS_PORT_http"]).communicate()[1] == b"%d\n" % place.ports["http"]
        (folder / "up").unlink()
        wait_until(lambda: not client.resolve("page"), "not being ready any more")
        assert client.task(id, 0).attempts[-1].id == place.attempt
        (folder / "up").touch()
        wait_until(lambda: client.resolve("page"), "being ready again")

        (folder / "well").unlink()
        wait_until(lambda: not client.resolve("page"), "the end of one that is not alive")
        (folder / "well").touch()
        (fresh,) = wait_until(lambda: client.resolve("page"), "the next one being ready")
        assert fresh.attempt > place.attempt
        client.cancel(id)
        wait_until(lambda: client.job(id).state == "cancelled", "the end")
