"""A center that stands by takes over when the lead is certainly its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cress.center.committer import Committer
from cress.center.in_charge import InCharge
from cress.center.settings import Settings
from cress.center.standby import Standby
from cress.store.opening import open_store
from cress.store.replicated import ReplicatedStore
from tests.center.leads import Lead
from tests.servers.logs import empty_place
from tests.servers.zookeeper import Ensemble


def test_a_center_whose_lead_is_uncertain_replaces_no_other_one(zookeeper: Ensemble, tmp_path: Path) -> None:
    """Found by a history of three centers: two replaced each other in turns for seconds."""

    async def story() -> None:
        store = open_store(empty_place(zookeeper), tmp_path / "a")
        assert isinstance(store, ReplicatedStore)
        lead = Lead(certain=False)
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
