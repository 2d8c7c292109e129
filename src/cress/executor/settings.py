"""Settings of an executor."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cress.executor.runtimes.accounts import AccountRules
from cress.model.allowed_sources import AllowedSources
from cress.model.node import Device, Value
from cress.model.program_settings.executor_settings import EXECUTOR_SETTINGS
from cress.model.program_settings.setting import Defaults

DEFAULT = Defaults(EXECUTOR_SETTINGS)
# Bytes kept of each stream of an attempt.
LOG_SIZE: int = DEFAULT.log_size
# Seconds between two samples of the load, and the half-life of a change, in seconds.
LOAD_EVERY, LOAD_HALF_LIFE = 2.0, 10.0


class ExecutorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an executor.

    The table ``cress.model.program_settings`` and docs/configuration.md explain each of them. ``directory`` is the data
    directory, ``resource`` has the form of a node file (``<4,8G,1G,500M>``), ``ports`` are the first and the last one,
    durations are seconds.

    Further fields: ``grace`` is the time of tasks between SIGTERM and SIGKILL. ``ping_interval`` and ``ping_timeout``
    are the interval of pings to a silent center and the time for its answer. ``retry_first`` and ``retry_most`` are the
    first and the longest pause before a lost connection is tried again. ``devices`` are those of the device file, which
    covers the kinds ``told``; devices of other kinds are discovered if ``discover``. ``data`` are patterns of paths,
    scanned every ``data_look``. ``judged``: the node takes no new tasks while it is overloaded. Load is measured every
    ``load_every``, and half of a change counts after ``load_half_life``.
    """

    name: str
    directory: Path
    center_url: str
    token: str
    resource: str = ""
    rack: str = ""
    address: str = ""
    labels: dict[str, Value] = {}
    ports: tuple[int, int] = DEFAULT.ports
    runtime: str = DEFAULT.runtime
    writable: tuple[str, ...] = ()
    egress: str = ""
    task_env: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    sources: AllowedSources = AllowedSources()
    accounts: AccountRules = AccountRules()
    tls: Path | None = None
    keep_tasks: bool = False  # at SIGTERM only the agent ends; supervisor and tasks stay
    parent_pipe: bool = False  # the same when standard input ends, which means that the parent was killed
    grace: float = 5.0
    ping_interval: float = 10.0
    ping_timeout: float = 20.0
    retry_first: float = 0.1
    retry_most: float = 5.0
    keep_logs: float = DEFAULT.keep_logs
    keep_logs_size: int = DEFAULT.keep_logs_size
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
