"""Job files: what is read, what is refused and with which sentence."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.errors import InputError, InputErrors
from cress.model.job import Condition, Job, OnPartition
from cress.model.jobfile.job import KEYS, MAX_RUN_BYTES, JobSpec, default_name, parse_job
from cress.model.jobfile.submit import parse_jobs, read_jobs
from cress.model.jobfile.values import DEFAULT_RESOURCE, MAX_TASKS
from cress.model.resources import Dimensions
from cress.model.run import Run
from cress.model.times import MINUTE, SECOND
from cress.model.vectors import parse_vector

DIMENSIONS = Dimensions(("gpu",))
LEAST = {"command": ["echo", "hello"]}
G = 2**30


def read(**keys: object) -> JobSpec:
    return parse_job({**LEAST, **keys}, dimensions=DIMENSIONS, user="ann")


def refused(mapping: dict[Any, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse_job(mapping, dimensions=DIMENSIONS, user="ann")
    return str(caught.value).splitlines()


def test_the_least_job_has_the_stated_defaults() -> None:
    spec = read()
    assert spec.job == Job(
        id=0, group="default", request=parse_vector(DEFAULT_RESOURCE, DIMENSIONS), name="echo", user="ann"
    )
    source = '{"command":["echo","hello"]}'
    assert spec.run == Run(job=0, command=("echo", "hello"), name="echo", group="default", user="ann", source=source)


def test_the_fullest_job_says_everything() -> None:
    spec = parse_job(
        {
            "command": "echo $GREETING",
            "name": "greet.1",
            "type": "Batch",
            "group": "web",
            "tasks": 4,
            "resource": {"cpu": 2, "memory": "1G", "gpu": 0.5},
            "priority": -7,
            "time_limit": "5min",
            "environment": {"GREETING": "hello", "N": 3},
            "directory": "/srv",
            "gang": True,
            "stop_grace": 90,
            "on_partition": "Keep",
            "retries": 3,
            "backoff": "30s",
            "hold": "yes",
            "after": {12: "Any", "13": "failed"},
        },
        dimensions=DIMENSIONS,
        user="ann",
    )
    assert spec.job == Job(
        id=0,
        group="web",
        request=DIMENSIONS.vector(cpu=2000, memory=G, gpu=500),
        name="greet.1",
        user="ann",
        tasks=4,
        gang=True,
        priority=-7,
        time_limit=5 * MINUTE,
        on_partition=OnPartition.KEEP,
        retries=3,
        backoff=30 * SECOND,
        hold=True,
        stop_grace=90 * SECOND,
        after=((12, Condition.ANY), (13, Condition.FAILED)),
    )
    assert msgspec.json.decode(spec.run.source)["after"] == {"12": "Any", "13": "failed"}
    assert msgspec.structs.replace(spec.run, source="") == Run(
        job=0,
        command=("/bin/sh", "-c", "echo $GREETING"),
        name="greet.1",
        group="web",
        user="ann",
        tasks=4,
        environment=(("GREETING", "hello"), ("N", "3")),
        directory="/srv",
        memory_limit=G,
        limits=(("cpu", 2000), ("memory", G), ("gpu", 500)),
        time_limit=5 * MINUTE,
        stop_grace=90 * SECOND,
        on_partition=OnPartition.KEEP,
    )


@pytest.mark.parametrize("key", ["time_limit", "TimeLimit", "time-limit", "TIME_LIMIT", "timelimit"])
def test_keys_are_read_without_capitals_and_underscores(key: str) -> None:
    assert read(**{key: "90s"}).job.time_limit == 90 * SECOND


@pytest.mark.parametrize("key", ["gang", "issue_as_whole", "IssueAsWhole"])
def test_a_gang_has_the_name_of_the_source_paper_too(key: str) -> None:
    assert read(**{key: "true"}).job.gang


@pytest.mark.parametrize(
    ("after", "jobs"),
    [
        (7, [(7, Condition.OK)]),
        ([7, "8"], [(7, Condition.OK), (8, Condition.OK)]),
        ({"7": "failed"}, [(7, Condition.FAILED)]),
        ([], []),
    ],
)
def test_a_job_comes_after_others(after: object, jobs: list[tuple[int, Condition]]) -> None:
    assert list(read(after=after).job.after) == jobs


def test_jobs_of_one_submit_name_each_other() -> None:
    entries = [
        {**LEAST, "name": "load", "after": ["prepare"]},
        {**LEAST, "name": "prepare", "after": {3: "any"}},
        {**LEAST, "name": "alarm", "after": {"load": "failed", "prepare": "failed"}},
    ]
    load, prepare, alarm = (spec.job.after for spec in parse_jobs(entries, dimensions=DIMENSIONS, user="ann"))
    assert load == ((-2, Condition.OK),)
    assert prepare == ((3, Condition.ANY),)
    assert alarm == ((-1, Condition.FAILED), (-2, Condition.FAILED))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["load", "other"], "jobs[1].after: no job of this submit is called prepare"),
        (["prepare", "other", "prepare"], "jobs[1].after: 2 jobs of this submit are called prepare"),
    ],
)
def test_a_name_must_be_that_of_one_job_of_the_submit(names: list[str], sentence: str) -> None:
    entries: list[dict[str, object]] = [{**LEAST, "name": name} for name in names]
    entries[1]["after"] = "prepare"
    with pytest.raises(InputError) as caught:
        parse_jobs(entries, dimensions=DIMENSIONS, user="ann")
    assert str(caught.value).startswith(sentence)


def test_memory_is_limited_only_when_it_was_asked_for() -> None:
    assert read().run.memory_limit == 0
    assert read(resource="<1>").run.memory_limit == 0
    assert read(resource="<1, 2G>").run.memory_limit == 2 * G


@pytest.mark.parametrize(
    ("first", "then", "wrong"),
    [
        (3, 3, ""),
        ("1-4", "1-4", ""),
        ("1,3,5-9", "1,3,5-6", ""),
        ("1-4", "0-3", "have other indices than those of this job, so none would have its counterpart (the same ind"),
        ("1-4", 4, "have other indices"),
        (4, "0-3", ""),
        (2, 3, "has 2 tasks, and this job 3: the others would never start (at most 2 tasks)"),
        (10**6, 10**5, ""),
        (10**6, 10**5 + 1, "100,001 tasks of this submit wait for single tasks (tasks), and at most 100,000 can"),
    ],
)
def test_tasks_wait_for_those_of_the_same_indices(first: object, then: object, wrong: str) -> None:
    align = {**LEAST, "name": "align", "tasks": first}
    count = {**LEAST, "name": "count", "tasks": then, "after": {"align": "tasks"}}
    plain = {key: value for key, value in count.items() if key != "name"}
    dag = {"type": "dag", "name": "d", "steps": {"align": {**LEAST, "tasks": first}, "count": plain}}
    for entries, place in (([align, count], "jobs[1].after"), ([dag], "jobs[0].steps.count.after")):
        specs, errors = read_jobs(entries, dimensions=DIMENSIONS, user="ann")
        assert [error.field for error in errors] == [place] * bool(wrong)
        assert wrong in "".join(map(str, errors))
        assert wrong or specs[-1].job.after[0][1] is Condition.TASKS
    cron = {**dag, "type": "cron", "when": "@daily"}
    assert bool(read_jobs([cron], dimensions=DIMENSIONS, user="ann")[1]) == bool(wrong)
    dag["steps"]["count"]["when"] = "align.state == succeeded"  # type: ignore[index]
    assert "a step with `when` cannot wait for single tasks" in str(
        read_jobs([dag], dimensions=DIMENSIONS, user="ann")[1][0]
    )


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3", "train.py"], "python3"),
        (["./run me.sh"], "run-me.sh"),
        (["dir/"], "dir"),
        (["…"], "job"),
        (["x" * 500], "x" * 128),
        ("echo hello | wc", "echo"),
        ("LANG=C  /bin/sort big", "sort"),
        ("A=1", "job"),
    ],
)
def test_a_job_without_a_name_is_called_after_its_program(command: object, name: str) -> None:
    assert read(command=command).job.name == name


REFUSED: list[tuple[str, dict[Any, Any], str]] = [
    ("nothing", {}, 'command: is missing (a list such as ["python3", "train.py"], or one text for the shell)'),
    ("a mistyped key", {**LEAST, "resorce": 1}, "resorce: unknown key 'resorce' (did you mean resource?)"),
    ("a key that is not a text", {**LEAST, 3: 1}, "3 is not a key (`cress schema` lists all keys)"),
    ("a key twice", {**LEAST, "tasks": 1, "Tasks": 2}, "Tasks: is given twice (it is the same as tasks)"),
    ("null", {**LEAST, "name": None}, "name: nothing is given (leave the key out, or give it a value)"),
    (
        "an empty command",
        {"command": []},
        'command: is empty (a list such as ["python3", "train.py"], or one text for the shell)',
    ),
    (
        "a command that is a number",
        {"command": 3},
        'command: 3 is not a command (a list such as ["python3", "train.py"], or one text for the shell)',
    ),
    ("a word that is none", {"command": ["a", True]}, 'command[1]: true is not a text (put it into quotes: "…")'),
    ("a zero byte", {"command": ["a\0"]}, "command[0]: has a zero byte in it (no program can be given one)"),
    (
        "an argument longer than Linux takes",
        {"command": ["a", "b" * 131_072]},
        "command[1]: a text of 131072 bytes is too long (at most 131071; put large inputs into files)",
    ),
    (
        "a name with a space",
        {**LEAST, "name": "a b"},
        "name: 'a b' is not a name (letters, digits, `.`, `_` and `-`, beginning with a letter or digit)",
    ),
    ("a long name", {**LEAST, "name": "a" * 129}, "name: a name of 129 characters is too long (at most 128)"),
    (
        "a cron job without its moments",
        {**LEAST, "type": "cron"},
        'when: is missing (such as "0 8 * * 1-5")',
    ),
    ("a type unheard of", {**LEAST, "type": "bach"}, "type: unknown type 'bach' (did you mean batch?)"),
    ("no tasks", {**LEAST, "tasks": 0}, "tasks: 0 is too small (a whole number from 1 to 10000000)"),
    (
        "too many tasks",
        {**LEAST, "tasks": MAX_TASKS + 1},
        "tasks: 10000001 is too large (a whole number from 1 to 10000000)",
    ),
    ("half a task", {**LEAST, "tasks": 1.5}, "tasks: '1.5' is not a whole number (a whole number from 1 to 10000000)"),
    (
        "a unit nobody knows",
        {**LEAST, "resource": {"memory": "8Q"}},
        "resource.memory: '8Q' has an unknown unit 'Q' (bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)",
    ),
    (
        "megabytes as in Slurm and HTCondor",
        {**LEAST, "resource": {"cpu": 1, "memory": 4096}},
        (
            "resource.memory: no program can start in 4,096 bytes of memory "
            "(did you mean 4096M? a plain number is bytes, in Slurm and HTCondor it is megabytes)"
        ),
    ),
    (
        "less memory than a program needs to start",
        {**LEAST, "resource": "<1, 64K>"},
        "resource.memory: no program can start in 65,536 bytes of memory (at least 100K; shells need 1M)",
    ),
    (
        "no resource at all",
        {**LEAST, "resource": "<0>"},
        "resource: asks for nothing at all (at least a little cpu, for instance <0.1>)",
    ),
    (
        "a priority in words",
        {**LEAST, "priority": "high"},
        "priority: 'high' is not a priority (a whole number from -1000000 to 1000000; higher goes first)",
    ),
    (
        "no time",
        {**LEAST, "time_limit": 0},
        "time_limit: a limit of 0 leaves no time to run (leave it out for no limit)",
    ),
    *(
        (
            f"no limit in the word {word}",
            {**LEAST, "time_limit": word},
            f"time_limit: {word!r} is not a time limit (leave it out for no limit)",
        )
        for word in ("UNLIMITED", "infinite", -1)
    ),
    *(
        (
            f"the name {name}",
            {**LEAST, "name": name},
            f"name: '{name}' reads as the id of a {kind} (a name with a letter: run-12)",
        )
        for name, kind in (("12", "job"), (7, "job"), ("job-12", "job"), ("12.3", "task"))
    ),
    (
        "a variable's name",
        {**LEAST, "environment": {"1A": "x"}},
        "environment.1A: '1A' is not a name of a variable (letters, digits and `_`, not beginning with a digit)",
    ),
    (
        "our own variables",
        {**LEAST, "environment": {"CRESS_JOB_ID": "x"}},
        "environment.CRESS_JOB_ID: 'CRESS_JOB_ID' is reserved (Cress itself sets CRESS_… for a task)",
    ),
    (
        "variables as a list",
        {**LEAST, "environment": ["A=1"]},
        "environment: a list is not a mapping (NAME: value for each variable)",
    ),
    (
        "a relative directory",
        {**LEAST, "directory": "data"},
        "directory: 'data' is not absolute (a path that begins with /)",
    ),
    (
        "half a retry",
        {**LEAST, "retries": 0.5},
        "retries: '0.5' is not a whole number (a whole number from 0 to 1000)",
    ),
    (
        "a retry a year later",
        {**LEAST, "backoff": "365d"},
        "backoff: 365d is too long (at most 1d)",
    ),
    (
        "held by somebody",
        {**LEAST, "hold": "ann"},
        "hold: 'ann' is neither true nor false (true: it waits until it is released)",
    ),
    (
        "after a mapping of nothing known",
        {**LEAST, "after": {7: "done"}},
        (
            "after: 'done' is not a condition (ok: it succeeded; any: it is over; failed: a task of it failed; "
            "tasks: each task after the same one)"
        ),
    ),
    (
        "after itself twice",
        {**LEAST, "after": [7, "7"]},
        "after: job 7 is named twice (one condition for each job)",
    ),
    (
        "after job 0",
        {**LEAST, "after": [0]},
        "after: 0 is not an id of a job (one that `cress jobs` shows)",
    ),
    (
        "after a list in a list",
        {**LEAST, "after": [[7]]},
        "after: a list is not a job (a list of ids and names, or `id: condition` for each)",
    ),
    (
        "a gang of three",
        {**LEAST, "gang": 3},
        "gang: 3 is neither true nor false (true: all tasks start at once, or none)",
    ),
    (
        "neither the one nor the other",
        {**LEAST, "on_partition": "wait"},
        "on_partition: 'wait' is neither stop nor keep (stop: run elsewhere; keep: wait for the node)",
    ),
    ("endless grace", {**LEAST, "stop_grace": "2d"}, "stop_grace: 2d is too long (at most 1h)"),
]


@pytest.mark.parametrize(
    ("mapping", "sentence"), [case[1:] for case in REFUSED], ids=[case[0].replace(" ", "_") for case in REFUSED]
)
def test_what_is_refused_and_why(mapping: dict[Any, Any], sentence: str) -> None:
    assert refused(mapping) == [sentence]


def test_all_mistakes_are_told_at_once() -> None:
    sentences = refused({"tasks": 0, "nmae": "x", "resource": {"cpu": "-1", "memory": "8Q"}, "gang": []})
    assert [sentence.partition(":")[0] for sentence in sentences] == [
        "nmae",
        "tasks",
        "resource.cpu",
        "resource.memory",
        "gang",
        "command",
    ]


def test_command_and_environment_together_have_a_limit() -> None:
    word = "x" * 100_000
    assert read(command=[word] * 9).run.command == (word,) * 9
    sentences = refused({"command": [word] * 9, "environment": {"A": word, "B": "y"}})
    assert sentences == [
        (
            f"command: command and environment have 1000003 bytes together (at most {MAX_RUN_BYTES}; "
            "put large inputs into files)"
        )
    ]


def test_jobs_of_one_submit_are_read_together_and_tell_which_is_wrong() -> None:
    specs = parse_jobs([LEAST, {"command": "true", "tasks": "3"}], dimensions=DIMENSIONS, user="ann")
    assert [(spec.job.name, spec.job.tasks) for spec in specs] == [("echo", 1), ("true", 3)]
    with pytest.raises(InputErrors) as caught:
        parse_jobs([LEAST, {**LEAST, "tasks": 0}, 3], dimensions=DIMENSIONS, user="ann")
    assert [error.field for error in caught.value.errors] == ["jobs[1].tasks", "jobs[2]"]


@pytest.mark.parametrize("entries", [None, {}, [], "x", [LEAST] * 10_001], ids=["null", "map", "empty", "text", "many"])
def test_a_submit_without_a_list_of_jobs_is_refused(entries: object) -> None:
    with pytest.raises(InputError) as caught:
        parse_jobs(entries, dimensions=DIMENSIONS, user="ann")
    assert caught.value.field == "jobs"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["<1, 1G>", "5min", "true", "batch", "/srv", "\ud800", "1e400", "-0"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(st.sampled_from([*KEYS, "TimeLimit", "x"]) | SCALARS, VALUES, max_size=6))
def test_anything_is_either_read_or_refused_with_a_sentence(mapping: dict[Any, Any]) -> None:
    try:
        spec = parse_job(mapping, dimensions=DIMENSIONS, user="ann")
    except InputError as error:
        errors = error.errors if isinstance(error, InputErrors) else [error]
        assert errors
        for each in errors:
            assert each.what
            assert "\n" not in str(each)
            assert len(str(each)) < 500
        return
    # What was read can be stored, and is what the center and the executors take for granted.
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=JobSpec) == spec
    assert any(spec.job.request)
    assert spec.run.command[0].strip()
    assert spec.job.name == spec.run.name
    assert default_name(spec.run.command)
