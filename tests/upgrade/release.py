"""The programs of one release of Cress, run from a folder of its sources, and their REST API as plain JSON."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

DATA = Path(__file__).parent / "data"
# The release before this one: its sources, and data directories that it left.
OLD = "0.1.0"
OLD_LIBRARIES = ("fastapi==0.165.0", "annotated-doc==0.0.7")
# A loaded machine may take long; every wait here ends as soon as it can.
PATIENCE = 90.0
# The first center of a release compiles its loops.
COMPILED = 600.0

_T = TypeVar("_T")


def wait_until(look: Callable[[], _T], what: str, patience: float = PATIENCE) -> _T:
    """The first true value that ``look`` gives; fails after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not happen within {patience:g} s"
        time.sleep(0.05)


def unpack(name: str, into: Path) -> Path:
    """Unpack ``data/NAME.tar.xz`` into a folder, which is returned."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into


def libraries_of_old() -> Path:
    """The folder of libraries that the old release needs and this one does not; without them the test is skipped."""
    place = Path(__file__).parents[2] / "build" / f"libraries-{OLD}"
    if place.exists():
        return place
    place.parent.mkdir(exist_ok=True)
    made = tempfile.mkdtemp(dir=place.parent)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", made, *OLD_LIBRARIES]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(made)
        told = done.stderr.strip().rpartition("\n")[2]
        pytest.skip(f"no libraries of {OLD} can be had, so nothing was shown of live upgrades: {told}")
    try:
        Path(made).rename(place)
    except OSError:  # another test process was faster
        shutil.rmtree(made)
    return place


def manifest(name: str) -> dict[str, Any]:
    """What the old release answered about a data directory before it was left: answers by path of the API."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        member = archive.extractfile("manifest.json")
        assert member is not None
        answers: dict[str, Any] = json.load(member)
        return answers


def left_at(name: str) -> int:
    """When the old release wrote last into a data directory: microseconds since the epoch."""
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        return int(max(member.mtime for member in archive) * 1e6)


class Cluster:
    """A center and executors on one folder; each is started from the sources that ``tree`` names at that moment."""

    def __init__(self, tree: Path, libraries: Path | None = None) -> None:
        # Short: the path of a Unix socket has at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="cu", dir="/tmp"))
        self.data = self.folder / "d"
        self.tree = tree
        self._path = (str(libraries),) if libraries else ()
        self.center: subprocess.Popen[bytes] | None = None
        self.executors: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments: dict[str, tuple[str, ...]] = {}
        self._ports = (0, 0)

    # --- programs -----------------------------------------------------------------------------------------------------

    def start(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start ``cress`` of the current tree; its output goes into a file."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CRESS_")}
        environment |= {
            "CRESS_DATA": str(self.data),
            "PYTHONPATH": os.pathsep.join((str(self.tree / "src"), *self._path)),
        }
        with (self.folder / log).open("ab") as place:
            return subprocess.Popen(
                [sys.executable, "-m", "cress", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=place,
                stderr=place,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def start_center(self, *arguments: str) -> None:
        """Start the center, where the one before listened, and wait until it does."""
        ports = "--port", str(self._ports[0]), "--executor-port", str(self._ports[1])
        center = self.center = self.start("center", *ports, *arguments, log="center.log")
        wait_until(lambda: self._listens(center.pid) or center.poll() is not None, "a listening center", COMPILED)
        assert center.poll() is None, self.log("center.log")
        address = self._address()
        self._ports = int(address["url"].rpartition(":")[2]), int(address["executor_url"].rpartition(":")[2])

    def stop_center(self, number: int = signal.SIGTERM) -> None:
        """Stop the center and wait for its end."""
        assert self.center is not None
        self.center.send_signal(number)
        self.center.wait(PATIENCE)

    def start_executor(self, name: str, *arguments: str) -> None:
        """Start the agent of an executor (and its supervisor, if none runs) and wait until its node is up.

        Without arguments: with those of the last time.
        """
        arguments = self._arguments[name] = arguments or self._arguments[name]
        before = self.ask("/v1/nodes?limit=1000")["nodes"]
        joined = {node["name"] for node in before if node["state"] != "away"}
        process = self.executors[name] = self.start(
            "executor", "--center", str(self._address()["executor_url"]), "--name", name, "--no-overload",
            "--no-discovery", *arguments, log=f"{name}.log",
        )  # fmt: skip
        if name not in joined:
            wait_until(lambda: self.is_up(name) or process.poll() is not None, f"{name} being up")
        assert process.poll() is None, self.log(f"{name}.log")

    def stop_agent(self, name: str) -> None:
        """kill -9 for the agent of an executor; its supervisor and its tasks go on."""
        self.executors[name].kill()
        self.executors[name].wait(PATIENCE)

    def is_up(self, name: str) -> bool:
        """Whether a node is connected."""
        nodes = self.ask("/v1/nodes?limit=1000")["nodes"]
        return any(node["name"] == name and node["state"] != "away" for node in nodes)

    def log(self, name: str) -> str:
        """The output of a program so far."""
        return (self.folder / name).read_text()

    def _address(self) -> dict[str, Any]:
        address: dict[str, Any] = json.loads((self.data / "center.json").read_bytes())
        return address

    def _listens(self, pid: int) -> bool:
        # A killed center leaves its file behind.
        with contextlib.suppress(OSError, ValueError):
            return bool(self._address()["pid"] == pid)
        return False

    # --- the API ------------------------------------------------------------------------------------------------------

    def ask(self, path: str, body: object = None, method: str = "", **headers: str) -> Any:
        """The answer of the center to one call; AssertionError with its text if it is an error."""
        request = urllib.request.Request(
            self._address()["url"] + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method or ("GET" if body is None else "POST"),
            headers={
                "Authorization": "Bearer " + (self.data / "token").read_text().strip(),
                "Content-Type": "application/json",
            }
            | {name.replace("_", "-"): value for name, value in headers.items()},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None

    def submit(self, *jobs: dict[str, Any], **headers: str) -> list[int]:
        """Submit jobs; their ids."""
        return [job["id"] for job in self.ask("/v1/jobs", {"jobs": list(jobs)}, **headers)["jobs"]]

    # --- the end ------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End every process of the cluster and remove its folder."""
        while left := self._left():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in (self.center, *self.executors.values()):
                if process is not None:
                    process.wait(PATIENCE)
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """The processes that name the folder in their command or environment."""
        name = os.fsencode(self.folder) + b"/"
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if name in (entry / "cmdline").read_bytes() or name in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
        return found
