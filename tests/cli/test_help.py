"""Help, completion, wrong flags, and how little the command loads to say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import run_cress
from tests.house.test_cli_is_light import EVERY_VERB

HELP = """\
Usage: cress [OPTIONS] COMMAND [ARGS]...

  Cluster resource manager and job scheduler.

Options:
  --version             Show the version and exit.
  -C, --cluster NAME    A cluster of ~/.config/cress/config.toml
                        (docs/configuration.md).
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
  submit           Submit the jobs of files, or a script or a command as...
  plan             Show where and when jobs would start.
  run              Run a command on the cluster and show its output.
  alloc            Hold resources, and open a shell on them.
  apply            Create or update services, databases and cron jobs.
  validate         Check job files without a center.
  schema           Print the JSON Schema of job files.
  jobs             List jobs, newest first.
  job              Show everything about one job.
  explain          Explain why a job waits, or a group or node has no more.
  why              Tell why a job waits, in three lines.
  story            Show everything that happened to a job, a node or a...
  watch            Follow the state of a job until its end.
  logs             Show the output of the tasks of a job.
  fetch            Fetch files from the directories of a job's tasks.
  exec             Run a command in a running task.
  resolve          Show where the running tasks of a job are.
  render           Write a file that follows the places of jobs.
  cancel           Cancel jobs.
  hold             Hold jobs: start no tasks of them until they are...
  release          Release held jobs, so that they may start.
  update           Change time limit, priority, group and more of...
  requeue          Stop the running tasks of jobs, which then wait again.
  retry            Submit an ended job once more, or its failed tasks.
  scale            Change the number of tasks of a service or database.
  versions         List the versions of a service or database.
  revert           Bring back an earlier version of a service or database.
  restart          Replace all tasks of a service or database one by one.
  promote          Let an update that waits after its canaries go on.
  resume           Run the unfinished steps of a dag again, or others.
  trigger          Run a cron job at once, or for earlier times.
  groups           List groups, or change them.
  nodes            List nodes, cordon or drain them, or change their...
  what-if          Show what a change would do to the cluster's work.
  rebalance        Move running tasks to make room.
  reserve          Reserve nodes in advance, for a group or for maintenance.
  reservations     List advance reservations and maintenance windows.
  leases           List leases of workloads, request them, or return them.
  licences         List the licences of the cluster.
  status           Show the cluster in a few lines.
  top              Watch groups, waiting jobs, nodes and events on one...
  events           Show events of the cluster.
  usage            Show the resources that groups used over time.
"""
VERBS = (
    "submit",
    "plan",
    "run",
    "apply",
    "validate",
    "schema",
    "jobs",
    "job",
    "logs",
    "fetch",
    "exec",
    "resolve",
    "render",
    "cancel",
    "hold",
    "release",
    "update",
    "requeue",
    "retry",
    "watch",
    "alloc",
    "versions",
    "revert",
    "restart",
    "promote",
    "trigger",
    "install-service",
    "man",
    "scale",
    "resume",
    "groups",
    "groups list",
    "groups show",
    "groups apply",
    "nodes",
    "nodes list",
    "nodes cordon",
    "nodes uncordon",
    "nodes forget",
    "nodes drain",
    "nodes label",
    "nodes set",
    "nodes settings",
    "nodes revert",
    "what-if",
    "explain",
    "why",
    "efficiency",
    "rebalance",
    "reserve",
    "reservations",
    "reservations list",
    "reservations remove",
    "leases",
    "leases list",
    "leases workloads",
    "leases watch",
    "leases request",
    "leases use",
    "leases grow",
    "leases shrink",
    "leases renew",
    "leases release",
    "licences",
    "status",
    "top",
    "events",
    "story",
    "usage",
    "config",
    "config check",
    "slurm",
    "slurm install",
    "up",
    "portal",
    "center",
    "executor",
    "tls",
    "tls init",
    "tls issue",
    "tls revoke",
    "tls show",
    "store",
    "store check",
    "store backup",
    "store restore",
    "simulate",
    "size",
    "replay",
    "export",
)

# The ports that are usual may be in use.
ANYWHERE = ("--port", "0", "--executor-port", "0")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRESS_DATA", str(tmp_path / "none"))


def cress(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_cress(arguments, environment={**os.environ, "COLUMNS": "80", **environment})


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_verbs_in_the_order_of_use(flag: str) -> None:
    done = cress(flag)
    assert done.returncode == 0
    assert done.stdout.startswith(HELP)
    assert done.stderr == ""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    done = cress(*verb.split(), "-h")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: cress {verb} ")
    # No types of Python, and brackets around what may be left out only.
    assert not re.search(r"<(str|int|float|path|list)\b|\[\[|\]\.\.\.\]|Usage:.*\{", done.stdout)
    if " " not in verb:
        assert any(f"Exit codes: {each}" in done.stdout for each in ("0 ", "the task's own", "the command's own"))


def test_verbs_with_verbs_below_tell_the_options_of_the_one_that_is_meant_by_itself() -> None:
    told = cress("nodes", "-h").stdout
    assert "Options of list (the default subcommand):" in told
    assert re.search(r"--where EXPR +Show the nodes that satisfy this", told)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["jbos"], "cress: there is no verb 'jbos' (did you mean job"),
        (["nonsense"], "cress: there is no verb 'nonsense' (see: cress -h)"),
        (["frobnicate"], "cress: there is no verb 'frobnicate' (see: cress -h)"),
        (["groups", "aply", "f"], "cress groups: there is no verb 'aply' (did you mean apply?)"),
        (["jobs", "--state", "runing"], "cress jobs: --state: 'runing' is not one of waiting, running, succeeded, "),
        (
            ["simulate", "x.swf", "--events", "now"],
            "cress simulate: --events: 'now' is not one of together, one-by-one",
        ),
        (["jobs", "--stat"], "cress jobs: there is no option --stat (did you mean --state?)"),
        (["--frob"], "cress: there is no option --frob (see: cress -h)"),
        (
            ["logs", "1", "--lines", "5"],
            "cress logs: there is no option --lines (did you mean --tail?)",
        ),
        (["squeue"], "cress: there is no verb 'squeue' (did you mean jobs?)"),
        (
            ["submit"],
            "cress submit: nothing to submit (FILE…, SCRIPT ARGUMENTS…, or -- COMMAND…; `--help` has examples)",
        ),
        (["run"], "cress run: COMMAND: is missing (see: cress run -h)"),
        (["jobs", "12"], "cress jobs: unexpected words: 12 (did you mean cress job 12?)"),
        (["submit", "sleep", "5 m"], "cress submit: sleep is a command, not a job file (cress submit -- sleep '5 m')"),
        (["whoami", "a", "b"], "cress whoami: unexpected words: a b (see: cress whoami -h)"),
        (["jobs", "--limit"], "cress: --limit: needs a value (see: cress -h)"),
        (["up", "--executors", "0"], "cress up: --executors: is too small (at least 1)"),
        (["simulate", "x.swf", "--load", "99"], "cress simulate: --load: is too large (at most 10)"),
        (["run", "--tasks", "many", "--", "true"], "cress run: --tasks: is not a whole number"),
        (["submit", "/nonexistent.yaml"], "cress submit: /nonexistent.yaml: cannot be read: No such file or directory"),
        (["groups", "apply", "/"], "cress groups apply: /: cannot be read: Is a directory"),
        (["groups", "apply", "/dev/null", "--move", "a"], "cress groups apply: --move: 'a' is not OLD=NEW"),
        (["run", "--env", "A", "--", "true"], "cress run: --env: 'A' is not KEY=VALUE (such as --env KEY=VALUE)"),
        (
            ["run", "--tasks", "5000", "--", "true"],
            "cress run: --tasks: 5000 tasks are too many to watch (at most 1000",
        ),
        (["usage", "--last", "soon"], "cress usage: --last: "),
        (["nodes", "drain", "n1", "--deadline", "x"], "cress nodes drain: --deadline: "),
        (
            ["center", *ANYWHERE, "--history", "x"],
            "cress center: --history: 'x' is not an address of a database (such as postgres",
        ),
        (["center", "--keep-history", "x"], "cress center: --keep-history: "),
        (
            ["executor", "--center", "http://x"],
            "cress executor: --center: 'http://x' is not an address of a center (ws://",
        ),
        (["center", *ANYWHERE, "--option", "grase=3s"], "cress center: "),
        (
            ["executor", "--center", "ws://x", "--label", "ssd"],
            "cress executor: --label: 'ssd' is not a label (NAME=VALUE",
        ),
        (
            ["executor", "--center", "ws://x", "--ports", "9-1"],
            "cress executor: --ports: '9-1' is not a range of ports",
        ),
        (["center", "--topology", "/nowhere"], "cress center: /nowhere: cannot be read: No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(arguments: list[str], sentence: str) -> None:
    done = cress(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(sentence)


@pytest.mark.parametrize(
    "verb",
    ["jobs", "nodes", "groups", "status", "job 1", "logs 1", "cancel 1", "run -- true", "hold 1", "usage", "events"],
)
def test_without_a_center_every_verb_says_how_to_start_one(verb: str) -> None:
    done = cress(*verb.split(), CRESS_URL="")
    name = verb.split(maxsplit=1)[0]
    data = os.environ["CRESS_DATA"]
    sentence = f"no center runs on {data} (start one with `cress up --data {data}`)"
    assert (done.returncode, done.stdout, done.stderr) == (3, "", f"cress {name}: {sentence}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell: str) -> None:
    instruction = {"bash": "complete_bash", "zsh": "complete_zsh", "fish": "complete_fish"}[shell]
    words = {"COMP_WORDS": "cress gr", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "cress gr"}
    words["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    code = "import sys; sys.argv[0] = 'cress'; from cress.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "_CRESS_COMPLETE": instruction, **words},
    )
    assert "groups" in done.stdout
    assert "nodes" not in done.stdout


def test_help_and_the_client_verbs_load_nothing_heavy() -> None:
    heavy = "{'httpx', 'rich', 'yaml', 'numpy', 'starlette', 'asyncio', 'psutil', 'websockets'}"
    code = f"{EVERY_VERB}print({heavy} & {{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_verb_that_asks_a_center_loads_no_command_line_of_another_library() -> None:
    code = """import sys
sys.argv = ["cress", "jobs"]
from cress.cli.main import main
try:
    main()
except SystemExit:
    loaded = {name.partition(".")[0] for name in sys.modules}
    print(sorted({"httpx", "httpcore", "rich", "pygments"} & loaded))
"""
    environment = {**os.environ, "CRESS_URL": "http://127.0.0.1:9", "CRESS_TOKEN": "x"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "['httpcore', 'httpx']\n", done.stderr
