"""What could be evaluated and makes no sense is refused; what an older release accepted is read all the same."""

from __future__ import annotations

import pytest

from cress.language.parser import parse_rank, parse_requirement
from cress.model.errors import InputError

NONSENSE = {
    "IdleMemory >= 50%": "at character 15, `50%`: 50% of what? IdleMemory is an amount, not a share "
    "(IdleMemory / Memory is a share)",
    "10% <= FreeMemory": "at character 1, `10% <= FreeMemory`: 10% of what? FreeMemory is an amount, not a share "
    "(FreeMemory / Memory is a share)",
    "2 * CPU > 50%": (
        "at character 11, `50%`: 50% of what? 2 × CPU is an amount, not a share (IdleMemory / Memory is one)"
    ),
    "Memory in (50%)": (
        "at character 12, `50%)`: 50% of what? Memory is an amount, not a share (IdleMemory / Memory is a share)"
    ),
    "Memory >= 8": "at character 11, `8`: 8 has no unit, and Memory is in bytes (a unit: 8G, or 8B)",
    "IdleMemory - 1 > 4G": "at character 14, `1 > 4G`: 1 has no unit, and IdleMemory is in bytes (a unit: 1G, or 1B)",
    "FreeMemory in (4, 8G)": "at character 16, `4, 8G)`: 4 has no unit, and FreeMemory is in bytes (a unit: 4G, or 4B)",
    "!(Network < 500) || SSD": "at character 13, `500) || SSD`: 500 has no unit, and Network is in bit/s "
    "(a unit: 500M, or 500bit/s)",
    "Memory / CPU >= 2": "at character 17, `2`: 2 has no unit, and Memory / CPU is in bytes (a unit: 2G, or 2B)",
    "CPULoad >= 50": "at character 12, `50`: CPULoad is between 0 and 1 (50% or 0.5)",
    "IdleCPU / CPU > 30": "at character 17, `30`: IdleCPU / CPU is between 0 and 1 (30% or 0.3)",
    "(Memory - IdleMemory) / Memory < 80": "at character 34, `80`: (Memory - IdleMemory) / Memory is between 0 and 1 "
    "(80% or 0.8)",
    "DiskLoad + NetworkLoad > 150": "at character 26, `150`: DiskLoad + NetworkLoad is between 0 and 2 (0 to 2)",
    "Memory >= CPU": "at character 1, `Memory >= CPU`: Memory is in bytes and CPU is not "
    "(amounts of one kind, or shares such as IdleMemory / Memory)",
    "IdleMemory + IdleNetwork > 8G": "at character 1, `IdleMemory + IdleNetwork…`: IdleMemory is in bytes and IdleNetwork is "  # noqa: E501
    "in "
    "bit/s (amounts of one kind, or shares such as IdleMemory / Memory)",
    "CPU = True": "at character 7, `True`: CPU is a number, not a truth value (CPU > 0)",
    "(CPU > 4) = 1": "at character 13, `1`: (CPU > 4) is a truth value, and 1 is not ((CPU > 4) = True)",
    '"gpu-1" = "yes"': 'at character 1, `"gpu-1" = "yes"`: "gpu-1" = "yes" does not depend on the node '
    '(an attribute is written without quotes, or in `…`: Rack = "r1")',
}
SENSE = """
    Memory >= 8G; Memory > 0; 8G <= Memory; Memory >= 17179869184; IdleMemory >= 50% * Memory; IdleMemory / Memory > 50%
    Memory / CPU >= 2G; Memory >= 2G * CPU; IdleMemory / 16G > 50%; IdleCPU / 8 >= 50%; 100 * IdleCPU / CPU > 50; CPU >= 8
    CPULoad <= 1; 100 * CPULoad < 80; MemoryLoad + CPULoad > 1.5; Memory >= my_memory; Slots * 2 >= IdleCPU - 8; IOPSRead > 500
    IdleMemory > FreeMemory; Memory - IdleMemory <= 2 * 4G; SSD = 1; (SSD = True) + (Zone = "eu") >= 1; Load >= 50; GPU >= 50
    """.replace("\n", ";")  # noqa: E501
RANKS = {
    "CPU + 8G": "at character 7, `8G`: 8G is an amount, and a rank adds shares "
    "(a share of a node such as IdleMemory / 16G; (IdleMemory >= 16G) counts 1 where it is true)",
    "2 * (Memory - 8G)": "at character 15, `8G)`: 8G is an amount, and a rank adds shares "
    "(a share of a node such as IdleMemory / 16G; (IdleMemory >= 16G) counts 1 where it is true)",
    "Memory / CPU": "at character 1, `Memory / CPU`: Memory / CPU is not a share "
    "(divide by an amount of the same kind, such as IdleMemory / 16G)",
    "CPU + (IdleMemory >= 50%)": "at character 22, `50%)`: 50% of what? IdleMemory is an amount, not a share "
    "(IdleMemory / Memory is a share)",
}


@pytest.mark.parametrize(("text", "sentence"), NONSENSE.items())
def test_nonsense_is_refused_and_a_stored_text_is_not(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_requirement(text)
    assert str(caught.value) == sentence
    assert parse_requirement(text, stored=True).clauses


@pytest.mark.parametrize("text", [each.strip() for each in SENSE.split(";") if each.strip()])
def test_sense_is_accepted(text: str) -> None:
    assert parse_requirement(text).clauses


@pytest.mark.parametrize(("text", "sentence"), RANKS.items())
def test_ranks_add_shares(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rank(text)
    assert str(caught.value) == sentence
    assert parse_rank(text, stored=True).terms
