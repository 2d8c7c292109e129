"""Which hosts, schemes and paths jobs may name in addresses: real servers, a real supervisor."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from cress.executor.addresses import Failed, shown, without_secrets
from cress.executor.local_files import fetch_here, save_here
from cress.executor.source_rules import SourceRules, schemes_of
from cress.model.allowed_sources import AllowedSources
from cress.model.reports import Cause
from cress.model.run import File
from cress.network.connection_guard import ConnectionGuard, RefusedError, own_networks
from tests.executor.harness import SupervisorProcess, shell, supervisor, until
from tests.executor.sites import Site


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """A server that jobs may ask, and one that they may not."""
    with Site(tmp_path / "open") as one, Site(tmp_path / "closed") as other:
        for site in (one, other):
            site.put("file", b"contents")
        yield one, other


def run_all(parent: SupervisorProcess, sources: list[str]) -> list[str]:
    """Return the errors of attempts with one file each."""
    client = parent.start()
    for number, source in enumerate(sources, 1):
        client.launch(shell("cat x", job=number, files=(File(source=source, path="x"),)), number)
    return [client.wait_ended(number).error.partition(": ")[2] for number in range(1, len(sources) + 1)]


def test_by_default_nothing_of_the_node_is_asked(tmp_path: Path, sites: tuple[Site, Site]) -> None:
    port = sites[0].port
    own = str(next(each for each in own_networks() if not each.is_loopback and each.version == 4).network_address)
    loopback = "a loopback address, which jobs may not use (--allow-host)"
    cases = {
        f"http://127.0.0.1:{port}/file": f"127.0.0.1 is {loopback}",
        f"http://localhost:{port}/file": f"localhost leads to {loopback}",
        f"http://2130706433:{port}/file": "",
        f"http://0x7f.1:{port}/file": "",
        f"http://0177.0.0.1:{port}/file": "",
        f"http://[::ffff:127.0.0.1]:{port}/file": f"is {loopback}",
        f"http://me:secret@127.0.0.1:{port}/file?key=secret": f"127.0.0.1 is {loopback}",
        "http://169.254.169.254/latest/meta-data": "169.254.169.254 is a link-local address, which jobs may not use (--allow-host)",  # noqa: E501
        f"http://0.0.0.0:{port}/file": "0.0.0.0 is an address of this node, which jobs may not use (--allow-host)",
        f"http://{own}:{port}/file": f"{own} is an address of this node, which jobs may not use (--allow-host)",
        f"ftp://127.0.0.1:{port}/file": f"127.0.0.1 is {loopback}",
        f"simplecache::http://127.0.0.1:{port}/file": f"127.0.0.1 is {loopback}",
        "hdfs://name/x": "hdfs:// may not be used on this node (--allow-scheme)",
        "simplecache::reference::file:///x": "reference:// may not be used on this node (--allow-scheme)",
    }
    with supervisor(tmp_path / "executor") as parent:
        for (source, expected), error in zip(cases.items(), run_all(parent, list(cases)), strict=True):
            assert error, source
            assert error.endswith(expected), source
            assert "secret" not in error, source
    assert not sites[0].asked


def test_each_redirect_and_each_port_is_checked(tmp_path: Path, sites: tuple[Site, Site]) -> None:
    one, other = sites
    there = quote(f"http://127.0.0.1:{other.port}/file", safe="")
    name = quote(f"http://localhost:{other.port}/file", safe="")
    back = quote(f"http://127.0.0.1:{one.port}/file", safe="")
    sources = [
        one.fill(f"{{site}}/{path}")
        for path in (f"to/{back}", f"to/{there}", f"to/{name}", "to/file:%2F%2F%2Fetc%2Fpasswd")
    ]
    options = ("--allow-host", "any", "--allow-host", f"127.0.0.1:{one.port}")
    with supervisor(tmp_path / "executor", options=options) as parent:
        errors = run_all(parent, [*sources, other.fill("{site}/file")])
        assert parent.output(1) == "contents"
    assert errors[0] == ""
    for error in (errors[1], errors[4]):
        assert error.endswith("127.0.0.1 is a loopback address, which jobs may not use (--allow-host)")
    assert errors[2].endswith("localhost leads to a loopback address, which jobs may not use (--allow-host)")
    assert errors[3].endswith("the server redirects to an address that is not HTTP")
    assert not other.asked


def test_outputs_and_copies_of_logs_obey_the_same_rules(tmp_path: Path, sites: tuple[Site, Site]) -> None:
    site = sites[0]
    with supervisor(tmp_path / "executor", options=("--allow-scheme", "http")) as parent:
        client = parent.start()
        end = client.run(shell("touch x", outputs=(File(path="x", source=site.fill("{site}/x")),)), 1)
        assert end.cause is Cause.OUTPUTS
        assert end.error.endswith("is a loopback address, which jobs may not use (--allow-host)")
        end = client.run(shell("touch x", outputs=(File(path="x", source="/tmp/x"),)), 2)
        assert end.error == "x could not be saved to /tmp/x: paths of this node may not be used (--allow-scheme)"
        client.run(shell("true", log_copy=site.fill("{site}/logs")), 3)
        until(lambda: "127.0.0.1 is a loopback address" in parent.output(3, "stderr"), "the failed copy")
    assert not site.taken


# A name whose address has changed between two questions: the second answer is refused when it is connected to.
REBINDING = """
import socket, sys
answers = iter(["93.184.216.34", "127.0.0.1"])
def resolve(host, port, *rest, **more):
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]
socket.getaddrinfo = resolve
from cress.network.connection_guard import ConnectionGuard
from cress.model.allowed_sources import AllowedSources
ConnectionGuard(AllowedSources()).install()
assert socket.getaddrinfo("rebind.example", 80)[0][4][0] == "93.184.216.34"
for connect in (
    lambda: socket.create_connection(("rebind.example", int(sys.argv[1]))),
    lambda: socket.socket().connect(("127.0.0.1", int(sys.argv[1]))),
    lambda: socket.socket().connect_ex(("127.0.0.1", int(sys.argv[1]))),
    lambda: socket.socket().connect(("localhost", int(sys.argv[1]))),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(sys.argv[1]))),
    lambda: socket.socket(socket.AF_UNIX).connect("/run/some.sock"),
):
    try:
        connect()
    except PermissionError as error:
        print(error)
"""


def test_a_name_whose_address_changes_leads_nowhere(sites: tuple[Site, Site]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REBINDING, str(sites[0].port)], capture_output=True, text=True, check=True
    )
    refused = done.stdout.splitlines()
    assert len(refused) == 6, done.stdout
    assert refused[0] == "rebind.example leads to a loopback address, which jobs may not use (--allow-host)"


def test_only_named_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(host: str, port: object, **_: object) -> list[object]:
        return [(2, 1, 6, "", ({"files.example.org": "10.0.0.1", "center": "10.0.0.9"}.get(host, "10.0.0.2"), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    guard = ConnectionGuard(AllowedSources(hosts=("*.example.org:443", "10.1.0.0/16")))
    for name in ("files.example.org", "files.example.com"):
        guard._resolved(name, 443)
    guard.check("10.0.0.1", 443)
    guard.check("10.1.2.3", 80)
    for address, port in (("10.0.0.1", 80), ("10.0.0.2", 443), ("10.0.0.3", 443)):
        with pytest.raises(RefusedError, match="is not among the hosts that jobs may use"):
            guard.check(address, port)
    guard = ConnectionGuard(AllowedSources(center="center"))
    guard.check("10.0.0.1", 443)
    with pytest.raises(RefusedError, match="is the address of the center"):
        guard.check("10.0.0.9", 443)


def test_hidden_folders_of_the_node_are_not_sources_or_destinations(tmp_path: Path) -> None:
    secret, task = tmp_path / "data", tmp_path / "data/executors/node/attempts/1/work"
    task.mkdir(parents=True)
    (secret / "token").write_text("secret")
    (tmp_path / "link").symlink_to(secret / "token")
    (tmp_path / "around").symlink_to(tmp_path)
    rules = SourceRules(AllowedSources(), (str(secret),), (task,))
    for source in (secret / "token", secret, tmp_path / "link", tmp_path / "around"):
        with pytest.raises(Failed, match="is hidden from the tasks of this node"):
            fetch_here(source, tmp_path / "new", rules)
    (task / "own").write_text("own")
    for place in (secret / "token", secret / "new/x", tmp_path / "around/data/token"):
        with pytest.raises(Failed, match="is hidden from the tasks of this node"):
            save_here(task / "own", place, rules)
    assert (secret / "token").read_text() == "secret"
    assert not (secret / "new").exists()
    fetch_here(task / "own", tmp_path / "new", rules)
    save_here(task / "own", tmp_path / "out/own", rules)
    assert (tmp_path / "new").read_text() == (tmp_path / "out/own").read_text() == "own"


@pytest.mark.parametrize(
    ("address", "schemes"),
    [
        ("/etc/passwd", ["file"]),
        ("FILE:///etc/passwd", ["file"]),
        ("http://[::1]/x", ["http"]),
        ("zip://a::simplecache::HTTP://h/x", ["zip", "simplecache", "http"]),
        ("s3://b/k::/etc/passwd", ["s3", "file"]),
    ],
)
def test_schemes_of_chained_addresses(address: str, schemes: list[str]) -> None:
    assert schemes_of(address) == schemes


def test_secrets_of_addresses_are_not_in_texts() -> None:
    address = "https://me:pass%21word@host/p?sign=abc"
    assert shown(address) == "https://host/p?…"
    assert shown("zip://x::https://me:secret@host/p?k=v") == "zip://x::https://host/p?…"
    text = without_secrets(f"cannot get {address}: me:pass%21word with pass!word and sign=abc", address)
    assert not any(each in text for each in ("pass", "abc")), text
