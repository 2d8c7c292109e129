"""Container engines: one file for each, and here the order in which they are tried."""

from __future__ import annotations

from cress.executor.runtimes.engines.base import Engine
from cress.executor.runtimes.engines.bubblewrap import Bubblewrap
from cress.executor.runtimes.engines.crun import Crun
from cress.executor.runtimes.engines.runc import Runc

# The quickest of those that containers are made with everywhere first; bubblewrap knows the fewest ways of hiding things.
ENGINES: tuple[Engine, ...] = (Crun(), Runc(), Bubblewrap())

__all__ = ["ENGINES", "Engine"]
