"""Jobs in images of containers: from a registry, from an archive of the node, from one of the submitter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.images import make_layout, programs, registry, skopeo
from tests.system.cluster import Cluster
from tests.system.test_commands import newest

NEEDED = ("skopeo", "umoci", "docker-registry", "crun")
MISSING = [name for name in NEEDED if shutil.which(name) is None]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="containers need root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make packages)"),
]

CONFIG = {
    "Env": ["PATH=/bin", "COLOUR=green", "SHAPE=round"],
    "Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["cat /etc/name; echo $COLOUR $SHAPE; pwd; cat /srv/zero; exit 0"],
    "WorkingDir": "/etc",
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with a shell, a file and a device."""
    files = {**programs("sh", "cat", "env"), "etc/name": b"of the image\n"}
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


def test_archives_credentials_and_what_cannot_be_pulled(shared: Cluster, layout: Path, tmp_path: Path) -> None:
    skopeo("copy", f"oci:{layout}:latest", f"oci-archive:{tmp_path}/image.tar")
    (tmp_path / "job.yaml").write_text(
        f"- {{name: of-node, image: 'oci-archive:{tmp_path}/image.tar', command: [cat, /etc/name]}}\n"
        "- {name: of-mine, image: 'oci-archive:./image.tar', command: cat x /etc/name,"
        ' files: [{path: x, text: "brought\\n"}]}\n'
    )
    # A file of passwords for "ann:word", by Apache's htpasswd -B.
    password = "ann:$2b$05$LR86kxTAhMDiEbY1AJPMA.eDgCpEbOHhwbxvPzVTK8NKrzt23r7G2\n"
    with registry(tmp_path / "closed", password) as address:
        before = newest(shared)
        skopeo(
            *("copy", "--dest-tls-verify=false", "--dest-creds=ann:word"),
            *(f"oci:{layout}:latest", f"docker://{address}/team/demo:1"),
        )
        shared.cress("secret", "set", "registry", stdin="ann:wrong")
        shared.cress("secret", "set", "right", stdin="ann:word\n")
        closed = (
            f"- {{name: opened, image: {{name: {address}/team/demo:1, secret: right}}, command: env}}\n"
            f"- {{name: no-password, image: {address}/team/demo:1, retries: 0}}\n"
            f"- {{name: wrong-password, image: {{name: {address}/team/demo:1, secret: registry}}, retries: 0}}\n"
            "- {name: no-registry, image: '127.0.0.1:1/x:1', retries: 0}\n"
            "- {name: metadata, image: '169.254.169.254/x:1', retries: 0}\n"
        )
        (tmp_path / "job.yaml").write_text((tmp_path / "job.yaml").read_text() + closed)
        done = shared.cress("submit", tmp_path / "job.yaml", "--wait")
        assert done.returncode == 1, done
    with shared.client() as client:
        ids = range(before + 1, before + 8)
        assert [client.job(id).state for id in ids] == [*(["succeeded"] * 3), *(["failed"] * 4)], done
        assert b"".join(client.logs(ids[0])) == b"of the image\n"
        assert b"".join(client.logs(ids[1])) == b"brought\nof the image\n"
        variables = b"".join(client.logs(ids[2])).decode()
        assert "COLOUR=green" in variables
        # The program gets neither the password nor the stage's access to the center.
        assert "word" not in variables
        assert "CRESS_STAGE" not in variables
        reasons = [client.job(id).reason for id in ids[3:]]
    for reason, words in zip(
        reasons,
        ("authentication required", "unauthorized", "Connection refused", "169.254.169.254 is a link-local address"),
        strict=True,
    ):
        assert words in reason, reasons
        assert "ann:wrong" not in reason


def test_a_mistake_in_an_image_is_told_with_its_line(shared: Cluster, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: x\nimage: Python:3.12 \nruntime: process\nroot: /srv\n")
    done = shared.cress("submit", tmp_path / "job.yaml")
    assert done.returncode == 2
    assert f"{tmp_path}/job.yaml:2: image: 'Python:3.12' is not the name of an image" in done.stderr
