"""A store that is an older copy, as a center finds out from what an executor shows it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from cress.protocol.messages import Launches, Refused, Welcome
from cress.store.copying import copy_from_file
from tests.center.program import Center, Executor, eventually, run_to_end
from tests.forked import run_cress
from tests.servers.logs import empty_place
from tests.servers.zookeeper import Ensemble

TOLD = "is older than its cluster: the executor of node n1"


def _witness(executor: Executor) -> bytes:
    """Take one launch; return the position in it."""
    message = executor.receive()
    assert isinstance(message, Launches)
    assert message.witness
    executor.ended(message.launches[0].attempt)
    return message.witness


@pytest.fixture
def copied(tmp_path: Path) -> tuple[Path, Path, bytes]:
    """A data directory, an older copy of it, and a position between the two."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    with Center(data, forked=True) as center, center.executor() as executor:
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.sock", "*.new"))
        center.submit()
        return data, copy, _witness(executor)


def test_what_an_executor_shows_is_believed_only_if_a_center_signed_it(copied: tuple[Path, Path, bytes]) -> None:
    data, copy, witness = copied
    with Center(data, forked=True) as center:
        for shown in (witness, b"", b"x" * 90, witness[:-1] + b"\x7f", witness[16:]):
            with center.executor(witness=shown) as executor:
                assert isinstance(executor.first, Welcome)
        assert center.get("/v1/state")["problem"] == ""
    # The copy goes on for longer than the original did, and is found out all the same.
    with Center(copy, forked=True) as center:
        for _ in range(20):
            center.submit()
        with center.executor("n2", witness=witness[:-1] + b"\x7f") as executor:
            assert isinstance(executor.first, Welcome)
        with center.executor(witness=witness) as executor:
            assert isinstance(executor.first, Refused)
            assert "older than the cluster" in executor.first.what
            assert not executor.first.permanent
        code, said = eventually(partial(_ended, center))
        assert (code, TOLD in said, f"--data {copy}" in said) == (1, True, True)
    assert TOLD in run_to_end(copy).stderr


def _ended(center: Center) -> tuple[int, str] | None:
    code = center.process.poll()
    return None if code is None else (code, center.process.communicate()[1])


def test_a_restore_goes_on_above_a_proven_loss(copied: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    _, copy, witness = copied
    assert run_cress(("store", "backup", str(tmp_path / "backup"), "--data", str(copy))).returncode == 0
    with Center(copy, forked=True) as center:
        with center.executor(witness=witness) as executor:
            assert isinstance(executor.first, Refused)
        eventually(partial(_ended, center))
    done = run_cress(("store", "restore", str(tmp_path / "backup"), "--data", str(copy)))
    assert (done.returncode, "begin much higher" in done.stdout) == (0, True), done.stderr
    with Center(copy, forked=True) as center, center.executor(witness=witness) as executor:
        assert isinstance(executor.first, Welcome)
        assert center.submit() > 1_000_000


def test_a_shared_store_that_is_an_older_copy(zookeeper: Ensemble, tmp_path: Path) -> None:
    place, other, data = empty_place(zookeeper), empty_place(zookeeper), tmp_path / "one"
    with Center(data, forked=True, store=place) as center, center.executor() as executor:
        done = run_cress(("store", "backup", str(tmp_path / "backup"), "--data", str(data), "--store", place))
        assert done.returncode == 0, done.stderr
        last = center.submit()
        witness = _witness(executor)
    copy_from_file(tmp_path / "backup", other)
    with Center(data, forked=True, store=other) as center:
        with center.executor(witness=witness) as executor:
            assert isinstance(executor.first, Refused)
        code, said = eventually(partial(_ended, center))
        assert (code, TOLD in said, f"`cress store accept-loss --store {other}`" in said) == (1, True, True), said
    done = run_cress(("store", "check", "--data", str(data), "--store", other))
    assert (done.returncode, TOLD in done.stderr) == (1, True)
    done = run_cress(("store", "accept-loss", "--data", str(data), "--store", other))
    assert (done.returncode, done.stderr) == (0, "")
    with Center(data, forked=True, store=other) as center, center.executor(witness=witness) as executor:
        assert isinstance(executor.first, Welcome)
        assert center.submit() >= last + 1_000_000
