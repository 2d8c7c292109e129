"""Licences of the cluster as the API shows them."""

from __future__ import annotations

from cress.protocol.views import View


class LicenceUse(View, frozen=True):
    """A job that has some of a licence, or waits for some: ``number`` of them."""

    job: int
    name: str
    group: str
    number: int


class LicenceView(View, frozen=True):
    """A licence: ``having`` and ``waiting`` are how many jobs have some or wait for some, of which the first are
    listed.
    """

    name: str
    total: int
    in_use: int
    free: int
    having: int = 0
    waiting: int = 0
    jobs: tuple[LicenceUse, ...] = ()
    waiters: tuple[LicenceUse, ...] = ()


class LicencesPage(View, frozen=True):
    """All licences, by name."""

    licences: tuple[LicenceView, ...]
