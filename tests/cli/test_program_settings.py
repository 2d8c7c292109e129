"""The table of settings: docs, structs, and what ``cress up`` hands to its programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from cress.center.settings import CenterSettings, Oidc
from cress.cli.center import center_fields
from cress.cli.executor import executor_fields
from cress.cli.main import app
from cress.cli.program_options import given_arguments
from cress.cli.programs import command_of
from cress.cli.up import center_arguments
from cress.executor.settings import ExecutorSettings
from cress.model.access import Role, Visibility
from cress.model.program_settings.center_settings import CENTER_SETTINGS
from cress.model.program_settings.executor_settings import EXECUTOR_SETTINGS
from cress.model.program_settings.setting import CENTER, EXECUTOR, UP, Setting, ValueType
from cress.model.program_settings.table import TABLE, settings_of
from cress.model.resources import Dimensions
from cress.model.times import DAY, HOUR, MINUTE
from tools import settings_tables

# What `cress up` decides itself, or what needs several machines. A new setting is in `cress up`, or gets a line here.
NOT_OF_UP = {
    CENTER: {"executor-port", "store"},
    EXECUTOR: {"center", "token-file", "tls", "name", "data", "resource", "rack", "ports"}
    | {"egress", "no-overload", "no-discovery"},
}
# Fields that are read from several settings, or that no setting stands for.
OTHER_FIELDS = {
    CENTER: {"data", "licence", "oidc", "dns", "dns_domain", "parent_pipe", "cluster"},
    EXECUTOR: {
        "name",
        "directory",
        "token",
        "tls",
        "writable",
        "hide",
        "sources",
        "accounts",
        "devices",
        "told",
        "data",
    }
    | {"parent_pipe", "grace", "ping_interval", "ping_timeout", "retry_first", "retry_most", "data_look"}
    | {"load_every", "load_half_life"},
}
OF = {CENTER: CENTER_SETTINGS, EXECUTOR: EXECUTOR_SETTINGS}
SHARED = [(program, each) for program in OF for each in OF[program] if UP in each.programs]
EXECUTOR_DEFAULTS = ExecutorSettings(name="n", directory=Path("d"), center_url="ws://c", token="")
NEEDED = {CENTER: [], EXECUTOR: ["--center", "ws://c:1"]}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [each for each in os.environ if each.startswith("CRESS_")]:
        monkeypatch.delenv(name)


def test_the_tables_of_the_docs_are_what_the_tool_writes() -> None:
    text = settings_tables.PAGE.read_text(encoding="utf-8")
    assert settings_tables.page(text) == text, "run python -m tools.settings_tables"


@pytest.mark.parametrize("program", [CENTER, EXECUTOR, UP])
def test_a_program_has_each_name_once(program: str) -> None:
    names = [each.name for each in settings_of(program)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("program", "struct"), [(CENTER, CenterSettings), (EXECUTOR, ExecutorSettings)])
def test_fields_of_the_structs_are_rows_with_the_same_default(program: str, struct: Any) -> None:
    if dataclasses.is_dataclass(struct):
        defaults = {
            each.name: each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
            for each in dataclasses.fields(struct)
        }
    else:
        defaults = {
            each.name: each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
            for each in msgspec.structs.fields(struct)
        }
    rows = {each.target: each for each in OF[program] if each.target}
    assert set(rows) | OTHER_FIELDS[program] == set(defaults)
    assert not set(rows) & OTHER_FIELDS[program]
    for field, setting in rows.items():
        if setting.needed or field in ("port", "executor_port"):  # any free port, unless the command says which
            continue
        assert setting.value(setting.unset) == defaults[field], field


def test_defaults_have_the_units_of_the_structs() -> None:
    center, executor = CenterSettings(data=Path("d")), EXECUTOR_DEFAULTS
    assert (center.host, center.port, center.executor_port, center.dns_domain) == ("127.0.0.1", 0, 0, "cress")
    kept = (center.keep_history, center.keep_usage, center.keep_events, center.keep_events_size, center.data_age)
    assert kept == (90 * DAY, 1100 * DAY, 30 * DAY, 2**30, 10 * MINUTE)
    assert (center.visibility, center.dimensions) == (Visibility.ALL, Dimensions())
    oidc = Oidc(issuer="https://id", client_id="cress")
    assert (oidc.claim, oidc.domain, oidc.role, oidc.life) == ("email", "", Role.USER, 12 * HOUR)
    assert (executor.keep_logs, executor.keep_logs_size, executor.log_size) == (7 * 86_400.0, 2**30, 64 * 2**20)
    assert (executor.ports, executor.runtime) == ((20_000, 32_767), "process")
    assert (executor.judged, executor.discover) == (True, True)


@pytest.mark.parametrize("setting", TABLE, ids=lambda each: f"{each.programs[0]}-{each.name}")
def test_rows_are_complete(setting: Setting) -> None:
    assert setting.about.endswith((".", "…")), "help texts are sentences"
    assert setting.default is None or not setting.many
    assert (setting.least, setting.most) == (None, None) or setting.value_type is ValueType.NUMBER
    if not setting.needed and setting.read is not None:
        setting.value(setting.unset)


@pytest.mark.parametrize("program", [CENTER, EXECUTOR])
def test_up_has_every_setting_that_makes_sense_on_one_machine(program: str) -> None:
    missing = {each.name for each in OF[program] if UP not in each.programs}
    assert missing == NOT_OF_UP[program]


def up(*arguments: str) -> Any:
    """Return the context of `cress up` with these arguments."""
    whole: Any = typer.main.get_command(app)
    return whole.commands["up"].make_context("up", list(arguments))


def some_value(setting: Setting, folder: Path) -> list[str]:
    """Return arguments that give a setting a value that is not its default."""
    if setting.value_type is ValueType.SWITCH:
        return [setting.flag]
    if setting.choices is not None:
        values = [next(str(each.value) for each in setting.choices if each != setting.default)]
    elif setting.value_type is ValueType.NUMBER:
        values = ["3"]
    elif setting.value_type is ValueType.PATH:
        values = [str(folder)]
    else:
        values = ["-a=1"]
    return [part for each in values * (2 if setting.many else 1) for part in (setting.flag, each)]


@pytest.mark.parametrize(("program", "setting"), SHARED, ids=[f"{program}-{each.name}" for program, each in SHARED])
def test_up_hands_on_what_was_given(program: str, setting: Setting, tmp_path: Path) -> None:
    context = up(*some_value(setting, tmp_path))
    arguments = given_arguments(OF[program], UP, context, context.params)
    command = command_of(program)
    given = command.make_context(program, ["--config", "", *NEEDED[program], *arguments]).params
    usual = command.make_context(program, ["--config", "", *NEEDED[program]]).params
    value = context.params[setting.parameter]
    assert given == usual | {setting.parameter: value, "config": ""}
    assert value != usual[setting.parameter]


def test_up_hands_on_nothing_that_was_not_given_and_a_default_that_was() -> None:
    context = up()
    assert given_arguments(CENTER_SETTINGS, UP, context, context.params) == []
    context = up("--visibility", "all", "--dns-domain", "cress")
    assert given_arguments(CENTER_SETTINGS, UP, context, context.params, but={"dns-domain"}) == ["--visibility", "all"]


def test_up_lets_any_namenode_be_asked_where_only_its_user_submits() -> None:
    def arguments(*given: str) -> list[str]:
        context = up(*given)
        return center_arguments(context, context.params)

    assert arguments() == ["--webhdfs", "any"]
    assert arguments("--socket", "s", "--data", "d", "--port", "1") == ["--socket", "s"]
    assert arguments("--webhdfs", "a=http://a") == ["--webhdfs", "a=http://a"]
    assert arguments("--dimension", "gpu", "--socket", "s") == ["--socket", "s", "--dimension", "gpu"]


def test_settings_that_are_read_together(tmp_path: Path) -> None:
    words = ["--dns-domain", "lab", "--licence", "matlab=2", "--oidc-issuer", "https://id", "--oidc-client-id", "me"]
    fields = center_fields(CENTER, command_of(CENTER).make_context(CENTER, ["--config", "", *words]).params)
    assert (fields["dns"], fields["dns_domain"], fields["licence"]) == (None, "lab", (("matlab", 2),))
    assert fields["oidc"] == Oidc(issuer="https://id", client_id="me")
    file = tmp_path / "devices.yaml"
    file.write_text("devices: {gpu: [{id: a}]}\ndata: ['/data/a*']\n")
    words = ["--center", "ws://c", "--writable", str(tmp_path), "--hide", "/usr", "--allow-scheme", "https"]
    words += ["--devices", str(file), "--data-path", "/sets/*"]
    fields = executor_fields(EXECUTOR, command_of(EXECUTOR).make_context(EXECUTOR, ["--config", "", *words]).params)
    assert (fields["writable"], fields["hide"]) == ((str(tmp_path),), ("/usr",))
    assert (fields["sources"].schemes, fields["data"]) == (("https",), ("/data/a*", "/sets/*"))
    assert (len(fields["devices"]), fields["told"]) == (1, ("gpu",))


def test_a_value_that_is_wrong_names_its_option() -> None:
    rows = {each.name: each for each in TABLE}
    for name, value, sentence in (
        ("keep-history", "soon", "--keep-history: 'soon' does not begin with a number"),
        ("run-as", "a b", "--run-as: 'a b' is not a list of names (with commas between them: alice,postgres)"),
        ("runtime", "proces", "--runtime: 'proces' is not a runtime (did you mean process?"),
        ("task-env", ["CRESS_X"], "--task-env: 'CRESS_X' is not the name of a variable that tasks can inherit"),
        ("zone", "Europe/Berln", "--zone: "),
    ):
        with pytest.raises(ValueError, match="--") as error:
            rows[name].value(value)
        assert str(error.value).startswith(sentence)
