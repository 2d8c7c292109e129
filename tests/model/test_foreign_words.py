"""Words of other systems: the hint says what they are called here."""

from __future__ import annotations

import pytest

from cress.model.errors import InputError
from cress.model.foreign_words import key_for, option_for, resource_for, verb_for
from cress.model.jobfile.keys import BY_NAME
from cress.model.jobfile.submit import parse_jobs
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("depends", "did you mean after?"),
        ("depends_on", "did you mean after?"),
        ("dependency", "did you mean after?"),
        ("mem", "did you mean resource: {memory: 4G}?"),
        ("cpus-per-task", "did you mean resource: {cpu: 4}?"),
        ("request_gpus", "did you mean resource: {gpu: 1}?"),
        ("partition", "did you mean group?"),
        ("queue", "did you mean group?"),
        ("envs", "did you mean environment?"),
        ("walltime", "did you mean time_limit?"),
        ("ntasks", "did you mean tasks?"),
        ("array", "did you mean tasks?"),
        ("nodeSelector", "did you mean requirement?"),
        ("docker_image", "did you mean image?"),
        ("working_dir", "did you mean directory?"),
        ("restartPolicy", "did you mean retries?"),
        ("schedule", "did you mean type: cron, with when: and the moments?"),
        ("livenessProbe", "did you mean alive?"),
        ("output", "did you mean `cress logs`, which shows what tasks write"),
        ("comand", "did you mean command?"),
    ],
)
def test_keys_of_job_files(key: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_jobs([{"command": "true", key: 1}], dimensions=Dimensions(), user="ann")
    assert f"unknown key '{key}' ({hint}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("mem", "did you mean memory?"),
        ("RAM", "did you mean memory?"),
        ("cpus", "did you mean cpu?"),
        ("cores", "did you mean cpu?"),
        ("gpus", "no node has offered gpu yet"),
        ("gpu", "no node has offered gpu yet"),
        ("memmory", "did you mean memory?"),
        ("iops", "did you mean disk?"),
    ],
)
def test_names_of_resources(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"unknown dimension '{name.lower()}'") as caught:
        parse_vector({name: "4G"}, Dimensions())
    assert hint in str(caught.value)
    with pytest.raises(InputError) as caught:
        parse_vector(f"<{name}=4>", Dimensions())
    assert hint in str(caught.value)


def test_a_gpu_that_a_node_offers_is_meant() -> None:
    with pytest.raises(InputError, match="did you mean gpu"):
        parse_vector({"gres": 1}, Dimensions(("gpu",)))


RUN = ("--name", "--group", "--tasks", "--resource", "--time-limit", "--env", "--require", "--directory", "--port")


@pytest.mark.parametrize(
    ("option", "verb", "options", "meant"),
    [
        ("--mem", "run", RUN, "--resource '<cpu=4, memory=8G>'"),
        ("--mem", "submit", ("--wait",), "`resource: {memory: 4G}` in the job file"),
        ("--partition", "run", RUN, "--group"),
        ("--time", "run", RUN, "--time-limit"),
        ("--ntasks", "run", RUN, "--tasks"),
        ("--dependency", "run", RUN, "--set after=VALUE"),
        ("--image", "run", RUN, "--set image=VALUE"),
        ("--chdir", "run", RUN, "--directory"),
        ("--lines", "logs", ("--follow", "--tail"), "--tail"),
        ("--lines", "jobs", ("--json",), ""),
        ("--output", "jobs", ("--json", "--all"), "--json"),
        ("--watch", "logs", ("--follow",), "--follow"),
    ],
)
def test_options_of_verbs(option: str, verb: str, options: tuple[str, ...], meant: str) -> None:
    assert option_for(option, verb, options) == meant


def test_verbs() -> None:
    words = ("squeue", "sbatch", "scancel", "kill", "ps", "describe", "sinfo", "jobz")
    assert [verb_for(word) for word in words] == ["jobs", "submit", "cancel", "cancel", "jobs", "job", "nodes", ""]


def test_every_hint_for_a_key_is_a_key_or_says_more() -> None:
    words = "mem envs queue dependency image schedule volumes stdout health throttle maxsurge tz suspend license nice"
    for word in words.split():
        hint = key_for(word)
        assert hint in BY_NAME or ":" in hint, (word, hint)
    assert resource_for("env") == ""
