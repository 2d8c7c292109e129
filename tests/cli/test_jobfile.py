"""Job files as text: what the mapping is, on which line each key stands, and which mistakes are of the file itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.cli.jobfile import read_jobs
from cress.cli.placed import in_file, placed
from cress.client import Fault, Refused
from cress.formats.yaml_text import TAG, YamlNode, parsed
from cress.model.errors import InputError, InputErrors


def write(folder: Path, text: str | bytes, name: str = "job.yaml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


READ = [
    ("the least", "command: echo hello", [{"command": "echo hello"}]),
    (
        "numbers stay as written",
        "command: [sleep, 010, 1e3]\ntasks: 0x10",
        [{"command": ["sleep", "010", "1e3"], "tasks": "0x10"}],
    ),
    ("words of YAML", "gang: true\nname: ~", [{"gang": True, "name": None}]),
    (
        "but not where texts are",
        "command: [yes, true, no]\nenvironment: {A: false}",
        [{"command": ["yes", "true", "no"], "environment": {"A": "false"}}],
    ),
    ("several documents", "command: a\n---\ncommand: b\n---\n", [{"command": "a"}, {"command": "b"}]),
    ("a list", "- command: a\n- command: b\n", [{"command": "a"}, {"command": "b"}]),
    (
        "anchors",
        "- &x {command: a, tasks: 2}\n- {<<: *x, tasks: 3}",
        [{"command": "a", "tasks": "2"}, {"command": "a", "tasks": "3"}],
    ),
    ("a mark at the start", b"\xef\xbb\xbfcommand: a", [{"command": "a"}]),
    ("Windows lines", "command: a\r\ntasks: 2\r\n", [{"command": "a", "tasks": "2"}]),
    ("JSON with tabs", '{\n\t"command":["a","\\ud83d\\ude00\\/"]\n}', [{"command": ["a", "😀/"]}]),
]


@pytest.mark.parametrize(("text", "mappings"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_files_are_read(tmp_path: Path, text: str | bytes, mappings: list[dict[str, object]]) -> None:
    found = [dict(entry.mapping) for entry in read_jobs([write(tmp_path, text)])]
    assert found == mappings


REFUSED = [
    ("empty", "", ": it contains no job (key: value for each property of a job, at least command: …)"),
    (
        "only comments",
        "# nothing\n---\n",
        ": it contains no job (key: value for each property of a job, at least command: …)",
    ),
    ("a word", "\nhello", ":2: 'hello' is not a job (key: value for each property of a job, at least command: …)"),
    (
        "a list in a list",
        "- - a",
        ":1: a list is not a job (key: value for each property of a job, at least command: …)",
    ),
    ("a key twice", "command: a\ntasks: 1\ncommand: b", ":3: command is given twice (first on line 1)"),
    ("a tab", "command: a\nresource:\n\tcpu: 1", ":3: a tab cannot indent YAML (use spaces)"),
    (
        "a colon too many",
        "command: echo a: b",
        ":1: a `:` where none can be (is a line above indented otherwise? a text with `: ` in it needs quotes)",
    ),
    (
        "a bracket too few",
        "command: [a",
        (
            ":1: is not valid YAML: expected ',' or ']', but got '<stream end>' (key: value for each property of "
            "a job, at least command: …)"
        ),
    ),
    ("an alias of nothing", "command: *x", ":1: found undefined alias 'x' (&name comes before *name)"),
    ("itself in itself", "command: &x [*x]", ":1: is too much for one job (fewer aliases and levels)"),
    (
        "objects",
        "command: !!python/object:os.system x",
        ":1: python/object:os.system is not allowed here (texts and numbers)",
    ),
    ("no text", b"\x7fELF\xff\xfe\x00", ": is not a text (YAML or JSON in UTF-8)"),
    ("a zero byte", "command: a\0", ": is not a text (YAML or JSON in UTF-8)"),
    ("too deep", "[" * 5000, ":1: has too many levels (fewer brackets within brackets)"),
]


@pytest.mark.parametrize(("text", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_mistakes_of_the_file_itself(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_jobs([file])
    assert str(caught.value) == file + sentence


FOREIGN = [
    ("job.yaml", "# a job\napiVersion: batch/v1\nkind: Job\nspec: {command: [a]}\n", ":2: is a manifest of Kubernetes"),
    ("job.json", '{"apiVersion": "batch/v1", "kind": "Job"}', ":1: is a manifest of Kubernetes"),
    ("job.sub", "# c\nuniverse = vanilla\nExecutable = /bin/echo\nqueue 3\n", ":2: is a submit file of HTCondor"),
    ("dag", "JOB A a.sub\nPARENT A CHILD B\n", ":1: is a file of DAGMan"),
    ("web.nomad", 'job "web" {\n}\n', ":1: is a job specification of Nomad"),
    ("compose.yaml", "services:\n  web:\n    image: nginx\n", ":1: is a file of Docker Compose"),
    ("run", "# x\n#SBATCH -n 2\nsrun hostname\n", ":2: is a script of Slurm whose first line names no interpreter"),
    ("run.sh", "#!/bin/sh\n#SBATCH -n 2\nsrun hostname\n", ":1: is a script, not a job file (`cress submit --dry-run "),
    ("train.py", "import os\nprint(1)\n", ": is a program without #! in its first line"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), FOREIGN, ids=[case[0] for case in FOREIGN])
def test_files_of_other_systems_are_called_by_their_names(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(InputError) as info:
        read_jobs([write(tmp_path, text, name)])
    assert f"{name}{sentence}" in str(info.value)


@pytest.mark.parametrize(
    "text",
    [
        "#SBATCH -N 1\ncommand: echo\n",
        "name: make\ncommand: |\n  executable = a\n  queue 1\n",
        "- {name: services, command: echo}\n",
    ],
)
def test_job_files_that_mention_other_systems_are_job_files(tmp_path: Path, text: str) -> None:
    assert len(read_jobs([write(tmp_path, text, "job.sh")])) == 1


def test_a_bomb_of_aliases_does_no_harm(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(InputError, match="too much for one job"):
        read_jobs([write(tmp_path, "\n".join(lines))])


def test_files_that_cannot_be_read_are_told_together(tmp_path: Path) -> None:
    good, missing = write(tmp_path, "command: a"), str(tmp_path / "missing.yaml")
    with pytest.raises(InputErrors) as caught:
        read_jobs([good, missing, str(tmp_path)])
    assert str(caught.value).splitlines() == [
        f"{missing}: cannot be read: No such file or directory",
        f"{tmp_path}: cannot be read: Is a directory",
    ]


TEXT = """\
# a comment
command:
  - a
  - b
resource:
  cpu: 1

  memory: 2G
environment: {A: 1,
              B: 2}
Network-Adjacent: true
"""


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 2),
        ("tasks", 2),
        ("command", 2),
        ("command[1]", 4),
        ("resource", 5),
        ("resource.memory", 8),
        ("resource.gpu", 5),
        ("environment.B", 10),
        ("environment.B[3].x", 10),
        ("network_adjacent", 11),
        ("network_adjacent[1]", 11),
    ],
)
def test_what_the_center_refuses_gets_its_line(tmp_path: Path, field: str, line: int) -> None:
    first, second = write(tmp_path, "command: x", "first.yaml"), write(tmp_path, TEXT)
    entries = read_jobs([first, second])
    place = f"jobs[1].{field}" if field else "jobs[1]"
    error = placed(Refused("no", "bad_input", (Fault(what="is wrong", field=place),)), entries)
    assert isinstance(error, InputError)
    assert (error.file, error.line, error.field) == (second, line, field)


def test_a_count_of_more_mistakes_stays_one(tmp_path: Path) -> None:
    entries = read_jobs([write(tmp_path, "command: x")])
    missing = [InputError("does not exist here", field=f"jobs[0].files[{number}]") for number in range(102)]
    error = in_file(InputErrors(missing), entries)
    assert str(error).endswith("job.yaml: and 2 more errors")


def shape(node: YamlNode) -> object:
    """What a node is, with its lines."""
    value = node.value
    if isinstance(value, list):
        value = [tuple(map(shape, each)) if isinstance(each, tuple) else shape(each) for each in value]
    kind = "text" if node.tag.removeprefix(TAG) in {"str", "int", "float", "timestamp", "value"} else node.tag
    return kind, value, node.line


@pytest.mark.parametrize(
    "text",
    [
        *(text for _, text, _ in READ if isinstance(text, str) and "\\ud83d" not in text),  # which libyaml refuses
        "%YAML 1.1\n---\na: yes\nb: off\n",
        "a: !!str true\nb: !!null x\nc: ! false\nd: !mine 5\n",
        "? a\n: b\n? [c]\n: d\n",
        "a: |\n  x\n\n  y\nb: >-\n  z\n  w\nc: 'it''s'\n",
        '{"a":1,"b":[true,null,{"c":"x\\/y"}]}',
        "- a\n-\n- - b\n  - c\n--- d\n...\n",
    ],
)
def test_both_parsers_find_the_same_nodes_on_the_same_lines(text: str) -> None:
    assert list(map(shape, parsed(text, fast=True))) == list(map(shape, parsed(text, fast=False)))


def test_json_is_read_as_yaml_is(tmp_path: Path) -> None:
    text = (
        '[{"command": ["echo", true, 1.50, "\\ud83d\\ude00"], "gang": true, "name": null, "tasks": 3},\n'
        ' {"command": "b",\n  "environment": {"A": false},\n  "resource": {"memory": "8G"}}]'
    )
    one = read_jobs([write(tmp_path, text, "jobs.json")])
    # A comment makes it YAML.
    other = read_jobs([write(tmp_path, f"{text} # the end")])
    assert [each.mapping for each in one] == [each.mapping for each in other]
    assert one[0].mapping["command"] == ["echo", "true", "1.50", "\U0001f600"]
    assert one[1].line_of("resource.memory") == 4
    assert one[1].line_of("environment.A") == 3
    assert one[0].line_of("tasks") == 1


def test_the_limits_of_a_file_are_told_before_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="has 10,001 jobs"):
        read_jobs([write(tmp_path, "[" + ",".join(['{"command":"a"}'] * 10_001) + "]", "jobs.json")])
    monkeypatch.setattr("cress.cli.jobfile.MOST_BYTES", 1 << 20)
    with pytest.raises(InputError, match=r"is too large for YAML or JSON \(at most 1 MB\)"):
        read_jobs([write(tmp_path, "x" * (1 << 20) + "x")])


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, "- " * 100_000 + "a", '{"a":' * 100_000 + "1" + "}" * 100_000]
)
def test_very_many_levels_are_refused_and_end_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as caught:
        read_jobs([write(tmp_path, text)])
    assert str(caught.value).endswith("job.yaml:1: has too many levels (fewer brackets within brackets)")


def test_a_long_text_of_yaml_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cress.cli.jobfile.SLOW", 10)
    read_jobs([write(tmp_path, "command: a\nname: b\n")])
    assert "which takes a while; JSON is read at once" in capsys.readouterr().err
    (entry,) = read_jobs([write(tmp_path, '{"command": "a",\n "name": "b"}', "job.json")])
    assert capsys.readouterr().err == ""
    assert entry.line_of("name") == 2
    assert "again to find its line takes a while" in capsys.readouterr().err
