"""Secrets in a center: encrypted at rest with a key that is elsewhere, never answered, opened for their owners
alone.
"""

from __future__ import annotations

import asyncio
import base64
import functools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import pytest

from cress.center.secrets.key_file import KeyFile, MissingKeyFile
from cress.lifecycle.inputs import SetSecret
from cress.model.errors import InputError
from cress.model.secrets import MOST_VALUE, Owner, Secret
from cress.model.start_material import StartMaterial
from cress.protocol.messages import PROTOCOL, AskMaterial, Launches, Material
from cress.shell.center.session import NOT_TO_START
from tests.center.inside import Inside
from tests.center.program import Center, Executor, eventually
from tests.center.test_users import user_of

T = TypeVar("T")

VALUE = b"hunter2-of-ann"


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        async def whole() -> None:
            await test(*given, **named)

        asyncio.run(whole())

    return run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def body(value: bytes = VALUE, **more: str) -> dict[str, Any]:
    return {"value": base64.b64encode(value).decode(), **more}


def stored(inside: Inside, name: str = "db", owner: str = "ann") -> Secret:
    return inside.committer.machine.tables.secrets[f"user {owner}", name]


def files(folder: Path) -> Iterator[bytes]:
    return (path.read_bytes() for path in folder.rglob("*") if path.is_file())


def holds(folder: Path, value: bytes) -> bool:
    """Whether a file has the value, plainly or in base64, or its text of characters in hexadecimal."""
    forms = (value, base64.b64encode(value)[:-4], value.hex().encode())
    return any(form in content for content in files(folder) for form in forms)


@in_a_loop
async def test_no_answer_and_no_file_of_the_center_has_a_value(data: Path) -> None:
    async with Inside(data) as inside:
        made = await inside.call("PUT", "/v1/secrets/db", body())
        assert made["key_file"].endswith("secrets.key")
        again = await inside.call("PUT", "/v1/secrets/db", body())
        assert again["key_file"] == ""
        answers = [made, again, *[await inside.get(path) for path in ("/v1/secrets", "/v1/secrets/db")]]
        (listed,) = answers[2]["secrets"]
        assert (listed["name"], listed["user"], listed["size"], listed["by"]) == ("db", "ann", len(VALUE), "ann")
        answers.append(await inside.call("PUT", "/v1/secrets/db", {"value": 7, "user": VALUE.decode() + " "}, 422))
        answers.append(await inside.call("PUT", "/v1/secrets/no name", body(), 422))
        inside.committer.log.mark()
        assert not holds(data, VALUE)
        assert inside.vault.open(stored(inside)) == VALUE
        answers.append(await inside.call("DELETE", "/v1/secrets/db"))
        await inside.get("/v1/secrets/db", 404)
        assert [each for each in map(str, answers[:4] + answers[5:]) if VALUE.decode() in each] == []
    assert not holds(data, VALUE)


@pytest.mark.parametrize(
    ("value", "error"), [(b"", "there is no value"), (b"x" * (MOST_VALUE + 1), f"at most {MOST_VALUE:,}")]
)
@in_a_loop
async def test_a_value_has_a_size(data: Path, value: bytes, error: str) -> None:
    async with Inside(data) as inside:
        answer = await inside.call("PUT", "/v1/secrets/db", body(value), 422)
        assert error in answer["message"]
        await inside.call("PUT", "/v1/secrets/db", body(b"\0" * MOST_VALUE))


@in_a_loop
async def test_a_row_that_was_exchanged_or_changed_is_not_opened(data: Path) -> None:
    async with Inside(data) as inside:
        for name in ("db", "mail"):
            await inside.call("PUT", f"/v1/secrets/{name}", body(name.encode()))
        one, other = stored(inside), stored(inside, "mail")
        wrong = [
            msgspec.structs.replace(one, sealed=other.sealed),
            msgspec.structs.replace(one, owner="eve"),
            msgspec.structs.replace(one, is_group=True),
            msgspec.structs.replace(one, sealed=one.sealed[:-1] + bytes([one.sealed[-1] ^ 1])),
            msgspec.structs.replace(one, sealed=b""),
        ]
        for each in wrong:
            with pytest.raises(InputError, match="cannot be decrypted"):
                inside.vault.open(each)
        with pytest.raises(InputError, match="key 00, which is not in the key file"):
            inside.vault.open(msgspec.structs.replace(one, key="00"))
        assert inside.vault.open(one) == b"db"


# --- keys ------------------------------------------------------------------------------------------------------------


@in_a_loop
async def test_a_rotated_key_opens_all_and_the_old_one_is_gone(data: Path) -> None:
    async with Inside(data) as inside:
        for number in range(3):
            await inside.call("PUT", f"/v1/secrets/s{number}", body(b"value %d" % number))
        file = inside.vault._key_file()
        old, before = file.read(), stored(inside, "s1")
        rotated = await inside.call("POST", "/v1/secret-key/rotate", {})
        assert rotated == {"secrets": 3, "key_file": str(file.path)}
        new = file.read()
        assert new.keys.keys() == {new.current}
        assert new.current != old.current
        assert [inside.vault.open(stored(inside, f"s{number}")) for number in range(3)] == [
            b"value %d" % number for number in range(3)
        ]
        with pytest.raises(InputError, match="which is not in the key file"):
            inside.vault.open(before)
        await inside.call("POST", "/v1/secret-key/rotate", {"keep_old": True})
        assert file.read().keys.keys() == {new.current, file.read().current}


@in_a_loop
async def test_a_rotation_that_broke_off_loses_nothing_and_goes_on(data: Path) -> None:
    async with Inside(data) as inside:
        for number in range(4):
            await inside.call("PUT", f"/v1/secrets/s{number}", body(b"value %d" % number))
        file = inside.vault._key_file()
        # As kill -9 leaves it: the new key is in the file, some values are encrypted with it.
        keys = file.add(file.read().keys)
        await inside.vault._rekey(keys, stored(inside, "s2"))
    async with Inside(data) as inside:
        assert {stored(inside, f"s{number}").key for number in range(4)} == set(keys.keys)
        for _ in range(2):
            assert [inside.vault.open(stored(inside, f"s{number}")) for number in range(4)] == [
                b"value %d" % number for number in range(4)
            ]
            await inside.call("POST", "/v1/secret-key/rotate", {})
        assert len(file.read().keys) == 1


@in_a_loop
async def test_a_secret_that_is_set_during_a_rotation_keeps_its_key(data: Path) -> None:
    async with Inside(data) as inside:
        await inside.call("PUT", "/v1/secrets/db", body(b"old"))
        await asyncio.gather(
            *(inside.call("PUT", f"/v1/secrets/db{number}", body(b"new")) for number in range(20)),
            inside.call("POST", "/v1/secret-key/rotate", {}),
            *(inside.call("PUT", f"/v1/secrets/db{number}", body(b"new")) for number in range(20, 40)),
        )
        assert {inside.vault.open(stored(inside, f"db{number}")) for number in range(40)} == {b"new"}


@in_a_loop
async def test_a_lost_key_file_is_not_replaced_by_another(data: Path) -> None:
    async with Inside(data) as inside:
        await inside.call("PUT", "/v1/secrets/db", body())
        path = inside.vault._key_file().path
        kept = path.rename(path.with_name("kept"))
        answer = await inside.call("PUT", "/v1/secrets/mail", body(), 422)
        assert "the file with the keys of the secrets does not exist" in answer["message"]
        assert not path.exists()
        kept.rename(path)
        await inside.call("PUT", "/v1/secrets/mail", body())


def test_a_key_file_is_outside_the_data_directory_and_private(data: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(data)
    for place in (data / "keys", data / "a" / "keys", tmp_path / "link" / "keys"):
        with pytest.raises(InputError, match="is in the data directory"):
            KeyFile(place, data).create()
    file = KeyFile(tmp_path / "deep" / "keys", data)
    with pytest.raises(MissingKeyFile):
        file.read()
    assert file.create() == file.read()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    for mode in (0o640, 0o604, 0o660):
        file.path.chmod(mode)
        with pytest.raises(InputError, match="can be read by other accounts"):
            file.read()
    file.path.chmod(0o600)
    for content in (b"", b"{}", b'{"current":"a","keys":{"a":"AAAA"}}', file.path.read_bytes()[:-5]):
        file.path.write_bytes(content)
        with pytest.raises(InputError, match="is not a key file"):
            file.read()
    assert "keys" not in repr(KeyFile(tmp_path / "other", data).create())


@in_a_loop
async def test_the_center_says_what_to_install(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    async with Inside(data) as inside:
        answer = await inside.call("PUT", "/v1/secrets/db", body(), 422)
        assert "cryptography is not installed" in answer["message"]
        assert "pip install" in answer["message"]
        assert not inside.vault._key_file().path.exists()


@in_a_loop
async def test_a_value_set_by_another_way_than_the_vault_is_not_opened(data: Path) -> None:
    async with Inside(data) as inside:
        await inside.call("PUT", "/v1/secrets/db", body())
        forged = msgspec.structs.replace(stored(inside), owner="eve")
        await inside.committer.submit(SetSecret(secret=forged))
        with pytest.raises(InputError):
            inside.vault.open(stored(inside, owner="eve"))
        assert forged.of == Owner("eve")


# --- users -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Center]:
    """A center with the groups ``web``, for ann and bob, whom gus administers, and ``lab`` for all."""
    with Center(tmp_path_factory.mktemp("secrets") / "data", forked=True, visibility="own") as center:
        center.put_groups("Name: web\nResourceQuota: 4\nUsers: ann | bob\n\nName: lab\nResourceQuota: 4\nUsers: *\n")
        for name, role, administers in (("vic", "viewer", []), ("gus", "user", ["web"])):
            center.http.put(f"/v1/users/{name}", json={"role": role, "administers": administers})
        yield center


def put(http: httpx.Client, name: str, **more: str) -> int:
    return http.put(f"/v1/secrets/{name}", json=body(VALUE, **more)).status_code


def names(http: httpx.Client) -> list[str]:
    return [f"{each['group'] or each['user']}/{each['name']}" for each in http.get("/v1/secrets").json()["secrets"]]


def test_who_may_set_see_and_delete(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "bob") as bob, user_of(own, "gus") as gus, user_of(own, "eve") as eve:
        assert put(ann, "mine") == 200
        assert put(gus, "shared", group="web") == 200
        assert put(own.http, "given", user="ann") == 200
        assert [put(each, "no", group="web") for each in (ann, bob, eve)] == [403, 403, 403]
        assert put(own.http, "no", group="nobodys") == 404
        assert [put(each, "mine", user="ann") for each in (bob, gus, eve)] == [403, 403, 403]
        assert names(ann) == ["ann/given", "ann/mine", "web/shared"]
        assert names(bob) == names(gus) == ["web/shared"]
        assert names(eve) == []
        assert names(own.http) == ["ann/given", "ann/mine", "web/shared"]
        # What is foreign is not there, and no different from what does not exist.
        for http in (bob, gus, eve):
            for name in ("mine", "nothing"):
                for method in ("GET", "DELETE"):
                    answer = http.request(method, f"/v1/secrets/{name}", params={"user": "ann"})
                    assert answer.status_code == 404
                    assert (
                        answer.json()["message"]
                        == f"ann has no secret '{name}' (`cress secret list` shows the secrets)"
                    )
        assert eve.get("/v1/secrets/shared", params={"group": "web"}).status_code == 404
        assert bob.get("/v1/secrets/shared", params={"group": "web"}).json()["by"] == "gus"
        assert bob.delete("/v1/secrets/shared", params={"group": "web"}).status_code == 403
        assert ann.get("/v1/secrets/mine", params={"group": "web", "user": "ann"}).status_code == 422
        with user_of(own, "vic") as vic:
            assert put(vic, "mine") == 403
            assert names(vic) == []
        audited = own.get("/v1/audit?limit=200")["entries"]
        assert {"PUT /v1/secrets/mine", "PUT /v1/secrets/shared"} <= {each["what"] for each in audited}
        assert VALUE.decode() not in str(audited)
        assert base64.b64encode(VALUE).decode() not in str(audited)


def submit(http: httpx.Client, dry: str = "", **job: Any) -> httpx.Response:
    return http.post(f"/v1/jobs{dry}", json={"jobs": [{"command": ["true"]} | job]})


def test_a_submit_names_secrets_that_its_user_may_use(own: Center) -> None:
    with user_of(own, "ann") as ann, user_of(own, "eve") as eve:
        put(ann, "database")
        put(own.http, "shared", group="web")
        for dry in ("", "?dry_run=true"):
            answer = submit(ann, dry, group="lab", secrets={"A": "databse"})
            assert answer.status_code == 422
            (fault,) = answer.json()["faults"]
            assert fault["field"] == "jobs[0].secrets.A"
            assert fault["what"] == "neither ann nor the group lab has a secret databse"
            assert fault["hint"] == "did you mean database?"
        assert submit(ann, group="lab", secrets={"A": "shared"}).status_code == 422, "it is the group's that is named"
        assert submit(ann, group="web", secrets={"A": "shared"}).status_code == 201
        assert submit(ann, group="lab", secrets={"A": "database"}).status_code == 201
        assert submit(eve, group="lab", secrets={"A": "database"}).status_code == 422
        service = {"type": "service", "name": "s", "command": "true", "group": "lab", "secrets": ["nothing"]}
        assert ann.post("/v1/apply", json={"jobs": [service]}).status_code == 422
        number = submit(ann, group="lab", secrets={"A": "database", "b": {"secret": "database", "as": "file"}}).json()
        view = ann.get(f"/v1/jobs/{number['jobs'][0]['id']}").json()
        assert view["secrets"] == {"A": "database", "b": {"secret": "database", "as": "file"}}


# --- delivery --------------------------------------------------------------------------------------------------------


def received(executor: Executor, kind: type[T]) -> T:
    """The next message of this kind."""
    while not isinstance(message := executor.receive(), kind):
        pass
    return message


def asks(executor: Executor, launches: Launches, attempt: int) -> Material:
    """The answer to an executor that asks for the start material of an attempt."""
    executor.send(AskMaterial(epoch=launches.epoch, attempts=(attempt,)))
    return received(executor, Material)


def test_the_node_of_an_attempt_gets_its_secrets_and_no_other_node(own: Center) -> None:
    with user_of(own, "ann") as ann:
        put(ann, "key")
        job = submit(ann, group="lab", secrets={"A": "key", "key.pem": {"secret": "key", "as": "file"}}).json()["jobs"][
            0
        ]
        with own.executor("n1", resource="<9, 90G>", protocol=PROTOCOL) as first:
            launches = received(first, Launches)
            (launch,) = [each for each in launches.launches if each.job == job["id"]]
            with own.executor("n2", protocol=PROTOCOL) as thief:
                refusal = asks(thief, launches, launch.attempt)
                assert refusal.refused
                assert refusal.material == StartMaterial()
            given = asks(first, launches, launch.attempt)
            assert given.material == StartMaterial(environment={"A": VALUE}, files={"key.pem": VALUE})
            # The value of the moment, without the end of its line in a variable.
            ann.put("/v1/secrets/key", json=body(b"new\n"))
            given = asks(first, launches, launch.attempt)
            assert given.material == StartMaterial(environment={"A": b"new"}, files={"key.pem": b"new\n"})
            ann.put("/v1/secrets/key", json=body(b"a\0b"))
            given = asks(first, launches, launch.attempt)
            assert "has a zero byte in it" in given.refused
            ann.delete("/v1/secrets/key")
            given = asks(first, launches, launch.attempt)
            assert given.refused == (
                "secrets.A: neither ann nor group lab still has a secret key (`cress secret set key` sets it)"
            )
            own.http.put("/v1/users/ann", json={"role": "viewer"})
            given = asks(first, launches, launch.attempt)
            assert given.refused == "ann may no longer use secrets in group lab"
            own.http.put("/v1/users/ann", json={"role": "user"})
            first.started(launch.attempt)
            eventually(lambda: asks(first, launches, launch.attempt).refused == NOT_TO_START)
