"""A cluster over TLS: real processes, certificates of its own authority, and each way in which they can be wrong."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cress.center.tls import authority
from tests.system.cluster import Cluster, Program, wait_until

REFUSED = 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A center with TLS, and the executor n1 with its bundle."""
    # One test looks for secrets in the command line and the environment of the center, which a forked one shares.
    cluster = Cluster(forks_center=False)
    try:
        assert cluster.cress("tls", "init", "--name", "center.example.com").returncode == 0
        bundle(cluster, "n1")
        cluster.start_center("--host", "0.0.0.0")
        join(cluster, "n1", "n1.tls")
        with cluster.client() as client:
            wait_until(lambda: [node.name for node in client.nodes() if node.state == "up"] == ["n1"], "n1 being up")
        yield cluster
    finally:
        cluster.stop()


def bundle(cluster: Cluster, node: str, *arguments: str) -> Path:
    done = cluster.cress("tls", "issue", node, *arguments)
    assert done.returncode == 0, done.stderr
    return cluster.folder / f"{node}.tls"


def join(cluster: Cluster, node: str, folder: str, host: str = "127.0.0.1") -> Program:
    """Start an executor of this node with the bundle in this folder."""
    arguments = ["--tls", str(cluster.folder / folder), "--name", node, "--resource", "<1, 1G>"]
    arguments += ["--center", f"wss://{host}:{cluster.port('executor_url')}", "--no-overload", "--no-discovery"]
    process = cluster.executors[node] = cluster.start("executor", *arguments, log=f"{node}.log")
    return process


def environment(cluster: Cluster, url: str = "", ca: str = "") -> dict[str, str]:
    """The environment of a user on another machine."""
    token = (cluster.data / "token").read_text().strip()
    found = {"CRESS_URL": url or f"https://127.0.0.1:{cluster.port('url')}", "CRESS_TOKEN": token, "CRESS_DATA": ""}
    return found | ({"CRESS_CA": ca} if ca else {})


def test_jobs_run_and_are_steered_over_tls(cluster: Cluster) -> None:
    assert cluster.address("url").startswith("https://center.example.com:")
    assert cluster.address("executor_url").startswith("wss://center.example.com:")
    far = environment(cluster, ca=str(cluster.data / "tls" / "ca.pem"))
    done = cluster.cress("run", "--", "sh", "-c", "echo hello; env", **far)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "hello"), done.stderr
    assert far["CRESS_TOKEN"] not in done.stdout
    # The local way needs no certificate, and a terminal in a task goes over TLS too.
    with cluster.client() as client:
        job = client.submit([{"name": "web", "command": ["sleep", "60"]}]).jobs[0].id
    wait_until(lambda: "running" in cluster.cress("jobs", "--state", "running").stdout, "a running job")
    inside = cluster.cress("exec", job, "--", "echo", "inside", **far)
    assert (inside.returncode, inside.stdout) == (0, "inside\n"), inside.stderr
    assert cluster.cress("cancel", job, **far).returncode == 0


def test_a_user_with_the_wrong_address_or_authority_is_told(cluster: Cluster, tmp_path: Path) -> None:
    unknown = cluster.cress("jobs", **environment(cluster))
    assert unknown.returncode == REFUSED
    assert "its certificate is not valid here" in unknown.stderr
    assert "CRESS_CA names the file" in unknown.stderr
    plain = cluster.cress("jobs", **environment(cluster, url=f"http://127.0.0.1:{cluster.port('url')}"))
    assert plain.returncode == REFUSED
    assert "a center that speaks TLS is at https://" in plain.stderr
    missing = cluster.cress("jobs", **environment(cluster, ca=str(tmp_path / "none")))
    assert (missing.returncode, "the center's authority cannot be read" in missing.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=answer_plainly, args=(door,), daemon=True).start()
        url = f"https://127.0.0.1:{door.getsockname()[1]}"
        silent = cluster.cress("jobs", **environment(cluster, url=url))
    assert (silent.returncode, "does not speak TLS" in silent.stderr) == (REFUSED, True), silent.stderr


def answer_plainly(door: socket.socket) -> None:
    peer, _ = door.accept()
    with peer:
        peer.recv(1000)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_the_bundle_of_one_node_is_not_that_of_another(cluster: Cluster) -> None:
    shutil.copytree(cluster.folder / "n1.tls", cluster.folder / "stolen", dirs_exist_ok=True)
    thief = join(cluster, "n2", "stolen")
    assert thief.wait(60) == REFUSED
    assert "its certificate is that of n1, but it registers as node n2" in cluster.log("n2.log")
    with cluster.client() as client:
        assert [node.name for node in client.nodes()] == ["n1"]


def test_an_executor_of_another_cluster_is_told_whose_certificate_is_wrong(cluster: Cluster) -> None:
    other = cluster.folder / "other"
    assert cluster.cress("tls", "init", "--data", other).returncode == 0
    assert cluster.cress("tls", "issue", "n3", "--data", other).returncode == 0
    stranger = join(cluster, "n3", "n3.tls")
    assert stranger.wait(60) == REFUSED
    assert "is not this executor's center: its certificate is not valid here" in cluster.log("n3.log")
    assert "`cress tls issue`" in cluster.log("n3.log")
    # It knows the center, and the center does not know it.
    shutil.copy(cluster.data / "tls" / "ca.pem", cluster.folder / "n3.tls" / "ca.pem")
    stranger = join(cluster, "n3", "n3.tls")
    wait_until(lambda: "refuses the certificate in" in cluster.log("n3.log"), "the refusal")
    assert "unable to get local issuer certificate" in cluster.log("n3.log")
    stranger.terminate()
    assert stranger.wait(60) == 0


def test_an_expired_bundle_is_told_and_a_new_one_is_taken_without_a_restart(cluster: Cluster) -> None:
    bundle(cluster, "n4", "--valid", "1s")
    wait_until(lambda: "expired" in cluster.cress("tls", "show").stdout, "the end of a short life")
    late = join(cluster, "n4", "n4.tls")
    wait_until(lambda: "refuses the certificate in" in cluster.log("n4.log"), "the refusal")
    assert "certificate has expired" in cluster.log("n4.log")
    shutil.rmtree(cluster.folder / "n4.tls")
    bundle(cluster, "n4")
    wait_until(lambda: "node n4 is registered" in cluster.log("n4.log"), "the registration")
    late.terminate()
    assert late.wait(60) == 0


def test_a_revoked_bundle_is_worthless_at_once_and_the_next_one_is_not(cluster: Cluster) -> None:
    bundle(cluster, "n7")
    executor = join(cluster, "n7", "n7.tls")
    wait_until(lambda: "node n7 is registered" in cluster.log("n7.log"), "the registration")
    assert cluster.cress("tls", "revoke", "n7").returncode == 0
    assert executor.wait(60) == REFUSED
    assert "the certificate of this node was revoked (a new bundle: `cress tls issue NODE`)" in cluster.log("n7.log")
    with cluster.client() as client:
        assert next(node for node in client.nodes() if node.name == "n7").state == "away"
        assert next(node for node in client.nodes() if node.name == "n1").state == "up"
    shutil.rmtree(cluster.folder / "n7.tls")
    bundle(cluster, "n7")
    again = join(cluster, "n7", "n7.tls")
    wait_until(lambda: cluster.log("n7.log").count("is registered") == 2, "the second registration")
    again.terminate()
    assert again.wait(60) == 0


def test_a_node_joins_by_a_token(cluster: Cluster, tmp_path: Path) -> None:
    made = cluster.cress("token", "create", "rack1", "--join", "--uses", "2", "--node", "j*", "--expires", "10min")
    assert made.returncode == 0, made.stderr
    assert "join token rack1 for 2 nodes of names j*" in made.stderr
    file, secret = cluster.folder / "join-token", made.stdout.split("_", 3)[3].strip()
    file.write_text(made.stdout)
    url = f"https://127.0.0.1:{cluster.port('url')}"

    def join_by(node: str, token: Path = file, code: int = 0) -> str:
        out = ("--out", cluster.folder / f"{node}.tls")
        done = cluster.cress("join", url, "--name", node, "--token-file", token, *out, CRESS_DATA=str(tmp_path))
        assert done.returncode == code, done.stderr
        assert secret not in done.stdout + done.stderr
        return done.stdout + done.stderr

    assert f"--center wss://127.0.0.1:{cluster.port('executor_url')}" in join_by("j1")
    assert "kept the bundle" in join_by("j1")
    assert {path.name: path.stat().st_mode & 0o777 for path in (cluster.folder / "j1.tls").iterdir()} == {
        "ca.pem": 0o600,
        "cert.pem": 0o600,
        "key.pem": 0o600,
    }
    executor = join(cluster, "j1", "j1.tls")
    wait_until(lambda: "node j1 is registered" in cluster.log("j1.log"), "the registration")
    # The answer is lost: the same key asks again, and is not counted again.
    (cluster.folder / "j1.tls" / "cert.pem").unlink()
    join_by("j1")
    assert "1 of 2" in cluster.cress("token", "list", "--join").stdout
    shutil.rmtree(cluster.folder / "j1.tls")
    assert "with another key" in join_by("j1", code=REFUSED)
    executor.terminate()
    assert executor.wait(60) == 0
    # A center that has not made the token gets nothing of it.
    forged = tmp_path / "forged"
    kind, number, pin, rest = made.stdout.split("_", 3)
    forged.write_text("_".join((kind, number, pin[::-1], rest)))
    assert "its authority has another fingerprint; the token was not sent" in join_by("j2", forged, REFUSED)
    forged.write_text("cress_0_1")
    assert "is not a join token" in join_by("j2", forged, 2)
    assert "is a join token" in cluster.cress("jobs", **environment(cluster) | {"CRESS_TOKEN": made.stdout}).stderr
    gone = cluster.cress("token", "revoke", "--join", "rack1")
    assert "join token rack1 is revoked; nodes that have joined by it stay (1)" in gone.stdout
    assert "is wrong, or was revoked" in join_by("j2", code=REFUSED)


def test_certificates_are_renewed_without_a_restart(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # One that was made 300 days ago for a year: it is due.
    old = cluster.folder / "n5.tls"
    past = SimpleNamespace(time=lambda: time.time() - 300 * 86_400, sleep=time.sleep)
    with monkeypatch.context() as then:
        then.setattr(authority, "time", past)
        authority.Authority(cluster.data / "tls").issue_node("n5", old)
    first = (old / "cert.pem").read_bytes()
    before = subject_of(cluster)
    executor = join(cluster, "n5", "n5.tls")
    wait_until(lambda: "node n5 is registered" in cluster.log("n5.log"), "the registration")
    made = cluster.cress("tls", "init", "--name", "another.example.com")
    assert (made.returncode, "kept the authority" in made.stdout) == (0, True)
    wait_until(lambda: subject_of(cluster) != before, "the new certificate of the center")
    wait_until(lambda: (old / "cert.pem").read_bytes() != first, "the new certificate of n5")
    assert cluster.log("n5.log").count("is registered") == 1
    # The next connection shows it.
    executor.terminate()
    assert executor.wait(60) == 0
    again = join(cluster, "n5", "n5.tls")
    wait_until(lambda: cluster.log("n5.log").count("is registered") == 2, "the second registration")
    again.terminate()
    assert again.wait(60) == 0


def subject_of(cluster: Cluster) -> str:
    """The certificate that the API shows."""
    return ssl.get_server_certificate(("127.0.0.1", cluster.port("url")))


def test_addresses_and_bundles_that_do_not_go_together_are_told_before_anything_starts(cluster: Cluster) -> None:
    start = ("executor", "--name", "n6", "--center")
    for given, sentence in (
        (("wss://127.0.0.1:1",), "needs a certificate of this executor"),
        (("ws://127.0.0.1:1", "--tls", cluster.folder / "n1.tls"), "is not an address for TLS (wss://HOST:PORT)"),
        (("wss://127.0.0.1:1", "--tls", cluster.folder), "ca.pem cannot be read"),
    ):
        done = cluster.cress(*start, *given)
        assert (done.returncode, sentence in done.stderr) == (2, True), done.stderr


def test_no_secret_is_where_others_can_read_it(cluster: Cluster) -> None:
    made = cluster.cress("token", "create", "outside")
    assert made.returncode == 0, made.stderr
    token = next(word for word in made.stdout.split() if word.startswith("cress_"))
    far = environment(cluster, ca=str(cluster.data / "tls" / "ca.pem")) | {"CRESS_TOKEN": token}
    done = cluster.cress("run", "--", "sh", "-c", "env; cat /proc/$PPID/cmdline /proc/$PPID/environ", **far)
    assert done.returncode == 0, done.stderr
    secrets = {
        "token of the data directory": (cluster.data / "token").read_text().strip(),
        "token of a user": token.split("_", 2)[2],
        "key of the authority": (cluster.data / "tls" / "ca.key").read_text().splitlines()[1],
        "key of the center": (cluster.data / "tls" / "center.pem").read_text().split("KEY-----\n")[1].splitlines()[0],
        "key of an executor": (cluster.folder / "n1.tls" / "key.pem").read_text().splitlines()[1],
    }
    processes = [
        (Path("/proc", str(pid), name), Path("/proc", str(pid), name).read_bytes())
        for pid in cluster._left()
        for name in ("cmdline", "environ")
    ]
    assert len(processes) >= 8  # the center, and keeper, agent and supervisor of n1
    files = [(path, path.read_bytes()) for path in cluster.folder.rglob("*") if path.is_file()]
    home = {"token", "ca.key", "center.pem", "key.pem"}
    for what, secret in secrets.items():
        found = [path for path, data in (*processes, *files) if secret.encode() in data and path.name not in home]
        assert found == [], what
        assert secret not in done.stdout + done.stderr, what
    for path, _ in files:
        if path.name in home:
            assert path.stat().st_mode & 0o077 == 0, path


def test_strangers_leave_nothing_in_the_log(cluster: Cluster) -> None:
    for name in ("url", "executor_url"):
        with socket.create_connection(("127.0.0.1", cluster.port(name))) as door:
            door.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not door.recv(1000).startswith(b"HTTP/1.1 2")
    log = cluster.log("center.log")
    assert "Traceback" not in log
    assert "SSL" not in log
    assert (cluster.data / "token").read_text().strip() not in log
