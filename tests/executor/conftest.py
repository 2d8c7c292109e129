"""A supervisor for each test that asks for one; nothing of it is left afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.harness import Client, SupervisorProcess, supervisor


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[SupervisorProcess]:
    """A supervisor that is not started yet."""
    # The servers of the tests listen on loopback.
    with supervisor(tmp_path / "executor", options=("--allow-host", "any", "--allow-host", "127.0.0.1")) as process:
        yield process


@pytest.fixture
def client(parent: SupervisorProcess) -> Client:
    """A started supervisor's agent."""
    return parent.start()
