"""The topology file: what it says, what is wrong with it, and what becomes of it in a center that runs."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from cress.center.files.topology import parse_topology, read_topology
from cress.model.errors import InputError
from cress.protocol.messages import Launches, Refused, Welcome
from tests.center.program import Center, eventually, run_to_end

EXAMPLE = """\
racks:
  r1:
    neighbours: r2
    nodes: web-[1-3], db1
  r2:
    neighbours: [r1, r3]
    nodes:
      - web-[08-11].example.org
      - db2
  r3:
"""


def test_a_file_says_who_is_whose_neighbour_and_who_stands_where() -> None:
    topology = parse_topology(EXAMPLE, "racks.yaml")
    assert topology.neighbours == (("r1", "r2"), ("r2", "r3"))
    assert topology.racks == {
        **dict.fromkeys(("web-1", "web-2", "web-3", "db1"), "r1"),
        **dict.fromkeys(("web-08.example.org", "web-09.example.org", "web-10.example.org"), "r2"),
        **dict.fromkeys(("web-11.example.org", "db2"), "r2"),
    }


def test_distances_are_those_of_values_of_any_attribute() -> None:
    topology = parse_topology("distances:\n  switch:\n    s1: {s2: 1, s3: 4}\n    s2: {s1: 1}\n", "t")
    assert topology.distances == (("switch", "s1", "s2", 1), ("switch", "s1", "s3", 4))
    with pytest.raises(InputError) as caught:
        parse_topology("racks: {r1: {}}\ndistances:\n  switch:\n    s1:\n      s2: far\n", "t")
    assert str(caught.value) == (
        "t:5: distances.switch.s1.s2: 'far' is not a distance (a whole number from 1 to 1,000,000)"
    )


def test_names_are_names_whatever_yaml_makes_of_them() -> None:
    text = '{"racks": {"1": {"neighbours": ["02"]}, "02": {"nodes": ["0x10", "on"]}}}'
    topology = parse_topology(text, "racks.json")
    assert topology.neighbours == (("02", "1"),)
    assert topology.racks == {"0x10": "02", "on": "02"}


MISTAKES = {
    "": "t: it contains no racks (racks: with a name for each rack (docs/executor.md))",
    "[r1]": "t:1: is not a mapping (racks: with",
    "rack: {}": "t:1: rack: is not known (racks: with",
    "racks: [r1]": "t:1: racks: is not a mapping (a name for each rack, such as r1: {neighbours: r2})",
    "racks:\n  r1: {}\nracks:\n  r2: {}": "t:3: racks: is given twice",
    "racks:\n  r 1: {}": "t:2: racks: 'r 1' is not a name of a rack",
    "racks:\n  r1: {}\n  r1: {}": "t:3: racks.r1: is given twice (each rack once)",
    "racks:\n  r1: web-1": "t:2: racks.r1: is not a mapping (neighbours: and nodes:, both may be left out)",
    "racks:\n  r1:\n    neighbors: r1": "t:3: racks.r1.neighbors: is not known (did you mean neighbours?)",
    "racks:\n  r1: {neighbours: r1}": "t:2: racks.r1.neighbours: r1 cannot be its own neighbour",
    "racks:\n  r1: {neighbours: s9}": "t:2: racks.r1.neighbours: there is no rack 's9' in this file (an entry of its own",  # noqa: E501
    "racks:\n  rack1:\n    neighbours:\n    - rack1x\n    - [a]\n": (
        "t:4: racks.rack1.neighbours: there is no rack 'rack1x' in this file (did you mean rack1?)\n"
        "t:5: racks.rack1.neighbours: is not a name (a list of names, such as [r2, r3])"
    ),
    "racks:\n  r1:\n    nodes: web-[9-3]": "t:3: racks.r1.nodes: 'web-[9-3]' is not a range (from the lower to the higher",  # noqa: E501
    "racks:\n  r1:\n    nodes: web-[1-9999999]": "t:3: racks.r1.nodes: 'web-[1-9999999]' is not a range",
    "racks:\n  r1:\n    nodes: web-[a-b]": "t:3: racks.r1.nodes: 'web-[a-b]' is not a name of a node (web-7, or several: web-[1-20])",  # noqa: E501
    "racks:\n  r1: {nodes: n1}\n  r2:\n    nodes: n1": "t:4: racks.r2.nodes: node n1 is already in rack r1",
    "racks:\n\tr1: {}": "t:2: a tab cannot indent YAML (use spaces)",
    "racks: {}\n---\nracks: {}": "t:3: has more than one document",
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:30])
def test_mistakes_are_told_with_line_and_field(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_topology(text, "t")
    assert str(caught.value).startswith(MISTAKES[text])


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for name, data in (("none", None), ("binary", b"\xff\xfe\x00")):
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=str(tmp_path / name)):
            read_topology(tmp_path / name)


def test_a_center_does_not_start_with_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "racks.yaml").write_text("racks:\n  r1: {node: n1}\n")
    done = run_to_end(tmp_path / "data", topology=str(tmp_path / "racks.yaml"))
    assert (done.returncode, done.stderr) == (
        2,
        f"cress center: {tmp_path}/racks.yaml:2: racks.r1.node: is not known (did you mean nodes?)\n",
    )


def test_nodes_are_in_the_racks_of_the_file_until_it_says_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "racks.yaml"
    file.write_text("racks:\n  r1: {neighbours: r2, nodes: n1}\n  r2: {}\n")
    with Center(tmp_path / "data", topology=str(file), forked=True) as center:

        def rack(name: str) -> str:
            return str(center.get(f"/v1/nodes/{name}")["rack"])

        with center.executor("n1") as one, center.executor("n2", rack="own", address="10.0.0.2") as two:
            assert isinstance(one.first, Welcome)
            assert (rack("n1"), rack("n2")) == ("r1", "own")
            file.write_text("racks:\n  r1: {node: n1}\n")
            center.process.send_signal(signal.SIGHUP)
            file_error = center.process.stderr
            assert file_error is not None
            assert file_error.readline().startswith(f"cress center: {file}:2: racks.r1.node: is not known")
            assert file_error.readline() == "cress center: the racks stay as they were\n"
            assert rack("n1") == "r1"
            file.write_text("racks:\n  r1: {}\n  r2: {nodes: 'n[1-2]'}\n")
            center.process.send_signal(signal.SIGHUP)
            assert file_error.readline() == f"cress center: SIGHUP: read the racks from {file} again\n"
            assert one.closed(), "it is to come again"
            with center.executor("n1") as again:
                assert isinstance(again.first, Welcome)
                assert rack("n1") == "r2"
                assert rack("n2") == "own", "what an executor says itself counts"
                job = center.submit(tasks=2, resource="<3>")
                orders = {executor: executor.receive() for executor in (again, two)}
                found = [(each.address, each.rack) for each in orders.values() if isinstance(each, Launches)]
                assert found == [("", "r2"), ("10.0.0.2", "own")]
                center.post(f"/v1/jobs/{job}/cancel")


def test_attributes_are_those_of_the_node(center: Center) -> None:
    with center.executor("n1", attributes={"GCC": "12.2", "ssd": True, "CPUs": 4}, listening=(22, 80)) as executor:
        assert not isinstance(executor.first, Refused)
        attributes = center.get("/v1/nodes/n1")["attributes"]
        assert {name: str(value) for name, value in attributes.items()}.keys() == {"GCC", "ssd", "CPUs"}
        eventually(lambda: center.get("/v1/nodes/n1")["state"] == "up")


def test_sighup_without_files_changes_nothing_and_says_so(tmp_path: Path) -> None:
    with Center(tmp_path / "data", forked=True) as center:
        center.process.send_signal(signal.SIGHUP)
        assert center.process.stderr is not None
        assert "nothing to read again" in center.process.stderr.readline()
        assert center.get("/v1/jobs")["jobs"] == []
