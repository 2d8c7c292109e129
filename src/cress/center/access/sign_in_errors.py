"""Errors of signing in at a provider."""

from __future__ import annotations


class ProviderDown(Exception):
    """The provider does not answer as one should; the sentence says how."""


class BadIdToken(Exception):
    """The ID token is not believed; the sentence says why."""
