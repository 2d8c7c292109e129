"""What people read when a text is wrong: where, what, and what would be right."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.language.parser import parse_expression, parse_rank, parse_requirement
from cress.language.syntax import MOST_CHARACTERS, MOST_LEVELS
from cress.model.errors import InputError
from tests.examples import examples
from tests.language.strategies import conditions, scribbles, soups

GOLDEN = {
    "GCC >=": "at the end: a value is expected",
    "GCC >= 4.5 &&": "at the end: a value is expected",
    "GCC >= 4.5 & SSD": (
        "at character 12, `& SSD`: `||`, `&&`, `in`, a comparison or an operator is expected (&& joins conditions)"
    ),
    "GCC >= 4.5 SSD": "at character 12, `SSD`: `||`, `&&`, an operator or the end is expected",
    "(GCC >= 4.5": "at the end: `)` is expected (a ( is not closed)",
    "GCC >= 4.5)": "at character 11, `)`: this ) closes nothing (a ( is missing before it, or this one is too many)",
    "(SSD || ) && a": "at character 9, `) && a`: something is missing (a value is expected)",
    "1 < CPU < 4": "at character 9, `< 4`: `||`, `&&` or the end is expected "
    "(one comparison at a time: a < b && b < c)",
    'Rack = "r1': 'at character 8, `"r1`: the quote is not closed (" ends a text)',
    "Rack in 5": "at character 9, `5`: `(` or the name of a set is expected",
    "CPU in Features": "at character 1, `CPU in Features`: CPU is an amount, and in looks at a text "
    '("avx2" in Features)',
    'Name in ("n[3-1]")': 'at character 10, `"n[3-1]")`: n[3-1]: [3-1] is not a range '
    "(the smaller number first: n*, gpu-?, rack1-[01-40] or n[1-8,12])",
    "Nodes in (web-1, n[1-2)": "at character 18, `n[1-2)`: n[1-2 has a bracket without the other one "
    "(n*, gpu-?, rack1-[01-40] or n[1-8,12])",
    "Name in (n[a*])": "at character 10, `n[a*])`: n[a*]: [a*] is not a list of numbers and ranges "
    "(n*, gpu-?, rack1-[01-40] or n[1-8,12])",
    " || ".join(
        ['regexp(Name, "x")'] * 9
    ): 'at character 169, `regexp(Name, "x")`: more than 8 regular expressions in one text (at most 8)',
    "Rack in (r1, )": "at character 14, `)`: something is missing (a value is expected)",
    "version(GCC) > 4": "at character 1, `version(GCC) > 4`: 'version' is not a function "
    "(the functions are defined, regexp, startswith, endswith, contains, size, min, max, if; or f(x) = …)",
    "GCC ? 4": "at character 5, `? 4`: `||`, `&&`, `in`, a comparison, an operator or the end is expected",
    "sise (F) > 2": "at character 1, `sise (F) > 2`: 'sise' is not a function (did you mean size?)",
    "a && f(y) = True": "at character 6, `f(y) = True`: this is not f(x) (clause && f(x) = (Waittime > 15s))",
    "CPULoad < 120%%": "at character 11, `120%%`: 120%% is not a number (120%; between two numbers % is the remainder)",
    "CPULoad < 80 % && SSD": "at character 11, `80 % && SSD`: 80 % has a blank before its unit "
    "(80%; between two numbers % is the remainder)",
    "5%2 = 1": "at character 1, `5%2 = 1`: 5%2 is not a number (5% is a percentage; 5 % 2 is the remainder)",
    'regexp("^gpu", Name)': 'at character 8, `"^gpu", Name)`: "^gpu" is not an attribute '
    '(the attribute comes first: regexp(Name, "^gpu-[0-9]+$"))',
    'regexp(Name, "a(b")': 'at character 16, `(b")`: the regular expression "a(b" is wrong: this ( is not closed '
    "(\\( is a literal parenthesis)",
    "regexp(Name, 5)": 'at character 14, `5)`: 5 is not a regular expression in quotes (regexp(Name, "^gpu-[0-9]+$"))',
    "if(SSD, 1) = 2": "at character 1, `if(SSD, 1) = 2`: if takes 3 arguments, not 2 (if(SSD, Slots, 2) >= 2)",
    "if(5, 1, Slots) = 3": "at character 4, `5, 1, Slots) = 3`: 5 is not a condition (compare it with something)",
    "size(CPU) > 1": "at character 6, `CPU) > 1`: CPU is an amount, and size looks at a text (size(Features) >= 2)",
    "size(Features)": (
        "at character 1, `size(Features)`: size(Features) is a number, not a condition (size(Features) >= …)"
    ),
    'contains(SSD = True, "a")': 'at character 10, `SSD = True, "a")`: SSD = True is neither an attribute nor a text '
    '(contains(Features, "avx2"))',
    'min(CPU, Rack = 1) > "x"': 'at character 22, `"x"`: "x" is a text and min(CPU, Rack = 1) is a number',
    "max(CPULoad, DiskLoad) < 80": "at character 26, `80`: max(CPULoad, DiskLoad) is between 0 and 1 (80% or 0.8)",
    "min(IdleMemory, 8) > 4": (
        "at character 22, `4`: 4 has no unit, and min(IdleMemory, 8) is in bytes (a unit: 4G, or 4B)"
    ),
    "Rack = undefined": "at character 1, `Rack = undefined`: Rack = undefined is neither true nor false on any node "
    "(Rack is undefined)",
    "a && f(x) = (Waittime is 5)": "at character 14, `Waittime is 5)`: f(x) does not have the operator is "
    "(Waittime = 5)",
    "Memory >= 8 G": "at character 11, `8 G`: 8 G has a blank before its unit (8G)",
    "GCC => 4": "at character 5, `=> 4`: => is not a comparison (>=)",
    "resource: <1,1G> && f(x) = True": "at character 9, `: <1,1G> && f(x) = True`: `||`, `&&`, `in`, a comparison, "
    "an operator or the end is expected (Resource = <1,2G>)",
    "a && f(x) = (Waittime > CPU)": "at character 25, `CPU)`: Waittime is compared with a constant, and CPU is not one "
    "(Waittime > 15s)",
    "Java >= 11.*": "at character 9, `11.*`: 11.* stands for all versions that begin with 11 "
    "(= or !=, or a version such as 11)",
    "Java ~> 8G": "at character 6, `~> 8G`: 8G is not the beginning of a version (Java ~> 11 is Java = 11.*)",
    "Memory >= 8Gbit": "at character 11, `8Gbit`: '8Gbit' has an unknown unit 'Gbit' "
    "(did you mean 8G? bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)",
    "Slots > 5parsecs": "at character 9, `5parsecs`: '5parsecs' has an unknown unit 'parsecs' "
    "(K, M, G, T for powers of 1000, %, or a duration such as 15s or 5min)",
    "Memory >= 2.6.32": "at character 11, `2.6.32`: 2.6.32 is a version and Memory is a number",
    'CPU = "8"': 'at character 7, `"8"`: "8" is a text and CPU is a number',
    "CPU": "at character 1, `CPU`: CPU is an amount, not a condition (CPU >= …)",
    "SSD && 4": "at character 8, `4`: 4 is not a condition (compare it with something)",
    "(a = b) > (c = d)": "at character 2, `a = b) > (c = d)`: "
    "a truth value is neither more nor less than another: (a = b) > (c = d) (= or !=)",
    "CPU-IdleCPU > 2": "at character 1, `CPU-IdleCPU > 2`: CPU-IdleCPU is read as one name (a minus has a space "
    "on each side; "
    "a label of this name is `CPU-IdleCPU`)",
    "Port = 80 || SSD": "at character 1, `Port = 80 || SSD`: Port must be a separate clause: it cannot be part "
    "of another "
    "condition (Port = 80 joined to the rest by &&)",
    "! (ExclusiveDisk = True)": "at character 4, `ExclusiveDisk = True)`: ExclusiveDisk must be a separate clause: it "
    "cannot be "
    "part of another condition (ExclusiveDisk = True joined to the rest by &&)",
    "(Resource = <1>) = True": "at character 2, `Resource = <1>) = True`: Resource must be a separate clause: it cannot "  # noqa: E501
    "be "
    "part of another condition (Resource = <1,2G> joined to the rest by &&)",
    "SSD || Nodes in (a)": "at character 8, `Nodes in (a)`: Nodes must be a separate clause: it cannot be part of "
    "another "
    "condition (Name in (…) or Address in (…) may stand anywhere)",
    "ExclusiveDisk": "at character 1, `ExclusiveDisk`: ExclusiveDisk alone is not a condition (ExclusiveDisk = True)",
    "Port >= 80": "at character 1, `Port >= 80`: Port >= 80 is not how Port is asked (Port = 80)",
    "Port = 70000": "at character 8, `70000`: 70000 is not a port (a number from 1 to 65535)",
    "Port in (80, 81)": "at character 1, `Port in (80, 81)`: Port is not asked by a list (Port = 80)",
    "NetworkAdjacent = 1": "at character 19, `1`: 1 is not a possible value of NetworkAdjacent "
    "(NetworkAdjacent = True)",
    'JobDependency = "a/b/c"': 'at character 17, `"a/b/c"`: "a/b/c" is not a job '
    '(JobDependency = A, or = "group/A" for one of another group)',
    "IssueAsWhole = True": "at character 16, `True`: IssueAsWhole = True does not depend on the node "
    "(IssueAsWhole = True && f(x) = (Waittime > 5min); without f(x) it is `gang` of the job itself)",
    "Resource = <1,2Q>": "at character 12, `<1,2Q>`: memory: '2Q' has an unknown unit 'Q' "
    "(bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)",
    "Nodes in (192.168.1.300)": "at character 11, `192.168.1.300)`: 192.168.1.300 is not an address "
    "(such as 192.168.1.2, 192.168.1.2-8, 10.0.0.0/8 or 2001:db8::/32)",
    "Nodes in (5)": "at character 11, `5)`: 5 is neither a node nor an address (Nodes in (192.168.1.2-8, web-1))",
    "Waittime > 15s": (
        "at character 1, `Waittime > 15s`: Waittime is allowed only in f(x) (clause && f(x) = (Waittime > 15s))"
    ),
    "f(x) = True": "at character 1, `f(x) = True`: f(x) follows the clause that it relaxes, only once "
    "(clause && f(x) = (Waittime > 15s))",
    "a && f(x) = True && f(x) = True": "at character 21, `f(x) = True`: f(x) follows the clause that it relaxes, only once "  # noqa: E501
    "(clause && f(x) = (Waittime > 15s))",
    "a || b && f(x) = True": "at character 11, `f(x) = True`: f(x) must follow the whole clause that it relaxes "
    "(clause && f(x) = (Waittime > 15s), not inside ||, ! or an f(x))",
    "a && f(x) = (GCC > 4)": "at character 14, `GCC > 4)`: f(x) can only compare Waittime and ClusterLoad "
    "with constants "
    "(such as f(x) = (Waittime > 15s) or f(x) = (ClusterLoad < 80% || Waittime > 5min))",
    "a && f(x) = (ClusterLoad < 200%)": "at character 28, `200%)`: ClusterLoad is between 0 and 1 (at most 100%)",
    "a && f(x) = (ClusterLoad > 80)": "at character 28, `80)`: ClusterLoad is between 0 and 1 "
    "(80% or a share such as 0.8)",
    "a && f(x) = (Waittime > 15parsecs)": "at character 25, `15parsecs)`: '15parsecs' has an unknown unit 'parsecs' "
    "(a duration such as 90s, 5min, 1h30m, 2h or 1d; a plain number is seconds)",
    "a && f(x, weight=1.2.3) = True": "at character 6, `f(x, weight=1.2.3) = Tru…`: 1.2.3 is not a weight "
    "(a number such as 2 or 0.5)",
}


@pytest.mark.parametrize(("text", "sentence"), GOLDEN.items())
def test_the_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_requirement(text)
    assert str(caught.value) == sentence


RANKS = {
    'CPU + "a"': 'at character 7, `"a"`: "a" is a text, not a number (a rank is a sum of numbers)',
    "CPU × 2.6.32": "at character 7, `2.6.32`: 2.6.32 is a version, not a number to calculate with",
    "0.0000000001 × CPU": "at character 1, `0.0000000001 × CPU`: the weight is beyond all measure "
    "(between a billionth and a billion)",
    "SSD && f(x) = True": "at character 8, `f(x) = True`: f(x) must follow the whole clause that it relaxes "
    "(clause && f(x) = (Waittime > 15s), not inside ||, ! or an f(x))",
    "2 × (Port = 80) × 3": "at character 6, `Port = 80) × 3`: Port must be a separate clause: it cannot be part of "
    "another "
    "condition (Port = 80 joined to the rest by &&)",
}


@pytest.mark.parametrize(("text", "sentence"), RANKS.items())
def test_the_sentence_about_a_rank(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_rank(text)
    assert str(caught.value) == sentence


def test_an_expression_has_to_be_given() -> None:
    with pytest.raises(InputError, match="nothing is given"):
        parse_expression("  ")


def test_limits_of_size_are_told() -> None:
    room = "a" * (MOST_CHARACTERS - 4)
    assert parse_requirement("b = " + room).clauses
    for text, sentence in {
        "b = a" + room: "4001 characters are too many (at most 4000)",
        " && ".join(f"a = {i}" for i in range(32)): "32 clauses are too many (at most 31)",
        "a = "
        + "1" * 61: "at character 5, `111111111111111111111111…`: the number is too long (at most 60 characters)",
    }.items():
        with pytest.raises(InputError) as caught:
            parse_requirement(text)
        assert str(caught.value) == sentence
    assert len(parse_requirement(" && ".join(f"a = {i}" for i in range(31))).clauses) == 31


@pytest.mark.parametrize("before", ["(", "!", "! (", "-(", "a && (b || ", "(- ", "not ", "1 - (2 - ", "- -"])
def test_twenty_levels_are_read_and_not_one_more(before: str) -> None:
    each = before.count("(") + before.count("!") + before.count("not") + (before.count("-") if "1" not in before else 0)
    end = "(a = 1)" if "-" not in before else "1"
    rest = MOST_LEVELS - (1 if "(" in end else 0)

    def nested(times: int) -> str:
        text = before * times + end + ")" * (before.count("(") * times)
        return f"{text} > 0" if "-" in before else text

    parse_expression(nested(rest // each))
    with pytest.raises(InputError, match="too deeply nested"):
        parse_expression(nested(rest // each + 1))


HUGE = {
    "names": "a" * 10**6,
    "parentheses": "(" * 4000,
    "closed": "(" * 2000 + ")" * 2000,
    "nots": "!" * 4000,
    "minuses": "1 " + "- " * 1999,
    "quotes": '"' * 3999,
    "backslashes": '"' + "\\" * 3998,
    "digits": "1" * 4000,
    "dots": "1." * 2000,
    "ors": "a||" * 1333 + "a",
    "sums": "1+" * 1990 + "1 = 1",
    "list": "a in (" + "1," * 1990 + "1)",
    "blanks": " " * 3999 + "a",
    "hyphens": "a-" * 2000,
    "f of x": "f(" + " " * 3990 + "x",
    "vector": "Resource = <" + "1," * 1990 + ">",
    "address": "a in (" + ":" * 3900 + ")",
    "versions": "a = " + "1rc-" * 990,
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.timeout(30)
def test_a_huge_text_is_read_or_refused_soon(name: str) -> None:
    for parse in (parse_requirement, parse_rank, parse_expression):
        try:
            assert str(parse(HUGE[name]))
        except InputError as error:
            assert len(str(error)) < 1000


def _read_or_refused(text: str) -> None:
    for parse in (parse_requirement, parse_rank, parse_expression):
        try:
            found = parse(text)
        except InputError as error:
            assert "\n" not in str(error) or "\n" in text
            assert len(str(error)) < 1000
        else:
            assert parse(str(found)) == found


@examples(100)
@given(soups | scribbles)
def test_any_text_is_refused_with_a_sentence_or_read_and_printed(text: str) -> None:
    _read_or_refused(text)


@examples(34)
@given(conditions.map(str), st.data())
def test_a_text_with_a_slip_is_refused_with_a_sentence_or_read_and_printed(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    _read_or_refused(text[:at] + data.draw(st.sampled_from(("", *"()&|!=<>\"',.-% 1a"))) + text[at + 1 :])


def test_the_parser_needs_no_compiler() -> None:
    check = (
        "import sys, cress.language.parser as p; p.parse_requirement('a > 1'); sys.exit('numba' in sys.modules "
        "or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
