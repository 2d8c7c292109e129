"""What an executor finds on its machine; compilers are small scripts in a search path of the test's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

import pytest

from cress.executor import ExecutorSettings, facts
from cress.executor.node_facts import NodeFacts
from cress.executor.versions import CACHE, versions
from cress.model.attributes import check_attributes
from cress.model.resources import Dimensions
from tests.executor.centers import AgentProcess, center, clean_up

SAYS = {
    "gcc": ("echo 12.2.0", "GCC", "12.2.0"),
    "an old gcc, which knows one of the options only": ("echo 4.8", "GCC", "4.8"),
    "java": ("""echo 'openjdk version "17.0.9" 2023-10-17' >&2""", "Java", "17.0.9"),
    "java of the old count": ("""echo 'java version "1.8.0_381"' >&2""", "Java", "1.8.0_381"),
    "java with a greeting": (
        """echo 'Picked up JAVA_TOOL_OPTIONS: -Dx=y' >&2; echo 'openjdk version "21" 2023-09-19' >&2""",
        "Java",
        "21",
    ),
    "python3": ("echo Python 3.11.2", "Python", "3.11.2"),
    "python3 of tomorrow": ("echo Python 3.15.0a1+", "Python", "3.15.0a1+"),
}
PROGRAMS = {"GCC": "gcc", "Java": "java", "Python": "python3"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder of programs, and nothing else to be found."""
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def program(path: Path, name: str, script: str) -> Path:
    file = path / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def asked(tmp_path: Path) -> int:
    """How often a program with ``echo x >> asked`` in it was run."""
    log = tmp_path / "asked"
    return len(log.read_text().split()) if log.exists() else 0


@pytest.mark.parametrize("case", SAYS, ids=str)
def test_a_program_says_its_version(case: str, path: Path, tmp_path: Path) -> None:
    script, attribute, version = SAYS[case]
    program(path, PROGRAMS[attribute], script)
    assert versions(tmp_path, str(path)) == {attribute: version}


@pytest.mark.parametrize("script", ["exit 1", "echo 12.2.0; exit 1", "echo no idea", "", "head -c 100000 /dev/zero"])
def test_a_program_without_an_answer_is_as_if_absent(script: str, path: Path, tmp_path: Path) -> None:
    program(path, "gcc", script)
    assert versions(tmp_path, str(path)) == {}


def test_what_is_absent_is_absent_and_what_cannot_be_executed_too(path: Path, tmp_path: Path) -> None:
    (path / "java").write_text("no program")
    (path / "java").chmod(0o755)
    (path / "gcc").symlink_to(path / "nowhere")
    assert versions(tmp_path, str(path)) == {}


def test_each_version_of_a_program_is_asked_once(path: Path, tmp_path: Path) -> None:
    gcc = program(path, "gcc", f"echo x >> {tmp_path}/asked; echo 12.2.0")
    for _ in range(3):
        assert versions(tmp_path, str(path)) == {"GCC": "12.2.0"}
    assert asked(tmp_path) == 1
    program(path, "gcc", f"echo x >> {tmp_path}/asked; echo 13.1.0 # longer")
    assert versions(tmp_path, str(path)) == {"GCC": "13.1.0"}
    os.utime(gcc, ns=(1, 1))
    assert versions(tmp_path, str(path)) == {"GCC": "13.1.0"}
    assert asked(tmp_path) == 3
    gcc.unlink()
    assert versions(tmp_path, str(path)) == {}


def test_an_answer_that_cannot_be_read_is_asked_for_again(path: Path, tmp_path: Path) -> None:
    program(path, "gcc", "echo 12.2.0")
    (tmp_path / CACHE).write_text("{garbage")
    assert versions(tmp_path, str(path)) == {"GCC": "12.2.0"}
    assert versions(tmp_path / "no such folder", str(path)) == {"GCC": "12.2.0"}


def test_slow_programs_are_waited_for_together_and_asked_again(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cress.executor.versions.PATIENCE", 0.5)
    for name in ("java", "python3"):
        program(path, name, f"echo x >> {tmp_path}/asked; exec {shutil.which('sleep')} 1000")
    program(path, "gcc", "echo 12.2.0")
    begin = time.monotonic()
    assert versions(tmp_path, str(path))["GCC"] == "12.2.0"
    assert time.monotonic() - begin < 100, "they are not waited for until they end"
    versions(tmp_path, str(path))
    assert asked(tmp_path) >= 3


def test_a_node_does_not_wait_for_slow_programs_and_tells_of_them_later(path: Path, tmp_path: Path) -> None:
    program(path, "gcc", "echo 12.2.0")
    waiting = f"until [ -e {tmp_path}/go ]; do {shutil.which('sleep')} 0.05; done"
    program(path, "java", f"""{waiting}; echo 'openjdk version "17.0.9" 2023-10-17'""")
    with center() as above:
        agent = AgentProcess(tmp_path / "executor", above.port, path=path)
        try:
            first = above.session().hello.attributes
            assert "Java" not in first
            assert first["OSKernel"] == os.uname().release
            (tmp_path / "go").touch()
            second = above.session().hello.attributes
            assert (second["GCC"], second["Java"]) == ("12.2.0", "17.0.9")
        finally:
            agent.close()
            clean_up(tmp_path / "executor")


def test_what_is_told_late_is_told_once_however_slow_the_rest_stays(tmp_path: Path) -> None:
    async def story() -> None:
        found = NodeFacts(ExecutorSettings(name="n1", directory=tmp_path, center_url="ws://x", token="t"), print)
        found.asking = asyncio.get_running_loop().create_future()
        assert await found.versions(0.01) == {}
        late = asyncio.create_task(found.changed())
        found.asking.set_result({"GCC": "12"})
        await late
        # The next session: java still says nothing.
        found.asking = asyncio.get_running_loop().create_future()
        assert await found.versions(0.01) == {"GCC": "12"}
        found.told = {"GCC": "12"}
        late = asyncio.create_task(found.changed())
        found.asking.set_result({"GCC": "12"})
        done, _ = await asyncio.wait({late}, timeout=0.1)
        assert not done, "nothing is new: the session goes on"
        late.cancel()

    asyncio.run(story())


def test_the_machine_is_described_as_a_cluster_takes_it(tmp_path: Path) -> None:
    found = facts.attributes(tmp_path)
    check_attributes(found, Dimensions())
    assert found["OSKernel"] == os.uname().release
    assert found["Architecture"] == os.uname().machine
    assert found["CPUs"] == len(os.sched_getaffinity(0))
    assert found["MemoryTotal"] == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found["DiskTotal"] == shutil.disk_usage(tmp_path).total
    assert all(value for value in found.values()), "what the machine does not tell is absent"
    if shutil.which("ldd"):
        assert found.get("Glibc", "") == os.confstr("CS_GNU_LIBC_VERSION").removeprefix("glibc ")  # type: ignore[union-attr]
