"""Files that are fetched: nothing leads out of the folder that they are fetched into."""

from __future__ import annotations

from pathlib import Path

import pytest

from cress.client.fetched import make_link
from cress.protocol.file_views import TaskFile

# Links of a task in their order, and those of them that are made.
CHAINS = {
    "up from its own folder": ([("p/q/up", "../../top"), ("p/beside", "./q/x")], 2),
    "too far up": ([("up", "../x"), ("p/up", "../../x"), ("away", "/etc/passwd")], 0),
    # Each would be inside if the first were no link: p/q/up/.. is the folder above all.
    "up by way of another link": ([("p/q/up", "../.."), ("p/q/out", "up/../secret")], 1),
    "down and up": ([("p/out", "q/../../../secret")], 0),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_no_link_leads_out_be_it_by_way_of_others(tmp_path: Path, chain: str) -> None:
    (tmp_path / "secret").write_text("mine")
    to = tmp_path / "to"
    links, most = CHAINS[chain]
    made = [make_link(to, TaskFile(path, link=link)) for path, link in links]
    assert sum(not each.skipped for each in made) == most
    assert all("leads out" in each.skipped for each in made if each.skipped)
    for path in to.rglob("*"):
        assert path.resolve().is_relative_to(to.resolve()), path
