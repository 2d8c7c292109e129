"""Facts about the machine that are found without running another program; ``versions`` runs programs.

Names do not collide with those of dimensions (``CPU``, ``Memory``), which constraints use for amounts. A fact that the
machine does not provide is absent.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from pathlib import Path

import psutil  # type: ignore[import-untyped]

import cress
from cress.executor.disk_room import ATTRIBUTE
from cress.model.node import Value

# Assumed where the machine has no figure: 1 Gbit/s of network, 500 MB/s of disk.
_NETWORK_MBIT = 1_000
_DISK = "500M"


def attributes(directory: Path) -> dict[str, Value]:
    """Return the facts by name, for constraints and users; amounts in bytes and bit/s, versions as text.

    ``directory`` is that of the executor: the files of tasks are on its disk.
    """
    system = _os_release()
    found: dict[str, Value] = {
        "OSKernel": platform.release(),
        "OS": system.get("ID", ""),
        "OSVersion": system.get("VERSION_ID", ""),
        "Glibc": _glibc(),
        "Architecture": platform.machine(),
        "CPUModel": _cpu_model(),
        "CPUs": _cpus(),
        "MemoryTotal": int(psutil.virtual_memory().total),
        ATTRIBUTE: shutil.disk_usage(directory).total,
        "NICSpeed": _nic_mbit() * 10**6,
        "Hostname": socket.gethostname(),
        "Cress": cress.__version__,
    }
    return {name: value for name, value in found.items() if value}


def resource(*, disks: bool = False) -> str:
    """Return the resource of the machine as in a node file: cores that this process may use, memory, network, disk.

    ``disks``: its disks are devices with amounts of their own, so the resource has no disk amount.
    """
    network = _nic_mbit() or _NETWORK_MBIT
    return f"<{_cpus()},{psutil.virtual_memory().total},{network}M,{0 if disks else _DISK}>"


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _nic_mbit() -> int:
    """Return the speed of the fastest interface that is up, in Mbit/s; 0: no interface reports one."""
    speeds = (stats.speed for name, stats in psutil.net_if_stats().items() if stats.isup and name != "lo")
    return max((speed for speed in speeds if speed > 0), default=0)


def _os_release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _glibc() -> str:
    """Return the version of glibc, such as ``2.36``; empty with another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return ""
    return version if name == "glibc" else ""


def _cpu_model() -> str:
    """Return the model of the processor; empty where the kernel has no name for it, as on most ARM machines."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return " ".join(value.split())
    return ""
