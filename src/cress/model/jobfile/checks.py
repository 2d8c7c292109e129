"""Checks in a job file: ``ready: {port: http, every: 2s}``, ``alive: {url: /health, on: http}``."""

from __future__ import annotations

import re
from collections.abc import Callable

from cress.model.errors import InputError
from cress.model.jobfile import values
from cress.model.jobfile.ports import Ports
from cress.model.jobfile.reader import Reader, mapping_of
from cress.model.jobfile.values import as_number, as_text, raise_all, shown
from cress.model.run import Check
from cress.model.times import DAY, HOUR, MILLISECOND, SECOND
from cress.model.units import format_duration, one_of, parse_count, parse_duration
from cress.model.whole_numbers import whole_number

CHECK_KEYS = ("port", "url", "on", "command", "every", "timeout", "delay", "failures")
WAYS = ("port", "url", "command")
# Minimum interval of checks: more frequent ones would mostly measure themselves.
LEAST_INTERVAL = 100 * MILLISECOND
MAX_FAILURES = 1_000

_HINT = "{port: http}, {url: /health, on: http} or {command: [./check.sh]}, with every, timeout, delay, failures"
_NO_COMMAND: tuple[str, ...] = ()


def check(value: object) -> Check:
    """Parse a check; ``port_of_check`` checks its port against those of the job."""
    reader = Reader(mapping_of(value, _HINT), CHECK_KEYS)
    given = [key for key in WAYS if key in reader.given]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "has neither port, url nor command"
        reader.errors.append(InputError(what, hint=f"exactly one of them: {_HINT}"))
    if "on" in reader.given and "url" not in reader.given:
        reader.wrong("on", "has no effect without a url", "{url: /health, on: http}")
    plain = Check(port="x")
    made = Check(
        port=reader.read("port", _port, ""),
        url=reader.read("url", _url, ""),
        on=reader.read("on", _port, ""),
        command=reader.read("command", values.command, _NO_COMMAND),
        interval=reader.read("every", duration(LEAST_INTERVAL, DAY), plain.interval),
        timeout=reader.read("timeout", duration(LEAST_INTERVAL, HOUR), plain.timeout),
        delay=reader.read("delay", duration(0, DAY), plain.delay),
        failures=reader.read(
            "failures", lambda given: parse_count(as_number(given), least=1, most=MAX_FAILURES), plain.failures
        ),
    )
    raise_all(reader.errors)
    return made


def port_of_check(made: Check, ports: Ports) -> InputError | None:
    """Return the error in the port of a check for a job with these ports, if any."""
    if made.command:
        return None
    key, port = ("on", made.on) if made.url else ("port", made.port)
    names = [name for name, _ in ports]
    if whole_number(port) is not None or port in names:
        return None
    if port:
        hint = one_of(port, names) if names else f"ports: {{{port}: dynamic}}, or a number"
        return InputError(f"the job has no port {port}", hint=hint, field=key)
    if len(names) == 1:
        return None
    hint = "one of " + ", ".join(names) if names else "a number, or ports: {http: dynamic} and on: http"
    return InputError(
        "is needed: the job has " + (f"{len(names)} ports" if names else "no port"), hint=hint, field="on"
    )


def duration(least: int, most: int) -> Callable[[object], int]:
    """Return a parser of durations between these bounds, in µs."""

    def read(value: object) -> int:
        found = parse_duration(as_number(value))
        if not least <= found <= most:
            word = "short" if found < least else "long"
            hint = (
                f"{format_duration(least)} to {format_duration(most)}" if least else f"at most {format_duration(most)}"
            )
            raise InputError(f"{format_duration(found)} is too {word}", hint=hint)
        return found

    return read


def _port(value: object) -> str:
    text = as_text(value).strip()
    if 1 <= (number := whole_number(text, 5) or 0) <= 65535:
        return str(number)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,31}", text):
        raise InputError(f"{shown(value)} is not a port", hint="1 to 65535, or the name of a port of the job")
    return text


def _url(value: object) -> str:
    text = as_text(value).strip()
    if not re.fullmatch(r"/[!-~]*", text) or len(text) > 2000:
        raise InputError(f"{shown(value)} is not a path of a page", hint="such as /health; the host is the task itself")
    return text


# Maximum of all durations of services.
MOST_WAIT = 30 * DAY
LEAST_WAIT = SECOND
