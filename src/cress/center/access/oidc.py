"""Sign-in by OpenID Connect: the provider's keys, and the check of the ID tokens that it signs.


The command line talks to the provider (the device flow) and hands the ID token to the center. The center requests only
the keys of the provider, and never sees a password.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import pwd
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import jwt

from cress.center.access.sign_in_errors import BadIdToken, ProviderDown
from cress.center.access.sign_ins import LEEWAY, MOST_AGE, PREFIX, USABLE
from cress.center.settings import Oidc
from cress.model.access import checked_name
from cress.model.errors import InputError, NotAccepted

# Without ``none`` and shared secrets: anyone who knows the public key could sign with them.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
DISCOVERY = "/.well-known/openid-configuration"
# Seconds for which keys are kept, and between two requests because of unknown keys.
KEPT, PAUSE = 600.0, 5.0
# Seconds for an answer of the provider, and its greatest size in bytes.
PATIENCE, MOST_BYTES = 10.0, 2**20
# System accounts are below this uid.
FIRST_UID = 1000


class Provider:
    """The OpenID Connect provider that the operator has configured; its users get none of the ``reserved`` names."""

    def __init__(self, settings: Oidc, reserved: Iterable[str] = (), clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self._reserved = frozenset(reserved)
        self._clock = clock
        self._keys: list[dict[str, Any]] = []
        self._fetched = self._tried = float("-inf")
        self._problem = ""
        self._turn = asyncio.Lock()
        self._used: dict[bytes, float] = {}

    async def user_of(self, id_token: str) -> str:
        """Return the name of the user who signed in. Raises BadIdToken, NotAccepted and ProviderDown.

        Each ID token is accepted once by this center; the store knows those that others have accepted, or this one
        before it was started.
        """
        claims = await self._verified(id_token)
        name = self._name(claims)
        self._use_once(id_token)
        return name

    @staticmethod
    def name_of_token(id_token: str) -> str:
        """Return the name of the token that a sign-in makes.

        Nobody can use the ID token again while the store has a token of this name.
        """
        return f"{PREFIX}{_digest_of(id_token).hex()[:16]}"

    async def _verified(self, id_token: str) -> Mapping[str, Any]:
        try:
            header = jwt.get_unverified_header(id_token)
        except jwt.PyJWTError:
            raise BadIdToken("it is not a signed token") from None
        if header.get("alg") not in ALGORITHMS:
            raise BadIdToken(f"it is signed with {str(header.get('alg'))[:20]!r}, which is not accepted")
        if str(header.get("typ", "JWT")).lower() == "at+jwt":
            raise BadIdToken("it is an access token, not an ID token")
        listed = await self._keys_for(header.get("kid"))
        for listed_key in listed:
            key = _key(listed_key, header["alg"])
            try:
                if key is not None:
                    return self._claims(id_token, key)
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError):
                continue
        raise BadIdToken(
            "its signature is wrong" if listed else "it is signed with a key that the provider does not have"
        )

    def _claims(self, id_token: str, key: jwt.PyJWK) -> Mapping[str, Any]:
        own = self.settings
        try:
            claims: dict[str, Any] = jwt.decode(
                id_token,
                key,
                algorithms=list(ALGORITHMS),
                audience=own.client_id,
                issuer=own.issuer,
                leeway=LEEWAY,
                options={"require": ["iss", "aud", "exp", "iat", "sub"]},
            )
        except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError, jwt.InvalidKeyError):
            raise
        except jwt.ExpiredSignatureError:
            raise BadIdToken("it has expired") from None
        except jwt.InvalidAudienceError:
            raise BadIdToken("it is for another program") from None
        except jwt.InvalidIssuerError:
            raise BadIdToken("it is from another provider") from None
        except jwt.PyJWTError as error:
            raise BadIdToken(f"it cannot be used: {error}".lower()) from None
        if claims.get("azp", own.client_id) != own.client_id:
            raise BadIdToken("it is for another program")
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and "azp" not in claims:
            raise BadIdToken("it is for several programs")
        if float(claims["iat"]) < self._clock() - MOST_AGE - LEEWAY:
            raise BadIdToken("it is of an earlier sign-in")
        return claims

    def _name(self, claims: Mapping[str, Any]) -> str:
        """Return the user's name in Cress. Raises NotAccepted for one that may not sign in."""
        own = self.settings
        value = claims.get(own.claim)
        if not isinstance(value, str) or not value:
            raise NotAccepted(f"the provider does not send the claim {own.claim}", hint="an operator sets --oidc-claim")
        if own.claim == "email" and claims.get("email_verified") is not True:
            raise NotAccepted(f"the provider has not verified the address {value[:100]}", hint="verify it there")
        if own.domain:
            value, at, domain = value.rpartition("@")
            if not at or domain.lower() != own.domain.lower():
                raise NotAccepted(f"only users of {own.domain} may sign in")
        try:
            name = checked_name(value, own.claim)
        except InputError as error:
            raise NotAccepted(f"the {own.claim} of the user cannot be a name here: {error}") from None
        if name in self._reserved or _is_system_account(name):
            raise NotAccepted(f"{name} is a system account, so no user of the provider may have this name")
        return name

    def _use_once(self, id_token: str) -> None:
        now = self._clock()
        self._used = {nonce: until for nonce, until in self._used.items() if until > now}
        digest = _digest_of(id_token)
        if digest in self._used:
            raise BadIdToken("it was used already")
        self._used[digest] = now + USABLE

    # --- keys ---------------------------------------------------------------------------------------------------------

    async def _keys_for(self, kid: object) -> list[dict[str, Any]]:
        """Return the keys that may have made the signature; fetch them again if they are old or none has this id."""
        async with self._turn:
            now = self._clock()
            found = self._with_id(kid)
            stale = now - self._fetched > KEPT
            if now - self._tried > PAUSE and (stale or not found):
                self._tried = now
                try:
                    await self._fetch_keys()
                except ProviderDown as error:
                    self._problem = str(error)
                    raise
                self._fetched, stale = now, False
                found = self._with_id(kid)
            if stale:
                # Callers do not queue for a provider that does not answer.
                raise ProviderDown(self._problem)
            return found

    def _with_id(self, kid: object) -> list[dict[str, Any]]:
        return [key for key in self._keys if kid is None or key.get("kid") == kid]

    async def _fetch_keys(self) -> None:
        issuer = self.settings.issuer
        async with httpx.AsyncClient(timeout=PATIENCE, follow_redirects=False) as http:
            found = await _json(http, issuer.rstrip("/") + DISCOVERY)
            if found.get("issuer") != issuer:
                raise ProviderDown(f"{issuer} gives its name as {str(found.get('issuer'))[:200]!r}")
            place = found.get("jwks_uri")
            if not isinstance(place, str) or not is_secure(place):
                raise ProviderDown(f"{issuer} does not say where its keys are")
            listed = (await _json(http, place)).get("keys")
        if not isinstance(listed, list):
            raise ProviderDown(f"{place} has no keys")
        self._keys = [key for key in listed if isinstance(key, dict) and key.get("use", "sig") == "sig"]


def _digest_of(id_token: str) -> bytes:
    """Return what identifies an ID token: without its signature, of which one text may have several."""
    return hashlib.sha256(id_token.rpartition(".")[0].encode()).digest()


def is_secure(url: str) -> bool:
    """Return whether a URL uses TLS or is on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback if parts.scheme == "http" else False
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or loopback)


def _key(key: dict[str, Any], algorithm: str) -> jwt.PyJWK | None:
    """Return a key of the provider for an algorithm; None if the key is for another one."""
    if key.get("kty") == "oct" or key.get("alg", algorithm) != algorithm:
        return None
    try:
        return jwt.PyJWK(key, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


async def _json(http: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """Return an answer of the provider. Raises ProviderDown."""
    try:
        async with asyncio.timeout(PATIENCE), http.stream("GET", url) as answer:
            if answer.status_code != httpx.codes.OK:
                raise ProviderDown(f"the provider of sign-ins answers {url} with HTTP {answer.status_code}")
            content = b""
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise ProviderDown(f"the answer at {url} is too long")
            found = await asyncio.to_thread(_decoded, content)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        why = str(error) or type(error).__name__
        raise ProviderDown(f"the provider of sign-ins cannot be reached at {url} ({why[:200]})") from None
    if found is None:
        raise ProviderDown(f"the answer at {url} is not JSON")
    return found


def _decoded(content: bytes) -> dict[str, Any] | None:
    import json

    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_system_account(name: str) -> bool:
    try:
        return pwd.getpwnam(name).pw_uid < FIRST_UID
    except KeyError:
        return False
