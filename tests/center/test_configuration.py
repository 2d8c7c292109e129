"""The configuration of the cluster over the real API and by the real command: changes, revisions, ways back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cress.cli.main import app
from tests.center.program import Center
from tests.center.test_users import user_of

GROUPS = "Name: web\nResourceQuota: 4\nUsers: ann\n"


class Cress:
    """The command, told of a center."""

    def __init__(self, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("CRESS_URL", "CRESS_TOKEN", "CRESS_SOCKET", "CRESS_CLUSTER"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr("cress.client.config._chosen", [])
        monkeypatch.setenv("CRESS_DATA", str(data))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        self.folder = tmp_path
        self.set = monkeypatch.setenv
        self.error = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        """Return what a verb of ``cress config`` prints."""
        done = CliRunner().invoke(app, ["config", *words])
        assert done.exit_code == code, (words, done.output, done.stderr)
        self.error = done.stderr
        return done.stdout

    def editor(self, script: str) -> None:
        """Have a Python script as the editor, which gets the text as ``t``."""
        file = self.folder / "editor.py"
        file.write_text(f"import sys\np = sys.argv[1]\nt = open(p).read()\n{script}\nopen(p, 'w').write(t)\n")
        self.set("EDITOR", f"python3 {file}")

    def edits(self) -> list[Path]:
        return list(self.folder.glob("cress-config-*"))


@pytest.fixture
def cress(shared: Center, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cress:
    return Cress(shared.data, tmp_path, monkeypatch)


def revision(center: Center) -> int:
    return int(center.get("/v1/config")["revision"])


def put(center: Center, status: int = 200, **body: Any) -> Any:
    answer = center.http.put("/v1/config", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_changes_survive_a_kill_and_can_be_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with Center(data, forked=True) as center:
        cress = Cress(data, tmp_path, monkeypatch)
        assert cress("get").endswith('options: {}\nlicences: {}\ngroups: ""\n')
        assert "+  grace: 30s" in cress("set", "grace", "30s")
        cress("set", "licences.matlab", "5")
        center.put_groups(GROUPS)
        cress.editor("t = t.replace('4', '8').replace('grace: 30s', 'grace: 20s')")
        assert cress("edit").endswith("revision 5\n")
        assert cress.edits() == []
        assert (cress("get", "grace"), cress("get", "licences.matlab")) == ("20s\n", "5\n")
        center.kill()
    with Center(data, forked=True) as center:
        kept = json.loads(cress("history", "--json"))
        assert [(each["revision"], each["what"]) for each in kept] == [
            (5, "config edit"),
            (4, "groups applied"),
            (3, "config set licences.matlab 5"),
            (2, "config set grace 30s"),
            (1, "start of the center"),
        ]
        assert all(each["by"] for each in kept[:4])
        assert "-  grace: 20s\n" in cress("diff", "5", "2")
        cress("revert", "3")
        assert center.get("/v1/config")["text"] == center.get("/v1/config/history/3")["text"]
        assert [each["name"] for each in center.get("/v1/groups")["groups"]] == ["default"]
        cress("revert", "5")
        center.kill()
    with Center(data, forked=True, option="grace=7s") as center:
        assert cress("get", "grace") == "7s\n"
        assert "ResourceQuota: 8" in cress("get", "groups")
        assert [each["what"] for each in center.get("/v1/config/history")["revisions"][:3]] == [
            "start of the center", "config revert 5", "config revert 3",
        ]  # fmt: skip
        assert "-  grace: 20s" in cress("diff")


def test_an_edit_is_refused_if_the_configuration_changed_meanwhile(shared: Center, cress: Cress) -> None:
    number = revision(shared)
    url = f"{shared.address['url']}/v1/config"
    cress.editor(
        "import urllib.request as u\n"
        f"h = {{'Authorization': 'Bearer {shared.token}', 'Content-Type': 'application/json'}}\n"
        f"u.urlopen(u.Request('{url}', b'{{\"options\": {{\"grace\": \"11s\"}}}}', h, method='PUT'))\n"
        "t = t.replace('licences: {}', 'licences: {x: 1}')"
    )
    cress("edit", code=3)
    (folder,) = cress.edits()
    assert f"at revision {number + 1} by " in cress.error
    assert f"based on {number}" in cress.error
    assert f"the edited text is in {folder}/config.yaml" in cress.error
    assert "x: 1" in (folder / "config.yaml").read_text()
    assert shared.get("/v1/config")["licences"] == {}
    assert "+  x: 1" in cress("edit", "--file", str(folder / "config.yaml"), "--dry-run")
    assert revision(shared) == number + 1


def test_an_edit_with_a_mistake_says_where_and_is_kept(shared: Center, cress: Cress) -> None:
    before = shared.get("/v1/config")
    cress.editor("t = 'options:\\n  grase: 3s\\nlicences: {a: 1}\\ngroups: |\\n\\n  Name: web\\n  Quota: x\\n'")
    cress("edit", code=2)
    (folder,) = cress.edits()
    lines = cress.error.splitlines()
    assert any(line.startswith(f"cress config edit: {folder}/config.yaml:2: options.grase: ") for line in lines), lines
    assert any(f"{folder}/config.yaml:7: " in line for line in lines), lines
    assert shared.get("/v1/config") == before
    cress.editor("sys.exit(4)")
    cress("edit", code=2)
    assert "the editor ended with code 4; nothing was changed" in cress.error
    cress.editor("pass")
    assert cress("edit") == "nothing changed\n"
    assert shared.get("/v1/config") == before


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("get", "grase"), 2, "grase: is not a key (did you mean grace?"),
        (("get", "licences.none"), 2, "there is no licence 'none'"),
        (("set", "grase", "3s"), 2, "grase: is not a key (did you mean grace?"),
        (("set", "grace", "soon"), 2, "options.grace: 'soon' does not begin with a number"),
        (("set", "licences.x", "many"), 2, "licences.x: "),
        (("set", "term", "10min"), 2, "term cannot change while the center runs (start it with --option term="),
        (("revert", "999"), 2, "there is no revision 999 (those from 1 to "),
        (("diff", "999"), 2, "there is no revision 999"),
        (("edit", "--file", "/dev/null"), 2, "/dev/null: is empty (a mapping with options, licences and groups"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(words: tuple[str, ...], code: int, sentence: str, cress: Cress, shared: Center) -> None:
    number = revision(shared)
    cress(*words, code=code)
    assert sentence in cress.error
    assert revision(shared) == number


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("[]", ["configuration:1: is not a mapping"]),
        ("a: [", ["configuration:1: is not valid YAML"]),
        ("optoins: {}", ["configuration:1: optoins: is not known (did you mean options?)"]),
        ("options: {}\noptions: {}", ["configuration:2: options: is given twice"]),
        ("options: 3", ["configuration:1: options: is not a mapping"]),
        ("options: {grace: [3]}", ["configuration:1: options.grace: is not a text"]),
        ("options: {grace: 3s, Grace: 4s}", ["configuration:1: options.Grace: is given twice"]),
        ("licences: {a: x}\ngroups: {}", ["configuration:1: licences.a: ", "configuration:2: groups: is not a text"]),
        ('groups: "Name: web"', ["configuration:1: "]),
    ],
)
def test_documents_with_mistakes(text: str, faults: list[str], shared: Center) -> None:
    number = revision(shared)
    message = put(shared, 422, text=text)["message"].splitlines()
    assert len(message) >= len(faults)
    assert all(line.startswith(fault) for line, fault in zip(message, faults, strict=False)), message
    assert revision(shared) == number


def test_sections_that_are_left_out_stay(shared: Center) -> None:
    put(shared, options={"grace": "12s"}, licences={"stay": 2}, what="both at once")
    put(shared, text="licences: {stay: 3}")
    present = shared.get("/v1/config")
    assert (present["options"]["grace"], present["licences"]) == ("12s", {"stay": 3})
    put(shared, options={"grace": None}, licences={"stay": None})
    assert shared.get("/v1/config")["licences"] == {}
    assert put(shared, 422, text="options: {}", options={"grace": "1s"})["message"].startswith(
        "text: cannot be combined with"
    )


def test_only_administrators_change_it_and_everybody_sees_it(shared: Center) -> None:
    with user_of(shared, "olga", role="operator") as olga:
        shared.http.put("/v1/users/olga", json={"role": "operator"})
        refused = olga.put("/v1/config", json={"options": {"grace": "1s"}})
        assert refused.status_code == 403
        assert "may not change the configuration of the cluster" in refused.json()["message"]
        assert olga.get("/v1/config/history").status_code == 200
    entries = shared.get("/v1/audit")["entries"]
    assert any(each["what"] == "PUT /v1/config" and each["status"] == 403 for each in entries)


def test_each_way_to_change_it_is_in_the_history(shared: Center) -> None:
    number = revision(shared)
    put(shared, options={"grace": "13s"}, what="by a program")
    put(shared, options={"grace": "13s"}, what="again")
    shared.put_groups(GROUPS)
    kept = shared.get("/v1/config/history")["revisions"]
    assert [(each["revision"], each["what"]) for each in kept[:2]] == [
        (number + 2, "groups applied"),
        (number + 1, "by a program"),
    ]
