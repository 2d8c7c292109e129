"""Job files as text: what the mapping is, on which line each key stands, and which mistakes are of the file itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.cli.jobfile import read_jobs
from cress.cli.submit import placed
from cress.client import Fault, Refused
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
    ("empty", "", ": there is no job in it (key: value for each property of a job, at least command: …)"),
    (
        "only comments",
        "# nothing\n---\n",
        ": there is no job in it (key: value for each property of a job, at least command: …)",
    ),
    ("a word", "\nhello", ":2: 'hello' is not a job (key: value for each property of a job, at least command: …)"),
    (
        "a list in a list",
        "- - a",
        ":1: a list is not a job (key: value for each property of a job, at least command: …)",
    ),
    ("a key twice", "command: a\ntasks: 1\ncommand: b", ":3: command is given twice (it stands on line 1 already)"),
    ("a tab", "command: a\nresource:\n\tcpu: 1", ":3: a tab cannot indent YAML (use spaces)"),
    (
        "a colon too many",
        "command: echo a: b",
        ":1: a `:` where none can be (is a line above indented otherwise? a text with `: ` in it needs quotes)",
    ),
    (
        "a bracket too few",
        "command: [a",
        ":1: is not valid YAML: expected ',' or ']', but got '<stream end>' (key: value for each property of a job, at least command: …)",
    ),
    ("an alias of nothing", "command: *x", ":1: found undefined alias 'x' (&name comes before *name)"),
    ("itself in itself", "command: &x [*x]", ":1: is too much for one job (fewer aliases and levels)"),
    (
        "objects",
        "command: !!python/object:os.system x",
        ":1: python/object:os.system means nothing here (texts and numbers)",
    ),
    ("no text", b"\x7fELF\xff\xfe\x00", ": is not a text (YAML or JSON in UTF-8)"),
    ("a zero byte", "command: a\0", ": is not a text (YAML or JSON in UTF-8)"),
    ("too deep", "[" * 5000, ": has too many levels (fewer brackets within brackets)"),
]


@pytest.mark.parametrize(("text", "sentence"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_mistakes_of_the_file_itself(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_jobs([file])
    assert str(caught.value) == file + sentence


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
