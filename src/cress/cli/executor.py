"""``cress executor``: run an executor as a program."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cress.cli.common import given_as, pairs
from cress.cli.configured import Check, Config
from cress.cli.errors import told
from cress.cli.program_options import with_settings
from cress.model.devicefile import DeviceFile
from cress.model.errors import InputError
from cress.model.program_settings.executor_settings import EXECUTOR_SETTINGS
from cress.model.program_settings.setting import EXECUTOR, fields

if TYPE_CHECKING:
    from cress.executor.runtimes.accounts import AccountRules
    from cress.model.allowed_sources import AllowedSources

EPILOG = """\
\b
Example:
  cress executor --center ws://127.0.0.1:7412 --token-file /srv/cress/token --name node1 \\
      --data /srv/cress/executors/node1 --resource '<4, 8G, 1G, 500M>' --rack r1 --label zone=eu --label ssd=true
  cress executor --center wss://center.example.com:7412 --tls /etc/cress/node7.tls --name node7

\b
SIGTERM stops the executor and its tasks. With --keep-tasks the tasks go on, and the next executor on the same
directory takes them over. The executor reconnects after the center was away, and restarts its agent when that dies.
Each option is also a key of the file (--keep-logs: keep-logs = "7d") and an environment variable
(CRESS_EXECUTOR_KEEP_LOGS). Options override variables, and variables override the file.
Exit codes: 0 stopped as requested, 2 bad input, 3 the executor cannot work (the center refuses it, say).
"""


@with_settings(EXECUTOR)
def executor(
    *,
    load_pace: Annotated[float, typer.Option("--load-pace", hidden=True)] = 1.0,
    config: Config = "",  # noqa: ARG001 – read before the other options
    check: Check = False,
    parent_pipe: Annotated[bool, typer.Option("--parent-pipe", hidden=True)] = False,
    kept: Annotated[bool, typer.Option("--kept", hidden=True)] = False,
    **given: Any,
) -> None:
    """Run an executor until it is stopped."""
    with told("executor", "executor"):
        from cress.client.config import TOKEN_FILE, data_directory, read_token
        from cress.executor import ExecutorSettings, keep, run
        from cress.executor.center_wire import is_address
        from cress.executor.hidden_folders import note_home
        from cress.executor.settings import LOAD_EVERY, LOAD_HALF_LIFE

        center = given["center"]
        for address in center.split(","):
            if is_address(address):
                continue
            raise InputError(
                f"{address!r} is not an address of a center",
                hint=(
                    "ws://HOST:PORT or wss://HOST:PORT, executor_url in center.json, or unix:DATA/executors.sock "
                    "on the same machine"
                ),
                field="--center",
            )
        if check:  # the files that it names may be on another machine
            given |= {"tls": None, "token_file": None, "devices": None}
        else:
            _check_tls(center, given["tls"])
        home, tls = data_directory(), given["tls"]
        node = given["name"] or socket.gethostname()
        settings = ExecutorSettings(
            **executor_fields(EXECUTOR, given),
            name=node,
            directory=given["data"] or home / "executors" / node,
            token="" if check or tls is not None else read_token(given["token_file"] or home / TOKEN_FILE),
            tls=None if tls is None else tls.absolute(),
            parent_pipe=parent_pipe,
            # For experiments: this many times as fast as documented.
            load_every=LOAD_EVERY / load_pace,
            load_half_life=LOAD_HALF_LIFE / load_pace,
        )
        if check:
            raise typer.Exit
        note_home(settings.directory)
        # `cress up` restarts its agents itself.
        code = run(settings) if parent_pipe or kept else keep(settings, [sys.executable, "-m", "cress", *_again()])
    raise typer.Exit(code)


def executor_fields(program: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an executor's settings from the options of a program: the executor, or ``up``.

    Raise InputError.
    """
    configured = DeviceFile()
    if given["devices"] is not None:
        from cress.cli.devicefile import read_device_file

        configured = read_device_file(given["devices"])
    patterns = (data_pattern_of(text) for text in given["data_path"] or ())
    return {
        **fields((setting for setting in EXECUTOR_SETTINGS if program in setting.programs), given),
        "writable": tuple(folder_of(folder) for folder in given["writable"] or ()),
        "hide": tuple(folder_of(folder, "--hide") for folder in given["hide"] or ()),
        "sources": sources_of(given["allow_host"], given["allow_scheme"], given.get("center", "")),
        "accounts": account_rules_of(given["map_user"], given["root_group"]),
        "devices": configured.devices,
        "told": configured.told,
        "data": tuple(dict.fromkeys((*configured.data, *patterns))),
    }


def _check_tls(center: str, bundle: Path | None) -> None:
    """Raise InputError unless address and bundle match, and the bundle can be used."""
    from cress.executor.bundle import BundleError, BundleFolder

    if bundle is None:
        if "wss:" in center:
            hint = "the bundle of this node: `cress tls issue NODE` makes one where the center is"
            raise InputError(f"{center} needs a certificate of this executor", hint=hint, field="--tls")
        return
    if not all(address.startswith("wss:") for address in center.split(",")):
        raise InputError(f"{center} is not an address for TLS", hint="wss://HOST:PORT", field="--center")
    try:
        BundleFolder(bundle).context()
    except BundleError as error:
        hint = "a folder that `cress tls issue NODE` has made: ca.pem, cert.pem, key.pem"
        raise InputError(str(error), hint=hint, field="--tls") from None


def _again() -> list[str]:
    """Return the arguments of this program for the agents after the first one."""
    return [*sys.argv[1:], "--kept"]


def sources_of(hosts: list[str] | None, schemes: list[str] | None, center: str = "") -> AllowedSources:
    """Return the sources given by ``--allow-host`` and ``--allow-scheme``; ``center`` is the address of the center."""
    from urllib.parse import urlsplit

    from cress.model.allowed_sources import ANY, SCHEMES, AllowedSources, parse_host_rule, parse_scheme

    with given_as("--allow-host"):
        for rule in hosts or ():
            parse_host_rule(rule)
    with given_as("--allow-scheme"):
        named = tuple(dict.fromkeys(map(parse_scheme, schemes or SCHEMES)))
    host = ",".join(
        urlsplit(address).hostname or "" for address in center.split(",") if not address.startswith("unix:")
    )
    return AllowedSources(named, tuple(hosts or (ANY,)), host)


def account_rules_of(mapped: list[str] | None, root_groups: list[str] | None) -> AccountRules:
    """Return the rules given by ``--map-user`` and ``--root-group``, which only root can follow."""
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


def data_pattern_of(text: str) -> str:
    """Return the value of ``--data-path``."""
    from cress.model.devicefile import path_of_data

    with given_as("--data-path"):
        return path_of_data(text)


def folder_of(path: Path, field: str = "--writable") -> str:
    """Return the value of ``--writable`` or ``--hide``: an existing folder other than the root."""
    path = path.absolute()
    if not path.is_dir() or path == Path("/"):
        raise InputError(f"{path} is not a folder that can be used here", hint="an existing folder", field=field)
    return str(path)
