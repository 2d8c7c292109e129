"""Labels: the names of groups, jobs and ports as parts of a name in the DNS."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from cress.lifecycle.name_service import Place
from cress.model.errors import InputError

MOST_BYTES = 63
DEFAULT_DOMAIN = "cress"
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_OTHER = re.compile(r"[^a-z0-9_]+")
# Hexadecimal digits that distinguish names of which some characters are dropped.
_DIGITS = 8


@lru_cache(10_000)
def label_of(name: str) -> str:
    """Return the label of a name: the name in lower case, or its valid characters with a digest of the name."""
    lower = name.lower()
    if _LABEL.fullmatch(lower):
        return lower
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
    kept = _OTHER.sub("-", lower).strip("-")[: MOST_BYTES - _DIGITS - 1].rstrip("-")
    return f"{kept or 'x'}-{digest}"


def labels_of(place: Place) -> tuple[str, str]:
    """Return the labels of the group and the job of a place."""
    return label_of(place.group), label_of(place.name)


def dns_name(place: Place, domain: str) -> str:
    """Return the DNS name of a task: ``3.web.research.cress``."""
    group, job = labels_of(place)
    return f"{place.task}.{job}.{group}.{domain}"


def check_domain(text: str) -> str:
    """Return a domain in lower case, without a final dot. Raises InputError."""
    domain = text.lower().removesuffix(".")
    labels = domain.split(".")
    if len(domain) > 100 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InputError(
            f"{text!r} is not a domain",
            hint="labels of letters, digits and `-` with dots between them, such as cress or cluster.example.org",
            field="--dns-domain",
        )
    return domain
