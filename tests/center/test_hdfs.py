"""Where files of HDFS lie, asked of a real HTTP server that speaks WebHDFS, well or badly."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from cress.center.data_locations import hdfs
from cress.center.data_locations.hdfs import Hdfs, UnlocatedError
from cress.center.data_locations.namenodes import Namenodes, myself
from cress.center.data_locations.webhdfs import Places
from cress.model.datanames import parse_data_name
from cress.model.errors import InputError
from tests.center.namenode import Block, Namenode

MB = 2**20


def places(
    namenode: Namenode, path: str = "/logs", *, others: str = "", patience: float = 5, longest: float = 20
) -> Places:
    """What is found out of ``hdfs://nn:8020`` and a path."""

    async def ask() -> Places:
        told = Namenodes([f"nn:8020={others}{namenode.url}"])
        client = Hdfs(told, patience=patience, longest=longest)
        try:
            return await client.places(parse_data_name(f"hdfs://nn:8020{path}"))
        finally:
            await client.close()

    return asyncio.run(ask())


def problem(namenode: Namenode, path: str = "/logs", **how: float) -> tuple[str, bool]:
    with pytest.raises(UnlocatedError) as caught:
        places(namenode, path, **how)  # type: ignore[arg-type]
    return str(caught.value).replace(namenode.url, "URL"), caught.value.lasting


FILES: dict[str, list[Block]] = {
    "/one": [(128 * MB, ("n1", "n2")), (128 * MB, ("n1", "n3")), (64 * MB, ("n2", "n3"))],
    "/addressed": [(10, ("n1 10.0.0.1", "n2 10.0.0.2")), (30, ("n2 10.0.0.2",))],
    "/tiny share": [(10**15, ("n1",)), (1, ("n2",))],
    "/logs/a": [(300, ("n1",))],
    "/logs/b/c": [(100, ("n2",))],
    "/logs/b/empty": [],
    "/odd/ä %20?&#+": [(1, ("n9",))],
    "/empty/a": [],
    "/lost": [(5, ()), (5, ("n1",))],
}
SHARES = {
    "/one": (("n1", 800), ("n2", 600), ("n3", 600)),
    "/addressed": (("10.0.0.2", 1000), ("n2", 1000), ("10.0.0.1", 250), ("n1", 250)),
    "/tiny share": (("n1", 999), ("n2", 1)),
    "/logs": (("n1", 750), ("n2", 250)),
    "/logs/b": (("n2", 1000),),
    "/odd/ä %20?&#+": (("n9", 1000),),
    "/lost": (("n1", 500),),
}


@pytest.mark.parametrize("old", [False, True], ids=["BlockLocations", "LocatedBlocks"])
def test_shares_are_bytes_of_all_bytes_of_a_file_or_of_the_files_in_a_folder(old: bool) -> None:
    with Namenode(FILES, old=old) as namenode:
        assert {path: places(namenode, path) for path in SHARES} == SHARES
        assert {user for _, _, user in namenode.asked} == {myself()}


@pytest.mark.parametrize(
    ("path", "how", "sentence", "lasting"),
    [
        ("/none", "", "no such file (according to the namenode)", True),
        ("/empty", "", "it is empty, so it has no location", True),
        ("/empty/a", "", "it is empty, so it has no location", True),
        ("/logs", "denied", f"{myself()} may not read it (according to the namenode)", True),
        ("/logs", "standby", "the namenode at URL is not the active one", False),
        ("/logs", "broken", "the namenode at URL answers with HTTP 500 (RuntimeException)", False),
        ("/logs", "garbage", "the server at URL does not answer as WebHDFS does", False),
        ("/logs", "loop", "the server at URL does not answer as WebHDFS does", False),
        ("/logs", "cut", "the namenode at URL cannot be reached", False),
    ],
)
def test_what_goes_wrong_is_one_sentence_without_what_the_server_says(
    path: str, how: str, sentence: str, lasting: bool
) -> None:
    with Namenode(FILES, how=how) as namenode:
        assert problem(namenode, path) == (sentence, lasting)


def test_one_that_hangs_is_given_up() -> None:
    with Namenode(FILES, how="hang") as namenode:
        began = time.monotonic()
        assert problem(namenode, patience=0.2) == ("the namenode at URL does not answer", False)
        assert problem(namenode, longest=0.2) == ("URL did not answer in time", False)
        assert time.monotonic() - began < 30


def test_one_that_never_stops_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "MOST_BYTES", 5 * MB)
    with Namenode(FILES, how="huge") as namenode:
        assert problem(namenode) == ("the server at URL does not answer as WebHDFS does", False)


def test_nobody_listens() -> None:
    with Namenode(FILES) as namenode:
        pass
    assert problem(namenode) == ("the namenode at URL cannot be reached", False)


def test_of_several_namenodes_the_active_one_is_asked() -> None:
    with Namenode(how="standby") as standby, Namenode(FILES) as active:
        assert places(active, others=f"http://127.0.0.1:1,{standby.url},") == SHARES["/logs"]


def test_redirects_are_followed_to_servers_that_the_operator_names_and_nowhere_else() -> None:
    with Namenode(FILES) as namenode, Namenode() as front:
        front.redirect = namenode.url
        assert places(front, others=f"{front.url},{namenode.url},") == SHARES["/logs"]
        namenode.asked.clear()
        assert problem(front) == (
            f"URL redirects to {namenode.url}, which the center may not ask (--webhdfs)",
            True,
        )
        assert not namenode.asked


def test_of_a_folder_with_very_many_files_the_largest_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "MOST_FILES", 2)
    files: dict[str, list[Block]] = {f"/logs/{size:03}": [(size, (f"n{size}",))] for size in (1, 700, 2, 300, 3)}
    with Namenode(files) as namenode:
        assert places(namenode) == (("n700", 700), ("n300", 300))
        assert namenode.questions("GETFILEBLOCKLOCATIONS") == 2


def test_a_folder_in_itself_without_end_is_left_at_some_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "MOST_FOLDERS", 8)
    deep = "/logs" + "/a" * 20
    with Namenode({f"{deep}/file": [(1, ("n1",))], "/logs/b": [(1, ("n2",))]}) as namenode:
        assert places(namenode) == (("n2", 1000),)
        assert namenode.questions("LISTSTATUS") == 8


@pytest.mark.parametrize(
    ("data", "told", "urls"),
    [
        ("hdfs://nn:8020/a", (), ["http://nn:9870"]),
        ("hdfs://nn/a", (), ["http://nn:9870"]),
        ("hdfs://nn:8020/a", ("nn:8020=http://x:1",), ["http://x:1"]),
        ("hdfs://nn:8020/a", ("nn=https://x",), ["https://x"]),
        ("hdfs://logs/a", ("LOGS=http://n1:9870,http://n2:9870/",), ["http://n1:9870", "http://n2:9870"]),
        ("webhdfs://nn/a", (), ["http://nn:9870"]),
        ("webhdfs://nn:50070/a", (), ["http://nn:50070"]),
        ("swebhdfs://nn/a", (), ["https://nn:9871"]),
        ("http://gw/webhdfs/v1/a", ("gw=http://x:1",), ["http://gw"]),
        ("https://gw:14000/webhdfs/v1/a", (), ["https://gw:14000"]),
        ("https://gw:14000/webhdfs/v1/a", ("nn=https://gw:14000",), ["https://gw:14000"]),
    ],
)
def test_who_is_asked(data: str, told: tuple[str, ...], urls: list[str]) -> None:
    assert [gateway.url for gateway in Namenodes((*told, "any")).of(parse_data_name(data))] == urls
    # Whoever submits a job cannot have the center ask hosts that its operator did not name.
    named = [gateway.url for gateway in Namenodes(told).of(parse_data_name(data))]
    assert named == (urls if any(url in text.lower() for url in urls for text in told) else [])


def test_a_host_that_nobody_named_is_not_asked() -> None:
    async def ask(name: str) -> Places:
        return await Hdfs(Namenodes(["nn=http://x"])).places(parse_data_name(name))

    with Namenode(FILES) as namenode, pytest.raises(UnlocatedError) as caught:
        asyncio.run(ask(f"{namenode.url}/webhdfs/v1/one"))
    assert str(caught.value) == f"the center may not ask 127.0.0.1:{namenode.port} (--webhdfs)"
    assert caught.value.lasting
    assert not namenode.asked


def test_as_whom() -> None:
    ((_, user),) = Namenodes(["nn=http://etl@x:1"]).of(parse_data_name("hdfs://nn/a"))
    assert user == "etl"


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (["nn:8020"], "'nn:8020' has no address of a namenode"),
        (["=http://x"], "'=http://x' has no address of a namenode"),
        (["nn=ftp://x"], "'ftp://x' is not an address of WebHDFS"),
        (["nn=http://x:99999"], "'http://x:99999' is not an address of WebHDFS"),
        (["nn=http://x/webhdfs/v1"], "'http://x/webhdfs/v1' is not an address of WebHDFS"),
        (["nn=http://x", "NN=http://y"], "nn is given twice"),
    ],
)
def test_bad_words_about_namenodes_are_refused(told: list[str], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        Namenodes(told)
    assert (caught.value.what, caught.value.field) == (sentence, "--webhdfs")


def test_it_does_not_ask_by_way_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with Namenode(FILES) as namenode:
            assert places(namenode) == SHARES["/logs"]
