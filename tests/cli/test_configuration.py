"""Configuration files: keys, variables and flags of every option, their order, and mistakes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cress.cli.config_keys import ConfigKey, keys_of, without_passwords
from cress.cli.main import app
from cress.cli.programs import PROGRAMS, command_of
from cress.cli.slurm.common import site
from cress.model.errors import InputError
from cress.model.program_settings.setting import ValueType
from cress.model.toml_text import TomlText

ROOT = Path(__file__).parents[2]
EVERY = [(program, key) for program in PROGRAMS for key in keys_of(command_of(program)).values()]
NEEDED = {"executor": ["--center", "ws://c:1"], "center": []}


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("CRESS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("cress.cli.configured.FOLDER", tmp_path / "etc")


def parsed(program: str, *args: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a command's options, and the kind of the origin of each."""
    command = command_of(program)
    context: Any = command.make_context(program, list(args))
    return context.params, {name: command.origin(context, key).kind for name, key in keys_of(command).items()}


def three_values(key: ConfigKey) -> tuple[Any, str, str, list[Any]]:
    """Return a value for the file, the environment and the flag, and the three as they arrive."""
    setting = key.setting
    if setting.value_type is ValueType.SWITCH:
        return True, "0", "", [True, False, True]
    if setting.value_type is ValueType.NUMBER:
        return 1, "2", "3", [1, 2, 3]
    if setting.choices is not None:
        members = list(setting.choices)
        chosen = [members[0], members[1], members[-1]]
        return chosen[0].value, str(chosen[1].value), str(chosen[2].value), chosen
    if setting.value_type is ValueType.PATH:
        values: list[Any] = [Path("/file"), Path("/env"), Path("/flag")]
    elif setting.is_table:
        values = ["a=1", "b=2", "c=3"]
    else:
        values = ["file", "env", "flag"]
    file, env, flag = map(str, values)
    return file, env, flag, [[each] for each in values] if setting.many else values


@pytest.mark.parametrize(("program", "key"), EVERY, ids=[f"{program}-{key.name}" for program, key in EVERY])
def test_every_option_is_a_key_a_variable_and_a_flag_in_this_order(
    program: str, key: ConfigKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_file, in_env, given, values = three_values(key)
    file = tmp_path / f"{program}.toml"
    file.write_text(f"{key.name} = {json.dumps(in_file)}\n")
    name = str(key.option.name)
    config = ["--config", str(file)]
    needed = [] if name == "center" else NEEDED[program]
    seen = [parsed(program, *config, *needed)]
    monkeypatch.setenv(f"CRESS_{program.upper()}_{key.name.upper().replace('-', '_')}", in_env)
    seen.append(parsed(program, *config, *needed))
    seen.append(parsed(program, *config, *needed, key.setting.flag, *([given] if given else [])))
    assert [found[name] for found, _ in seen] == values
    assert [origins[key.name] for _, origins in seen] == ["file", "env", "flag"]
    if key.setting.value_type is ValueType.SWITCH:
        monkeypatch.delenv(f"CRESS_{program.upper()}_{key.name.upper().replace('-', '_')}")
        found, _ = parsed(program, *config, *needed, *key.option.secondary_opts)
        assert found[name] is False


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_option_is_left_out(program: str) -> None:
    command = command_of(program)
    shown = {name for each in command.params if not getattr(each, "hidden", False) for name in each.opts}
    shown -= {"--config", "--check", "--hand-over", "--help", "-h"}
    assert {key.setting.flag for key in keys_of(command).values()} == shown


def test_older_variables_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("DATA", "/d"), ("STORE", "zookeeper://z/c"), ("SECRETS_KEY", "/k")):
        monkeypatch.setenv(f"CRESS_{name}", value)
    found, _ = parsed("center")
    assert (found["data"], found["store"], found["secrets_key"]) == (Path("/d"), "zookeeper://z/c", Path("/k"))
    monkeypatch.setenv("CRESS_CENTER", "ws://c:1")
    assert parsed("executor")[0]["center"] == "ws://c:1"


@pytest.mark.parametrize("name", ["CHECK", "HAND_OVER", "PARENT_PIPE", "HELP"])
def test_options_of_one_call_have_no_variables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"CRESS_CENTER_{name}", "1")
    assert not parsed("center")[0].get(name.lower())


def test_the_file_in_etc_is_read_unless_another_is_named_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/center.toml").write_text("port = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("port = 2\n")
    assert parsed("center")[0]["port"] == 1
    assert parsed("center", "--config", "")[0]["port"] == 7411
    monkeypatch.setenv("CRESS_CENTER_CONFIG", str(other))
    assert parsed("center")[0]["port"] == 2
    assert parsed("center", "--config", str(tmp_path / "etc/center.toml"))[0]["port"] == 1


def test_tables_lists_and_paths(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(
        'center = ["ws://a:1", "ws://b:1"]\nlabel = { ssd = true, zone = "eu", cores = 4 }\ndata = "sub"\nhide = "h"\n'
    )
    found, _ = parsed("executor", "--config", str(file))
    assert found["center"] == "ws://a:1,ws://b:1"
    assert found["label"] == ["ssd=true", "zone=eu", "cores=4"]
    assert (found["data"], found["hide"]) == (tmp_path / "sub", [tmp_path / "h"])


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (
            "port = 1\nexecutor_port = 3",
            2,
            "executor_port: is not a key (keys are written as the flags are: executor-port)",
        ),
        ('\n# x\nhots = "a"', 3, "hots: is not a key (did you mean host? "),
        ("parent-pipe = true", 1, "parent-pipe: is not a key"),
        ("config = 'x'", 1, "config: is not a key"),
        ('port = "7411"', 1, "port: is a text (a number)"),
        ("port = 1.5", 1, "port: is a number (a number)"),
        ("port = true", 1, "port: is true or false (a number)"),
        ("port = 70000", 1, "port: is too large (at most 65535)"),
        ("host = 5", 1, 'host: is a number (a text: "5")'),
        ("insecure = 1", 1, "insecure: is a number (true or false)"),
        ("keep-history = 2020-01-01", 1, "keep-history: is a date (a text)"),
        ("[keep-history]\nx = 1", 1, "keep-history: is a table (a text)"),
        ("name = [1]", 1, 'name: is a number (a list of texts: "1")'),
        ("option = { grace = [1] }", 1, "option: is a list (texts or numbers below option)"),
        ('visibility = "some"', 1, "visibility: "),
        ('\nstore = "zookeper://h/c"', 2, "store: 'zookeper' is not a kind of store"),
        ('keep-history = "soon"', 1, "keep-history: 'soon' does not begin with a number"),
        ('name = [\n"a",\n]\n\nkeep-events-size = "x"', 5, "keep-events-size: "),
        ('host = """\nport = 3\n"""\nport = "x"', 4, "port: is a text"),
        ("port = ", 1, "is not valid TOML: "),
        ("port = 1\nport = 2", 2, "is not valid TOML: "),
        ("port = [1,", 1, "is not valid TOML: "),
    ],
)
def test_mistakes_name_file_line_key_and_what_would_be_right(
    text: str, line: int, sentence: str, tmp_path: Path
) -> None:
    file = tmp_path / "center.toml"
    file.write_text(text)
    done = CliRunner().invoke(app, ["center", "--check", "--config", str(file)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"cress center: {file}:{line}: {sentence}")


def test_a_number_of_thousands_of_digits_is_told(tmp_path: Path) -> None:
    (tmp_path / "center.toml").write_text(f"port = {'9' * 5000}\n")
    done = CliRunner().invoke(app, ["center", "--check", "--config", str(tmp_path / "center.toml")])
    assert done.exit_code == 2
    assert done.stderr.startswith(
        f"cress center: {tmp_path}/center.toml: has a value that cannot be: Exceeds the limit"
    )


def test_the_table_of_a_site_may_have_a_byte_order_mark_and_is_a_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "cress").mkdir()
    file = tmp_path / "cress/slurm.toml"
    file.write_bytes(b"\xef\xbb\xbf# nothing yet\n")
    site()
    for content, sentence in ((b"# caf\xe9\n", "is not a text"), (b"x = ", "slurm.toml:1: is not valid TOML")):
        file.write_bytes(content)
        with pytest.raises(InputError, match=sentence):
            site()


def test_all_mistakes_are_told_at_once_and_those_of_the_environment_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "center.toml"
    file.write_text("a = 1\nport = 'x'\nb = 2\n")
    done = CliRunner().invoke(app, ["center", "--check", "--config", str(file)])
    assert [line.split(":")[2] for line in done.stderr.splitlines()] == ["1", "2", "3"]
    for name, value in (("CRESS_CENTER_PORT", "x"), ("CRESS_CENTER_KEEP_EVENTS", "soon")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            done = CliRunner().invoke(app, ["center", "--check"])
        assert (done.exit_code, done.stderr.startswith(f"cress center: {name}: ")) == (2, True)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b", None])
def test_what_is_no_text_or_not_there_is_told(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "center.toml"
    if content is not None:
        file.write_bytes(content)
    done = CliRunner().invoke(app, ["center", "--check", "--config", str(file)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"cress center: {file}: ")


def test_a_password_that_others_may_read_leads_to_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "center.toml"
    file.write_text('store = "postgresql://me:secret@h/d"\n')
    for mode, warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        done = CliRunner().invoke(app, ["config", "check", str(file)])
        assert done.exit_code == 0
        assert ("warning" in done.stderr) is warned
        assert "me:secret" not in done.output + done.stderr
        assert "postgresql://me:…@h/d" in done.output


def test_the_examples_are_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRESS_CENTER_USER_RATE", "7")
    files = [str(ROOT / "examples/config" / f"{each}.toml") for each in (*PROGRAMS, "config")]
    done = CliRunner().invoke(app, ["config", "check", *files, "--json"])
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.output)
    assert [each["kind"] for each in told] == ["center", "executor", "client"]
    center = {each["key"]: each for each in told[0]["values"]}
    line = 1 + (ROOT / "examples/config/center.toml").read_text().splitlines().index("executor-port = 7412")
    assert center["executor-port"]["place"] == f"{files[0]}:{line}"
    assert (center["user-rate"]["value"], center["user-rate"]["place"]) == ("7", "CRESS_CENTER_USER_RATE")
    assert center["keep-usage"]["from"] == "default"


def test_the_kind_of_a_file_follows_from_its_name_or_keys(tmp_path: Path) -> None:
    for name, text, kind in (
        ("a.toml", "executor-port = 1", "center"),
        ("b.toml", 'center = "ws://c:1"', "executor"),
        ("my-executor.toml", 'center = "ws://c:1"', "executor"),
        ("c.toml", "[clusters.a]\nurl = 'http://a'", "client"),
        ("config.toml", "", "client"),
    ):
        (tmp_path / name).write_text(text)
        done = CliRunner().invoke(app, ["config", "check", str(tmp_path / name)])
        assert f"{name} ({kind})" in done.output.replace("\n", ""), done.stderr
    (tmp_path / "d.toml").write_text("data = 'x'")
    done = CliRunner().invoke(app, ["config", "check", str(tmp_path / "d.toml")])
    assert (done.exit_code, "--kind" in done.stderr) == (2, True)


def test_passwords_are_cut_out_of_addresses() -> None:
    text = "zookeeper://u:p%40w@h/c, http://h:1/x@y, postgresql://u@h/d"
    assert without_passwords(text) == "zookeeper://u:…@h/c, http://h:1/x@y, postgresql://u@h/d"


def test_lines_of_keys() -> None:
    text = TomlText('a = 1\n[b]\nc = """\nd = 2"""\n"d" = 3\n[e.f]\ng = 4 # h\nh = 5\n', "x")
    assert [text.line_of(*keys.split(".")) for keys in ("a", "b", "b.c", "b.d", "e.f.g", "e.f.h", "z")] == [
        1, 2, 3, 5, 7, 8, 0,
    ]  # fmt: skip
    with pytest.raises(InputError, match=re.escape("x:1: is not valid TOML: ")):
        TomlText("=", "x")


@pytest.mark.parametrize(
    "text",
    ["a = 1\n{}b = 2", "[{}b]\nc = 1", "a = {{ {}b = 1 }}", "a = {{b = 1, {}c = 1 }}", "[[{}b]]\nc = 1", "x = [ [ {}b"],
)
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(InputError, match="has a key of more than 100 parts"):
        TomlText(text.format("a." * 20_000), "x")
    assert TomlText(f'a = "{"a." * 200}"\nb.c.d = "{{a.b.c"', "x").values["b"] == {"c": {"d": "{a.b.c"}}


def test_a_row_of_brackets_is_not_read_again_from_each_of_them() -> None:
    begin = time.process_time()
    with pytest.raises(InputError, match="has too many levels"):
        TomlText("x = " + "[" * 20_000, "x")
    assert time.process_time() - begin < 0.5


def test_help_does_not_read_the_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["center", "--config", str(tmp_path / "none"), "--help"])
    assert done.exit_code == 0
