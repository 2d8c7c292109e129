"""The rules that the tests break on purpose, to show that a broken one is noticed."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cress.executor.keeper import Hands, Keeper
from cress.executor.records import Known
from cress.lifecycle.effects import Launch

# Far above the numbers of attempts of any history.
RENAMED = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which rules are broken: none, unless said otherwise."""

    acknowledges_first: bool = False  # effects and answers before the commit
    forgets_journal: bool = False  # a supervisor begins without what the one before it wrote
    renames_resent: bool = False  # a launch that is sent again is another attempt
    no_fencing: bool = False  # a center that was replaced goes on, and store and executors obey it
    no_deadline: bool = False  # a supervisor does not care for terms

    def renamed(self, launch: Launch, sent: set[int], cores: dict[int, int]) -> Launch:
        """The launch as it is sent, when these were ``sent`` before."""
        if not self.renames_resent:
            return launch
        if launch.attempt not in sent:
            sent.add(launch.attempt)
            return launch
        again = launch.attempt + RENAMED * len(sent)
        sent.add(again)
        cores[again] = cores[launch.attempt]
        return msgspec.structs.replace(launch, attempt=again)

    def keeper(self, known: Known, hands: Hands) -> Keeper:
        """A supervisor's keeper."""
        if self.no_fencing:
            return _Obedient(known, hands)
        return _Careless(known, hands) if self.no_deadline else Keeper(known, hands)


class _Obedient(Keeper):
    """Takes orders from anybody."""

    def _accepts(self, epoch: int) -> bool:
        return True


class _Careless(Keeper):
    """Stops nobody at the end of a term."""

    def _watch_term(self) -> None:
        pass
