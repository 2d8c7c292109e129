"""``cress up``: a whole cluster on this machine while this program runs."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.common import (
    AddressRate,
    AllowHost,
    AllowScheme,
    DimensionNames,
    LicenceTotals,
    MapUser,
    PublicSocket,
    RootGroup,
    RunAs,
    RuntimeName,
    SecretsKey,
    UserJobs,
    UserRate,
    UserTasks,
    WhoSees,
    Writable,
    Zone,
    labels_of,
    licences_of,
    names_of,
    time_zone_of,
)
from cress.cli.errors import told
from cress.cli.executor import account_rules_of, folder_of, runtime_of, sources_of, task_env_of
from cress.cli.local import LocalCluster, LocalSetup, NotStarted
from cress.client.config import data_directory, find_cluster
from cress.model.access import ADDRESS_RATE, USER_JOBS, USER_RATE, USER_TASKS, Visibility
from cress.model.errors import InputError
from cress.model.node import DISK_KIND

EPILOG = """\
\b
Examples:
  cress up
  cress up --data /srv/cress --port 7411 --executors 3 --node-resource '<4, 8G, 1G, 500M>'
  cress up --option grace=30s --option preemption=off
  cress up --executors 4 --racks r1,r1,r2,r2 --topology racks.yaml --label zone=eu

\b
Ctrl-C or SIGTERM stops everything within 10 s; tasks get SIGTERM, then their grace, and run again with the next
`cress up` on the same data directory. With --keep-tasks they go on running meanwhile.
Exit codes: 0 stopped as asked, 1 a part failed, 2 bad input, 3 not possible (it runs already, say).
"""

# How often the children are looked at, in seconds.
LOOK_EVERY = 0.2


def up(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", envvar="CRESS_DATA", help="Where everything is kept. Default: ~/.local/share/cress."
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where the API listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the API; 0: any free one.")] = 7411,
    executors: Annotated[int, typer.Option(min=1, max=1000, help="How many executors to start.")] = 1,
    node_resource: Annotated[
        str,
        typer.Option(
            metavar="RESOURCE",
            help="What each executor offers, as <cpu, memory, network, disk>. Default: its part of this machine.",
        ),
    ] = "",
    racks: Annotated[
        str, typer.Option(metavar="NAME,…", help="The racks of the executors in their order; one name: that of all.")
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label of every executor, such as ssd=true.")
    ] = None,
    topology: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Racks and which are neighbours (docs/executor.md).")
    ] = None,
    licences: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The licences of the cluster (docs/licences.md)."),
    ] = None,
    licence: LicenceTotals = None,
    groups: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The groups of the cluster (docs/groups.md).")
    ] = None,
    zone: Zone = "",
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Set an option of the scheduler, such as grace=30s.")
    ] = None,
    dimension: DimensionNames = None,
    runtime: RuntimeName = "process",
    writable: Writable = None,
    task_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An environment variable that tasks inherit from here; several times."),
    ] = None,
    devices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Disks, GPUs and other devices that each executor has (docs/devices.md)."),
    ] = None,
    allow_host: AllowHost = None,
    allow_scheme: AllowScheme = None,
    run_as: RunAs = "",
    map_user: MapUser = None,
    root_group: RootGroup = None,
    socket: PublicSocket = None,
    visibility: WhoSees = Visibility.ALL,
    user_jobs: UserJobs = USER_JOBS,
    user_tasks: UserTasks = USER_TASKS,
    user_rate: UserRate = USER_RATE,
    address_rate: AddressRate = ADDRESS_RATE,
    secrets_key: SecretsKey = None,
    keep_tasks: Annotated[bool, typer.Option("--keep-tasks", help="Leave tasks running when this stops.")] = False,
) -> None:
    """Start a center and executors on this machine."""
    with told("up", "center"):
        from cress.model.option_text import parse_assignments
        from cress.model.resources import Dimensions
        from cress.model.vectors import parse_vector

        parse_assignments(option or ())
        declared = list(dimension or ())
        if devices is not None:
            from cress.cli.devicefile import read_device_file

            kinds = read_device_file(devices).told
            declared += [kind for kind in kinds if kind != DISK_KIND and kind not in declared]
        dimensions = Dimensions(tuple(declared))
        if node_resource:
            try:
                parse_vector(node_resource, dimensions)
            except InputError as error:
                raise InputError(str(error), field="--node-resource") from None
        if topology is not None:
            from cress.center.files.topology import read_topology

            read_topology(topology)
        licences_of(licence, licences)
        if licences is not None:
            from cress.center.files.licence_file import read_licences

            read_licences(licences)
        account_rules_of(map_user, root_group)
        sources_of(allow_host, allow_scheme)
        setup = LocalSetup(
            data=data_directory(data),
            host=host,
            port=port,
            executors=executors,
            resource=node_resource,
            options=tuple(option or ()),
            dimensions=dimensions.custom,
            keep_tasks=keep_tasks,
            racks=_racks(racks, executors),
            labels=_labels(label),
            topology=topology,
            licences=licences,
            licence=tuple(licence or ()),
            groups=groups,
            zone=time_zone_of(zone),
            runtime=runtime_of(runtime),
            writable=tuple(folder_of(each) for each in writable or ()),
            task_env=task_env_of(task_env),
            run_as=",".join(names_of(run_as, "--run-as")),
            socket=socket,
            user_jobs=user_jobs,
            user_tasks=user_tasks,
            user_rate=user_rate,
            address_rate=address_rate,
            secrets_key=secrets_key,
            visibility=visibility,
            devices=devices and devices.absolute(),
            map_user=tuple(map_user or ()),
            root_group=tuple(root_group or ()),
            allow_host=tuple(allow_host or ()),
            allow_scheme=tuple(allow_scheme or ()),
        )
        # Asked to stop is asked to stop, by whichever signal.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        cluster = LocalCluster(setup, _say)
        if not sys.stdin.isatty():
            # Otherwise it means that the terminal is gone, and asks to stop, too.
            signal.signal(signal.SIGHUP, lambda *_: cluster.read_again())
        try:
            cluster.start()
            _greet(cluster)
            while True:
                time.sleep(LOOK_EVERY)
                cluster.check()
        except KeyboardInterrupt:
            _say("stopping" if keep_tasks else "stopping; tasks are told to end")
        except NotStarted as error:
            if str(error):
                _say(str(error))
            raise typer.Exit(error.code) from None
        finally:
            cluster.stop()


def _racks(text: str, executors: int) -> tuple[str, ...]:
    """The rack of each executor; empty when none is given."""
    names = tuple(each.strip() for each in text.split(",")) if text else ()
    if len(names) not in (0, 1, executors) or not all(names):
        what = f"{len(names)} racks for {executors} executor{'s' * (executors > 1)}"
        raise InputError(what, hint="one name for each of them, or one for all: r1,r1,r2,r2", field="--racks")
    return names * executors if len(names) == 1 else names


def _labels(texts: list[str] | None) -> tuple[str, ...]:
    labels_of(texts)
    return tuple(texts or ())


def _greet(cluster: LocalCluster) -> None:
    setup = cluster.setup
    assert cluster.endpoint is not None
    default = setup.data == data_directory(None) and not _other_cluster()
    where = "" if default else f"CRESS_DATA={shlex.quote(str(setup.data))} "
    print(
        f"Cress is up: {cluster.endpoint.url}, {setup.executors} executor{'s' * (setup.executors > 1)}, data "
        f"in {setup.data}"
    )
    print(f"Try it:      {where}cress run -- echo hello")
    print("Stop it:     Ctrl-C", flush=True)


def _other_cluster() -> bool:
    """Return whether commands mean a cluster of the configuration file, if they are told nothing else."""
    try:
        return find_cluster() is not None
    except InputError:
        return True


def _say(sentence: str) -> None:
    typer.echo(f"cress up: {sentence}", err=True)
