"""The head of a task, run by the shell: variables, patterns, files of output, the script itself."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from cress.cli.slurm.batch import directives
from cress.slurm.command_line import parse
from cress.slurm.jobs import PIECE, Surroundings, batch_job, read_request
from cress.slurm.option_table import SBATCH
from cress.slurm.script import read_script


def run(
    folder: Path,
    options: list[str],
    text: str,
    *arguments: str,
    task: int = 0,
    more: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run the script as the executor would."""
    request = read_request(parse(options, SBATCH)[0], 0.0)
    job = batch_job(request, Surroundings(str(folder), 0.0), text, arguments, script_name="run.sh").job
    attempt = folder / "attempt"
    attempt.mkdir(exist_ok=True)
    environment = job["environment"]
    command = job["command"]
    assert isinstance(environment, dict)
    assert isinstance(command, list)
    own = {
        "CRESS_JOB_ID": "12",
        "CRESS_TASK_INDEX": str(task),
        "CRESS_TASK_COUNT": "4",
        "CRESS_NODE": "n1.example",
        "CRESS_DIRECTORY": str(attempt),
        "PATH": os.environ["PATH"],
    }
    return subprocess.run(
        command,
        env={**environment, **own, **more},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_the_script_runs_as_it_is_by_its_interpreter_with_its_arguments(tmp_path: Path) -> None:
    text = f"#!{sys.executable}\nimport os, sys\nprint(sys.argv[1:], os.environ['SLURM_JOB_ID'])\nraise SystemExit(7)\n"
    done = run(tmp_path, [], text, "a b", "--nodes=9")
    assert (done.stdout, done.returncode) == ("['a b', '--nodes=9'] 12\n", 7)


def test_a_long_script_travels_in_pieces(tmp_path: Path) -> None:
    text = "#!/bin/sh\n" + "# é 'quoted' $HOME %j \\n\n" * (2 * PIECE // 20) + "echo done\n"
    assert run(tmp_path, [], text).stdout == "done\n"
    assert (tmp_path / "attempt" / "slurm_script").read_text(encoding="utf-8") == text


def test_output_goes_to_files_by_patterns(tmp_path: Path) -> None:
    options = ["-J", "eta", "-o", "%x-%j-%5j-%N-%%-%q.out", "-e", "%x.err"]
    done = run(tmp_path, options, "#!/bin/sh\necho out; echo err >&2\n")
    assert done.stdout == f"output goes to {tmp_path}/eta-12-00012-n1-%-%q.out\n"
    assert (tmp_path / "eta-12-00012-n1-%-%q.out").read_text() == "out\n"
    assert (tmp_path / "eta.err").read_text() == "err\n"


def test_both_streams_go_to_one_file_in_order_and_append_appends(tmp_path: Path) -> None:
    for _ in range(2):
        run(tmp_path, ["-o", "all", "--open-mode=append"], "#!/bin/sh\necho 1; echo 2 >&2; echo 3\n")
    assert (tmp_path / "all").read_text() == "1\n2\n3\n" * 2


def test_a_file_that_cannot_be_opened_fails_the_task_with_a_reason(tmp_path: Path) -> None:
    done = run(tmp_path, ["-o", "missing/out"], "#!/bin/sh\necho never\n")
    assert done.returncode != 0
    assert "missing/out" in done.stderr


def test_elements_of_an_array_know_their_number(tmp_path: Path) -> None:
    text = '#!/bin/sh\necho "$SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_JOB_ID $SLURM_ARRAY_TASK_MAX"\n'
    seen = [run(tmp_path, ["-a", "1,5,9-13:2"], text, task=task).stdout for task in range(5)]
    assert seen == [f"12 {element} {(task + 1) * 10**9 + 12} 13\n" for task, element in enumerate((1, 5, 9, 11, 13))]


def test_variables_of_the_place(tmp_path: Path) -> None:
    text = '#!/bin/sh\necho "$SLURM_NODELIST $SLURMD_NODENAME $((SLURM_JOB_END_TIME - SLURM_JOB_START_TIME))"\n'
    assert run(tmp_path, ["-t", "10"], text).stdout == "n1.example n1.example 600\n"


def test_standard_input_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "in-12").write_text("hello\n")
    assert run(tmp_path, ["-i", "in-%j"], "#!/bin/sh\ncat\n").stdout == "hello\n"


def test_the_script_is_warned_before_its_limit(tmp_path: Path) -> None:
    text = "#!/bin/sh\ntrap 'echo warned; exit 3' USR1\nwhile :; do sleep 0.05; done\n"
    done = run(tmp_path, ["-t", "0:03", "--signal=B:USR1@1"], text)
    assert (done.stdout, done.returncode) == ("warned\n", 3)


def test_a_job_on_several_nodes_without_the_commands_there_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, ["-N", "2"], "#!/bin/sh\n")
    assert done.returncode == 127
    assert "jobs on several nodes need the commands there" in done.stderr


def test_a_login_shell_finds_the_commands_after_its_profile(tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "srun").write_text("#!/bin/sh\necho step\n")
    (commands / "srun").chmod(0o755)
    (tmp_path / ".profile").write_text("PATH=/usr/bin:/bin\n")
    (tmp_path / "rest").write_text("REST=read\n")
    where = {"HOME": str(tmp_path), "SLURM_CRESS_BIN": str(commands)}
    text = '#!/bin/bash -l\nsrun && echo "${REST-no} ${BASH_ENV-unset}"\n'
    assert run(tmp_path, [], text, more=where).stdout == "step\nno unset\n"
    rest = str(tmp_path / "rest")
    assert run(tmp_path, [], text, more={"BASH_ENV": rest, **where}).stdout == f"step\nread {rest}\n"


def test_a_task_that_ran_before_knows_how_often(tmp_path: Path) -> None:
    text = "#!/bin/sh\necho ${SLURM_RESTART_COUNT-none}\n"
    assert run(tmp_path, [], text, more={"CRESS_RESTARTS": "0"}).stdout == "none\n"
    assert run(tmp_path, [], text, more={"CRESS_RESTARTS": "2"}).stdout == "2\n"


def test_variables_of_pbs(tmp_path: Path) -> None:
    text = '#!/bin/sh\n#PBS -N x\necho $PBS_JOBNAME $PBS_NP $NCPUS; cat "$PBS_NODEFILE"\n'
    assert run(tmp_path, ["-n2", "-N1", "-c2", "-Jx"], text).stdout == "x 2 4\nn1.example\nn1.example\n"
    assert run(tmp_path, [], "#!/bin/sh\necho ${PBS_NODEFILE-none}\n").stdout == "none\n"


@pytest.mark.parametrize(
    ("head", "options", "threads"),
    [
        ("#PBS -l nodes=1", "", None),
        ("#PBS -l select=1:ncpus=4", "", "4"),
        ("#PBS -l select=1:ncpus=4:ompthreads=2", "", "2"),
        ("#PBS -l select=1:ncpus=4\n#PBS -v OMP_NUM_THREADS=3", "", "3"),
        ("#PBS -l select=1:ncpus=4", "--export=ALL,OMP_NUM_THREADS=3", "3"),
        # These are no directives that are read.
        ("#SBATCH -c 4\n#PBS -l select=1:ncpus=8", "", None),
        ("#PBS -N x\ntrue\n#PBS -l select=1:ncpus=8", "", None),
    ],
)
def test_threads_of_the_ranks_of_pbs(head: str, options: str, threads: str | None) -> None:
    script = read_script(f"#!/bin/sh\n{head}\n", "run.sh")
    request = read_request([*directives(script, "run.sh"), *parse(options.split(), SBATCH)[0]], 0.0)
    job = batch_job(request, Surroundings("/", 0.0), script.text, (), script_name="run.sh").job
    environment = job["environment"]
    assert isinstance(environment, dict)
    assert environment.get("OMP_NUM_THREADS") == threads
