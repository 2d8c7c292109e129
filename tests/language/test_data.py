"""DataLocality by name: which texts name data, how they are written, and what is refused where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.language.clauses import Clause, Kind
from cress.language.parser import parse_rank, parse_requirement
from cress.model.datanames import parse_data_name
from cress.model.errors import InputError

WRITTEN = {
    "/data/sets/a": "/data/sets/a",
    "/data//sets/a/": "/data/sets/a",
    "file:///data/sets/a": "/data/sets/a",
    "/with space/ä": "/with space/ä",
    "hdfs://nn:8020/logs/2026": "hdfs://nn:8020/logs/2026",
    "HDFS://NameNode.example.org/Logs/": "hdfs://namenode.example.org/Logs",
    "webhdfs://10.0.0.1:9870/logs": "webhdfs://10.0.0.1:9870/logs",
    "swebhdfs://[2001:DB8::1]:9871/logs": "swebhdfs://[2001:db8::1]:9871/logs",
    "http://gateway:14000/webhdfs/v1/logs//a": "http://gateway:14000/webhdfs/v1/logs/a",
    "https://gateway/webhdfs/v1/logs": "https://gateway/webhdfs/v1/logs",
}


@pytest.mark.parametrize(("text", "name"), WRITTEN.items())
def test_data_has_one_name(text: str, name: str) -> None:
    (clause,) = parse_requirement(f'DataLocality = "{text}"').clauses
    assert (clause.kind, clause.value, str(clause)) == (Kind.DATA, name, f'DataLocality = "{name}"')
    assert parse_requirement(str(clause)).clauses == (clause,)


def test_it_is_hard_soft_or_a_term() -> None:
    hard, soft = parse_requirement(
        "data_locality = '/a' && DataLocality = '/b' && f(x, weight=2) = (Waittime > 15s)"
    ).clauses
    assert (hard.relaxation, soft.relaxation and soft.relaxation.weight) == (None, 2.0)
    (term,) = parse_rank('2 × (DataLocality = "/a/")').terms
    assert term.weight == 2
    assert isinstance(term.what, Clause)
    assert (term.what.kind, term.what.value) == (Kind.DATA, "/a")


def test_lists_are_nodes_as_before() -> None:
    (clause,) = parse_requirement("DataLocality in (n1, 10.0.0.0/8)").clauses
    assert clause.kind is Kind.NODES


ON_NODES = '"/data/sets/a" on nodes, or "hdfs://namenode:8020/logs/2026"'
REFUSED = {
    'SSD && DataLocality = "data/a"': f'at character 23, `"data/a"`: "data/a" is not an absolute path and no URL ({ON_NODES})',  # noqa: E501
    'DataLocality = ""': f'at character 16, `""`: "" is not an absolute path and no URL ({ON_NODES})',
    'DataLocality = "/"': f'at character 16, `"/"`: "/" names no file or folder ({ON_NODES})',
    'DataLocality = "ftp://a/b"': f'at character 16, `"ftp://a/b"`: data of ftp:// cannot be located ({ON_NODES})',
    'DataLocality = "hdfs:///a"': f'at character 16, `"hdfs:///a"`: "hdfs:///a" names no namenode ({ON_NODES})',
    'DataLocality = "hdfs://nn:8020"': (
        f'at character 16, `"hdfs://nn:8020"`: "hdfs://nn:8020" names no file or folder ({ON_NODES})'
    ),
    'DataLocality = "hdfs://nn:99999/a"': f'at character 16, `"hdfs://nn:99999/a"`: "nn:99999" is not a host ({ON_NODES})',  # noqa: E501
    'DataLocality = "hdfs://a@nn/a"': f'at character 16, `"hdfs://a@nn/a"`: "a@nn" is not a host ({ON_NODES})',
    'DataLocality = "/a/../b"': 'at character 16, `"/a/../b"`: "/a/../b" has a . or .. in its path '
    "(the path as it is without them)",
    'DataLocality = "http://gw/a"': 'at character 16, `"http://gw/a"`: "http://gw/a" is not an address of WebHDFS '
    "(http://gw/webhdfs/v1/logs/2026, without ?op=…)",
    'DataLocality > "/a"': 'at character 1, `DataLocality > "/a"`: DataLocality > "/a" is not how DataLocality is '
    "asked "
    '(DataLocality in (192.168.1.2-8), or = "hdfs://namenode:8020/logs")',
    "DataLocality = 5": "at character 1, `DataLocality = 5`: DataLocality = 5 is not how DataLocality is asked "
    '(DataLocality in (192.168.1.2-8), or = "hdfs://namenode:8020/logs")',
}


@pytest.mark.parametrize(("text", "sentence"), REFUSED.items())
def test_what_names_no_data_is_refused_where_it_stands(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_requirement(text)
    assert str(caught.value) == sentence


_steps = st.text(
    st.characters(exclude_categories=("C", "Z"), exclude_characters="/"), min_size=1, max_size=8
) | st.just("a b")
paths = st.lists(_steps.filter(lambda step: step not in (".", "..")), min_size=1, max_size=4).map(
    lambda steps: "/" + "/".join(steps)
)
names = st.one_of(
    paths,
    st.builds(
        lambda place, path: f"hdfs://{place}{path}", st.sampled_from(("nn", "nn:8020", "10.0.0.1:1", "[::1]")), paths
    ),
)


@given(names)
def test_printed_and_read_again_it_is_the_same(name: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    (clause,) = parse_requirement(f'DataLocality = "{quoted}" && f(x) = True').clauses
    assert parse_requirement(str(clause)).clauses == (clause,)
    assert clause.value == name


@given(st.text(max_size=30) | names)
def test_a_name_that_is_taken_is_its_own_name(text: str) -> None:
    try:
        name = str(parse_data_name(text))
    except InputError:
        return
    assert str(parse_data_name(name)) == name
