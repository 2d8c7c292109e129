"""Uploads in a center: kept by their content, for their users alone, within limits, until no job uses them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cress.center.keeping.upload_room import CountedFile, UploadLimits, UploadRoom
from cress.center.keeping.uploads import FOLDER, Uploads, check_uploads
from cress.center.leader.unused_uploads import UnusedUploads
from cress.model.errors import NotAccepted
from tests.center.inside import Inside, inside

DATA = b"some words of a file"
DIGEST = hashlib.sha256(DATA).hexdigest()
KIB = 1024
LIMITS = {"upload_file_most": 100 * KIB, "upload_user_most": 150 * KIB, "upload_most": 200 * KIB}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def part(data: bytes = DATA, offset: int = 0, most: int = 1_000_000, size: int | None = None) -> dict[str, Any]:
    sent = base64.b64encode(data[offset : offset + most]).decode()
    return {"size": len(data) if size is None else size, "offset": offset, "data": sent}


def test_a_file_is_made_before_the_next_count() -> None:
    files: list[CountedFile] = []
    room = UploadRoom(UploadLimits(KIB * KIB, 20_000, KIB * KIB, 0.0), lambda: files)

    def make() -> None:
        assert room._lock.locked()
        files.append(CountedFile("ann", 1, in_total=True))

    room.take("ann", 1, make, in_total=True)
    room.recount()
    with pytest.raises(NotAccepted, match="ann has uploads of 16K"):
        room.take("ann", 1, make, in_total=True)
    assert len(files) == 1


async def send(center: Inside, data: bytes = DATA, status: int = 200, user: str = "", **more: Any) -> Any:
    headers = {"Authorization": f"Bearer {await token(center, user)}"} if user else {}
    path = f"/v1/uploads/{hashlib.sha256(data).hexdigest()}"
    return await center.call("POST", path, part(data, **more), status, **headers)


async def token(center: Inside, user: str) -> str:
    found = await center.call("POST", "/v1/tokens", {"user": user, "name": f"t{time.monotonic_ns()}"}, 201)
    return str(found["secret"])


def job(source: str = f"upload:{DIGEST}", **more: Any) -> dict[str, Any]:
    return {"command": "cat x", "files": [{"source": source, "path": "x"}], **more}


def age(center: Inside, seconds: float = 1e6) -> None:
    """Make all uploads as old as if they had not been used for so long."""
    for path in center.committer.uploads.folder.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - seconds,) * 2)


def test_a_file_arrives_in_parts_and_goes_on_after_a_break(data: Path) -> None:
    async def story(center: Inside) -> None:
        begun = await send(center, most=0)
        assert (begun["received"], begun["complete"]) == (0, False)
        assert (await send(center, most=7))["received"] == 7
        # A part that was sent twice, and one that comes too early, change nothing.
        assert (await send(center, most=7))["received"] == 7
        assert (await send(center, offset=12))["received"] == 7
        whole = await send(center, offset=7)
        assert (whole["received"], whole["complete"]) == (len(DATA), True)
        assert (await send(center, most=0))["complete"]
        (listed,) = (await center.get("/v1/uploads"))["uploads"]
        assert (listed["digest"], listed["size"]) == (DIGEST, len(DATA))
        answer = await center.http.get(f"/v1/uploads/{DIGEST}/content?offset=5")
        assert (answer.status_code, answer.content) == (200, DATA[5:])
        await center.call("POST", "/v1/jobs", {"jobs": [job()]}, 201)

    inside(data, story)
    assert check_uploads(data / FOLDER) == ([], [])
    assert (data / FOLDER).stat().st_mode & 0o077 == 0


def test_what_is_not_as_announced_is_refused_and_leaves_nothing(data: Path) -> None:
    async def story(center: Inside) -> None:
        wrong = await center.call("POST", f"/v1/uploads/{'0' * 64}", part(), 422)
        assert "the content has the SHA-256" in wrong["message"]
        assert (await center.get("/v1/uploads"))["uploads"] == []
        assert not [path for path in center.committer.uploads.folder.rglob("*") if path.is_file()]
        assert "is not a digest" in (await center.call("POST", "/v1/uploads/xyz", part(), 422))["message"]
        assert "more than the 3 bytes" in (await send(center, status=422, size=3))["message"]

    inside(data, story)


def test_a_digest_alone_opens_nothing(data: Path) -> None:
    async def story(center: Inside) -> None:
        await send(center, user="bob")
        bob, eve = await token(center, "bob"), await token(center, "eve")
        as_eve = {"Authorization": f"Bearer {eve}"}
        refused = await center.call("POST", "/v1/jobs", {"jobs": [job()]}, 422, **as_eve)
        assert refused["faults"][0]["what"] == f"eve has no upload {DIGEST}"
        assert refused["faults"][0]["field"] == "jobs[0].files[0].source"
        content = await center.http.get(f"/v1/uploads/{DIGEST}/content", headers=as_eve)
        assert content.status_code == 404
        await center.call("POST", "/v1/jobs", {"jobs": [job()]}, 201, Authorization=f"Bearer {bob}")
        # Who sends the same bytes may use them; they are on the disk once.
        await send(center, user="eve")
        await center.call("POST", "/v1/jobs", {"jobs": [job()]}, 201, **as_eve)
        assert (center.committer.uploads.folder / "content" / DIGEST).stat().st_nlink == 3
        # A dry run is sent without the files.
        await center.call("POST", "/v1/jobs?dry_run=true", {"jobs": [job(f"upload:{'1' * 64}")]}, 200, **as_eve)

    inside(data, story)


def test_limits_hold_for_a_file_a_user_and_all(data: Path) -> None:
    async def story(center: Inside) -> None:
        assert "a file of 101K is too large" in (await send(center, b"x" * 101 * KIB, 422))["message"]
        await send(center, b"a" * 100 * KIB, user="bob", most=10)
        # What is announced counts, even if it has not arrived.
        assert "bob has uploads of" in (await send(center, b"b" * 60 * KIB, 409, user="bob"))["message"]
        await send(center, b"b" * 50 * KIB, user="bob")
        assert "this center have" in (await send(center, b"c" * 60 * KIB, 409, user="eve"))["message"]
        # A file that others have sent needs no more room.
        await send(center, b"b" * 50 * KIB, user="eve")

    inside(data, story, **LIMITS)


def test_tiny_files_count_and_the_folder_is_not_read_for_each(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, count = [], Uploads._counted

    def noted(uploads: Uploads) -> Iterator[CountedFile]:
        counts.append(uploads)
        return count(uploads)

    monkeypatch.setattr(Uploads, "_counted", noted)

    async def story(center: Inside) -> None:
        for number in range(8):
            await send(center, b"file %d" % number, user="bob", most=1 + number)
        assert len(counts) == 1
        assert "bob has uploads of 128K, and this one has 16K" in (await send(center, b"9", 409, user="bob"))["message"]
        await send(center, b"9", user="eve")

    inside(data, story, upload_user_most=8 * 16_384)


def test_uploads_go_when_no_job_uses_them(data: Path) -> None:
    async def story(center: Inside) -> None:
        await center.join()
        sweeper = UnusedUploads(center.committer)
        await send(center)
        await send(center, b"other")
        number = int((await center.call("POST", "/v1/jobs", {"jobs": [job()]}, 201))["jobs"][0]["id"])
        await send(center, b"begun", most=2)
        assert await sweeper.look() == 0
        age(center)
        assert await sweeper.look() == 1
        left = {path.name for path in center.committer.uploads.folder.rglob("*") if path.is_file()}
        assert left == {DIGEST}
        await center.started(number)
        await center.end(number)
        age(center)
        assert await sweeper.look() == 1
        again = await center.call("POST", "/v1/jobs", {"jobs": [job()]}, 422)
        assert "submit the job from its files again" in again["message"]

    inside(data, story)


def test_damage_and_what_does_not_belong_there_are_found(data: Path) -> None:
    async def story(center: Inside) -> None:
        await send(center)

    inside(data, story)
    (data / FOLDER / "content" / DIGEST).write_bytes(b"something else")
    (data / FOLDER / "content/notes").write_text("mine")
    # A folder, a link, and a pipe that nobody writes to.
    (data / FOLDER / "content" / ("0" * 64)).mkdir()
    (data / FOLDER / "content" / ("1" * 64)).symlink_to("/etc/passwd")
    os.mkfifo(data / FOLDER / "content" / ("2" * 64))
    (next((data / FOLDER / "users").iterdir()) / ("3" * 64)).mkdir()
    problems, others = check_uploads(data / FOLDER)
    assert [problem.partition(" ")[0].rpartition("/")[2] for problem in problems] == [
        *(letter * 64 for letter in "012"),
        DIGEST,
        "3" * 64,
    ]
    assert f"{DIGEST} is damaged" in problems[3]
    kept = Uploads(data / FOLDER, UploadLimits(1 << 30, 1 << 30, 1 << 30, 0.0))
    assert kept.path_of("1" * 64) is None
    user = kept._users()[0]
    stray = kept._of_user(user) / f"{'4' * 64}.9.part"
    stray.mkdir()
    os.utime(stray, (0, 0))
    assert not kept.has(user, "3" * 64)
    for digest in ("0" * 64, "3" * 64):
        with pytest.raises(NotAccepted, match="what lies in its place is not a file"):
            kept._receive(user, digest, 1, 0, b"")
    assert kept.remove_unused(["0" * 64, DIGEST]) == 1
    assert others == ["uploads/content/notes"]


def test_two_senders_of_one_file_do_not_mix_their_parts(data: Path) -> None:
    async def story(center: Inside) -> None:
        whole = bytes(range(256)) * 40

        async def sender() -> None:
            offset = 0
            while True:
                state = await send(center, whole, offset=offset, most=512)
                if state["complete"]:
                    return
                offset = state["received"]

        await asyncio.gather(sender(), sender())
        answer = await center.http.get(f"/v1/uploads/{hashlib.sha256(whole).hexdigest()}/content")
        assert answer.content == whole

    inside(data, story)
