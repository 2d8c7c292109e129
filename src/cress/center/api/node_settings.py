"""Calls about settings of nodes: the values that operators set on top of those that executors report."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from cress.center.api.bodies import read, reply
from cress.center.api.context import committer_of, user_of
from cress.center.api.nodes import known_node
from cress.center.api.routes import Routes
from cress.center.views.node_settings import settings_page
from cress.lifecycle.inputs import SetNode
from cress.model.errors import InputError
from cress.model.node import Value
from cress.model.resources import Dimensions
from cress.model.vectors import parse_vector
from cress.protocol.bodies import NodeSettingsBody
from cress.protocol.calls import cluster_calls

MOST_WHAT = 200

router = Routes()


@router.answers(cluster_calls.NODE_SETTINGS)
async def settings(request: Request, name: str) -> Response:
    """Return the settings of a node in the center, the values that its executor reports, and the revisions."""
    committer = committer_of(request)
    return reply(settings_page(known_node(committer, name), committer.machine.core.dimensions))


@router.answers(cluster_calls.SET_NODE)
async def change(request: Request, name: str) -> Response:
    """Change settings of a node, all or nothing; they apply at once, and running tasks go on."""
    committer = committer_of(request)
    body = await read(request, NodeSettingsBody)
    known_node(committer, name)
    changes = _changes(body)
    if body.revert is not None and changes:
        raise InputError(
            f"cannot be combined with {changes[0]}",
            hint="a revision to go back to is a change by itself",
            field="revert",
        )
    dimensions = committer.machine.core.dimensions
    word = SetNode(
        name=name,
        labels=tuple(body.labels.items()),
        rack=body.rack,
        reserve=_reserve(body.reserve, dimensions),
        judged=body.judged,
        note="" if body.note is None else body.note,
        accepts=body.accepts,
        repels=_names(body.repels),
        revert=body.revert,
        base=-1 if body.revision is None else body.revision,
        by=user_of(request),
        what=" ".join(changes)[:MOST_WHAT] if body.revert is None else f"back to revision {body.revert}",
    )
    await committer.submit(word)
    return reply(settings_page(known_node(committer, name), committer.machine.core.dimensions))


def _changes(body: NodeSettingsBody) -> list[str]:
    """Return the changes as words: ``zone=eu``, ``rack-``."""
    values: dict[str, Value | UnsetType | None] = {
        **body.labels, "rack": body.rack, "reserve": body.reserve, "judged": body.judged, "note": body.note,
        "accepts": body.accepts, "repels": _text(body.repels),
    }  # fmt: skip
    return [
        f"{name}-" if value is None else f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values.items()
        if value is not UNSET
    ]


def _names(given: list[str] | str | UnsetType | None) -> tuple[str, ...] | UnsetType | None:
    if given is None or isinstance(given, UnsetType):
        return given
    if isinstance(given, str):
        given = given.split(",") if given.strip() else []
    return tuple(sorted(key.strip() for key in given))


def _text(given: list[str] | str | UnsetType | None) -> str | UnsetType | None:
    return ",".join(given) if isinstance(given, list) else given


def _reserve(text: str | UnsetType | None, dimensions: Dimensions) -> tuple[tuple[str, int], ...] | UnsetType:
    if isinstance(text, UnsetType):
        return UNSET
    if text is None:
        return ()
    try:
        amounts = parse_vector(text, dimensions)
    except InputError as error:
        raise error.at(field="reserve") from None
    return tuple((name, amount) for name, amount in zip(dimensions.names, amounts, strict=True) if amount)
