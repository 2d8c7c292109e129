"""A file is one idea."""

from __future__ import annotations

from pathlib import Path

from tools.house.length import too_long

SOURCE = Path(__file__).resolve().parents[2] / "src"


def test_no_source_file_is_too_long() -> None:
    assert list(too_long(SOURCE)) == []


def test_one_line_too_many_is_found(tmp_path: Path) -> None:
    (tmp_path / "short.py").write_text("x = 1\n" * 800)
    (tmp_path / "long.py").write_text("x = 1\n" * 801)
    assert list(too_long(tmp_path)) == [(tmp_path / "long.py", 801)]
