"""Calls about users, tokens, sign-ins, certificates, secrets, and the audit log."""

from __future__ import annotations

from cress.protocol.access_views import (
    AuditPage,
    AuthorityView,
    CallerView,
    JoinedView,
    JoinTokensPage,
    JoinTokenView,
    KeyRotated,
    LoginView,
    NewJoinToken,
    NewToken,
    SecretsPage,
    SecretView,
    TokensPage,
    TokenView,
    UsersPage,
    UserView,
)
from cress.protocol.bodies import JoinBody, JoinTokenBody, LoginBody, RotateKeyBody, SecretBody, TokenBody, UserBody
from cress.protocol.calls.row import CallRow
from cress.protocol.queries import AuditQuery, SecretQuery, TokenQuery
from cress.protocol.rights import Action

WHOAMI = CallRow(
    "GET",
    "/v1/whoami",
    CallerView,
    about="user, role and credential of the caller",
)
PROVIDER = CallRow(
    "GET",
    "/v1/login",
    LoginView,
    open=True,
    about="the provider of OpenID Connect at which users [sign in](users.md#signing-in): issuer, client id and scope",
)
LOGIN = CallRow(
    "POST",
    "/v1/login",
    NewToken,
    body=LoginBody,
    shown='{"id_token": …}',
    open=True,
    makes=True,
    again=False,
    about=(
        "a token that expires, for the ID token of a user who has just signed in there. `503` if the provider "
        "cannot be asked for its keys"
    ),
)
USERS = CallRow(
    "GET",
    "/v1/users",
    UsersPage,
    needs=Action.CHANGE_USERS,
    about="the users with a role that was set",
)
SET_USER = CallRow(
    "PUT",
    "/v1/users/{name}",
    UserView,
    body=UserBody,
    shown='{"role": "operator", "administers": ["web"]}',
    needs=Action.CHANGE_USERS,
    about="sets the role of a user, and the groups that the user administers",
)
TOKENS = CallRow(
    "GET",
    "/v1/tokens",
    TokensPage,
    about="the tokens of the caller; of all users for an admin",
)
CREATE_TOKEN = CallRow(
    "POST",
    "/v1/tokens",
    NewToken,
    body=TokenBody,
    shown='{"name": "ci", "expires": 3600}',
    makes=True,
    again=False,
    about=(
        'makes a token, whose text only this answer has; `"rotate": true` puts it in the place of the one with '
        "that name. One for another user takes an admin"
    ),
)
REVOKE_TOKEN = CallRow(
    "DELETE",
    "/v1/tokens/{name}",
    TokenView,
    query=TokenQuery,
    about="revokes a token, given by name or id; one of another `user` takes an admin",
)
JOIN_TOKENS = CallRow(
    "GET",
    "/v1/join-tokens",
    JoinTokensPage,
    needs=Action.ADMIT_NODES,
    about="the [join tokens](tls.md#nodes-that-join-by-a-token)",
)
CREATE_JOIN_TOKEN = CallRow(
    "POST",
    "/v1/join-tokens",
    NewJoinToken,
    body=JoinTokenBody,
    shown='{"name": "rack7", "uses": 20, "expires": 3600, "nodes": "rack7-*"}',
    needs=Action.ADMIT_NODES,
    makes=True,
    again=False,
    about="makes a join token, whose text only this answer has",
)
REVOKE_JOIN_TOKEN = CallRow(
    "DELETE",
    "/v1/join-tokens/{name}",
    JoinTokenView,
    needs=Action.ADMIT_NODES,
    about="revokes a join token, given by name or id",
)
AUTHORITY = CallRow(
    "GET",
    "/v1/ca",
    AuthorityView,
    open=True,
    about="the certificate of the center's authority",
)
JOIN = CallRow(
    "POST",
    "/v1/join",
    JoinedView,
    body=JoinBody,
    shown='{"node": "node7", "request": PEM}',
    open=True,
    about="the certificate of a new node, for its certificate signing request; with a join token instead of a user's",
)
SECRETS = CallRow(
    "GET",
    "/v1/secrets",
    SecretsPage,
    query=SecretQuery,
    about=(
        "[secrets](secrets.md) of the caller, or with `group` or `user` of a group or another user; no answer has "
        "a value"
    ),
)
SECRET = CallRow(
    "GET",
    "/v1/secrets/{name}",
    SecretView,
    query=SecretQuery,
    about="one secret, without its value",
)
SET_SECRET = CallRow(
    "PUT",
    "/v1/secrets/{name}",
    SecretView,
    body=SecretBody,
    shown='{"value": "BASE64", "group": "etl"}',
    needs=Action.SUBMIT,
    about="sets the value of a secret",
)
DELETE_SECRET = CallRow(
    "DELETE",
    "/v1/secrets/{name}",
    SecretView,
    query=SecretQuery,
    needs=Action.SUBMIT,
    about="deletes a secret",
)
ROTATE_KEY = CallRow(
    "POST",
    "/v1/secret-key/rotate",
    KeyRotated,
    body=RotateKeyBody,
    shown='{"keep_old": true}',
    needs=Action.CHANGE_USERS,
    again=False,
    about="encrypts all secrets with a new key; `keep_old` keeps the old keys",
)
AUDIT = CallRow(
    "GET",
    "/v1/audit",
    AuditPage,
    query=AuditQuery,
    needs=Action.READ_AUDIT,
    about="the latest entries of the audit log",
)
