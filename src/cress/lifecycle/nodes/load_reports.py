"""The filter of load reports: the machine gets only those with news (design note 0007).

Executors report every few seconds, and every input of the machine is logged and replayed. So a report is passed on only
if one of its shares is in another tenth than the machine's value, and not just beyond the border; or if it makes the
node overloaded or ends that state, at exactly the thresholds of ``core.overload``.
"""

from __future__ import annotations

from cress.core.tables import measured_load
from cress.lifecycle.context import Context
from cress.model.node import Load

# In thousandths: the width of a band of values, and the distance beyond its border at which a value belongs to the
# next.
WIDTH, BEYOND = 100, 25
WHOLE = 1000
MOST_BYTES = 2**50 - 1


def is_news(context: Context, name: str, load: Load) -> bool:
    """Return whether the machine should get this load of the node ``name``."""
    node = context.nodes.get(name)
    if node is None or not node.connected:
        return False
    return node.load is None or differs(node.load, load) or turns(context, name, load)


def differs(known: Load, load: Load) -> bool:
    """Return whether some share is clearly in another tenth."""
    shares = (
        (known.cpu, load.cpu),
        (known.memory, load.memory),
        (known.network, load.network),
        (known.disk, load.disk),
    )
    return any(_elsewhere(before, now) for before, now in shares)


def _elsewhere(known: int, now: int) -> bool:
    # Full use belongs to the last tenth.
    tenth = min(known, WHOLE - 1) // WIDTH
    return now < tenth * WIDTH - BEYOND or (now >= (tenth + 1) * WIDTH + BEYOND and tenth < WHOLE // WIDTH - 1)


def turns(context: Context, name: str, load: Load) -> bool:
    """Return whether this load makes the node overloaded, or no longer overloaded."""
    core = context.core
    f = core.cluster.index.get(name)
    return f is not None and core.loads.over_with(f, load) != core.loads.over.get(f, measured_load.NOT)


def sane(load: Load) -> Load:
    """Return the report with its values limited to their bounds."""
    cpu, memory, network, disk = (
        max(0, min(WHOLE, share)) for share in (load.cpu, load.memory, load.network, load.disk)
    )
    return Load(cpu, memory, network, disk, max(0, min(MOST_BYTES, load.free_memory)))
