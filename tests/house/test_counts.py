"""Counts that may only shrink: what is above a bound is told, and what is far below it too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house import counts

CODE = """
class Plan:
    def a(self): ...
    def b(self, each): ...

class Larger(Plan):
    def c(self): ...
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("src/one.py", "src/two.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CODE if name.endswith("one.py") else "class Plan:\n    x = 1\n" + "#" * 121)
    central = tmp_path / "src" / "cress" / "core"
    central.mkdir(parents=True)
    (central / "cycle.py").write_text(
        "if job.gang and size: pass\nassert [x for x in y if x.ports] or x\nif job: pass\n"
    )
    (central / "kernels").mkdir()
    (central / "kernels" / "loops.py").write_text("def loop(a, b, c, d, e, f, g, h): ...\n")
    (central / "starts.py").write_text(
        "class A:\n"
        "    def seven(self, a, b, c, d, *, e, f, g): ...\n"
        "    def eight(self, a, b, c, d, *, e, f, g, h): ...\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "over_budget.txt").write_text("# slow ones\ntests/a.py::test_a\n")
    return tmp_path


def test_what_is_counted(tree: Path) -> None:
    # The name Plan stands twice, so what Larger inherits is not known.
    assert list(counts.counted(tree).values()) == [1, 2, 1, 1, 1, 1, 3, 1, 2]
    (tree / "src" / "two.py").write_text("")
    assert list(counts.counted(tree).values()) == [0, 3, 1, 0, 1, 1, 3, 1, 2]


@pytest.mark.parametrize(
    ("bound", "said"), [(0, "at most 0, and it may only become less"), (1, ""), (2, ""), (9, "lower the bound")]
)
def test_a_bound_is_kept_and_follows(tree: Path, monkeypatch: pytest.MonkeyPatch, bound: int, said: str) -> None:
    exact = counts.counted(tree)
    first = next(iter(exact))
    monkeypatch.setattr(counts, "BOUNDS", {**exact, first: bound})
    found = list(counts.check(tree))
    assert len(found) == bool(said)
    assert said in "".join(found)
