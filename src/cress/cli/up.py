"""``cress up``: a whole cluster on this machine while this program runs."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import typer

from cress.cli.center import center_fields
from cress.cli.errors import told
from cress.cli.executor import executor_fields
from cress.cli.local import LocalCluster, LocalSetup, NotStarted
from cress.cli.program_options import given_arguments, with_settings
from cress.client.config import data_directory, find_cluster
from cress.model.errors import InputError
from cress.model.node import DISK_KIND
from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.executor_settings import EXECUTOR_SETTINGS
from cress.model.program_settings.setting import UP

EPILOG = """\
\b
Examples:
  cress up
  cress up --data /srv/cress --port 7411 --executors 3 --node-resource '<4, 8G, 1G, 500M>'
  cress up --option grace=30s --option preemption=off
  cress up --executors 4 --racks r1,r1,r2,r2 --topology racks.yaml --label zone=eu

\b
The portal shows the cluster in a browser. The printed link opens it signed in, and works once; `cress portal` prints
another one. --no-portal, or CRESS_NO_PORTAL=1, starts none.
Ctrl-C or SIGTERM stops everything within 10 s. Tasks get SIGTERM and their grace, and run again with the next
`cress up` on the same data directory. With --keep-tasks they run on in between.
Exit codes: 0 stopped as requested, 1 a program failed, 2 bad input, 3 not possible (a cluster already runs).
"""

# Libraries of the portal.
PORTAL_NEEDS = ("starlette", "uvicorn", "jinja2")
# Seconds between two looks at the children.
LOOK_EVERY = 0.2


@with_settings(UP)
def up(*, ctx: typer.Context, **given: Any) -> None:
    """Start a center and executors on this machine."""
    with told("up", "center"):
        given["dimension"] = _declared(given)
        check(given)
        setup = LocalSetup(
            data=data_directory(given["data"]),
            host=given["host"],
            port=given["port"],
            executors=given["executors"],
            resource=given["node_resource"],
            racks=_racks(given["racks"], given["executors"]),
            center=center_arguments(ctx, given),
            executor=given_arguments(EXECUTOR_SETTINGS, UP, ctx, given),
            portal=portal_arguments(given),
        )
        # All these signals stop the cluster in the same way.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        cluster = LocalCluster(setup, _say)
        if not sys.stdin.isatty():
            # Otherwise SIGHUP means that the terminal is gone, and stops the cluster, too.
            signal.signal(signal.SIGHUP, lambda *_: cluster.read_again())
        try:
            cluster.start()
            _greet(cluster)
            link = None if setup.portal is not None else ""
            while True:
                time.sleep(LOOK_EVERY)
                cluster.check()
                if link is None and (link := cluster.portal_link()) is not None:
                    print(f"Portal:      {link}", flush=True)
        except KeyboardInterrupt:
            _say("stopping" if given["keep_tasks"] else "stopping; tasks are being stopped")
        except NotStarted as error:
            if str(error):
                _say(str(error))
            raise typer.Exit(error.code) from None
        finally:
            cluster.stop()


def portal_arguments(given: Mapping[str, Any]) -> list[str] | None:
    """Return the arguments of the portal; None: none is started."""
    if given["no_portal"]:
        return None
    missing = [name for name in PORTAL_NEEDS if find_spec(name) is None]
    if missing:
        _say(f"no portal: {missing[0]} is not installed (pip install 'cress[portal]')")
        return None
    return ["--port", str(given["portal_port"])] if given["portal_port"] else []


def center_arguments(ctx: typer.Context, given: Mapping[str, Any]) -> list[str]:
    """Return the arguments of the center beyond those of every local cluster."""
    arguments = given_arguments(CENTER_SETTINGS, UP, ctx, given, but={"data", "host", "port", "dimension"})
    for text in given["dimension"] or ():
        arguments += ["--dimension", text]
    if given["socket"] is None and not given["webhdfs"]:
        # The only user is the owner of this machine, so any namenode is allowed.
        arguments += ["--webhdfs", "any"]
    return arguments


def check(given: Mapping[str, Any]) -> None:
    """Raise InputError for options that the programs would refuse."""
    from cress.model.option_text import parse_assignments
    from cress.model.vectors import parse_vector

    parse_assignments(given["option"] or ())
    fields = center_fields(UP, given)
    if given["node_resource"]:
        try:
            parse_vector(given["node_resource"], fields["dimensions"])
        except InputError as error:
            raise InputError(str(error), field="--node-resource") from None
    if given["topology"] is not None:
        from cress.center.files.topology import read_topology

        read_topology(given["topology"])
    if given["licences"] is not None:
        from cress.center.files.licence_file import read_licences

        read_licences(given["licences"])
    executor_fields(UP, given)


def _declared(given: Mapping[str, Any]) -> list[str]:
    """Return the declared dimensions: those of the options, and the kinds of the file with devices."""
    declared = list(given["dimension"] or ())
    if given["devices"] is not None:
        from cress.cli.devicefile import read_device_file

        kinds = read_device_file(given["devices"]).told
        declared += [kind for kind in kinds if kind != DISK_KIND and kind not in declared]
    return declared


def _racks(text: str, executors: int) -> tuple[str, ...]:
    """Return the rack of each executor; empty if none is given."""
    names = tuple(word.strip() for word in text.split(",")) if text else ()
    if len(names) not in (0, 1, executors) or not all(names):
        what = f"{len(names)} racks for {executors} executor{'s' * (executors > 1)}"
        raise InputError(what, hint="one name for each of them, or one for all: r1,r1,r2,r2", field="--racks")
    return names * executors if len(names) == 1 else names


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
    """Return whether commands without options would use a cluster of the configuration file."""
    try:
        return find_cluster() is not None
    except InputError:
        return True


def _say(sentence: str) -> None:
    typer.echo(f"cress up: {sentence}", err=True)
