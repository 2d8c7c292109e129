"""Errors of sign-in at a provider."""

from __future__ import annotations


class ProviderDown(Exception):
    """The provider is unreachable or its answer is invalid; the message says why."""


class BadIdToken(Exception):
    """The ID token is not valid; the message says why."""
