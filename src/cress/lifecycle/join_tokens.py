"""Join tokens: the machine counts their uses, so that none is counted twice or lost after a crash."""

from __future__ import annotations

import fnmatch
from collections import Counter

from cress.lifecycle.context import Context
from cress.lifecycle.inputs import AddJoinToken, RevokeJoinToken, UseJoinToken
from cress.lifecycle.tables.tables import Tables
from cress.model.access import JoinToken
from cress.model.errors import NotAccepted
from cress.model.times import DAY

# Maximum number of join tokens of a cluster; time (µs) after expiry, from which a new token removes an old one.
MOST_TOKENS, FORGOTTEN = 1_000, DAY


def take(context: Context, input_: AddJoinToken | UseJoinToken | RevokeJoinToken) -> None:
    """Change a join token. Raises NotAccepted."""
    match input_:
        case AddJoinToken():
            _add(context, input_.token)
        case UseJoinToken():
            _use(context, input_)
        case RevokeJoinToken():
            if input_.id not in context.tables.join_tokens:
                raise NotAccepted(
                    f"there is no join token {input_.id}", hint="`cress token list --join` shows the join tokens"
                )
            _remove(context, input_.id)


def uses(tables: Tables) -> Counter[str]:
    """Return the number of nodes that joined with each token."""
    return Counter(token for token, _ in tables.joined)


def _add(context: Context, token: JoinToken) -> None:
    tokens = context.tables.join_tokens
    for old in [known.id for known in tokens.values() if known.is_over(context.utc - FORGOTTEN)]:
        _remove(context, old)
    if any(other.name == token.name for other in tokens.values()):
        hint = f"another name, or `cress token revoke --join {token.name}` first"
        raise NotAccepted(f"there is a join token {token.name}", hint=hint, field="name")
    if len(tokens) >= MOST_TOKENS:
        raise NotAccepted(f"there are {len(tokens):,} join tokens", hint="revoke some")
    tokens[token.id] = token


def check_use(tables: Tables, input_: UseJoinToken, utc: int) -> None:
    """Raise NotAccepted if a node cannot join by this token now."""
    token = tables.join_tokens.get(input_.id)
    if token is None:
        raise NotAccepted("the join token was revoked", hint="another one: `cress token create NAME --join`")
    if token.is_over(utc):
        raise NotAccepted(f"the join token {token.name} has expired", hint="another one")
    if not fnmatch.fnmatchcase(input_.node, token.nodes):
        raise NotAccepted(
            f"the join token {token.name} is for nodes {token.nodes}, not for {input_.node}",
            hint="the name of the node, or another token",
            field="node",
        )
    known = tables.joined.get((token.id, input_.node))
    if known == input_.key:
        return  # a node may repeat its request: the answer to the first one was lost
    if known is not None:
        raise NotAccepted(
            f"node {input_.node} has joined by the token {token.name} with another key",
            hint=f"on the center's machine: `cress tls revoke {input_.node}`, then `cress tls issue {input_.node}`",
        )
    if uses(tables)[token.id] >= token.uses:
        raise NotAccepted(f"the join token {token.name} is used up: {token.uses} of {token.uses}", hint="another one")


def _use(context: Context, input_: UseJoinToken) -> None:
    check_use(context.tables, input_, context.utc)
    context.tables.joined[input_.id, input_.node] = input_.key


def _remove(context: Context, id: str) -> None:
    del context.tables.join_tokens[id]
    joined = context.tables.joined
    for key in [key for key in joined if key[0] == id]:
        del joined[key]
