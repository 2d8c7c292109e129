"""Regular expressions: what they find is what Python's find, what is catastrophic there is not here, mistakes have a
place.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cress.language.regular import MOST_POSITIONS, BadPattern, Regular

FOUND = [
    ("gpu", "node-GPU-7", True),
    ("^gpu", "node-gpu-7", False),
    ("^n[0-9]+$", "n042", True),
    ("^n[0-9]+$", "n042x", False),
    (r"^rack1-(0[1-9]|1\d)\b$".replace(r"\b", ""), "rack1-12", True),
    (r"\d{2,3}", "a1b22", True),
    (r"^\d{2,3}$", "1234", False),
    (r"^a{2}$", "aa", True),
    (r"^(ab){2,}$", "ababab", True),
    (r"^(ab){2,}$", "ab", False),
    (r"x?y*?", "", True),
    (r"^$", "", True),
    (r"^.$", "", False),
    (r"[^a-c]", "ABC", False),
    (r"[\]-]", "a-b", True),
    (r"(^|-)gpu(-|$)", "x-gpu", True),
    (r"\.", "ab", False),
    (r"(?:a|b)c", "bc", True),
    (r"[A-Z]", "ß", False),
]


@pytest.mark.parametrize(("pattern", "text", "answer"), FOUND)
def test_found(pattern: str, text: str, answer: bool) -> None:
    assert Regular(pattern).found_in(text) is answer


MISTAKES = [
    ("a(b", 1, "this ( is not closed"),
    ("a)b", 1, "this ) closes nothing"),
    ("a[b", 1, "this [ is not closed"),
    ("*a", 0, "nothing to repeat"),
    ("a**", 2, "nothing to repeat"),
    ("^*a", 1, "nothing to repeat"),
    ("a{x}", 1, "this { is not a repetition"),
    ("a{3,1}", 1, "{3,1} repeats nothing"),
    ("[b-a]", 1, "this range ends before it begins"),
    (r"a\1", 1, r"\1 is not supported"),
    ("(?=a)", 0, "(?=a is not supported"),
    ("a\\", 1, "\\ is not supported"),
    ("a{9999}", 0, "the pattern is too long"),
    ("((){999}){999}", 1, "the pattern is too long"),
    ("(" * 400, 20, "too deeply nested"),
]


@pytest.mark.parametrize(("pattern", "place", "what"), MISTAKES)
def test_mistakes_have_a_place(pattern: str, place: int, what: str) -> None:
    with pytest.raises(BadPattern) as caught:
        Regular(pattern)
    assert (caught.value.place, caught.value.what) == (place, what)


def test_what_is_catastrophic_elsewhere_takes_one_step_per_character() -> None:
    # Two to the 500 steps for an engine that tries again.
    text = "a" * 500 + "b"
    for pattern in ("^(a+)+$", "^(a|a)*$", "^(a*)*$", "^(.*a){20}$", "a*" * 60 + "c"):
        assert not Regular(pattern).found_in(text)
    assert len(Regular("a{128}")._takes) == MOST_POSITIONS


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(("*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"))).map(
            lambda x: f"({x[0]}){x[1]}"
        ),
    )


patterns = st.recursive(
    st.sampled_from(("a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\W", "1", "-", "^", "$", r"\.")),
    _joined,
    max_leaves=6,
)


@settings(max_examples=300)
@given(patterns, st.lists(st.text(alphabet="abAC1-.", min_size=1, max_size=7), min_size=1, max_size=4))
def test_it_finds_what_python_finds(pattern: str, texts: list[str]) -> None:
    try:
        regular = Regular(pattern)
    except BadPattern as error:
        assert error.what == "the pattern is too long"
        return
    for text in texts:
        assert regular.found_in(text) is (re.search(pattern, text, re.IGNORECASE | re.DOTALL) is not None), text
