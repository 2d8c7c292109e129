"""Slurm's commands on a real cluster: scripts as they are, steps, arrays, accounting."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cress.cli.slurm.layout import step_folder, step_number
from cress.model.errors import InputError
from tests.system.cluster import Cluster, wait_until


class Slurm:
    """A cluster of two nodes, and the commands of Slurm for it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.folder / "work"
        self.folder.mkdir()
        self.commands = cluster.folder / "slurm"
        done = cluster.cress("slurm", "install", self.commands)
        assert done.returncode == 0, done.stderr
        path = f"{self.commands}:{os.environ['PATH']}"
        # The installed commands know their center: its variables are not needed.
        self.environment = {
            name: value for name, value in cluster.environment.items() if not name.startswith("CRESS_")
        } | {"PATH": path, "XDG_RUNTIME_DIR": str(cluster.folder)}

    def run(self, command: str, *words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of the commands in the folder."""
        return subprocess.run(
            [self.commands / command, *map(str, words)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=self.environment,
            cwd=self.folder,
        )

    def script(self, text: str, name: str = "run.sh") -> Path:
        """A script in the folder."""
        path = self.folder / name
        path.write_text(text)
        return path

    def ended(self, job: str) -> None:
        """Wait for the end of a job."""
        with self.cluster.client() as client:
            wait_until(lambda: client.job(int(job), wait=5).ended is not None, f"the end of job {job}")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    cluster = Cluster()
    try:
        cluster.start_center()
        for name in ("n1", "n2"):
            cluster.start_executor(name, "<4, 2G>")
        yield Slurm(cluster)
    finally:
        cluster.stop()


def test_a_script_as_it_is_and_its_accounting(slurm: Slurm) -> None:
    script = slurm.script(
        "#!/bin/bash\n#SBATCH --job-name=tutorial\n#SBATCH --output=result-%j.out\n#SBATCH --ntasks=1\n"
        "#SBATCH --time=10:00\n#SBATCH --mem=200\n#SBATCH --mail-type=END\n"
        'echo "$1 $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_MEM_PER_NODE"\nexit 3\n'
    )
    done = slurm.run("sbatch", "--wait", script.name, "hello")
    job = done.stdout.split()[-1]
    assert (done.stdout, done.returncode) == (f"Submitted batch job {job}\n", 3)
    assert done.stderr == ("sbatch: run.sh:7: --mail-type is passed over: `cress events --follow` reports the end\n")
    assert (slurm.folder / f"result-{job}.out").read_text() == "hello tutorial 1 200\n"
    shown = slurm.run("scontrol", "-o", "show", "job", job).stdout
    assert f" StdOut={slurm.folder}/result-{job}.out" in shown
    assert "a script of 9 lines" in slurm.cluster.cress("job", job).stdout
    done = slurm.run("sacct", "-XPn", "-j", job, "-o", "JobID,JobName,State,ExitCode,Timelimit")
    assert done.stdout == f"{job}|tutorial|FAILED|3:0|00:10:00\n"
    done = slurm.run("sacct", "-XPn", "-j", job, "-o", "ConsumedEnergy,Restarts,MaxDiskRead,StdErr")
    assert done.stdout == f"|0||{slurm.folder}/result-{job}.out\n"
    shares = slurm.run("sshare", "-Pn", "-o", "Account,RawShares").stdout
    assert shares == "default|1\n"
    refused = slurm.run("scrontab", "-e")
    assert (refused.returncode, refused.stderr.partition(" (")[0]) == (1, "scrontab: error: scrontab is not supported")
    assert slurm.run("sinfo", "-h", "-O", "nodelist:9,cpusstate").stdout.split() == ["n[1-2]", "0/8/0/8"]


def test_an_array_with_a_bound_and_patterns(slurm: Slurm) -> None:
    text = "#!/bin/sh\n#SBATCH -a 1-5:2,8%2 -o part-%A-%a\necho $SLURM_ARRAY_TASK_ID\n[ $SLURM_ARRAY_TASK_ID != 8 ]\n"
    job = slurm.run("sbatch", "--parsable", stdin=text).stdout.strip()
    slurm.ended(job)
    assert [(slurm.folder / f"part-{job}-{n}").read_text() for n in (1, 3, 5, 8)] == ["1\n", "3\n", "5\n", "8\n"]
    lines = slurm.run("sacct", "-XPn", "-j", f"{job}_[5,8]", "-o", "JobID,State").stdout
    assert lines == f"{job}_5|COMPLETED\n{job}_8|FAILED\n"


def test_steps_of_a_job_on_two_nodes(slurm: Slurm) -> None:
    text = (
        "#!/bin/sh\n#SBATCH -N 2 --ntasks-per-node=2 -o steps.out\n"
        "sbcast -f in%1 copied/; cat copied/in%1; sbcast in%1 copied/ 2>&1 | grep -c 'exists already'\n"
        "sstat -Pn -j $SLURM_JOB_ID -o JobID 2>/dev/null\n"
        "srun -l sh -c 'echo $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME' | sort\necho \"$SLURM_JOB_NODELIST\"\n"
    )
    (slurm.folder / "in%1").write_text("input\n")
    (slurm.folder / "copied").mkdir()
    done = slurm.run("sbatch", "-W", stdin=text)
    lines = (slurm.folder / "steps.out").read_text().splitlines()
    first, second = lines[-1].split(",") if "," in lines[-1] else ("", "")
    assert done.returncode == 0
    assert lines[:3] == ["input", "2", f"{done.stdout.split()[-1]}.batch"]
    del lines[:3]
    assert lines[:4] == [f"0: 0 0 {first}", f"1: 1 0 {first}", f"2: 0 1 {second}", f"3: 1 1 {second}"]
    assert {first, second} == {"n1", "n2"}


def test_srun_outside_a_job_passes_input_and_codes_on(slurm: Slurm) -> None:
    done = slurm.run("srun", "-n", "2", "-l", "sh", "-c", "cat; exit $SLURM_PROCID", stdin="hello\n")
    assert sorted(done.stdout.splitlines()) == ["0: hello", "1: hello"]
    assert done.returncode == 1
    assert "task 1: Exited with exit code 1" in done.stderr


def test_steps_are_counted_in_their_allocation_and_leave_nothing(slurm: Slurm) -> None:
    step = "srun sh -c 'echo $SLURM_STEP_ID'"
    for _ in range(2):
        done = slurm.run("salloc", "-n", "1", "sh", "-c", f"{step}; {step}")
        assert (done.returncode, done.stdout.split()) == (0, ["0", "1"]), done.stderr
    assert slurm.run("srun", "sh", "-c", "echo $SLURM_STEP_ID").stdout == "0\n"
    assert list(slurm.cluster.folder.glob("cress-steps-*")) == []


def test_a_folder_of_steps_is_of_one_cluster_and_one_user(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with slurm.cluster.client() as client:
        job = client.job(client.submit([{"command": "true", "hold": True}]).jobs[0].id)
        client.cancel(job.id)
    folder = step_folder(job)
    assert (step_number(folder), step_number(step_folder(job))) == (0, 1)
    # Of another cluster, or of one with a new beginning.
    assert step_number(step_folder(msgspec.structs.replace(job, submitted=job.submitted - 1))) == 0
    foreign = tmp_path / "foreign"
    folder.rename(foreign)
    folder.symlink_to(foreign)
    with pytest.raises(InputError, match="belongs to somebody else"):
        step_folder(job)


def test_a_shell_with_a_terminal(slurm: Slurm) -> None:
    import pty

    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [slurm.commands / "srun", "--pty", "sh", "-c", "tty -s && stty size && echo $SLURM_PROCID"],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=slurm.environment,
        cwd=slurm.folder,
    )
    os.close(theirs)
    with process:
        assert process.stderr is not None
        errors = process.stderr.read()
        assert process.wait(60) == 0, errors
    assert os.read(mine, 1000).split()[-1:] == [b"0"]
    os.close(mine)


def test_the_queue_holds_and_cancels(slurm: Slurm) -> None:
    job = slurm.run("sbatch", "--parsable", "-H", "-J", "held", "--wrap", "sleep 600").stdout.strip()
    queue = slurm.run("squeue", "-h", "-j", job, "-o", "%i|%j|%t|%r")
    assert queue.stdout == f"{job}|held|PD|JobHeldUser\n"
    dependent = slurm.run("sbatch", "--parsable", "-d", f"afterok:{job}", "--wrap", "true").stdout.strip()
    assert slurm.run("scancel", job).returncode == 0
    slurm.ended(dependent)
    done = slurm.run("sacct", "-XPn", "-j", f"{job},{dependent}", "-o", "State")
    assert done.stdout == "CANCELLED\nCANCELLED\n"


def test_elements_wait_for_the_same_elements_of_another_array(slurm: Slurm) -> None:
    first = slurm.run(
        "sbatch", "--parsable", "-a", "1-3", "--wrap", '[ "$SLURM_ARRAY_TASK_ID" != 2 ]', "-H"
    ).stdout.strip()
    for elements, why in (
        ("0-2", "are not the first ones"),
        ("2-3", "are not the"),
        ("1-4", "has 3 tasks, and this job 4"),
    ):
        refused = slurm.run("sbatch", "-d", f"aftercorr:{first}", "-a", elements, "--wrap", "true")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert why in refused.stderr
    then = slurm.run("sbatch", "--parsable", "-d", f"aftercorr:{first}", "-a", "1-3", "--wrap", "true").stdout.strip()
    queue = slurm.run("squeue", "-h", "-j", then, "-o", "%i|%t|%r|%E")
    assert queue.stdout == f"{then}_[1-3]|PD|Dependency|aftercorr:{first}\n"
    slurm.run("scontrol", "release", first)
    slurm.ended(then)
    done = slurm.run("sacct", "-XPn", "-j", then, "-o", "JobID,State")
    assert done.stdout == f"{then}_1|COMPLETED\n{then}_2|CANCELLED\n{then}_3|COMPLETED\n"


def test_cress_submit_takes_scripts_and_keys(slurm: Slurm) -> None:
    slurm.script('#!/bin/sh\n#CRESS --name=directed --env A=b\n#SBATCH --time=5\necho "$A $B $1"\n', "directed.sh")
    script = slurm.folder / "directed.sh"
    done = slurm.cluster.cress("submit", "--env", "B=c", "--time-limit", "1h", "--wait", script, "--name=x")
    assert done.returncode == 0, done.stderr
    job = done.stdout.split()[1]
    assert slurm.cluster.cress("logs", job).stdout == "b c --name=x\n"
    with slurm.cluster.client() as client:
        view = client.job(int(job))
    assert (view.name, view.time_limit) == ("directed", 3600.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time-limit", "soon", "--", "true"], "cress submit: --time-limit: "),
        (["--tmie-limit", "1h", "--", "true"], "unknown option --tmie-limit (did you mean --time-limit?)"),
        (["--set", "resource.cpu=none", "--", "true"], "cress submit: --set"),
        (["directed.sh"], "directed.sh:2: unknown option --nmae (did you mean --name?)"),
        (["--"], "no command follows --"),
        (["two.sh"], "two.sh: a script on several nodes needs the commands of Slurm on each of them (cress slurm"),
    ],
)
def test_wrong_options_of_cress_submit(slurm: Slurm, arguments: list[str], message: str) -> None:
    texts = {"directed.sh": "#!/bin/sh\n#CRESS --nmae=x\n", "two.sh": "#PBS -l nodes=2\n"}
    for name, text in texts.items():
        (slurm.cluster.folder / name).write_text(text)
    words = [str(slurm.cluster.folder / word) if word in texts else word for word in arguments]
    done = slurm.cluster.cress("submit", *words)
    assert done.returncode == 2
    assert message in done.stderr
