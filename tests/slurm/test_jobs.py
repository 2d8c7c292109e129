"""Options of Slurm as jobs of Cress: stories, each with the options and the keys of the job."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cress.cli.slurm.batch import check_counterparts
from cress.cli.slurm.rows import JobRow
from cress.client import JobView, TaskCounts
from cress.client.submitted_script import path_of, script_of
from cress.model.errors import InputError
from cress.slurm.arrays import parse_array
from cress.slurm.command_line import parse
from cress.slurm.jobs import Surroundings, Translated, batch_job, job_name, read_request
from cress.slurm.option_table import SBATCH
from cress.slurm.sites import Meaning, Site

SITE = Site(
    partitions={"gpu": Meaning(group="research", requirement="GPUs >= 1"), "short": "quick"},
    qos={"high": Meaning(priority=100)},
    features={"a100": 'GPUModel = "A100"', "ib": "infiniband = true"},
)
AROUND = Surroundings(
    "/home/ann",
    datetime(2026, 11, 28, 10, tzinfo=UTC).timestamp(),
    "login",
    {"PATH": "/bin", "HOME": "/home/ann", "CRESS_TOKEN": "secret", "SLURM_JOB_ID": "1", "BAD NAME": "x"},
    "/opt/slurm",
    ("default", "physics"),
    SITE,
)


def translated(options: str, around: Surroundings = AROUND) -> Translated:
    import shlex

    request = read_request(parse(shlex.split(options), SBATCH)[0], around.now)
    return batch_job(request, around, "#!/bin/sh\n", (), script_name="run.sh")


def keys(options: str) -> dict[str, object]:
    job = translated(options).job
    return {key: value for key, value in job.items() if key not in ("command", "environment", "directory", "job_token")}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # Nothing is asked for: the default of Cress, which limits no memory.
        ("", {}),
        ("-t 1:00:00 -c 4 --mem=8G", {"time_limit": "3600s", "resource": {"cpu": 4, "memory": "8192M"}}),
        ("-c 4 --mem-per-cpu=1G", {"resource": {"cpu": 4, "memory": "4096M"}}),
        # One Cress task on each node.
        (
            "-N 2 --ntasks-per-node=4 -c 2 --mem=16G",
            {"tasks": 2, "gang": True, "max_per_node": 1, "resource": {"cpu": 8, "memory": "16384M"}},
        ),
        ("-n 9 --ntasks-per-node=4", {"tasks": 3, "gang": True, "max_per_node": 1, "resource": {"cpu": 3}}),
        # Without nodes one for each Slurm task, wherever there is room.
        ("-n 8 --mem-per-cpu=1G", {"tasks": 8, "gang": True, "resource": {"cpu": 1, "memory": "1024M"}}),
        # The memory of a node is for all tasks together, so they are on one node.
        ("-n 4 --mem=8G", {"resource": {"cpu": 4, "memory": "8192M"}}),
        ("--gres=gpu:2", {"resource": {"cpu": 1, "gpu": 2}}),
        ("--gres=none", {}),
        ("--gres=gres:gpu:a100:1", {"resource": {"cpu": 1, "gpu": 1}, "requirement": ['GPUModel = "a100"']}),
        ("--gres=gpu:a100:2", {"resource": {"cpu": 1, "gpu": 2}, "requirement": ['GPUModel = "a100"']}),
        ("-N 2 --gpus=4", {"tasks": 2, "gang": True, "max_per_node": 1, "resource": {"cpu": 1, "gpu": 2}}),
        ("-n 2 -N 1 --gpus-per-task=1", {"resource": {"cpu": 2, "gpu": 2}}),
        ("--gpus=2 --cpus-per-gpu=8 --mem-per-gpu=4G", {"resource": {"cpu": 16, "gpu": 2, "memory": "8192M"}}),
        ("-a 1-100%5", {"tasks": 100, "max_running": 5}),
        ("-a 1-4 -n 2 -c 2", {"tasks": 4, "resource": {"cpu": 4}}),
        ("-d afterok:12:13,afterany:14", {"after": {"12": "ok", "13": "ok", "14": "any"}}),
        ("-A physics", {"group": "physics"}),
        ("-p short", {"group": "quick"}),
        ("-p gpu --qos=high", {"group": "research", "requirement": ["GPUs >= 1"], "priority": 100}),
        ("-A physics -p gpu", {"group": "physics", "requirement": ["GPUs >= 1"]}),
        ("-C 'a100&ib'", {"requirement": ['(GPUModel = "A100") && (infiniband = true)']}),
        ("-C 'zone = \"eu\"'", {"requirement": ['zone = "eu"']}),
        ("-w n[1-2] -x n7", {"nodes": ["n1", "n2"], "requirement": ['Name != "n7"']}),
        ("-L matlab:2,ansys@server", {"licences": ["matlab=2", "ansys"]}),
        ("--nice=50 -H --no-requeue", {"priority": -50, "hold": True, "job_failure": False}),
        ("--deadline=now+1hour", {"deadline": "2026-11-28 11:00:00 Z"}),
        ("--begin=now", {}),
        ("--begin=now+2hours", {"wait_for": {"time": "2026-11-28 12:00:00 Z"}}),
    ],
)
def test_options_become_keys(options: str, expected: dict[str, object]) -> None:
    assert keys(options) == {"name": "run.sh", **expected}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train", "train"),
        ("my job", "my-job"),
        ("12", "job-12"),
        ("12.3", "job-12.3"),
        ("-x", "job--x"),
        ("ä", "job--"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert job_name(text) == name


def test_the_environment_of_the_submission_is_passed_on_without_what_belongs_to_cress() -> None:
    environment = translated("").job["environment"]
    assert isinstance(environment, dict)
    assert environment["PATH"] == "/bin"
    assert not [name for name in environment if name.startswith("CRESS_") or " " in name or name == "SLURM_JOB_ID"]
    bare = translated("--export=NONE").job["environment"]
    assert isinstance(bare, dict)
    assert "PATH" not in bare
    some = translated("--export=HOME,A=b").job["environment"]
    assert isinstance(some, dict)
    assert {"HOME": "/home/ann", "A": "b"}.items() <= some.items()
    assert "PATH" not in some


def test_variables_that_are_known_before_the_start() -> None:
    environment = translated("-N 2 -n 5 -c 2 --mem=2G").job["environment"]
    assert isinstance(environment, dict)
    assert {
        "SLURM_NTASKS": "5",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_TASKS_PER_NODE": "3,2",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_CPUS_ON_NODE": "6",
        "SLURM_MEM_PER_NODE": "2048",
        "SLURM_SUBMIT_DIR": "/home/ann",
    }.items() <= environment.items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-t 1h", "--time: '1h' is not a time"),
        ("-N 2 -a 1-3", "--array: elements of an array run on one node each"),
        ("--begin=later", "--begin: 'later' is not a time (such as 2026-12-01T08:00"),
        ("--deadline=2026-01-01", "--deadline: '2026-01-01' has passed"),
        ("--mem=lots", "--mem: 'lots' is not an amount of memory"),
        ("-n 0", "--ntasks: '0' is not a number from 1"),
        ("--uid=ann", "--uid: is not supported (`run_as:`"),
        ("--signal=USR1@later", "--signal: 'USR1@later' is not a signal with its time"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_write(options: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        translated(options)
    assert str(error.value).startswith(message)


def test_an_unknown_feature_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown feature 'haswell'") as error:
        translated("-C haswell")
    assert "a100, ib" in error.value.hint


def test_a_partition_that_is_no_group_is_passed_over_with_a_note() -> None:
    found = translated("-p compute")
    assert "group" not in found.job
    assert [note for note in found.notes if note.startswith("--partition=compute names no group")]


def test_every_mistake_is_reported() -> None:
    with pytest.raises(InputError) as error:
        translated("-t 1h --mem=lots --deadline=later")
    assert len(error.value.errors) == 3  # type: ignore[attr-defined]


def submitted(command: list[str]) -> JobView:
    counts = TaskCounts(total=1, waiting=1, running=0, succeeded=0, failed=0, cancelled=0)
    return JobView(
        id=7, name="x", group="lab", user="ann", type="batch", state="waiting", tasks=counts, priority=0, gang=False,
        resource={"cpu": "1"}, time_limit=None, submitted=0.0, command=tuple(command), directory="/d",
    )  # fmt: skip


HEAD = translated("").job["command"][:3]  # type: ignore[index]


@pytest.mark.parametrize(
    ("command", "script", "output"),
    [
        ([*HEAD, "slurm", "pieces=2 output=o-%4j.%a", "ab", "cd", "argument"], "abcd", "/d/o-0007.4294967294"),
        ([*HEAD, "slurm", "pieces=1 output=%99999999999999999999j", "a"], "a", "/d/0000000007"),
        ([*HEAD, "slurm", "pieces=² output=o", "a"], "", "/d/o"),
        ([*HEAD, "slurm", "--name=O'Brien", "a"], "", ""),
        (["python", "x.py", "--cluster", "slurm", "--name=O'Brien"], "", ""),
        (["python", "x.py", "--cluster", "slurm", "pieces=1 output=o", "a"], "", ""),
    ],
)
def test_any_command_may_look_like_that_of_a_script(command: list[str], script: str, output: str) -> None:
    view = submitted(command)
    assert (script_of(view), path_of(view, "output", "", 7, "n1")) == (script, output)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("after", "waiting for job 5 (first)", "Dependency"),
        ("after_tasks", "waiting for the same tasks of job 5", "Dependency"),
        ("after", "waiting for time 2026-12-01 18:00", "BeginTime"),
        # Job 5 has ended.
        ("no_room", "no node has room", "Resources"),
        ("behind", "job 6 is ahead", "Priority"),
    ],
)
def test_the_reason_is_a_dependency_only_while_another_job_is_waited_for(kind: str, text: str, reason: str) -> None:
    view = msgspec.structs.replace(submitted(["true"]), after={"5": "ok"}, reason=text, reason_kind=kind)
    assert JobRow(view).reason == reason


@pytest.mark.parametrize(
    ("first", "then", "what"),
    [
        ("0-9", "3", "the elements 3 are not the first ones of job 12, 0-9"),
        ("0-98:2", "1-99:2", "the elements 1,3,5,7,9,… are not the first ones of job 12, 0,2,4,6,8,…"),
    ],
)
def test_a_refused_array_is_told_the_rule_and_not_to_take_other_samples(first: str, then: str, what: str) -> None:
    def variables(elements: str) -> dict[str, str]:
        return {"SLURM_CRESS_ARRAY": elements}

    waited = msgspec.structs.replace(submitted(["true"]), environment=variables(first))
    client = cast("Any", SimpleNamespace(job=lambda _: waited))
    tasks = len(parse_array(then).elements)
    job = {"tasks": tasks, "environment": variables(then), "after": {"12": "tasks"}}
    with pytest.raises(InputError) as error:
        check_counterparts(client, job)
    assert (error.value.what, error.value.hint) == (
        what,
        "--array with the elements of job 12 from its first one on, without gaps",
    )
