"""The process that sends notifications; it ends with its center. See design note 0069.

Every connection is checked by the guard, except those to the operator's mail server: mail has a process of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit
from weakref import WeakValueDictionary

import httpx

import cress
from cress.center.notifications.delivery import (
    Delivery,
    DeliveryResult,
    SenderSettings,
    decode_delivery,
    decode_settings,
    encode,
)
from cress.center.process.line_process import answer, orders_of_center
from cress.center.web.no_cookies import no_cookies
from cress.model.allowed_sources import ANY, AllowedSources, parse_host_rule
from cress.network.connection_guard import ConnectionGuard, refusal_in

OPTION = "(--notify-host)"
# Seconds that one try may take, and before each further one.
PATIENCE = 10.0
PAUSES = (1.0, 5.0, 30.0, 120.0, 480.0)
# Deliveries in progress, those of one user or group, and theirs to one host.
AT_ONCE, AT_ONE_OWNER, AT_ONE_HOST = 16, 4, 2
SIGNATURE = "Cress-Signature"

_BUSY = frozenset({408, 425, 429})  # answers of servers that pass (RFC 9110 §15, RFC 6585)

Send = Callable[[Delivery], Coroutine[Any, Any, None]]


class GivenUp(Exception):
    """Error: this delivery would fail again."""


class TryAgain(Exception):
    """Error: this delivery may succeed later."""


def signature(key: bytes, at: int, body: str) -> str:
    """Return the value of the header that signs a body, sent ``at`` seconds since the epoch."""
    digest = hmac.new(key, f"{at}.{body}".encode(), hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def to_urls(settings: SenderSettings, client: httpx.AsyncClient) -> Send:
    """Return the function that sends a delivery to its URL. It raises GivenUp or TryAgain."""

    async def send(delivery: Delivery) -> None:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"cress/{cress.__version__}",
            "Cress-Delivery": delivery.id,
        }
        if settings.key:
            headers[SIGNATURE] = signature(settings.key, int(time.time()), delivery.body)
        try:
            # The answer's body is not read: its length is the receiver's choice.
            async with client.stream("POST", delivery.to, content=delivery.body, headers=headers) as received:
                status = received.status_code
        except (httpx.HTTPError, OSError) as error:
            refusal = refusal_in(error, OPTION)
            if refusal:
                raise GivenUp(refusal) from None
            raise TryAgain(str(error) or type(error).__name__) from None
        except (httpx.InvalidURL, UnicodeError) as error:
            raise GivenUp(str(error)) from None
        if 200 <= status < 300:
            return
        shown = f"answered {status}" + (f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else "")
        if status in _BUSY or status >= 500:
            raise TryAgain(shown)
        raise GivenUp(f"{shown}; redirects are not followed" if 300 <= status < 400 else shown)

    return send


def by_mail(settings: SenderSettings) -> Send:
    """Return the function that hands a delivery to the mail server. It raises GivenUp or TryAgain."""
    rules = [parse_host_rule(text) for text in settings.hosts or (ANY,)]

    async def send(delivery: Delivery) -> None:
        domain = delivery.to.rpartition("@")[2].lower()
        if not any(rule.allows(domain, 0) for rule in rules):
            raise GivenUp(f"{domain} is not among the domains that jobs may use {OPTION}")
        try:
            await asyncio.to_thread(_mail, settings, delivery)
        except smtplib.SMTPResponseException as error:
            what = f"the mail server answered {error.smtp_code} {_text(error.smtp_error)}"
            raise (GivenUp(what) if error.smtp_code >= 500 else TryAgain(what)) from None
        except smtplib.SMTPRecipientsRefused as error:
            code, said = next(iter(error.recipients.values()))
            what = f"the mail server answered {code} {_text(said)}"
            raise (GivenUp(what) if code >= 500 else TryAgain(what)) from None
        except (smtplib.SMTPException, OSError) as error:
            raise TryAgain(f"the mail server cannot be used: {error}") from None

    return send


def _mail(settings: SenderSettings, delivery: Delivery) -> None:
    server = urlsplit(settings.smtp)
    host = server.hostname or ""
    message = EmailMessage()
    message["From"] = settings.sender
    message["To"] = delivery.to.removeprefix("mailto:")
    message["Subject"] = delivery.subject
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(delivery.id, domain=settings.sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(delivery.text)
    secure = ssl.create_default_context()
    if server.scheme == "smtp" and not server.username:
        # As between mail servers: encrypted where possible, and nothing secret to lose to a false server.
        secure.check_hostname, secure.verify_mode = False, ssl.CERT_NONE
    connection: smtplib.SMTP
    # Without a name of its own, the library asks name servers for one, and a machine without them waits long.
    name = socket.gethostname()
    if server.scheme == "smtps":
        connection = smtplib.SMTP_SSL(host, server.port or 465, name, timeout=PATIENCE, context=secure)
    else:
        connection = smtplib.SMTP(host, server.port or 25, name, timeout=PATIENCE)
    with connection:
        connection.ehlo_or_helo_if_needed()
        # With a password, a server without TLS is an error: others could read the password.
        if server.scheme == "smtp" and (server.username or connection.has_extn("starttls")):
            connection.starttls(context=secure)
        if server.username:
            connection.login(unquote(server.username), settings.password)
        connection.send_message(message)


def _text(said: bytes | str) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said


class Sender:
    """Sends deliveries with ``send``, several at once; ``told`` is called with each result."""

    def __init__(
        self,
        send: Send,
        told: Callable[[DeliveryResult], None],
        pauses: tuple[float, ...] = PAUSES,
        patience: float = PATIENCE,
    ) -> None:
        self._send, self._told = send, told
        self._pauses, self._patience = pauses, patience
        self._all = asyncio.Semaphore(AT_ONCE)
        # They live as long as a delivery uses them: users choose the names of hosts.
        self._hosts: WeakValueDictionary[tuple[str, str], asyncio.Semaphore] = WeakValueDictionary()
        self._owners: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, delivery: Delivery) -> None:
        """Begin to send a delivery."""
        task = asyncio.create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, delivery: Delivery) -> None:
        host = self._hosts.setdefault((delivery.owner, urlsplit(delivery.to).netloc), asyncio.Semaphore(AT_ONE_HOST))
        owner = self._owners.setdefault(delivery.owner, asyncio.Semaphore(AT_ONE_OWNER))
        problem = ""
        for pause in (*self._pauses, None):
            try:
                # A host that hangs holds its own places only, and many such hosts those of who named them.
                async with host, owner, self._all:
                    await asyncio.wait_for(self._send(delivery), self._patience)
                problem = ""
                break
            except GivenUp as error:
                problem = str(error)
                break
            except TryAgain as error:
                problem = str(error)
            except TimeoutError:
                problem = f"no answer within {self._patience:g} s"
            except Exception as error:  # noqa: BLE001 – one delivery must not end the process
                problem = f"{type(error).__name__}: {error}"
                break
            if pause is not None:
                await asyncio.sleep(pause)
        self._told(DeliveryResult(delivery.id, problem))


def open_client(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Return a client for the URLs of all users; ``transport`` is that of a test."""
    limits = httpx.Limits(max_keepalive_connections=AT_ONCE, keepalive_expiry=5.0)
    # A proxy of the environment would connect for this process, past the guard.
    return httpx.AsyncClient(
        trust_env=False, timeout=PATIENCE, limits=limits, cookies=no_cookies(), transport=transport
    )


async def _serve() -> None:
    lines = await orders_of_center()
    settings = decode_settings(await lines.readline())

    def told(result: DeliveryResult) -> None:
        answer(encode(result))

    async with open_client() as client:
        if settings.smtp:
            sender = Sender(by_mail(settings), told)
        else:
            ConnectionGuard(AllowedSources(hosts=settings.hosts or (ANY,)), OPTION).install()
            sender = Sender(to_urls(settings, client), told)
        while line := await lines.readline():
            sender.begin(decode_delivery(line))


if __name__ == "__main__":
    asyncio.run(_serve())
