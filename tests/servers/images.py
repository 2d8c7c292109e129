"""Images of containers, made from programs of this machine, and a registry for them on loopback."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.ports import free_port

_CONFIG = """\
version: 0.1
storage: {filesystem: {rootdirectory: ROOT}}
http: {addr: "127.0.0.1:PORT"}
"""
_AUTH = "auth: {htpasswd: {realm: tests, path: FILE}}\n"


def programs(*names: str) -> dict[str, bytes]:
    """Return programs of this machine with their libraries, by their paths."""
    found: dict[str, bytes] = {}
    for name in names:
        real = Path("/bin", name).resolve()
        found[f"bin/{name}"] = real.read_bytes()
        told = subprocess.run(["ldd", real], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", told):
            found[library.lstrip("/")] = Path(library).read_bytes()
    return found


def make_layout(
    folder: Path, files: Mapping[str, bytes], config: Mapping[str, object], *, device: bool = False
) -> Path:
    """Write an image with one layer as an OCI layout with the tag ``latest``; ``device``: with a file of a device."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
        if device:
            member = tarfile.TarInfo("srv/zero")
            member.type, member.devmajor, member.devminor, member.mode = tarfile.CHRTYPE, 1, 5, 0o666
            tar.addfile(member)
    layer = data.getvalue()
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    described = blob(
        json.dumps(
            {
                "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
            }
        ).encode(),
        "config.v1+json",
    )
    manifest = {"schemaVersion": 2, "config": described, "layers": [blob(layer, "layer.v1.tar")]}
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def skopeo(*words: str) -> None:
    """Run skopeo."""
    subprocess.run(["skopeo", "--insecure-policy", *words], check=True, capture_output=True)


@contextlib.contextmanager
def registry(folder: Path, passwords: str = "") -> Iterator[str]:
    """A registry on loopback, by its address; with ``passwords`` (lines of htpasswd) it asks for one of them."""
    folder.mkdir()
    port = free_port()
    text = _CONFIG.replace("ROOT", str(folder / "data")).replace("PORT", str(port))
    if passwords:
        (folder / "passwords").write_text(passwords)
        text += _AUTH.replace("FILE", str(folder / "passwords"))
    (folder / "config.yml").write_text(text)
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(["docker-registry", "serve", folder / "config.yml"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), 5):
                    break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()
