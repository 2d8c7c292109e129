"""Jobs in images of containers: from a registry, from an archive of the node, from one of the submitter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.images import make_layout, programs, registry, skopeo
from tests.system.cluster import Cluster

NEEDED = ("skopeo", "umoci", "docker-registry", "crun")
MISSING = [name for name in NEEDED if shutil.which(name) is None]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="containers need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make packages)"),
]

CONFIG = {
    "Env": ["PATH=/bin", "COLOUR=green", "SHAPE=round"],
    "Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["cat /etc/name; echo $COLOUR $SHAPE; pwd; cat /etc/zero; exit 0"],
    "WorkingDir": "/etc",
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with a shell, a file and a device."""
    files = {**programs("sh", "cat"), "etc/name": b"of the image\n"}
    return make_layout(tmp_path_factory.mktemp("image") / "layout", files, CONFIG, device=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, layout: Path) -> Iterator[str]:
    """A registry with the image as ``team/demo:1``."""
    with registry(tmp_path_factory.mktemp("registry") / "r") as address:
        skopeo("copy", "--dest-tls-verify=false", f"oci:{layout}:latest", f"docker://{address}/team/demo:1")
        yield address


def test_an_image_of_a_registry_runs_as_it_says(shared: Cluster, store: str) -> None:
    shared.file("image.yaml", f"image: {store}/team/demo:1\nenvironment: {{SHAPE: square}}\nname: pulled\ntasks: 2\n")
    done = shared.cress("submit", "image.yaml", "--wait")
    assert (done.returncode, done.stderr) == (0, ""), (done, shared.cress("job", "pulled").stdout)
    with shared.client() as client:
        id = client.jobs(limit=1).jobs[0].id
        said = b"".join(client.logs(id, 1)).decode()
        assert said == "of the image\ngreen square\n/etc\n"
        wrong = b"".join(client.logs(id, 1, "stderr")).decode()
        assert "/zero" in wrong, wrong
        assert "Permission denied" in wrong, wrong
