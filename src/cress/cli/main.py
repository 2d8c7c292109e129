"""The ``cress`` command. Each verb is a function in a file of its own; heavy imports happen inside it."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import cress
from cress.cli import (
    alloc,
    apply,
    audit,
    cancel,
    config,
    demo,
    efficiency,
    events,
    execution,
    explain,
    export,
    fetch,
    groups,
    hold,
    install_service,
    job,
    jobs,
    join,
    leases,
    licences,
    login,
    logs,
    manual,
    nodes,
    plan,
    portal,
    rebalance,
    replay,
    reservations,
    resolve,
    run,
    scale,
    schema,
    secrets,
    simulate,
    size,
    status,
    store,
    story,
    submit,
    tls,
    tokens,
    top,
    up,
    update,
    usage,
    users,
    validate,
    versions,
    watch,
    what_if,
)
from cress.cli.errors import BAD_INPUT
from cress.cli.job_options import JobCommand
from cress.cli.programs import add_programs
from cress.cli.slurm import install as slurm
from cress.cli.usage_errors import usage_error
from cress.cli.verbs import taken_from
from cress.model.foreign_words import verb_for

INTERRUPTED = 130  # 128 + SIGINT, as shells count


class InOrder(TyperGroup):
    """Verbs ordered by their users: those of users, of operators, the programs, the simulator."""

    order = (
        "submit plan run alloc apply validate schema jobs job explain why story watch logs fetch exec resolve cancel "
        "hold release update requeue retry scale versions revert restart promote resume trigger groups nodes what-if "
        "rebalance reserve reservations leases licences status top events usage efficiency login logout whoami token "
        "secret users audit config slurm up portal center executor join tls store install-service demo simulate size "
        "replay export man".split()
    )  # a verb that is missing here comes last

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _VERBS

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """Return the verb; for the name of another system's verb, the error gives the name in Cress."""
        meant = verb_for(args[0]) if args and args[0] not in self.commands else ""
        if meant:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command; mistakes in its words are reported as all others, on one line."""
        if not more.pop("standalone_mode", True):
            return super().main(*args, **(more | {"standalone_mode": False}))
        try:
            code = super().main(*args, **(more | {"standalone_mode": False}))
        except Exception as error:
            text = usage_error(error)
            if text is None:
                raise
            typer.echo(text, err=True)
            sys.exit(BAD_INPUT)
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Return the names of the verbs."""
        known = {name: position for position, name in enumerate(self.order)}
        return sorted(self.commands, key=lambda name: known.get(name, len(known)))


app = typer.Typer(
    name="cress",
    cls=InOrder,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: rich would take a third of the time of `cress --help`
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cress {cress.__version__}")
        raise typer.Exit


@app.callback()
def _cress(
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster", "-C", metavar="NAME", help="A cluster of ~/.config/cress/config.toml (docs/configuration.md)."
        ),
    ] = "",
) -> None:
    """Cluster resource manager and job scheduler."""
    if cluster:
        from cress.client.config import choose_cluster

        choose_cluster(cluster)


app.command(epilog=submit.EPILOG, cls=JobCommand)(submit.submit)
app.command(epilog=plan.EPILOG)(plan.plan)
app.command(epilog=run.EPILOG, context_settings={"allow_interspersed_args": False})(run.run)
app.command(epilog=alloc.EPILOG, context_settings={"allow_interspersed_args": False})(alloc.alloc)
app.command(epilog=apply.EPILOG)(apply.apply)
app.command(epilog=validate.EPILOG)(validate.validate)
app.command(epilog=schema.EPILOG)(schema.schema)
app.command(epilog=jobs.EPILOG)(jobs.jobs)
app.command(epilog=job.EPILOG)(job.job)
app.command(epilog=explain.EXPLAIN)(explain.explain)
app.command(epilog=explain.WHY)(explain.why)
app.command(epilog=watch.EPILOG)(watch.watch)
app.command(epilog=logs.EPILOG)(logs.logs)
app.command(epilog=fetch.EPILOG)(fetch.fetch)
app.command("exec", epilog=execution.EPILOG)(execution.execute)
app.command(epilog=resolve.EPILOG)(resolve.resolve)
app.command(epilog=cancel.EPILOG)(cancel.cancel)
app.command(epilog=hold.HOLD)(hold.hold)
app.command(epilog=hold.RELEASE)(hold.release)
app.command(epilog=update.UPDATE)(update.update)
app.command(epilog=update.REQUEUE)(update.requeue)
app.command(epilog=update.RETRY)(update.retry)
app.command(epilog=versions.VERSIONS)(versions.versions)
app.command(epilog=versions.REVERT)(versions.revert)
app.command(epilog=versions.RESTART)(versions.restart)
app.command(epilog=versions.PROMOTE)(versions.promote)
app.command(epilog=scale.SCALE)(scale.scale)
app.command(epilog=scale.RESUME)(scale.resume)
app.command(epilog=scale.TRIGGER)(scale.trigger)
app.add_typer(groups.app, name="groups")
app.add_typer(nodes.app, name="nodes")
app.command("what-if", epilog=what_if.EPILOG)(what_if.what_if)
app.command(epilog=rebalance.EPILOG)(rebalance.rebalance)
app.command(epilog=reservations.EPILOG)(reservations.reserve)
app.add_typer(reservations.app, name="reservations")
app.add_typer(leases.app, name="leases")
app.command(epilog=licences.EPILOG)(licences.licences)
app.command(epilog=status.EPILOG)(status.status)
app.command(epilog=events.EPILOG)(events.events)
app.command(epilog=top.EPILOG)(top.top)
app.command(epilog=usage.EPILOG)(usage.usage)
app.command(epilog=efficiency.EPILOG)(efficiency.efficiency)
app.command(epilog=login.LOGIN)(login.login)
app.command(epilog=login.LOGOUT)(login.logout)
app.command(epilog=users.WHOAMI)(users.whoami)
app.add_typer(tokens.app, name="token")
app.add_typer(secrets.app, name="secret")
app.add_typer(users.app, name="users")
app.command(epilog=audit.EPILOG)(audit.audit)
app.add_typer(config.app, name="config")
app.add_typer(slurm.app, name="slurm")
app.command(epilog=up.EPILOG)(up.up)
app.command(epilog=portal.EPILOG)(portal.portal)
add_programs(app)
app.command(epilog=join.EPILOG)(join.join)
app.add_typer(tls.app, name="tls")
app.add_typer(store.app, name="store")
app.command("install-service", epilog=install_service.EPILOG)(install_service.install_service)
app.command(epilog=demo.EPILOG)(demo.demo)
app.command(epilog=simulate.EPILOG, cls=simulate.Comparing)(simulate.simulate)
app.command(epilog=size.EPILOG)(size.size)
app.command(epilog=replay.EPILOG)(replay.replay)
app.command(epilog=story.EPILOG)(story.story)
app.command(epilog=export.EPILOG)(export.export)
app.command(epilog=manual.EPILOG)(manual.man)

_VERBS = taken_from(app)


def main() -> None:
    """Run the command: the entry point of the package."""
    try:
        app(prog_name="cress")  # the same name also for python -m cress
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe has gone (`| head`), so nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
