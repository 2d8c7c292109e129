"""Messages between the center and the process that sends notifications: one line of JSON each."""

from __future__ import annotations

import msgspec


class SenderSettings(msgspec.Struct, frozen=True):
    """The first line for the process: the rules for ``hosts``, the ``key`` that signs, and the mail server."""

    hosts: tuple[str, ...] = ()
    key: bytes = b""
    smtp: str = ""
    password: str = ""
    sender: str = ""


class Delivery(msgspec.Struct, frozen=True):
    """An occasion for one address: ``body`` is its JSON, ``subject`` and ``text`` are the mail.

    ``event`` is the number of the event that it tells of; 0: it tells of none. ``owner`` is the user or group whose
    address it is, ``job`` and ``group`` those that it tells about.
    """

    id: str
    to: str
    body: str
    subject: str = ""
    text: str = ""
    event: int = 0
    owner: str = ""
    job: int = 0
    group: str = ""


class DeliveryResult(msgspec.Struct, frozen=True):
    """The result of a delivery. ``problem`` says why it was given up; empty: it was sent."""

    id: str
    problem: str = ""


encode = msgspec.json.Encoder().encode
decode_settings = msgspec.json.Decoder(SenderSettings).decode
decode_delivery = msgspec.json.Decoder(Delivery).decode
decode_result = msgspec.json.Decoder(DeliveryResult).decode
