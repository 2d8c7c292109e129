"""Calls about the configuration of the cluster: options, licences and groups as one document with revisions."""

from __future__ import annotations

import dataclasses

from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import decoded, receive, reply
from cress.center.api.context import committer_of, user_of
from cress.center.api.errors import UnknownResource
from cress.center.api.groups import MOST_FILE, MOST_GROUPS, checked_moves
from cress.center.api.jobs import checked_body
from cress.center.api.routes import Routes, query_of
from cress.center.committing.committer import Committer
from cress.center.files.config_document import Document, parse_document, with_counts, with_values
from cress.center.files.group_file import checked_quotas
from cress.center.process.turns import all_in_turns
from cress.lifecycle import configuration
from cress.lifecycle.inputs import Configure
from cress.model.errors import InputError
from cress.model.group import Group
from cress.model.groups.conf import ParsedGroups
from cress.model.jobfile.licences import Licences
from cress.model.option_text import format_option
from cress.model.options import Options
from cress.model.resources import Dimensions
from cress.model.revisions import Revision, format_document
from cress.model.times import SECOND
from cress.protocol.bodies import ConfigBody
from cress.protocol.calls import cluster_calls
from cress.protocol.cluster_views import ConfiguredView, ConfigView, HistoryView, RevisionView
from cress.protocol.queries import DryRunQuery

MOST_WHAT = 200
DOCUMENT = "configuration"
# Bytes for which a licence or a group counts when it is decided whether a thread writes the document.
BYTES_OF_ONE = 40

router = Routes()


@router.answers(cluster_calls.CONFIG)
async def config(request: Request) -> Response:
    """Return the configuration as a document, and its options and licences one by one."""
    committer = committer_of(request)
    machine = committer.machine
    options = machine.core.options
    # A center that has not stored anything yet has no revision.
    nothing = Revision(number=0, utc=0, by="", what="", text="")
    present = machine.tables.revisions.get(configuration.last(machine), nothing)
    return reply(
        ConfigView(
            revision=present.number,
            at=present.utc / SECOND,
            by=present.by,
            what=present.what,
            text=configuration.document(machine),
            options={
                option.name: format_option(option.name, getattr(options, option.name))
                for option in dataclasses.fields(Options)
            },
            licences=dict(sorted(machine.core.relations.licences.counts.items())),
        )
    )


@router.answers(cluster_calls.CHANGE_CONFIG)
async def change(request: Request) -> Response:
    """Change the configuration, all or nothing, by a document or by single options and licences.

    A dry run only checks.
    """
    committer = committer_of(request)
    data = await receive(request, MOST_GROUPS)
    accounting = committer.machine.core.options.accounting

    def checked(dimensions: Dimensions) -> tuple[ConfigBody, Document]:
        body = decoded(data, ConfigBody)
        if body.text is None:
            return body, Document()
        if body.options or body.licences:
            raise InputError("cannot be combined with options or licences", hint="only one of them", field="text")
        file = body.file[:MOST_FILE] or DOCUMENT
        return body, parse_document(body.text, file, dimensions=dimensions, accounting=accounting)

    body, document = await checked_body(committer, len(data), checked)
    found = await _compared(committer, len(data), body, document)
    machine, groups = committer.machine, found.groups
    input_ = Configure(
        options=found.options,
        licences=found.licences,
        groups=groups.groups,
        moves=checked_moves(committer, body.moves, groups),
        zone=groups.zone,
        base=body.revision,
        by=user_of(request),
        what=body.what[:MOST_WHAT] or "configuration changed",
    )
    await all_in_turns(machine.checking_configuration(input_))
    warnings = checked_quotas(machine, groups, found.options.accounting) if document.groups and groups.groups else ()
    if not query_of(request, DryRunQuery).dry_run and found.text != found.before:
        await committer.submit(input_)
    notes = tuple(map(str, (*groups.notes, *warnings)))
    number = configuration.last(committer.machine)
    return reply(ConfiguredView(revision=number, before=found.before, text=found.text, notes=notes))


@dataclasses.dataclass(frozen=True)
class _Compared:
    """A changed configuration, and the documents of the present and the changed one."""

    options: Options
    licences: Licences
    groups: ParsedGroups
    before: str
    text: str


async def _compared(committer: Committer, size: int, body: ConfigBody, document: Document) -> _Compared:
    """Return the configuration that a body makes of the present one; both are written in a thread if they are large."""
    while True:
        core = committer.machine.core
        options, configured, zone = core.options, core.groups.configured, core.groups.own_zone
        dimensions, counts = core.dimensions, core.relations.licences.counts

        def work(
            options: Options = options,
            configured: tuple[Group, ...] = configured,
            zone: str = zone,
            dimensions: Dimensions = dimensions,
            counts: dict[str, int] = counts,
        ) -> _Compared:
            changed = document.options or with_values(options, body.options)
            licences = with_counts(counts, body.licences) if document.licences is None else document.licences
            groups = document.groups or ParsedGroups(configured, zone=zone)
            before = format_document(options, counts, configured, dimensions=dimensions, zone=zone)
            text = format_document(changed, dict(licences), groups.groups, dimensions=dimensions, zone=groups.zone)
            return _Compared(changed, licences, groups, before, text)

        found = await committer.turns.check(max(size, BYTES_OF_ONE * (len(counts) + len(configured))), work)
        now = committer.machine.core
        # Another change may have come in between.
        if (now.options, now.groups.configured, now.groups.own_zone) == (options, configured, zone) and (
            now.dimensions == dimensions and now.relations.licences.counts is counts
        ):
            return found


@router.answers(cluster_calls.CONFIG_HISTORY)
async def history(request: Request) -> Response:
    """List the stored revisions, newest first, without their documents."""
    revisions = committer_of(request).machine.tables.revisions
    return reply(HistoryView(tuple(_view(kept) for kept in reversed(revisions.values()))))


@router.answers(cluster_calls.CONFIG_REVISION)
async def revision(request: Request, number: int) -> Response:
    """Return a revision with its document."""
    revisions = committer_of(request).machine.tables.revisions
    if number not in revisions:
        first, last = next(iter(revisions), 0), next(reversed(revisions), 0)
        raise UnknownResource(f"there is no revision {number} (those from {first} to {last} are kept)")
    return reply(_view(revisions[number], whole=True))


def _view(revision: Revision, *, whole: bool = False) -> RevisionView:
    return RevisionView(
        revision=revision.number,
        at=revision.utc / SECOND,
        by=revision.by,
        what=revision.what,
        text=revision.text if whole else "",
    )
