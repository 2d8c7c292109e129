"""Images in containers of each engine, from archives: their files, their devices, their start, and their removal."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from cress.executor import images
from cress.executor.addresses import Failed
from cress.executor.images import Images, full_name
from cress.executor.runtimes.engines import ENGINES
from cress.model.allowed_sources import AllowedSources
from cress.model.reports import Cause
from cress.model.run import File, Image, Run
from tests.executor.harness import supervisor
from tests.servers.images import make_layout, programs, registry, skopeo

COMMANDS = {"bubblewrap": "bwrap"}
TOOLS = (*images.TOOLS, "docker-registry")
MISSING = [name for name in TOOLS if shutil.which(name) is None]
needs_tools = pytest.mark.skipif(
    os.geteuid() != 0 or bool(MISSING), reason=f"needs root and {', '.join(MISSING or TOOLS)} (make packages)"
)
CONFIG = {"Env": ["COLOUR=green"], "Cmd": ["/bin/cat", "/etc/name"], "WorkingDir": "/etc"}


# This one, and those of the two servers of a test.
THREADS = 3


@contextlib.contextmanager
def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """A server of this process, by its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with an image that has a shell, a file and a device."""
    folder = tmp_path_factory.mktemp("image")
    files = {**programs("sh", "cat"), "etc/name": b"of the image\n"}
    make_layout(folder / "layout", files, CONFIG, device=True)
    words = ["skopeo", "--insecure-policy", "copy", f"oci:{folder}/layout:latest", f"oci-archive:{folder}/image.tar"]
    subprocess.run(words, check=True, capture_output=True)
    # Tasks of other accounts read it, too.
    for path in (folder, *list(folder.parents)[:2]):
        path.chmod(0o755)
    return folder / "image.tar"


@needs_tools
@pytest.mark.parametrize("engine", [engine.name for engine in ENGINES])
def test_a_program_runs_in_its_image_with_every_engine(tmp_path: Path, archive: Path, engine: str) -> None:
    if shutil.which(COMMANDS.get(engine, engine)) is None:
        pytest.skip(f"{engine} is not installed")
    image = Image(name=f"oci-archive:{archive}")
    text = "cat words /etc/name; echo $COLOUR $SHAPE; cat /srv/zero; (: > /etc/x); : > kept; cat /etc/hosts > /dev/null"
    boxed = Run(
        job=1,
        command=("/bin/sh", "-c", text),
        runtime="container",
        image=image,
        environment=(("SHAPE", "square"),),
        files=(File(source="", path="words", text="brought\n"),),
    )
    with supervisor(tmp_path / "e", options=("--engine", engine)) as parent:
        client = parent.start()
        assert client.inventory.container == engine
        end = client.run(boxed, 1)
        assert (end.cause, end.error) == (Cause.EXITED, ""), parent.output(1, "stderr")
        assert parent.output(1) == "brought\nof the image\ngreen square\n"
        told = parent.output(1, "stderr")
        assert "/srv/zero: Permission denied" in told
        assert "Read-only file system" in told
        assert (tmp_path / "e/attempts/1/work/kept").exists()
        # As the image says, without files of the job; the tools are not called again.
        made = next((tmp_path / "e/images").glob("*/image.json")).stat().st_mtime_ns
        end = client.run(Run(job=1, command=(), runtime="container", image=image), 2)
        assert (end.cause, end.code, parent.output(2)) == (Cause.EXITED, 0, "of the image\n")
        assert next((tmp_path / "e/images").glob("*/image.json")).stat().st_mtime_ns == made


@needs_tools
def test_an_image_that_nothing_uses_is_removed_and_one_in_use_stays(tmp_path: Path, archive: Path) -> None:
    def use() -> Images:
        found = Images(tmp_path, AllowedSources())
        with archive.open("rb") as file:
            unpacked = found.use(f"oci-archive:{archive}", file.fileno())
        assert unpacked.command == ("/bin/cat", "/etc/name")
        return found

    holder = use()
    (place,) = [path for path in (tmp_path / "images").iterdir() if path.is_dir()]

    def tidy() -> None:
        os.utime(place, (time.time() - images.KEPT - 9,) * 2)
        Images(tmp_path, AllowedSources())._remove_old()

    tidy()
    assert (place / "rootfs/bin/sh").exists()
    holder.release()
    tidy()
    assert not place.exists()
    use().release()


@needs_tools
def test_a_digest_alone_opens_no_image(tmp_path: Path, archive: Path) -> None:
    files = {**programs("sh"), "etc/secret": b"of ann\n"}
    make_layout(tmp_path / "layout", files, CONFIG)
    # A file of passwords for "ann:word", by Apache's htpasswd -B.
    password = "ann:$2b$05$LR86kxTAhMDiEbY1AJPMA.eDgCpEbOHhwbxvPzVTK8NKrzt23r7G2\n"
    on_loopback = AllowedSources(hosts=("127.0.0.1",))

    def use(name: str, user: str, credentials: bytes = b"") -> str:
        found = Images(tmp_path, on_loopback)
        try:
            return found.use(name, credentials=credentials, user=user).root
        finally:
            found.release()

    with registry(tmp_path / "r", password) as address:
        source, name = f"oci:{tmp_path}/layout:latest", f"{address}/team/demo:1"
        skopeo("copy", "--dest-tls-verify=false", "--dest-creds=ann:word", source, f"docker://{name}")
        root = use(name, "ann", b"ann:word")
        exact = f"{address}/team/demo@sha256:{Path(root).parent.name}"
        for wrong in (b"", b"bob:guess"):
            with pytest.raises(Failed, match=r"authentication required|unauthorized"):
                use(exact, "bob", wrong)
    # With the registry away, for whom it has given the image to, but nobody else.
    assert use(exact, "ann") == root
    with pytest.raises(Failed, match="Connection refused"):
        use(exact, "bob", b"ann:word")
    with registry(tmp_path / "open") as address:
        skopeo("copy", "--dest-tls-verify=false", source, f"docker://{address}/team/demo:1")
        everybodys = exact.replace(exact.partition("/")[0], address)
        assert use(everybodys, "bob") == root
        # Nor does the digest of an archive, which whoever submits the archive says aloud.
        holder = Images(tmp_path, on_loopback)
        with archive.open("rb") as file:
            holder.use(f"oci-archive:{archive}", file.fileno())
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        with pytest.raises(Failed, match="manifest unknown"):
            use(f"{address}/team/demo@sha256:{digest}", "bob")
    assert use(everybodys, "cat") == root


class _Leading(BaseHTTPRequestHandler):
    """A registry that leads to another server: by a redirect, or as the place where passwords are checked."""

    other = ""
    by_password = False
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.by_password:
            self.send_response(401)
            self.send_header("WWW-Authenticate", f'Bearer realm="{self.other}/token",service="x"')
        elif "/manifests/" in self.path:
            self.send_response(307)
            self.send_header("Location", f"{self.other}{self.path}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
        pass


class _Inner(_Leading):
    """A server of this machine that is nobody's business."""

    asked: ClassVar[list[str]] = []


@needs_tools
@pytest.mark.parametrize("by_password", [False, True])
def test_a_registry_leads_to_no_server_that_jobs_may_not_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_password: bool
) -> None:
    with serve(_Inner) as inner, serve(_Leading) as leading:
        sources = AllowedSources(hosts=("any", f"127.0.0.1:{leading}"))
        monkeypatch.setattr(_Leading, "by_password", by_password)
        for other in (f"http://127.0.0.1:{inner}", "http://169.254.169.254"):
            monkeypatch.setattr(_Leading, "other", other)
            _Leading.asked.clear()
            with pytest.raises(Failed) as caught:
                Images(tmp_path, sources).use(f"127.0.0.1:{leading}/tool")
            assert _Leading.asked
            assert not caught.value.node
            assert _Inner.asked == []
            if "169" in other:
                assert str(caught.value) == (
                    f"the image 127.0.0.1:{leading}/tool: its registry leads to another server: "
                    "169.254.169.254 is a link-local address, which jobs may not use (--allow-host)"
                )
        assert len(threading.enumerate()) <= THREADS


@needs_tools
def test_credentials_name_no_program_that_root_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker-credential-mine").write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    (tmp_path / "docker-credential-mine").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    pulls = Images(tmp_path, AllowedSources(hosts=("127.0.0.1",)))
    with registry(tmp_path / "r", "ann:nothing") as address:
        given = {"auths": {address: {"auth": "YW5uOndvcmQ="}}, "credHelpers": {address: "mine"}, "credsStore": "mine"}
        with pytest.raises(Failed, match=r"unauthorized|authentication required"):
            pulls.use(f"{address}/team/demo:1", credentials=json.dumps(given).encode(), user="ann")
    assert not (tmp_path / "was-run").exists()
    for text in ('{"credsStore": "mine"}', '{"auths": [1]}', '{"auths"', '{"a":' * 100_000):
        with pytest.raises(Failed, match=r"config\.json of Docker with passwords"):
            pulls.use("127.0.0.1:1/team/demo:1", credentials=text.encode(), user="ann")


@needs_tools
def test_an_archive_that_changes_while_it_is_read_becomes_no_image(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_layout(tmp_path / "layout", {**programs("sh"), "etc/name": b"forged\n"}, CONFIG)
    skopeo("copy", f"oci:{tmp_path}/layout:latest", f"oci-archive:{tmp_path}/forged.tar")
    # In the folder of a task, which is in the executor's directory.
    mine, home = tmp_path / "e/attempts/1/work/mine.tar", tmp_path / "e"
    mine.parent.mkdir(parents=True)
    shutil.copy(archive, mine)
    os.chown(mine, 65534, 65534)
    digest_of = images._digest_of

    def then_changed(fd: int) -> str:
        """The digest of what is there now; its owner writes something else a moment later."""
        found = digest_of(fd)
        mine.write_bytes((tmp_path / "forged.tar").read_bytes())
        return found

    monkeypatch.setattr(images, "_digest_of", then_changed)
    with mine.open("rb") as file, pytest.raises(Failed, match="changed while it was read"):
        Images(home, AllowedSources()).use(f"oci-archive:{mine}", file.fileno())
    monkeypatch.undo()
    with archive.open("rb") as file:
        found = Images(home, AllowedSources()).use(f"oci-archive:{archive}", file.fileno())
    assert Path(found.root, "etc/name").read_text() == "of the image\n"
    shutil.copy(tmp_path / "forged.tar", mine)
    with mine.open("rb") as file:
        found = Images(home, AllowedSources()).use(f"oci-archive:{mine}", file.fileno())
    assert Path(found.root, "etc/name").read_text() == "forged\n"


def test_a_huge_archive_is_refused_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "images/archive-0"
    place.mkdir(parents=True)
    with (tmp_path / "huge.tar").open("w+b") as file:
        file.truncate(shutil.disk_usage(tmp_path).free)
        found = Images(tmp_path, AllowedSources())
        with pytest.raises(Failed, match="the disk of this node has no room for its ") as caught:
            found._make(place, partial(found._copy_archive, "oci-archive:", file.fileno()))
    assert not caught.value.node

    def broken(new: Path) -> None:
        (new / "archive").write_text("a copy")
        raise Failed("no tar")

    with pytest.raises(Failed, match="no tar"):
        found._make(place, broken)
    assert list(place.iterdir()) == []
    # Of one that was killed, another attempt removes it soon, unless it is still being made.
    (place / "new").mkdir()
    with (place / "lock").open("w") as lock:
        os.utime(place, (time.time() - images.PART_KEPT - 9,) * 2)
        fcntl.flock(lock, fcntl.LOCK_SH)
        found._remove_old()
        assert place.exists()
    found._remove_old()
    assert not place.exists()


def test_an_image_that_is_made_again_is_not_set_aside_by_another_attempt(tmp_path: Path) -> None:
    place = tmp_path / "images/1"
    (place / "rootfs").mkdir(parents=True)
    DAMAGES["cut"](place)
    found = Images(tmp_path, AllowedSources())
    first = os.open(place.parent, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        # The other attempt sees the damage as well, and has its turn when the image is healthy again.
        other = pool.submit(found._set_aside, place)
        time.sleep(0.1)
        (place / "image.json").write_text("{}")
        os.close(first)
        other.result()
    assert [path.name for path in place.parent.iterdir()] == ["1"]


def folder(path: Path) -> None:
    """A folder in the place of a file."""
    path.unlink(missing_ok=True)
    path.mkdir()


def other(path: Path) -> None:
    """A file in the place of a folder."""
    shutil.rmtree(path)
    path.write_text("x")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda place: (place / "image.json").write_text('{"Ent'),
    "empty": lambda place: (place / "image.json").write_text(""),
    "a folder": lambda place: folder(place / "image.json"),
    "a folder as lock": lambda place: folder(place / "lock"),
    "no root": lambda place: shutil.rmtree(place / "rootfs"),
    "a file as root": lambda place: other(place / "rootfs"),
    "a file as image": other,
    "a file as list of readers": lambda place: (place / "readers").write_text("x"),
}


def test_each_damage_of_an_image_is_seen(tmp_path: Path) -> None:
    for number, (what, harm) in enumerate(DAMAGES.items()):
        place = tmp_path / str(number)
        assert not images._is_damaged(place)
        (place / "rootfs").mkdir(parents=True)
        (place / "lock").touch()
        assert not images._is_damaged(place), "it is being made"
        (place / "image.json").write_text("{}")
        assert not images._is_damaged(place)
        harm(place)
        assert images._is_damaged(place), what


@needs_tools
def test_a_damaged_image_is_made_again(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "e").mkdir()

    def use() -> str:
        found = Images(tmp_path / "e", AllowedSources())
        try:
            with archive.open("rb") as file:
                return found.use(f"oci-archive:{archive}", file.fileno()).root
        finally:
            found.release()

    root = use()
    DAMAGES["cut"](Path(root).parent)
    assert use() == root
    # What a kill and somebody's hand may leave before it is whole.
    place = Path(root).parent
    (place / "image.json").unlink()
    (place / "new").write_text("x")
    folder(place / "image.json.new")
    assert use() == root
    assert Path(root, "etc/name").read_text() == "of the image\n"
    other(tmp_path / "e/images")
    with pytest.raises(Failed, match=r"e/images: File exists") as caught:
        use()
    assert caught.value.node


def test_what_is_no_image_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_text("no tar")
    with (tmp_path / "x.tar").open("rb") as file, pytest.raises(Failed) as caught:
        Images(tmp_path, AllowedSources()).use("docker-archive:/x.tar", file.fileno())
    assert str(caught.value).startswith("images need" if MISSING else "the image")
    with pytest.raises(Failed, match=r"registries may not be used on this node|images need"):
        Images(tmp_path, AllowedSources(schemes=("file",))).use("python:3.12")


def test_a_configuration_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for number, config in enumerate(({"Cmd": "/bin/sh"}, ["x"], {"Env": ["A=\ud800"]})):
        layout = make_layout(tmp_path / str(number), {}, config)  # type: ignore[arg-type]
        with pytest.raises(Failed, match="the image has no readable configuration: "):
            images._config_of(layout)


NAMES = {
    "python": "docker.io/library/python",
    "python:3.12": "docker.io/library/python:3.12",
    "team/tool": "docker.io/team/tool",
    "localhost/tool:1": "localhost/tool:1",
    "host:5000/tool": "host:5000/tool",
    "r.example.org/a/b@sha256:" + "0" * 64: "r.example.org/a/b@sha256:" + "0" * 64,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_without_a_registry_are_those_of_docker(name: str) -> None:
    assert full_name(name) == NAMES[name]
