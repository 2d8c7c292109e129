"""The file of groups that a center reads at its start and at SIGHUP, and the time zone of its timetables."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cress.center.files.group_file import GroupFile
from cress.center.keeping.event_log import files
from cress.center.process.local_zone import local_zone
from cress.center.settings import CenterSettings
from cress.model.errors import InputError
from tests.center.inside import Inside, inside
from tests.center.program import Center, eventually, run_to_end

_TWO = "Zone: Asia/Shanghai\n\nName: news\nResourceQuota: 2\n\nName: web\nResourceQuota: 1\n"


async def _names(center: Inside) -> list[str]:
    return [group["name"] for group in (await center.get("/v1/groups"))["groups"]]


def _file(center: Inside, path: Path, said: list[str]) -> GroupFile:
    return GroupFile(CenterSettings(data=path.parent, groups=path), center.committer, said.append)


def test_a_file_is_applied_at_the_start_and_again_at_sighup(tmp_path: Path) -> None:
    path, said = tmp_path / "Group.conf", list[str]()
    path.write_text(_TWO + "Priority: 7\n")

    async def story(center: Inside) -> None:
        file = _file(center, path, said)
        file.read_first(center.committer.machine)
        file.apply()
        await center.join(cores=4)
        assert await _names(center) == ["default", "news", "web"]
        assert (await center.get("/v1/groups"))["zone"] == "Asia/Shanghai"
        assert said == [f"note: {path}:8: Priority: is computed and was ignored"]
        await center.submit(group="web")
        for text, says in (
            ("Name: news\nResourceQuota: much\n", f"{path}:2: ResourceQuota: "),
            ("Name: news\nResourceQuota: 5\n", "above the capacity"),
            ("Name: news\nResourceQuota: 1\n", f"{path}: groups with live jobs would be removed: web (say to which"),
            ("Name: news\nResourceQuota: 1\n", "cress groups apply FILE --move web=GROUP)"),
            ("", "there is no group in it"),
        ):
            path.write_text(text)
            with pytest.raises(InputError) as found:
                file.read_again()
            assert says in str(found.value)
            assert await _names(center) == ["default", "news", "web"]
        path.unlink()
        with pytest.raises(InputError, match=f"{path}: cannot be read"):
            file.read_again()
        path.write_text(_TWO.replace("news", "radio"))
        file.read_again()
        await center.submit()
        assert await _names(center) == ["default", "radio", "web"]

    inside(tmp_path, story)


def test_a_center_does_not_start_with_a_mistake_and_nothing_is_changed(tmp_path: Path) -> None:
    path, data = tmp_path / "Group.conf", tmp_path / "data"
    path.write_text("Name: web\nResourceQuota: <4, 8G>\n")
    told = f"cress center: {path}:2: ResourceQuota: "
    done = run_to_end(data, groups=str(path), option="grace=3s accounting=cpu")
    assert (done.returncode, done.stderr.startswith(told)) == (2, True), done.stderr
    assert not files(data / "events"), "the center began no epoch"
    with Center(data, groups=str(path), option="accounting=dominant", zone="Asia/Shanghai", forked=True) as center:
        page = center.get("/v1/groups")
        assert [(group["name"], group["quota"]) for group in page["groups"]][1:] == [("web", "<4,8G>")]
        assert page["zone"] == "Asia/Shanghai"
        path.write_text("Name: web\nResourceQuota: <4, 8G\n")
        center.process.send_signal(signal.SIGHUP)
        assert center.process.stderr is not None
        # On a loaded machine the watchdog says something between.
        lines = (line for line in center.process.stderr if "waited" not in line)
        assert next(lines).startswith(told)
        assert next(lines) == "cress center: the groups stay as they were\n"
        path.write_text("Zone: Europe/Berlin\n\nName: web\nResourceQuota: 3\n")
        center.process.send_signal(signal.SIGHUP)
        assert next(lines) == f"cress center: SIGHUP: read the groups from {path} again\n"
        eventually(lambda: center.get("/v1/groups")["zone"] == "Europe/Berlin")


@pytest.mark.parametrize(
    ("tz", "expected"),
    [
        ("Asia/Shanghai", "Asia/Shanghai"),
        (":Asia/Shanghai", "Asia/Shanghai"),
        ("/usr/share/zoneinfo/Asia/Shanghai", "Asia/Shanghai"),
        ("", "UTC"),
        ("CST-8", ""),
        (None, "Europe/Berlin"),
    ],
)
def test_the_zone_of_the_machine_is_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tz: str | None, expected: str
) -> None:
    localtime, timezone = tmp_path / "localtime", tmp_path / "timezone"
    (tmp_path / "zoneinfo/Europe").mkdir(parents=True)
    (tmp_path / "zoneinfo/Europe/Berlin").touch()
    localtime.symlink_to(tmp_path / "zoneinfo/Europe/Berlin")
    if tz is None:
        monkeypatch.delenv("TZ", raising=False)
    else:
        monkeypatch.setenv("TZ", tz)
    assert local_zone(localtime, timezone) == expected


def test_the_zone_of_a_machine_whose_clock_file_is_a_copy_is_in_a_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    localtime, timezone = tmp_path / "localtime", tmp_path / "timezone"
    assert local_zone(localtime, timezone) == "UTC", "without any file clocks show UTC"
    localtime.write_bytes(b"TZif")
    assert local_zone(localtime, timezone) == ""
    timezone.write_text("Europe/Berlin\n")
    assert local_zone(localtime, timezone) == "Europe/Berlin"
