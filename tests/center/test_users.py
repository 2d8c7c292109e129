"""Users of one center: callers, roles, whose jobs they see, tokens, and the audit log, over the real API."""

from __future__ import annotations

import json
import os
import pwd
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.center.program import PATIENCE, Center
from tests.forked import run_cress

NOBODY, OTHER = 65534, 1


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    """A center whose users see their own jobs, with a group ``web`` for ann and bob, and ``lab`` for all."""
    with Center(tmp_path_factory.mktemp("users") / "data", forked=True, visibility="own") as center:
        center.put_groups(
            "Name: web\nResourceQuota: 4\nUsers: ann | bob | gus\n\nName: lab\nResourceQuota: 4\nUsers: *\n"
        )
        for name, role, administers in (("vic", "viewer", []), ("oda", "operator", []), ("gus", "user", ["web"])):
            answer = center.http.put(f"/v1/users/{name}", json={"role": role, "administers": administers})
            assert answer.status_code == 200, answer.text
        yield center


def token_of(center: Center, user: str, **more: Any) -> str:
    """A token of a user, made by the owner."""
    body = {"name": more.pop("name", f"t{os.urandom(4).hex()}"), "user": user, **more}
    return str(center.post("/v1/tokens", body, 201)["secret"])


def user_of(center: Center, user: str, **more: Any) -> httpx.Client:
    """A client that acts as a user."""
    headers = {"Authorization": f"Bearer {token_of(center, user, **more)}"}
    return httpx.Client(base_url=center.address["url"], headers=headers, timeout=PATIENCE, trust_env=False)


def submit(http: httpx.Client, **job: Any) -> int:
    answer = http.post("/v1/jobs", json={"jobs": [{"command": ["true"], "environment": {"KEY": "value"}} | job]})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["jobs"][0]["id"])


def test_a_token_says_who_calls(own: Center) -> None:
    with user_of(own, "ann", name="laptop") as ann:
        assert ann.get("/v1/whoami").json() == {"user": "ann", "role": "user", "administers": [], "how": "token laptop"}
        number = submit(ann, group="web")
        assert ann.get(f"/v1/jobs/{number}").json()["user"] == "ann"
    owner = pwd.getpwuid(os.geteuid()).pw_name
    assert own.get("/v1/whoami")["user"] == owner
    assert own.get("/v1/whoami")["role"] == "admin"


def test_who_is_not_among_the_users_of_a_group_cannot_submit_to_it(own: Center) -> None:
    with user_of(own, "eve") as eve:
        answer = eve.post("/v1/jobs", json={"jobs": [{"command": "true", "group": "web"}]})
        assert answer.status_code == 409
        assert "eve" in answer.json()["message"]


# (method, path below /v1/jobs, body) of every call about a single job.
ABOUT_A_JOB = [
    ("GET", "/{id}", None),
    ("GET", "/{id}/explanation", None),
    ("GET", "/{id}/versions", None),
    ("GET", "/{id}/tasks", None),
    ("GET", "/{id}/tasks/0", None),
    ("GET", "/{id}/file", None),
    ("GET", "/{id}/logs", None),
    ("GET", "/{id}/files", None),
    ("GET", "/{id}/files/content?path=x", None),
    ("POST", "/{id}/cancel", {}),
    ("POST", "/{id}/hold", {}),
    ("POST", "/{id}/release", {}),
    ("POST", "/{id}/signal", {"signal": "INT"}),
    ("POST", "/{id}/scale", {"tasks": 2}),
    ("POST", "/{id}/resume", {}),
    ("POST", "/{id}/retry", {}),
    ("POST", "/{id}/restart", {}),
    ("POST", "/{id}/revert", {"version": 1}),
    ("POST", "/{id}/promote", {}),
    ("POST", "/{id}/trigger", {}),
    ("POST", "/cancel", {"jobs": ["{id}"]}),
    ("POST", "/hold", {"jobs": ["{id}"]}),
    ("POST", "/release", {"jobs": ["{id}"]}),
    ("POST", "/update", {"jobs": ["{id}"], "values": {"priority": 1}}),
    ("POST", "/requeue", {"jobs": ["{id}"]}),
]


# Every call about a lease, with a body.
ABOUT_A_LEASE: list[tuple[str, str, Any]] = [
    ("GET", "/{id}", None),
    ("DELETE", "/{id}", None),
    ("POST", "/{id}/use", {"amounts": "<1>"}),
    ("POST", "/{id}/tasks", {"command": "true"}),
    ("POST", "/{id}/grow", {"count": 1}),
    ("POST", "/{id}/shrink", {"count": 1}),
    ("PUT", "/{id}/renew", {}),
]


def ask(http: httpx.Client, method: str, path: str, body: Any, number: int) -> httpx.Response:
    if body and "jobs" in body:
        body = {**body, "jobs": [number]}
    return http.request(method, f"/v1/jobs{path.format(id=number)}", json=body)


def test_a_foreign_job_is_not_found_whatever_is_asked(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob:
        number = submit(ann, group="web", name="secret-name")
        # The id of a job that is not kept any more, and one that was never given, say what they say of any of these.
        for method, path, body in ABOUT_A_JOB:
            answer = ask(bob, method, path, body, number)
            assert answer.status_code == 404, (path, answer.text)
            assert "secret-name" not in answer.text
            assert "ann" not in answer.text
        listed = bob.get("/v1/jobs").json()
        assert number not in [job["id"] for job in listed["jobs"]]
        assert number in [job["id"] for job in ann.get("/v1/jobs").json()["jobs"]]
        behind = bob.post("/v1/jobs", json={"jobs": [{"command": "true", "group": "web", "after": [number]}]})
        assert behind.status_code == 422
        assert f"there is no job {number}" in behind.text
        events = bob.get("/v1/events", params={"follow": "false"}).text
        assert f'"job":{number},' not in events
        assert f'"job":{number},' in ann.get("/v1/events", params={"follow": "false"}).text


def test_a_foreign_lease_is_not_found_and_one_that_is_only_seen_is_not_changed(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob, user_of(own, "oda", role="operator") as oda:
        asked = ann.post("/v1/leases", json={"workload": "dask", "group": "web"})
        assert asked.status_code == 201, asked.text
        (lease,) = asked.json()["leases"]
        for method, path, body in ABOUT_A_LEASE:
            address = f"/v1/leases{path.format(id=lease['job'])}"
            answer = bob.request(method, address, json=body)
            assert (answer.status_code, "ann" in answer.text) == (404, False), (path, answer.text)
            assert oda.request(method, address, json=body).status_code == (200 if method == "GET" else 403), path
        assert bob.get("/v1/leases").json()["leases"] == []
        assert [each["user"] for each in oda.get("/v1/leases").json()["leases"]] == ["ann"]


def test_an_administrator_of_a_group_and_an_admin_steer_what_users_own(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "gus") as gus, user_of(own, "root2", role="user") as stranger:
        number = submit(ann, group="web")
        assert stranger.post(f"/v1/jobs/{number}/cancel", json={}).status_code == 404
        assert gus.post(f"/v1/jobs/{number}/hold", json={}).json()["state"] == "waiting"
        assert own.post(f"/v1/jobs/{number}/cancel")["state"] == "cancelled"
        other = submit(ann, group="lab")
        assert gus.post(f"/v1/jobs/{other}/cancel", json={}).status_code == 404


def test_a_clash_of_names_says_nothing_about_a_hidden_job(own: Center) -> None:
    """Found from outside: ``apply`` told its id and its owner, a submit its id and its type."""
    service = {"command": ["true"], "type": "service", "name": "secret-web"}
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob:
        number = submit(ann, **service)
        for answer in (
            bob.post("/v1/jobs", json={"jobs": [service]}),
            bob.post("/v1/jobs?dry_run=true", json={"jobs": [service]}),
            bob.post("/v1/apply", json={"jobs": [service]}),
            bob.post("/v1/apply", json={"jobs": [service], "dry_run": True}),
            bob.post("/v1/apply", json={"jobs": [{**service, "type": "cron", "schedule": "0 3 * * *"}]}),
        ):
            assert answer.status_code in (409, 422), answer.text
            assert "ann" not in answer.text
            assert f"job {number}" not in answer.text
        assert bob.post("/v1/apply", json={"jobs": [service]}).json()["faults"][0]["what"] == (
            "the name secret-web is taken in group default"
        )
        # The owner learns which job it is.
        assert f"job {number}" in ann.post("/v1/jobs", json={"jobs": [service]}).text
        assert ann.post("/v1/apply", json={"jobs": [service]}).json()["jobs"][0]["id"] == number


def test_a_page_of_another_origin_is_refused(own: Center) -> None:
    with user_of(own, "ann") as ann:
        there = own.address["url"]
        assert ann.get("/v1/jobs", headers={"Origin": there}).status_code == 200
        for origin in ("http://evil.example", "null", there.rsplit(":", 1)[0] + ":1"):
            answer = ann.get("/v1/jobs", headers={"Origin": origin})
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
            assert f"a page of '{origin}' may not connect" in answer.json()["message"]


def test_the_events_of_own_jobs_are_told_when_these_are_over_too(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob:
        number = submit(ann, group="web")
        assert ann.post(f"/v1/jobs/{number}/cancel", json={}).json()["state"] == "cancelled"
        told = [
            http.get("/v1/events", params={"follow": "false", "job": number}).text.count("event: ")
            for http in (ann, bob)
        ]
        assert told[0] >= 2
        assert told[1] == 0


def test_an_operator_sees_all_jobs_and_changes_none_of_them(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "oda", role="operator") as oda:
        number = submit(ann, group="web")
        view = oda.get(f"/v1/jobs/{number}").json()
        assert view["user"] == "ann"
        assert view["environment"] == {}
        assert ann.get(f"/v1/jobs/{number}").json()["environment"] == {"KEY": "value"}
        for method, path, body in ABOUT_A_JOB[5:]:
            answer = ask(oda, method, path, body, number)
            assert answer.status_code == 403, (path, answer.text)
        assert "belongs to ann" in oda.post(f"/v1/jobs/{number}/cancel", json={}).json()["message"]


# The least role of every call that does not belong to a job.
LEAST = {
    ("GET", "/v1/state"): "viewer",
    ("GET", "/v1/jobs"): "viewer",
    ("GET", "/v1/groups"): "viewer",
    ("GET", "/v1/nodes"): "viewer",
    ("GET", "/v1/attempts"): "viewer",
    ("GET", "/v1/config"): "viewer",
    ("GET", "/v1/config/history"): "viewer",
    ("GET", "/v1/config/history/1"): "viewer",
    ("GET", "/v1/leases"): "viewer",
    ("GET", "/v1/workloads"): "viewer",
    ("POST", "/v1/leases"): "user",
    ("GET", "/v1/rebalance"): "admin",
    ("POST", "/v1/rebalance"): "admin",
    ("DELETE", "/v1/rebalance"): "admin",
    ("GET", "/v1/rebalance/round"): "viewer",
    ("GET", "/v1/licences"): "viewer",
    ("GET", "/v1/reservations"): "viewer",
    ("POST", "/v1/reservations"): "admin",
    ("DELETE", "/v1/reservations/x"): "admin",
    ("GET", "/v1/centers"): "viewer",
    ("POST", "/v1/centers/hand-over"): "admin",
    ("GET", "/v1/centers/history"): "admin",
    ("GET", "/v1/usage"): "viewer",
    ("GET", "/v1/use"): "viewer",
    ("GET", "/v1/efficiency"): "viewer",
    ("GET", "/v1/tokens"): "viewer",
    ("GET", "/v1/names/x"): "viewer",
    ("GET", "/v1/secrets"): "viewer",
    ("GET", "/v1/secrets/x"): "viewer",
    ("PUT", "/v1/secrets/x"): "user",
    ("DELETE", "/v1/secrets/x"): "user",
    ("POST", "/v1/jobs"): "user",
    ("POST", "/v1/apply"): "user",
    ("POST", "/v1/nodes/n1/cordon"): "operator",
    ("POST", "/v1/nodes/n1/uncordon"): "operator",
    ("POST", "/v1/nodes/n1/drain"): "operator",
    ("POST", "/v1/nodes/n1/forget"): "operator",
    ("GET", "/v1/nodes/n1/explanation"): "viewer",
    ("GET", "/v1/groups/x/explanation"): "viewer",
    ("POST", "/v1/what-if"): "user",
    ("GET", "/v1/nodes/n1/settings"): "viewer",
    ("POST", "/v1/nodes/n1/settings"): "operator",
    ("GET", "/v1/join-tokens"): "operator",
    ("POST", "/v1/join-tokens"): "operator",
    ("DELETE", "/v1/join-tokens/x"): "operator",
    ("PUT", "/v1/groups"): "admin",
    ("POST", "/v1/groups/x"): "admin",
    ("PUT", "/v1/config"): "admin",
    ("GET", "/v1/users"): "admin",
    ("PUT", "/v1/users/x"): "admin",
    ("GET", "/v1/audit"): "admin",
    ("POST", "/v1/secret-key/rotate"): "admin",
    ("POST", "/v1/uploads/x"): "user",
}
ROLES = ("viewer", "user", "operator", "admin")


def test_every_call_has_the_role_that_it_needs(own: Center) -> None:
    clients = {role: user_of(own, f"is-{role}", role=role) for role in ROLES}
    for role in ROLES:
        own.http.put(f"/v1/users/is-{role}", json={"role": role})
    document = own.get("/openapi.json")
    known = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    of_jobs = {(method, "/v1/jobs" + path.partition("?")[0]) for method, path, _ in ABOUT_A_JOB}
    of_jobs.add(("GET", "/v1/jobs/{id}/tasks/{task}"))
    free = {("GET", "/v1/health"), ("GET", "/v1/schema"), ("GET", "/v1/whoami"), ("GET", "/v1/events")}
    own_rules = {("POST", "/v1/tokens"), ("DELETE", "/v1/tokens/{name}")}
    # Of nodes that join, with tokens of their own.
    own_rules |= {("GET", "/v1/ca"), ("POST", "/v1/join")}
    # Of users who sign in, without a token yet.
    own_rules |= {("GET", "/v1/login"), ("POST", "/v1/login")}
    # Of files that the caller has sent, or that the task of a job token uses.
    own_rules |= {("GET", "/v1/uploads"), ("GET", "/v1/uploads/{digest}/content")}
    named = {
        (
            method,
            path.replace("/n1", "/{name}")
            .replace("uploads/x", "uploads/{digest}")
            .replace("/x", "/{name}")
            .replace("/1", "/{number}"),
        )
        for method, path in LEAST
    }
    seen = {("GET", "/v1/nodes/{name}"), ("GET", "/v1/names/{name}/watch")}
    of_leases = {(method, "/v1/leases" + path) for method, path, _ in ABOUT_A_LEASE}
    assert known - of_jobs - of_leases - free - own_rules - named - seen == set(), "a call without a rule"
    for (method, path), least in LEAST.items():
        for role, http in clients.items():
            status = http.request(method, path, json=None if method == "GET" else {}).status_code
            allowed = ROLES.index(role) >= ROLES.index(least)
            assert (status != 403) == allowed, (method, path, role, status)
            assert status != 401
    for http in clients.values():
        http.close()


def test_what_happens_to_a_token(own: Center) -> None:
    with user_of(own, "ann", name="ci") as ann:
        old = ann.headers["Authorization"]
        listed = ann.get("/v1/tokens").json()["tokens"]
        assert {token["user"] for token in listed} == {"ann"}
        assert "digest" not in json.dumps(listed)
        fresh = ann.post("/v1/tokens", json={"name": "ci", "rotate": True}).json()
        assert ann.get("/v1/whoami").status_code == 401, "the old text opens nothing from the rotation on"
        ann.headers["Authorization"] = f"Bearer {fresh['secret']}"
        assert ann.get("/v1/whoami").json()["how"] == "token ci"
        assert ann.headers["Authorization"] != old
        assert ann.post("/v1/tokens", json={"name": "up", "role": "admin"}).status_code == 403
        assert ann.post("/v1/tokens", json={"name": "x", "user": "bob"}).status_code == 403
        assert ann.delete("/v1/tokens/ci", params={"user": "bob"}).status_code == 403
        assert ann.delete("/v1/tokens/ci").status_code == 200
        assert ann.get("/v1/whoami").status_code == 401


@pytest.mark.parametrize("text", ["cress_", "cress_000000000000_x", "cress__", "é", "cress_" + "0" * 5_000])
def test_what_is_not_a_token_opens_nothing(own: Center, text: str) -> None:
    headers = [(b"Authorization", b"Bearer " + text.encode())]
    answer = httpx.get(f"{own.address['url']}/v1/whoami", headers=headers, trust_env=False)
    assert answer.status_code == 401


def test_a_token_with_the_id_of_another_opens_nothing(own: Center) -> None:
    one, other = token_of(own, "ann").split("_", 2), token_of(own, "ann").split("_", 2)
    headers = {"Authorization": f"Bearer cress_{one[1]}_{other[2]}"}
    assert httpx.get(f"{own.address['url']}/v1/whoami", headers=headers, trust_env=False).status_code == 401


def test_an_expired_token_opens_nothing(own: Center) -> None:
    with user_of(own, "ann", name="short", expires=0.001) as ann:
        assert ann.get("/v1/whoami").status_code == 401
        (kept,) = [each for each in own.get("/v1/tokens")["tokens"] if each["name"] == "short"]
        assert kept["expired"]


def test_who_is_shut_out_loses_every_token_for_good(own: Center) -> None:
    with user_of(own, "mal") as mal:
        assert mal.get("/v1/whoami").status_code == 200
        own.http.put("/v1/users/mal", json={"role": "none"})
        assert mal.get("/v1/whoami").status_code == 401
        own.http.put("/v1/users/mal", json={"role": "user"})
        assert mal.get("/v1/whoami").status_code == 401


def test_tokens_and_roles_outlive_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Center(data, forked=True) as center:
        kept, gone = token_of(center, "ann"), token_of(center, "ann", name="gone")
        center.http.put("/v1/users/ann", json={"role": "operator"})
        assert center.http.delete("/v1/tokens/gone", params={"user": "ann"}).status_code == 200
        center.kill()
    with Center(data, forked=True) as center:
        for text, status in ((kept, 200), (gone, 401)):
            headers = {"Authorization": f"Bearer {text}"}
            answer = httpx.get(f"{center.address['url']}/v1/whoami", headers=headers, trust_env=False)
            assert answer.status_code == status
    secrets = [text.split("_", 2)[2].encode() for text in (kept, gone)]
    for path in data.rglob("*"):
        if path.is_file():
            assert not any(secret in path.read_bytes() for secret in secrets), f"{path} has a token"


def test_the_audit_log_tells_what_was_refused_and_what_was_administered(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob:
        number = submit(ann, group="web")
        refused = bob.put("/v1/groups", json={"text": ""})
        bob.get(f"/v1/jobs/{number}")
        own.post(f"/v1/jobs/{number}/cancel")
        httpx.get(f"{own.address['url']}/v1/jobs", trust_env=False)
        ann.get("/v1/jobs")
    entries = own.get("/v1/audit", limit=6)["entries"]
    told = [(each.get("user", ""), each["what"].split("?")[0], each["status"], each.get("why", "")) for each in entries]
    assert told[:4] == [
        ("", "GET /v1/jobs", 401, ""),
        (pwd.getpwuid(os.geteuid()).pw_name, f"POST /v1/jobs/{number}/cancel", 200, f"job {number} of ann"),
        ("bob", f"GET /v1/jobs/{number}", 404, f"job {number} is not visible to the caller"),
        ("bob", "PUT /v1/groups", 403, ""),
    ]
    assert entries[3]["request"] == refused.headers["X-Request-Id"]
    assert entries[3]["address"] == "127.0.0.1"
    assert own.get("/v1/audit", user="bob", refused=True)["entries"][0]["user"] == "bob"
    kept = own.data / "audit"
    assert (kept.stat().st_mode & 0o777, (kept / "audit.jsonl").stat().st_mode & 0o777) == (0o700, 0o600)


def ask_at(path: Path, method: str, target: str, body: Any, headers: dict[str, str]) -> Any:
    """Status and answer of a request over a Unix socket."""
    transport = httpx.HTTPTransport(uds=str(path))
    with httpx.Client(base_url="http://localhost", transport=transport, trust_env=False, timeout=PATIENCE) as http:
        answer = http.request(method, target, headers=headers, json=body)
        return [answer.status_code, answer.json()]


def as_account(uid: int, work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a process with another account."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"null"
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            said = json.dumps(work()).encode()
        finally:
            os.write(writing, said)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        found = json.loads(file.read())
    os.waitpid(child, 0)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="two accounts can be tried by root only")
def test_on_the_centers_machine_users_are_who_the_kernel_says() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        path = Path(place) / "run" / "api.sock"
        with Center(Path(place) / "data", forked=True, visibility="own", socket=str(path)) as center:

            def call(uid: int, method: str, target: str, body: Any = None, **headers: str) -> Any:
                return as_account(uid, lambda: ask_at(path, method, target, body, headers))

            name, other = (pwd.getpwuid(uid).pw_name for uid in (NOBODY, OTHER))
            assert call(NOBODY, "GET", "/v1/whoami") == [
                200,
                {"user": name, "role": "user", "administers": [], "how": "account"},
            ]
            assert call(0, "GET", "/v1/whoami")[1]["role"] == "admin"
            status, made = call(NOBODY, "POST", "/v1/jobs", {"jobs": [{"command": "true"}]})
            assert status == 201
            number = made["jobs"][0]["id"]
            assert call(NOBODY, "GET", f"/v1/jobs/{number}")[1]["user"] == name
            assert call(OTHER, "GET", f"/v1/jobs/{number}")[0] == 404
            assert call(OTHER, "PUT", "/v1/users/x", {"role": "admin"})[0] == 403
            # A wrong token is not made good by the account.
            assert call(0, "GET", "/v1/whoami", Authorization="Bearer no")[0] == 401
            assert [
                (each.get("user", ""), each["address"]) for each in center.get("/v1/audit", limit=3)["entries"]
            ] == [
                ("", "local, account 0"),
                (other, "local"),
                (other, "local"),
            ]
        assert not path.exists()


def test_the_commands(tmp_path: Path) -> None:
    path = tmp_path / "run" / "api.sock"
    with Center(tmp_path / "data", forked=True, visibility="own", socket=str(path)) as center:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CRESS_")}

        def cress(*words: str, code: int = 0, **more: str) -> str:
            given = {**environment, "CRESS_SOCKET": str(path), **more}
            done = run_cress(words, environment=given)
            assert done.returncode == code, done.stderr
            return done.stdout + done.stderr * (code != 0)

        assert "role admin (account)" in cress("whoami")
        secret = cress("token", "create", "ci", "--user", "ann", "--expires", "1h").strip()
        assert secret.startswith("cress_")
        assert cress("whoami", CRESS_TOKEN=secret) == "ann, role user (token ci)\n"
        (tmp_path / "job.yaml").write_text("command: echo hello\n")
        cress("submit", str(tmp_path / "job.yaml"), CRESS_TOKEN=secret)
        assert json.loads(cress("jobs", "--json", CRESS_TOKEN=secret))["jobs"][0]["user"] == "ann"
        assert "may not change users" in cress("users", "set", "ann", "--role", "admin", code=3, CRESS_TOKEN=secret)
        assert cress("users", "set", "ann", "--role", "operator") == "ann has the role operator\n"
        assert "operator" in cress("users")
        assert "'king' is not a role" in cress("users", "set", "ann", "--role", "king", code=2)
        assert "token ci of ann is revoked" in cress("token", "revoke", "ci", "--user", "ann")
        assert "wrong token" in cress("whoami", code=3, CRESS_TOKEN=secret)
        log = cress("audit", "--wide")
        assert "PUT /v1/users/ann" in log
        assert secret not in log
        # A token is not sent where others can read it.
        url = center.address["url"]
        refused = cress("whoami", code=2, CRESS_SOCKET="", CRESS_URL=url, CRESS_TOKEN=secret)
        assert "unencrypted" in refused


def test_one_user_cannot_fill_a_center(own: Center) -> None:
    with user_of(own, "greedy") as greedy, user_of(own, "ann") as ann:
        many = {"jobs": [{"command": "true", "tasks": 10_000_000}] * 4}
        assert greedy.post("/v1/jobs", json=many).status_code == 201
        answer = greedy.post("/v1/jobs", json=many)
        assert answer.status_code == 409
        assert answer.json()["message"] == (
            "greedy would have 80,000,000 tasks that wait or run (at most 50,000,000 of one user; wait for "
            "some to end, "
            "or ask an operator (--user-tasks))"
        )
        submit(ann, tasks=10_000_000)
        assert greedy.post("/v1/jobs", params={"dry_run": "true"}, json=many).status_code == 409
        mine = [job["id"] for job in greedy.get("/v1/jobs").json()["jobs"]]
        assert greedy.post("/v1/jobs/cancel", json={"jobs": mine}).status_code == 200
        assert greedy.post("/v1/jobs", json=many).status_code == 201, "what is over does not count"


def test_a_user_who_floods_the_center_holds_up_nobody_else_for_more_than_one_request(own: Center) -> None:
    large = {"jobs": [{"command": "true", "environment": {"TEXT": "x" * 200}, "tasks": 2}] * 900}
    with user_of(own, "flood") as flood, user_of(own, "calm") as calm, ThreadPoolExecutor(13) as threads:

        def send(http: httpx.Client) -> float:
            assert http.post("/v1/jobs", json=large).status_code == 201
            return time.monotonic()

        sent = [threads.submit(send, flood) for _ in range(12)]
        # Until most of them wait in the center.
        time.sleep(0.3)
        answered = threads.submit(send, calm).result()
        assert sum(each.result() > answered for each in sent) >= 6, "the calm one was answered among the first"
