"""Images in containers of each engine, from archives: their files, their devices, their start, and their removal."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from cress.executor import images
from cress.executor.addresses import Failed
from cress.executor.images import Images, full_name
from cress.executor.runtimes.engines import ENGINES
from cress.model.allowed_sources import AllowedSources
from cress.model.reports import Cause
from cress.model.run import File, Image, Run
from tests.executor.harness import supervisor
from tests.servers.images import make_layout, programs

COMMANDS = {"bubblewrap": "bwrap"}
MISSING = [name for name in images.TOOLS if shutil.which(name) is None]
needs_tools = pytest.mark.skipif(
    os.geteuid() != 0 or bool(MISSING), reason=f"needs root and {', '.join(MISSING or images.TOOLS)} (make packages)"
)
CONFIG = {"Env": ["COLOUR=green"], "Cmd": ["/bin/cat", "/etc/name"], "WorkingDir": "/etc"}


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


def test_what_is_no_image_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_text("no tar")
    with (tmp_path / "x.tar").open("rb") as file, pytest.raises(Failed) as caught:
        Images(tmp_path, AllowedSources()).use("docker-archive:/x.tar", file.fileno())
    assert str(caught.value).startswith("images need" if MISSING else "the image")
    with pytest.raises(Failed, match=r"registries may not be used on this node|images need"):
        Images(tmp_path, AllowedSources(schemes=("file",))).use("python:3.12")


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
