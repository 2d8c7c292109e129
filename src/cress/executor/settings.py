"""Settings of an executor."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cress.executor.runtimes.accounts import AccountRules
from cress.model.allowed_sources import AllowedSources
from cress.model.node import DYNAMIC_PORTS, Device, Value

# Bytes kept of each stream of an attempt.
LOG_SIZE = 64 * 2**20
# Seconds between two samples of the load, and the half-life of a change, in seconds.
LOAD_EVERY, LOAD_HALF_LIFE = 2.0, 10.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of the executor, address of its center, and its behaviour.

    ``center_url`` is ``ws://host:port`` of the center's listener for executors, or several such addresses, separated by
    commas. ``resource`` as in a node file (``<4,8G,1G,500M>``); empty: that of the machine. ``address`` is where tasks
    are reached; empty: that by which the center is reached. ``ports`` are the first and the last of the dynamic ports.
    ``grace``, ``ping_interval``, ``ping_timeout``, ``retry_first`` and ``retry_most`` are seconds: the time of tasks
    between SIGTERM and SIGKILL, the interval of pings to a silent center and the time for its answer, the first and the
    longest pause before a lost connection is tried again. ``runtime`` is that of jobs that do not name one (process,
    container; auto: container where it works), ``writable`` are the folders of the node that tasks in containers may
    write to, ``egress`` is the interface on which their egress is limited. ``tls`` is the folder of the bundle by which
    executor and center know each other over ``wss://host:port``, instead of the ``token``. ``task_env`` are names of
    environment variables that tasks inherit from the executor, beside the usual ones. ``accounts`` are the rules for
    the accounts of tasks where the executor is root. ``hide`` are folders that containers do not see, beside the data
    directories of Cress that are known. ``sources`` may be used in the addresses of files, outputs and copies of logs.
    The output of tasks is kept for ``keep_logs`` seconds, and at most ``keep_logs_size`` bytes of it; of one stream of
    one attempt the last ``log_size`` bytes, if its job sets no limit. ``judged``: the node takes no new tasks while it
    is overloaded (docs/load.md). ``devices`` are those of the node file, which covers the kinds ``told`` and names
    ``data``, patterns of paths that are scanned every ``data_look`` seconds;
    devices of other kinds are discovered if ``discover`` (docs/devices.md). Load is measured every ``load_every``
    seconds, and half of a change counts after ``load_half_life``. ``accepts`` and ``repels`` as in ``Node``.
    """

    name: str
    directory: Path
    center_url: str
    token: str
    resource: str = ""
    rack: str = ""
    address: str = ""
    labels: dict[str, Value] = {}
    ports: tuple[int, int] = DYNAMIC_PORTS
    runtime: str = "process"
    writable: tuple[str, ...] = ()
    egress: str = ""
    task_env: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    sources: AllowedSources = AllowedSources()
    accounts: AccountRules = AccountRules()
    tls: Path | None = None
    keep_tasks: bool = False  # at SIGTERM the agent leaves, supervisor and tasks stay
    parent_pipe: bool = False  # leave in the same way when standard input ends: the parent was killed
    grace: float = 5.0
    ping_interval: float = 10.0
    ping_timeout: float = 20.0
    retry_first: float = 0.1
    retry_most: float = 5.0
    keep_logs: float = 7 * 86_400.0
    keep_logs_size: int = 2**30
    log_size: int = LOG_SIZE
    judged: bool = True
    load_every: float = LOAD_EVERY
    load_half_life: float = LOAD_HALF_LIFE
    devices: tuple[Device, ...] = ()
    told: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    data_look: float = 60.0
    discover: bool = True
    accepts: str = ""
    repels: tuple[str, ...] = ()
