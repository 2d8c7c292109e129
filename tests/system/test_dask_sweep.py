"""Sweeps of the simulator on Dask: a cluster of this machine, and one on leases of Cress (docs/simulate.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from distributed import LocalCluster

from cress.model.errors import InputError
from cress.simulator.dask_sweep import DaskSweep
from cress.simulator.sweep import LocalSweep, Progress
from tests.simulator.test_sweep import files, results, squared, sweep_into
from tests.system.cluster import Cluster
from tests.system.dask_cluster import begin, dask


@contextmanager
def threads() -> Iterator[str]:
    """The address of a cluster of two threads in this process."""
    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", protocol="tcp"
    ) as cluster:
        yield cluster.scheduler_address


def test_a_dask_cluster_gives_results_in_order_one_bar_and_errors_in_their_turn() -> None:
    seen: list[tuple[str, int, int]] = []

    def told(*what: object) -> None:
        seen.append(what)  # type: ignore[arg-type]

    progress: Progress = told
    with threads() as address:
        assert results(DaskSweep(address), [(1, 0.3), (2, 0.0), (3, 0.1)]) == [1, 4, 9]
        found = DaskSweep(address).results(squared, [(4, 0.0), (13, 0.0), (5, 0.0)], [""] * 3, progress)
        assert next(found)[0] == 16
        with pytest.raises(InputError, match="is unlucky"):
            next(found)
    assert {(label, whole) for label, _, whole in seen} == {("3 simulations", 3000)}


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense://there"])
def test_a_scheduler_that_does_not_answer_is_told(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cress.simulator.dask_sweep.ANSWER", 0.5)
    with pytest.raises(InputError, match=f"no scheduler of Dask answers at {address}") as caught:
        results(DaskSweep(address), [(1, 0.0)])
    assert caught.value.field == "--dask"


def test_workers_with_another_release_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with threads() as address:
        monkeypatch.setattr("cress.simulator.dask_sweep._release", lambda: "0.0.9")
        with pytest.raises(InputError, match=r"another release of Cress \(0\.0\.9\)"):
            results(DaskSweep(address), [(1, 0.0), (2, 0.0)])


@pytest.mark.long
def test_the_processes_of_a_local_cluster_give_the_files_that_one_process_gives(tmp_path: Path) -> None:
    labels = sweep_into(tmp_path / "one", LocalSweep(1))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        assert sweep_into(tmp_path / "dask", DaskSweep(cluster.scheduler_address)) == labels
    assert files(tmp_path / "dask") == files(tmp_path / "one")


@pytest.mark.long
def test_leases_of_a_cress_cluster_give_the_files_that_one_process_gives(tmp_path: Path) -> None:
    labels = sweep_into(tmp_path / "one", LocalSweep(1))
    site = Cluster()
    try:
        begin(site).close()
        with dask(site, name="sweep", memory="800MiB") as cluster:
            cluster.scale(2)
            assert sweep_into(tmp_path / "dask", DaskSweep(cluster.scheduler_address)) == labels
    finally:
        site.stop()
    assert files(tmp_path / "dask") == files(tmp_path / "one")
