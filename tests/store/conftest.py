"""An empty shared log of each kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cress.store.shared_log import SharedLog
from tests.servers.logs import empty_log


@pytest.fixture(params=["zookeeper", "postgresql"])
def connect(request: pytest.FixtureRequest) -> Callable[[], SharedLog]:
    """Connects to an empty log, the same one each time."""
    return empty_log(request.getfixturevalue(request.param))
