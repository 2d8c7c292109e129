"""``cress login`` and ``cress logout``: sign in at the provider of the center, and out again."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from cress.cli.errors import told
from cress.cli.tables import clean
from cress.model.errors import InputError

LOGIN = """\
\b
Examples:
  cress login https://center.example.com:7411
  cress login                              at the center of the last sign-in, or that of CRESS_URL

\b
The command shows an address and a code. Open the address in a browser on any machine, and enter the code. The token is
stored in ~/.config/cress/logins.json (0600). Commands use it if CRESS_TOKEN is not set and no center runs on this
machine. Exit codes: 0 signed in, 2 bad input, 3 not signed in, 130 interrupted.
"""
LOGOUT = """\
\b
The token is revoked at the center, and removed from this machine.
Exit codes: 0 signed out, 2 not signed in, 3 no center reachable.
"""

Where = Annotated[
    str, typer.Argument(metavar="[URL]", help="Address of the center. Default: $CRESS_URL, else the last one.")
]


def login(
    url: Where = "",
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Authority of the center's certificate. Default: $CRESS_CA.")
    ] = None,
) -> None:
    """Sign in with the center's OpenID Connect provider."""
    with told("login", interrupted="interrupted; not signed in"):
        import httpx

        from cress.client import calls
        from cress.client.answers import ask_once
        from cress.client.config import URL, authority, check_sent, check_url, find_cluster
        from cress.client.device_flow import ANSWER_SECONDS, DeviceFlow, sent_by
        from cress.client.logins import Login, find_login, keep_login
        from cress.client.tls import trusting

        last = find_login(url)
        cluster = None if url else find_cluster()
        named = cluster.url[0] if cluster is not None and cluster.url else ""
        place = url or named or os.environ.get(URL, "").strip() or (last.url if last else "")
        if not place:
            raise InputError("the address of the center is missing", hint="cress login https://HOST:PORT", field="URL")
        place = check_url(place, "URL")
        check_sent(place)
        trusted = (
            ca
            or (cluster and cluster.ca)
            or authority(None)
            or (Path(last.ca) if last and last.url == place and last.ca else None)
        )
        context = trusting(trusted) if place.startswith("https:") else None
        provider = ask_once(place, calls.provider(), context)
        with httpx.Client(timeout=ANSWER_SECONDS) as http:
            flow = DeviceFlow(provider.issuer, provider.client_id, provider.scope, sent_by(http))
            code = flow.begin()
            print(f"Open {clean(code.verification_uri)} and enter the code {clean(code.user_code)}")
            if code.verification_uri_complete:
                print(f"or open {clean(code.verification_uri_complete)}", flush=True)
            id_token = flow.wait(code)
        made = ask_once(place, calls.login(id_token), context)
        token = made.token
        kept = Login(
            url=place,
            token=made.secret,
            id=token.id,
            user=token.user,
            expires=token.expires or 0.0,
            ca="" if trusted is None else str(trusted.absolute()),
        )
        keep_login(kept)
        until = datetime.fromtimestamp(kept.expires).astimezone().strftime("%Y-%m-%d %H:%M")
        print(f"signed in at {place} as {clean(token.user)}, role {token.role}, until {until}")


def logout(url: Where = "") -> None:
    """Sign out: revoke the token of `cress login`."""
    with told("logout"):
        from cress.client import NotFound, Unauthorized, calls
        from cress.client.answers import ask_once
        from cress.client.config import URL
        from cress.client.logins import find_login, forget_login
        from cress.client.tls import trusting

        place = (url or os.environ.get(URL, "").strip()).rstrip("/")
        found = find_login(place)
        if found is None:
            raise InputError(f"not signed in{f' at {place}' if place else ''}", hint="`cress login` signs in")
        secure = found.url.startswith("https:")
        try:
            context = trusting(Path(found.ca) if found.ca else None) if secure else None
            ask_once(found.url, calls.revoke_token(found.id), context, found.token)
        except (NotFound, Unauthorized):
            pass  # the token has expired, or was revoked
        forget_login(found)
        print(f"signed out at {found.url}")
