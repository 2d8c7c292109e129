"""Bounded types of numbers and texts from outside, so that bad ones are refused where they are read.

All values that the center stores, adds up or shows stay in range: SQLite and numpy have 64 bits, JSON numbers are exact
up to 2^53.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

MOST = 2**53
# Ids, counts, and times in µs since the epoch (up to the year 2255) or since a machine's boot.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MOST)]
# Amounts in bytes, durations in µs.
Amount: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
Epoch: TypeAlias = Annotated[int, Meta(ge=0, le=2**48)]
# 32-bit numbers: versions, terminal sizes, shares in thousandths, process ids.
Small: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
# An exit code, or -n after signal n.
ExitCode: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Port: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]
# Values of attributes.
Whole: TypeAlias = Annotated[int, Meta(ge=-(10**18), le=10**18)]
Real: TypeAlias = Annotated[float, Meta(ge=-1e300, le=1e300)]

# Texts, in characters: names, addresses, ids; sentences, constraints and paths. Narrower rules follow where they are
# used, with messages of their own; these bounds keep what one message can cost.
Name: TypeAlias = Annotated[str, Meta(max_length=1_024)]
Text: TypeAlias = Annotated[str, Meta(max_length=65_536)]
# A digest, a key or a tag.
