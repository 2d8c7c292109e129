"""``cress executor``: run an executor as a program."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cress.cli.common import (
    AllowHost,
    AllowScheme,
    MapUser,
    RootGroup,
    RuntimeName,
    Writable,
    duration_of,
    given_as,
    labels_of,
    pairs,
    size_of,
)
from cress.cli.configured import Check, Config
from cress.cli.errors import told
from cress.model.attributes import parse_ports
from cress.model.devicefile import Configured
from cress.model.errors import InputError
from cress.model.node import DYNAMIC_PORTS
from cress.model.units import one_of

if TYPE_CHECKING:
    from cress.executor.runtimes.accounts import AccountRules
    from cress.model.allowed_sources import AllowedSources

RUNTIMES = ("process", "container", "auto")

EPILOG = """\
\b
Example:
  cress executor --center ws://127.0.0.1:7412 --token-file /srv/cress/token --name node1 \\
      --data /srv/cress/executors/node1 --resource '<4, 8G, 1G, 500M>' --rack r1 --label zone=eu --label ssd=true
  cress executor --center wss://center.example.com:7412 --tls /etc/cress/node7.tls --name node7

\b
SIGTERM stops it and its tasks; with --keep-tasks they go on, and the next executor on the same directory takes them
up again. It connects again by itself when the center was away, and starts its agent again when that dies.
Each option is also a key of the file (--keep-logs: keep-logs = "7d") and an environment variable
(CRESS_EXECUTOR_KEEP_LOGS); flags come before variables, variables before the file.
Exit codes: 0 stopped as asked, 2 bad input, 3 it cannot work (the center refuses it, say).
"""


def executor(
    center: Annotated[
        str,
        typer.Option(
            metavar="URL[,URL…]",
            envvar="CRESS_CENTER",
            help="Where the center listens for executors; several, if several centers share a store.",
        ),
    ],
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The center's token. Default: token in ~/.local/share/cress.")
    ] = None,
    tls: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The executor's bundle from `cress tls issue`, for wss:// (docs/tls.md); no token then."
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the node. Default: the host's name.")] = "",
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="Where journal and logs are kept. Default: executors/NAME in ~/.local/share/cress.",
        ),
    ] = None,
    resource: Annotated[
        str, typer.Option(metavar="RESOURCE", help="The capacity of the node. Default: that of the machine.")
    ] = "",
    rack: Annotated[
        str, typer.Option(metavar="NAME", help="The node's rack. Default: that of the center's topology.")
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An attribute for constraints, such as ssd=true; several times."),
    ] = None,
    accepts: Annotated[
        str,
        typer.Option(metavar="EXPR", help="The jobs that it takes, such as 'Job.Group in (lab, web)'. Default: all."),
    ] = "",
    repel: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="It takes only jobs that tolerate this name; several times."),
    ] = None,
    address: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where its tasks are reached. Default: as it reaches the center.")
    ] = "",
    ports: Annotated[
        str, typer.Option(metavar="FIRST-LAST", help="The ports that tasks are given if they ask for any one.")
    ] = f"{DYNAMIC_PORTS[0]}-{DYNAMIC_PORTS[1]}",
    runtime: RuntimeName = "process",
    writable: Writable = None,
    hide: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="A folder that containers do not see, such as a center's; several times."),
    ] = None,
    task_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An environment variable that tasks inherit from the executor; several times."
        ),
    ] = None,
    allow_host: AllowHost = None,
    allow_scheme: AllowScheme = None,
    map_user: MapUser = None,
    root_group: RootGroup = None,
    keep_tasks: Annotated[bool, typer.Option("--keep-tasks", help="Leave tasks running when this stops.")] = False,
    keep_logs: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the output of tasks is kept (docs/history.md).")
    ] = "7d",
    keep_logs_size: Annotated[str, typer.Option(metavar="SIZE", help="How much of it is kept at most.")] = "1G",
    egress: Annotated[
        str,
        typer.Option(metavar="INTERFACE", help="Limit the egress of containers on it; Cress replaces its queue."),
    ] = "",
    log_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Bytes kept of each stream of a task, if its job sets no limit.")
    ] = "64M",
    no_overload: Annotated[
        bool, typer.Option("--no-overload", help="Only report the node's load: it takes tasks even if overloaded.")
    ] = False,
    devices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its disks, GPUs and other devices, one by one (docs/devices.md)."),
    ] = None,
    data_path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Paths that jobs may want to be near, such as '/data/sets/*' (docs/data.md)."
        ),
    ] = None,
    no_discovery: Annotated[
        bool, typer.Option("--no-discovery", help="No disks and GPUs but those that --devices names.")
    ] = False,
    load_pace: Annotated[float, typer.Option("--load-pace", hidden=True)] = 1.0,
    config: Config = "",  # noqa: ARG001 – read before the other options
    check: Check = False,
    parent_pipe: Annotated[bool, typer.Option("--parent-pipe", hidden=True)] = False,
    kept: Annotated[bool, typer.Option("--kept", hidden=True)] = False,
) -> None:
    """Run an executor until it is stopped."""
    with told("executor", "executor"):
        from cress.client.config import TOKEN_FILE, data_directory, read_token
        from cress.executor import Settings, keep, run
        from cress.executor.center_wire import is_address
        from cress.executor.hidden_folders import note_home
        from cress.executor.settings import LOAD_EVERY, LOAD_HALF_LIFE

        labels, dynamic = labels_of(label), ports_of(ports)
        for each in center.split(","):
            if is_address(each):
                continue
            raise InputError(
                f"{each!r} is not an address of a center",
                hint=(
                    "ws://HOST:PORT or wss://HOST:PORT, executor_url in center.json, or unix:DATA/executors.sock "
                    "on the same machine"
                ),
                field="--center",
            )
        configured = Configured()
        if check:  # the files that it names may be on another machine
            tls, token_file, devices = None, None, None
        else:
            _check_tls(center, tls)
        if devices is not None:
            from cress.cli.devicefile import read_device_file

            configured = read_device_file(devices)
        home = data_directory()
        node = name or socket.gethostname()
        settings = Settings(
            name=node,
            directory=data or home / "executors" / node,
            center_url=center,
            token="" if check or tls is not None else read_token(token_file or home / TOKEN_FILE),
            tls=None if tls is None else tls.absolute(),
            resource=resource,
            rack=rack,
            address=address,
            labels=labels,
            ports=dynamic,
            runtime=runtime_of(runtime),
            writable=tuple(folder_of(each) for each in writable or ()),
            task_env=task_env_of(task_env),
            hide=tuple(folder_of(each, "--hide") for each in hide or ()),
            sources=sources_of(allow_host, allow_scheme, center),
            accounts=account_rules_of(map_user, root_group),
            keep_tasks=keep_tasks,
            parent_pipe=parent_pipe,
            keep_logs=duration_of(keep_logs, "--keep-logs") / 1e6,
            keep_logs_size=size_of(keep_logs_size, "--keep-logs-size"),
            log_size=size_of(log_size, "--log-size"),
            egress=egress,
            judged=not no_overload,
            # For trials: so many times as fast as documented.
            load_every=LOAD_EVERY / load_pace,
            load_half_life=LOAD_HALF_LIFE / load_pace,
            devices=configured.devices,
            told=configured.told,
            data=tuple(dict.fromkeys((*configured.data, *(data_pattern_of(each) for each in data_path or ())))),
            discover=not no_discovery,
            accepts=accepts,
            repels=tuple(sorted(set(repel or ()))),
        )
        if check:
            raise typer.Exit
        note_home(settings.directory)
        # `cress up` keeps its agents itself.
        code = run(settings) if parent_pipe or kept else keep(settings, [sys.executable, "-m", "cress", *_again()])
    raise typer.Exit(code)


def _check_tls(center: str, bundle: Path | None) -> None:
    """Raise InputError unless address and bundle go together, and the bundle can be used."""
    from cress.executor.bundle import Bundle, BundleError

    if bundle is None:
        if "wss:" in center:
            hint = "the bundle of this node: `cress tls issue NODE` makes one where the center is"
            raise InputError(f"{center} needs a certificate of this executor", hint=hint, field="--tls")
        return
    if not all(each.startswith("wss:") for each in center.split(",")):
        raise InputError(f"{center} is not an address for TLS", hint="wss://HOST:PORT", field="--center")
    try:
        Bundle(bundle).context()
    except BundleError as error:
        hint = "a folder that `cress tls issue NODE` has made: ca.pem, cert.pem, key.pem"
        raise InputError(str(error), hint=hint, field="--tls") from None


def _again() -> list[str]:
    """Return the arguments of this program for the agents that follow the first one."""
    return [*sys.argv[1:], "--kept"]


def task_env_of(names: list[str] | None) -> tuple[str, ...]:
    """Return the names given by ``--task-env``."""
    for name in names or ():
        if not name.isidentifier() or name.startswith("CRESS_"):
            raise InputError(
                f"{name!r} is not the name of a variable that tasks can inherit",
                hint="a name such as HTTP_PROXY; its value is that of the executor, and a job's own are set by `env`",
                field="--task-env",
            )
    return tuple(names or ())


def sources_of(hosts: list[str] | None, schemes: list[str] | None, center: str = "") -> AllowedSources:
    """Return the sources given by ``--allow-host`` and ``--allow-scheme``; ``center`` is the address of the center."""
    from urllib.parse import urlsplit

    from cress.model.allowed_sources import ANY, SCHEMES, AllowedSources, parse_host_rule, parse_scheme

    with given_as("--allow-host"):
        for each in hosts or ():
            parse_host_rule(each)
    with given_as("--allow-scheme"):
        named = tuple(dict.fromkeys(map(parse_scheme, schemes or SCHEMES)))
    host = ",".join(urlsplit(each).hostname or "" for each in center.split(",") if not each.startswith("unix:"))
    return AllowedSources(named, tuple(hosts or (ANY,)), host)


def account_rules_of(mapped: list[str] | None, root_groups: list[str] | None) -> AccountRules:
    """The rules given by ``--map-user`` and ``--root-group``, which only root can follow."""
    from cress.executor.runtimes.accounts import AccountRules

    for texts, field in ((mapped, "--map-user"), (root_groups, "--root-group")):
        if texts and os.geteuid() != 0:
            raise InputError(
                "only an executor that is root runs tasks as other accounts",
                hint="start it as root, or leave this option out",
                field=field,
            )
    users = pairs(mapped, "--map-user", "USER=ACCOUNT")
    for user, account in users.items():
        if not account:
            raise InputError(
                f"{user} is mapped to no account", hint=f"such as --map-user {user}=ACCOUNT", field="--map-user"
            )
    if not all(root_groups or ()):
        raise InputError("a group has a name", hint="such as --root-group infra", field="--root-group")
    return AccountRules(users=users, root_groups=tuple(root_groups or ()))


def ports_of(text: str) -> tuple[int, int]:
    """The value of ``--ports``."""
    with given_as("--ports"):
        return parse_ports(text)


def data_pattern_of(text: str) -> str:
    """The value of ``--data-path``."""
    from cress.model.devicefile import path_of_data

    with given_as("--data-path"):
        return path_of_data(text)


def runtime_of(text: str) -> str:
    """The value of ``--runtime``."""
    if text not in RUNTIMES:
        raise InputError(f"{text!r} is not a runtime", hint=one_of(text, RUNTIMES), field="--runtime")
    return text


def folder_of(path: Path, field: str = "--writable") -> str:
    """The value of ``--writable`` or ``--hide``: a folder that is there, but not the root of all."""
    path = path.absolute()
    if not path.is_dir() or path == Path("/"):
        raise InputError(f"{path} is not a folder that can be named here", hint="one that is there", field=field)
    return str(path)
