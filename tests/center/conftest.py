"""A center of the test's own, and one that a file's tests share because none of them changes what others see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.center.program import Center


@pytest.fixture
def center(tmp_path: Path) -> Iterator[Center]:
    with Center(tmp_path / "data", forked=True) as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    with Center(tmp_path_factory.mktemp("center") / "data", forked=True) as running:
        yield running
