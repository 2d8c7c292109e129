"""The configuration of the cluster and its revisions as the API shows them."""

from __future__ import annotations

from cress.protocol.views import View


class RevisionView(View, frozen=True):
    """A revision: since when it holds (seconds since the epoch), the user (empty: the center itself) and the action.

    ``text`` is the document; a list of revisions leaves it out.
    """

    revision: int
    at: float
    by: str
    what: str
    text: str = ""


class ConfigView(View, frozen=True):
    """The present configuration: the document of a revision; ``options`` are all, ``licences`` how many there are of
    each.
    """

    revision: int
    at: float
    by: str
    what: str
    text: str
    options: dict[str, str]
    licences: dict[str, int]


class HistoryView(View, frozen=True):
    """The revisions that are kept, newest first."""

    revisions: tuple[RevisionView, ...]


class ConfiguredView(View, frozen=True):
    """Answer to a change: the present revision, and the documents before and after it.

    A dry run shows what would be.
    """

    revision: int
    before: str
    text: str
    notes: tuple[str, ...] = ()
