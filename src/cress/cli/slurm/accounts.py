"""``sacctmgr``: the accounts of Slurm are the groups of Cress; they are shown here, and changed by ``cress groups``."""

from __future__ import annotations

from collections.abc import Sequence

from cress.cli.slurm.common import center, site, user_of
from cress.cli.slurm.queue import option
from cress.model.errors import InputError
from cress.model.whole_numbers import whole_number
from cress.slurm.command_line import parse, values_of

OPTIONS = (
    option("associations", "s"),
    option("immediate", "i"),
    option("noheader", "n"),
    option("parsable", "p"),
    option("parsable2", "P"),
    option("quiet", "Q"),
    option("readonly", "r"),
    option("verbose", "v"),
)
ENTITIES = (
    "user",
    "users",
    "account",
    "accounts",
    "association",
    "associations",
    "assoc",
    "cluster",
    "clusters",
    "qos",
)
USUAL = {
    "user": "User,Account",
    "account": "Account,Descr",
    "association": "Cluster,Account,User",
    "cluster": "Cluster",
    "qos": "Name",
}


def sacctmgr(_name: str, words: Sequence[str]) -> int:
    """Print users, accounts, associations, clusters or qos."""
    given, rest = parse(words, OPTIONS, mixed=True)
    values = values_of(given)
    if len(rest) < 2 or rest[0].lower() not in ("show", "list") or rest[1].lower() not in ENTITIES:
        raise InputError(
            f"{' '.join(rest[:2]) or 'nothing'!r} is not supported",
            hint="list user, account, association, cluster or qos; `cress groups` changes groups",
        )
    word = rest[1].lower()
    entity = "association" if word.startswith("assoc") else word if word == "qos" else word.removesuffix("s")
    pairs = {key.lower(): value for key, _, value in (one.partition("=") for one in rest[2:] if "=" in one)}
    names = [one for one in rest[2:] if "=" not in one]
    fields = [one.partition("%") for one in pairs.get("format", USUAL[entity]).split(",")]
    with center() as client:
        user = names[0] if names and entity == "user" else pairs.get("user") or user_of(client)
        table = site()
        accounts = dict.fromkeys([*table.accounts, *(group.name for group in client.groups().groups)])
    rows: list[dict[str, str]]
    if entity == "cluster":
        rows = [{"cluster": "cress"}]
    elif entity == "qos":
        rows = [{"name": qos} for qos in ("normal", *table.qos)]
    else:
        wanted = pairs.get("account") or (names[0] if names and entity == "account" else "")
        rows = [
            {"account": account, "user": user, "cluster": "cress", "descr": account, "defaultaccount": account}
            for account in accounts
            if not wanted or account in wanted.split(",")
        ]
    parsable = "parsable" in values or "parsable2" in values
    last = "|" if "parsable" in values else ""
    if "noheader" not in values:
        heads = [field for field, _, _ in fields]
        print("|".join(heads) + last if parsable else " ".join(f"{head:>10}" for head in heads))
        if not parsable:
            print(" ".join("-" * 10 for _ in heads))
    for row in rows:
        cells = [row.get(field.lower(), "") for field, _, _ in fields]
        if parsable:
            print("|".join(cells) + last)
        else:
            sizes = [whole_number(size, 4) or 10 for _, _, size in fields]
            print(" ".join(f"{cell[:size]:>{size}}" for cell, size in zip(cells, sizes, strict=True)) + " ")
    return 0
