"""The call that tells what a change would do: a trial on a copy, of which nothing is stored."""

from __future__ import annotations

from functools import partial
from itertools import chain

from starlette.requests import Request
from starlette.responses import Response

from cress.center.access.guard import MOST_BODY
from cress.center.api.bodies import RawWhatIfBody, decoded, decoded_jobs, receive, reply
from cress.center.api.context import committer_of, sees_number, user_of
from cress.center.api.groups import checked_moves
from cress.center.api.jobs import checked_body, known_states
from cress.center.api.routes import Routes
from cress.center.files.config_document import Document, parse_document
from cress.center.files.group_file import checked_quotas
from cress.center.process.turns import in_turns
from cress.center.requests import what_if
from cress.center.requests.validation import placed, read_jobs
from cress.center.views.consequences import consequences_view
from cress.lifecycle.inputs import Input, Submit
from cress.model.errors import InputError
from cress.model.groups.conf import parse_groups
from cress.model.job import Job
from cress.model.jobfile.job import JobSpec
from cress.model.resources import Dimensions
from cress.protocol.calls import cluster_calls

MOST_FILE = 1_000

router = Routes()


@router.answers(cluster_calls.WHAT_IF)
async def consequences(request: Request) -> Response:
    """Return what a change would do to running and waiting work, if nothing else is submitted.

    A copy of the cluster runs forward with the change and without it. Nothing is stored.
    """
    committer, user = committer_of(request), user_of(request)
    data = await receive(request, MOST_BODY)
    machine = committer.machine
    accounting = machine.core.options.accounting

    def checked(dimensions: Dimensions) -> tuple[RawWhatIfBody, list[JobSpec], tuple[Job, ...], Document]:
        body = decoded(data, RawWhatIfBody)
        specs, jobs = list[JobSpec](), tuple[Job, ...]()
        if body.jobs:
            accounts, zone = committer.settings.run_as, committer.machine.core.groups.cluster_zone
            entries = decoded_jobs(body.jobs)
            specs, jobs = read_jobs(entries, dimensions=dimensions, user=user, accounts=accounts, zone=zone)
        document = Document()
        if body.config is not None:
            if body.options or body.licences or body.groups is not None:
                what = "cannot be combined with options, licences or groups"
                raise InputError(what, hint="only one of them", field="config")
            file = body.file[:MOST_FILE] or "configuration"
            document = parse_document(body.config, file, dimensions=dimensions, accounting=accounting)
        elif body.groups is not None:
            file = body.file[:MOST_FILE] or "Group.conf"
            groups = parse_groups(body.groups, dimensions=dimensions, file=file, accounting=accounting)
            document = Document(groups=groups)
        return body, specs, jobs, document

    async with committer.turns.of_user(user, len(data)):
        body, specs, jobs, document = await checked_body(committer, len(data), checked)
        groups = document.groups
        known = await known_states(request, specs)
        moves = () if groups is None else checked_moves(committer, body.moves, groups)
        notes: tuple[str, ...] = ()
        if groups is not None:
            notes = tuple(map(str, (*groups.notes, *checked_quotas(machine, groups, accounting))))
        nodes = chain(
            what_if.added(machine, body.add_nodes),
            what_if.removed(machine, body.remove_nodes),
            what_if.drained(machine, body.drain),
        )
        change: list[Input] = [one async for one in in_turns(nodes)]
        configured = partial(what_if.configured, committer, body.options, body.licences, document, moves)
        change += await committer.turns.check(len(data), lambda: list(configured()))
        change += what_if.set_groups(machine, body.set_group, user)
        if jobs:
            change.append(Submit(jobs=jobs, known=known))
        # A fork computes it, one trial at a time: no place for long answers is held, for which lists would wait.
        try:
            found = await request.app.state.trials.consequences(change, body.seconds, details=body.details)
        except InputError as error:
            raise placed(error, specs) from None
    return reply(consequences_view(found, partial(sees_number, request), notes))
