"""The options for accounts of tasks: ``--map-user`` and ``--root-group``."""

from __future__ import annotations

import os

import pytest

from cress.cli.executor import account_rules_of
from cress.executor.runtimes.accounts import AccountRules
from cress.model.errors import InputError


@pytest.fixture
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("_root")
def test_rules_are_read() -> None:
    rules = account_rules_of(["ann=svc_ann", "bob=b=c"], ["infra"])
    assert rules == AccountRules(users={"ann": "svc_ann", "bob": "b=c"}, root_groups=("infra",))
    assert account_rules_of(None, None) == AccountRules()


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize(
    ("mapped", "groups", "message"),
    [
        (["ann"], [], "--map-user: 'ann' is not USER=ACCOUNT (such as --map-user USER=ACCOUNT)"),
        (["=x"], [], "--map-user: '=x' is not USER=ACCOUNT (such as --map-user USER=ACCOUNT)"),
        (["ann="], [], "--map-user: ann is mapped to no account (such as --map-user ann=ACCOUNT)"),
        (["ann=a", "ann=b"], [], "--map-user: ann is given twice (each once)"),
        ([], [""], "--root-group: a group has a name (such as --root-group infra)"),
    ],
)
def test_mistakes_are_told(mapped: list[str], groups: list[str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        account_rules_of(mapped, groups)
    assert str(refused.value) == message


@pytest.mark.parametrize("option", ["--map-user", "--root-group"])
def test_only_root_follows_rules(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    given = (["ann=a"], None) if option == "--map-user" else (None, ["infra"])
    with pytest.raises(InputError, match="only an executor that is root") as refused:
        account_rules_of(*given)
    assert refused.value.field == option
    assert account_rules_of(None, None) == AccountRules()
