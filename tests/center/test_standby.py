"""A center that stands by takes over when the lead is certainly its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cress.center.committer import Committer
from cress.center.in_charge import InCharge
from cress.center.settings import Settings
from cress.center.standby import Standby
from cress.store.lead import boottime
from cress.store.opening import open_store
from cress.store.replicated import ReplicatedStore
from tests.servers.logs import empty_place
from tests.servers.zookeeper import Ensemble


class Hoped:
    """A ``Lead`` whose last claim was granted, and is ``certain`` or so old that the servers may have given the lead to another."""

    session = 0.06

    def __init__(self) -> None:
        self.certain = False
        self.until = 0

    def claim(self) -> bool:
        self.until = boottime() + 1_000_000 if self.certain else 0
        return True

    def leader(self) -> str:
        return ""

    def wait(self, seconds: float) -> None: ...

    def stand_by(self) -> None: ...

    def others(self) -> list[str]:
        return []

    def release(self) -> None: ...

    def close(self) -> None: ...


def test_a_center_whose_lead_is_uncertain_replaces_no_other_one(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Found by a history of three centers: two replaced each other in turns for seconds."""

    async def story() -> None:
        store = open_store(empty_place(zookeeper), tmp_path / "a")
        assert isinstance(store, ReplicatedStore)
        lead = Hoped()
        in_charge = InCharge(lead, "http://a")
        committer = Committer(store, Settings(data=tmp_path), in_charge=in_charge)
        standby = Standby(committer, store, in_charge)

        async def prepare() -> None: ...

        leading = asyncio.create_task(standby.until_leading(prepare))
        await asyncio.wait((leading,), timeout=0.5)
        assert in_charge.is_mine
        assert store.load().epoch == 0
        assert not leading.done()
        lead.certain = True
        await asyncio.wait_for(leading, 10)
        assert store.load().epoch == 1
        await committer.stop()

    asyncio.run(story())
