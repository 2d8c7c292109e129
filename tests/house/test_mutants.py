"""Mutants: which there are, which tests are nearest, and whole runs in a small project of its own."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.budget import slowness_now
from tools.mutants.__main__ import changed_lines, main
from tools.mutants.nearest import nearest
from tools.mutants.points import Point, chosen, points, with_probes
from tools.mutants.trials import Copy

ROOT = Path(__file__).resolve().parents[2]
PATH = "src/cress/small.py"


def mutants(code: str) -> list[str]:
    """Return all mutants of a function with these lines, without what is around them."""
    lines = [f"    {line}" for line in code.splitlines()]
    source = "\n".join(["def f(a: int, b: int):", *lines, ""]).encode()
    return [
        "; ".join(line.strip() for line in point.applied(source).decode().splitlines()[1:])
        for point in points(PATH, source)
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = (a) == (b)", ["x = (a) != (b)"]),
        ("x = a not in b", ["x = a in b"]),
        ("x = a is b", ["x = a is not b"]),
        ("x = a < b < x", ["x = a <= b < x", "x = a >= b < x", "x = a < b <= x", "x = a < b >= x"]),
        ("x = 3", ["x = 4", "x = (2)"]),
        ("x = True", ["x = False"]),
        ("x = a and b", ["x = ((a) or (b))"]),
        ("x = not a", ["x = (a)"]),
        ("x = a - b", ["x = a + b"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("a.go()", ["pass"]),
        ("await a.go()", ["pass"]),
        ("a.x = b", ["pass"]),
        ("a += b", ["pass"]),
        ("raise ValueError(a - 1)", ["pass"]),
        ("return a", ["return None"]),
        ("if a: return", ["if True: return", "if False: return"]),
        ("while a: continue", ["while False: continue", "while a: pass"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if True]", "x = [a for a in b if False]"]),
        ("x = f'ü', a > b", ["x = f'ü', a >= b", "x = f'ü', a <= b"]),
    ],
)
def test_the_mutants_of_a_statement(code: str, expected: list[str]) -> None:
    assert mutants(code) == expected


@pytest.mark.parametrize(
    "code",
    [
        '"""Three is 3."""',
        "_log.info('x', 3)",
        "log = 'text'",
        "assert a < 3",
        "x = zip(a, b, strict=True)",
        "x: Literal[3]",
        "x = cast(Literal[3], a)",
        "if TYPE_CHECKING: import x",
        "return None",
        "x = f'{a - 3}'",
        "x = 'text' + a",
        "if (x := a): pass",
    ],
)
def test_what_no_test_should_hold_has_no_mutants(code: str) -> None:
    assert mutants(code) == []


def test_the_value_of_a_question_is_turned_and_that_of_a_count_is_one_more() -> None:
    assert [p.new for p in points(PATH, b"def f(a) -> bool:\n    return a")] == ["(not (a))"]
    assert [p.new for p in points(PATH, b"def f(a) -> int:\n    return a")] == ["((a) + 1)"]


def test_files_that_a_tool_writes_and_compiled_loops_have_no_mutants() -> None:
    for first in (b"", b"# Written by tools/x.py.\n", b"from numba import njit\n", b"import numba.core\n"):
        assert bool(points(PATH, first + b"x = 3")) == (first == b"")


def test_what_runs_at_the_import_is_known() -> None:
    source = b"class A:\n    x = 3\n    def f(self, a=4):\n        return 5"
    assert {point.old: point.at_import for point in points(PATH, source)} == {"3": True, "4": True, "5": False}


def test_every_mutant_of_real_files_compiles_and_so_do_all_probes_at_once() -> None:
    for path in ("src/cress/core/preemption.py", "src/cress/client/aio/http.py", "src/cress/formats/framed.py"):
        source = (ROOT / path).read_bytes()
        found = points(path, source)
        compile(with_probes(source, dict(enumerate(found))), path, "exec")
        for point in found[::5]:
            compile(point.applied(source), path, "exec")


def test_a_seed_chooses_the_same_mutants_from_all_files_in_turn_one_for_a_line() -> None:
    found = [point for name in "abc" for point in points(f"{name}.py", b"x = 3 < 4\ny = x\nz = not (1 < 2)\n")]
    some = chosen(found, 5, random.Random(7))
    assert some == chosen(found, 5, random.Random(7))
    assert some != chosen(found, 5, random.Random(8))
    files = [point.path for point in some]
    assert sorted(files.count(f"{name}.py") for name in "abc") == [1, 2, 2]
    assert len({(point.path, point.line) for point in some}) == 5
    assert len(chosen(found, 99, random.Random(7))) == 6


def test_nearest_are_tests_of_the_same_name_then_of_the_room_then_by_imports(tmp_path: Path) -> None:
    for name, text in {
        "src/cress/core/groups.py": "",
        "src/cress/core/cycle.py": "from cress.core import groups",
        "src/cress/center/app.py": "def f():\n    import cress.core.cycle",
        "src/cress/typed.py": "if TYPE_CHECKING:\n    from cress.core.groups import x",
        "tests/core/builders.py": "from cress.core.cycle import run",
        "tests/core/test_a_far.py": "from tests.core.builders import x",
        "tests/core/test_near.py": "from cress.core.groups import x",
        "tests/core/test_groups_order.py": "from tests.core.builders import x",
        "tests/center/test_app.py": "from cress.center.app import f",
        "tests/test_typed.py": "import cress.typed",
        "tests/system/test_whole.py": "import cress.core.groups",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert nearest(tmp_path, ["src/cress/core/groups.py"]) == [
        "tests/core/test_groups_order.py",
        "tests/core/test_near.py",
        "tests/core/test_a_far.py",
        "tests/center/test_app.py",
    ]


CODE = """\
LIMIT = 3

def fits(amount: int) -> bool:
    return amount <= LIMIT

def unknown() -> int:
    return 1

def used() -> int:
    return -4
"""
TESTS = """\
from cress.small import fits, used

def test_broken():
    assert not fits(3)

def test_bounds():
    assert fits(3) and not fits(4)

def test_blind():
    assert used()
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module, whose copies are made in a folder ``copies``."""
    root = tmp_path / "project"
    for name, text in {
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\n',
        ".gitignore": "__pycache__/\n",
        "src/cress/__init__.py": "",
        PATH: CODE,
        "tests/test_small.py": TESTS,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    git(root, "init", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "commit", "--message=all")
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "copies"))
    # Plugins take most of the time of so small a run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return root


def test_a_run_tells_what_was_killed_and_what_survived(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--files", PATH, "--seed", "4"], project) == 1
    head, baseline, left_out, *verdicts, last = capsys.readouterr().out.splitlines()
    assert head == "seed 4: 4 of 10 possible mutants in 1 files: whole files"
    assert baseline.startswith("without mutants: 2 tests of 1 of the 1 nearest files passed")
    assert left_out.endswith("the probes: tests/test_small.py::test_broken")
    by_line = {int(line.partition(f"{PATH}:")[2].partition(" ")[0]): line for line in verdicts}
    for line in (1, 4):
        assert " killed " in by_line[line]
        assert "by tests/test_small.py::test_bounds" in by_line[line]
    assert by_line[7].endswith("no test comes by")
    assert "1 of 1 tests that come by pass" in by_line[10]
    assert last.startswith("4 mutants: 2 killed, 2 survived; SEED=4; ")
    assert (project / PATH).read_text() == CODE
    assert not list((tmp_path / "copies").iterdir())


def test_changed_lines_alone_are_tried_committed_or_not(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / PATH).write_text(CODE.replace("return amount <= LIMIT", "return amount < LIMIT + 1"))
    assert changed_lines(project, "HEAD") == {PATH: {4}}
    assert main(["--seed", "1"], project) == 0
    assert "lines changed since" in capsys.readouterr().out
    git(project, "commit", "--all", "--message=more")
    (project / "src/cress/new.py").write_text("A = 1\nB = 2\n")
    assert changed_lines(project, "HEAD~1") == {PATH: {4}, "src/cress/new.py": {1, 2}}
    assert changed_lines(project, "HEAD") == {"src/cress/new.py": {1, 2}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--files", "src/cress/none.py"], "src/cress/none.py is no file or folder of src/cress"),
        (["--files", "tests/test_small.py"], "tests/test_small.py is no file or folder of src/cress"),
        (["--base", "nobody"], "git diff"),
        (["--base", "HEAD", "--files", PATH], "exclude each other"),
        (["--count", "0"], "0 is not a whole number above 0"),
    ],
)
def test_wrong_use(project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    try:
        code = main(arguments, project)
    except SystemExit as stopped:
        assert isinstance(stopped.code, int)
        code = stopped.code
    assert code == 2
    assert said in capsys.readouterr().err


def eventually(what: Callable[[], object]) -> None:
    """Wait up to half a minute for what must come."""
    until = time.monotonic() + 30
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


SLEEPING = """\
import subprocess, sys, time
from pathlib import Path

def test_sleeps():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    Path("sleeps").touch()
    time.sleep(60)
"""


def marked(place: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["environ"]) if place in str(each.info["environ"])]


def test_tests_that_hang_are_ended_with_what_they_started(project: Path, tmp_path: Path) -> None:
    (project / "tests/test_small.py").write_text(SLEEPING)
    copy = Copy(project, tmp_path / "copies" / "one", 1)
    # It has to have begun by then.
    limit = 2 * slowness_now().wall
    records = copy.run(["tests/test_small.py"], ["tests/test_small.py::test_sleeps"], limit=limit)
    assert (records.ended, records.last) == (True, "tests/test_small.py::test_sleeps")
    assert (copy.place / "sleeps").exists()
    assert not marked(str(copy.place))


def test_nothing_is_left_by_an_interrupted_run(project: Path, tmp_path: Path) -> None:
    (project / "tests/test_small.py").write_text("import cress.small\n" + SLEEPING)
    copies = tmp_path / "copies"
    code = (
        "import signal, sys, pathlib; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from tools.mutants.__main__ import main; "
        f"sys.exit(main(['--files', {PATH!r}], pathlib.Path({str(project)!r})))"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", f"import tempfile; tempfile.tempdir = {str(copies)!r}; {code}"],
        cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    eventually(lambda: list(copies.glob("*/*/sleeps")))
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=30)
    assert (running.returncode, error) == (130, "mutants: interrupted\n")
    assert not list(copies.iterdir())
    assert not marked(str(copies))


def test_a_mutant_as_long_as_the_one_before_does_not_run_from_its_bytecode(project: Path, tmp_path: Path) -> None:
    (project / "tests/test_small.py").write_text(
        "from cress.small import LIMIT\ndef test_limit():\n    assert LIMIT == 5\n"
    )
    copy = Copy(project, tmp_path / "copies" / "one", 1)
    failed = []
    for value in ("5", "4", "5"):
        point = Point(PATH, 1, CODE.index("3"), CODE.index("3") + 1, "3", value, "constant", at_import=True)
        before = copy.mutate(point)
        failed.append(bool(copy.run(["tests/test_small.py"], None, limit=30).failed))
        copy.write(before)
    assert failed == [False, True, False]


STARTING = """\
import multiprocessing

def work():
    from cress.small import used
    used()

def test_first():
    multiprocessing.get_context("forkserver").Process(target=print).start()

def test_second():
    process = multiprocessing.get_context("forkserver").Process(target=work)
    process.start()
    process.join()
    assert not process.exitcode
"""


def test_what_a_program_comes_by_is_told_for_the_test_that_started_it(project: Path, tmp_path: Path) -> None:
    """Programs are forked from a server that has the environment of an earlier test."""
    (project / "tests/test_small.py").write_text(STARTING)
    copy = Copy(project, tmp_path / "copies" / "one", 1)
    numbered = dict(enumerate(point for point in points(PATH, CODE.encode()) if point.line in (4, 10)))
    copy.probe(numbered)
    records = copy.run(["tests/test_small.py"], None, limit=60)
    assert (records.failed, records.code) == ([], 0)
    assert {numbered[number].line for number in records.reached} == {10}
    assert set.union(*records.reached.values()) == {"tests/test_small.py::test_second"}
