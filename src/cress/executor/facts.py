"""What an executor finds out about its machine by itself."""

from __future__ import annotations

import os
import platform
import socket

import psutil  # type: ignore[import-untyped]

import cress

# Assumed where the machine does not tell: 1 Gbit/s of network, 500 MB/s of disk.
_NETWORK_MBIT = 1_000
_DISK = "500M"


def attributes() -> dict[str, str]:
    """Facts that jobs may ask for and people look at, as text by name."""
    return {
        "hostname": socket.gethostname(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpus": str(_cpus()),
        "memory": str(psutil.virtual_memory().total),
        "python": platform.python_version(),
        "cress": cress.__version__,
    }


def resource() -> str:
    """What the machine offers, as in a node file: cores we may run on, memory, network, disk."""
    speeds = [
        stats.speed for name, stats in psutil.net_if_stats().items() if stats.isup and stats.speed > 0 and name != "lo"
    ]
    network = max(speeds, default=_NETWORK_MBIT)
    return f"<{_cpus()},{psutil.virtual_memory().total},{network}M,{_DISK}>"


def _cpus() -> int:
    return len(os.sched_getaffinity(0))
