"""Container engines, one file for each, and the order in which they are tried."""

from __future__ import annotations

from cress.executor.runtimes.engines.base import Engine
from cress.executor.runtimes.engines.bubblewrap import Bubblewrap
from cress.executor.runtimes.engines.crun import Crun
from cress.executor.runtimes.engines.runc import Runc

# The quickest of the common engines first; bubblewrap last, since it offers the least isolation.
ENGINES: tuple[Engine, ...] = (Crun(), Runc(), Bubblewrap())

__all__ = ["ENGINES", "Engine"]
