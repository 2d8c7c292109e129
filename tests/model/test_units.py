"""Amounts, durations and shares: what is read, what is written, what is refused and how."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cress.model.errors import InputError
from cress.model.resources import Dimensions, Measure
from cress.model.times import DAY, HOUR, MINUTE, SECOND
from cress.model.units import (
    AMOUNT_LIMIT,
    DURATION_LIMIT,
    closest,
    describe_amount,
    format_amount,
    format_duration,
    format_share,
    parse_amount,
    parse_count,
    parse_dimension,
    parse_duration,
    parse_share,
    rounded_duration,
)

DIMENSIONS = Dimensions(("gpu", "m"))

READ = [
    ("cpu", "4", 4_000),
    ("cpu", "2.5", 2_500),
    ("cpu", "2.5 cores", 2_500),
    ("cpu", "1core", 1_000),
    ("cpu", "500m", 500),
    ("cpu", ".25", 250),
    ("cpu", " 0 ", 0),
    ("memory", "8G", 8 * 2**30),
    ("memory", "512M", 512 * 2**20),
    ("memory", "1.5G", 3 * 2**29),
    ("memory", "1048576", 2**20),
    ("memory", "8GB", 8 * 2**30),
    ("memory", "8 GiB", 8 * 2**30),
    ("memory", "8gi", 8 * 2**30),
    ("memory", "1t", 2**40),
    ("memory", "100B", 100),
    ("memory", "3 bytes", 3),
    ("network", "500M", 500_000_000),
    ("network", "1G", 1_000_000_000),
    ("network", "10 Gbit/s", 10_000_000_000),
    ("network", "100Mbps", 100_000_000),
    ("disk_read", "50M", 50_000_000),
    ("disk_write", "50MB/s", 50_000_000),
    ("iops_read", "2K", 2_000),
    ("iops_write", "2.5k iops", 2_500),
    ("gpu", "0.125", 125),
    ("gpu", "2 gpus", 2_000),
    ("m", "50m", 50),  # the suffix, not the dimension of that name
]


@pytest.mark.parametrize(("name", "text", "amount"), READ)
def test_amounts_are_read(name: str, text: str, amount: int) -> None:
    assert parse_dimension(text, name, DIMENSIONS) == amount


REFUSED = [
    ("cpu", "", "nothing is given (a number such as 4, 2.5 or 500m)"),
    ("cpu", "-1", "'-1' is negative (a number such as 4, 2.5 or 500m)"),
    ("cpu", "0.0005", "'0.0005' is finer than thousandths (thousandths, for instance 1m)"),
    ("cpu", "500M", "'500M' has an unknown unit 'M' (did you mean 500m? a number such as 4, 2.5 or 500m)"),
    (
        "cpu",
        "2 croes",
        "'2 croes' has an unknown unit 'croes' (did you mean 2 cores? a number such as 4, 2.5 or 500m)",
    ),
    ("cpu", "1,5", "'1,5' has a comma in a number (decimals after a point, nothing between thousands)"),
    ("cpu", "1e3", "'1e3' has an unknown unit 'e3' (a number such as 4, 2.5 or 500m)"),
    (
        "memory",
        "4Gn",
        (
            "'4Gn' has the unit of Slurm for an amount per node (did you mean 4G? here it is that of one task; "
            "bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)"
        ),
    ),
    (
        "memory",
        "4096c",
        (
            "'4096c' has the unit of Slurm for an amount per core (did you mean 4096M? here it is that of one task; "
            "bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)"
        ),
    ),
    ("cpu", "٣", "'٣' does not begin with a number (a number such as 4, 2.5 or 500m)"),
    (
        "memory",
        "8Gbit",
        (
            "'8Gbit' has an unknown unit 'Gbit' "
            "(did you mean 8G? bytes such as 8G, 512M or 1.5G; K, M, G, T are powers of 1024)"
        ),
    ),
    ("memory", "1.3G", "'1.3G' is finer than whole bytes (whole bytes, for instance 1395864371)"),
    ("memory", "1024T", "'1024T' is too large (less than 1024T)"),
    ("network", "500MB/s", "'500MB/s' is in bytes, network is in bits (did you mean 4Gbit/s?)"),
    (
        "disk_read",
        "5MiB/s",
        (
            "'5MiB/s' has an unknown unit 'MiB/s' "
            "(did you mean 5M? bytes per second such as 50M or 50MB/s; K, M, G, T are powers of 1000)"
        ),
    ),
    ("gqu", "1", "unknown dimension 'gqu' (did you mean gpu?)"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), REFUSED)
def test_a_refusal_says_what_would_be_right(name: str, text: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_dimension(text, name, DIMENSIONS)
    assert str(caught.value) == sentence


def test_a_text_of_absurd_length_is_refused_without_being_repeated() -> None:
    with pytest.raises(InputError) as caught:
        parse_amount("1" * 100_000, Measure.BYTES)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("measure", "amount", "text"),
    [
        (Measure.MILLI, 2_500, "2.5"),
        (Measure.MILLI, 50, "50m"),
        (Measure.MILLI, 500, "0.5"),
        (Measure.BYTES, 8 * 2**30, "8G"),
        (Measure.BYTES, 3 * 2**29, "1.5G"),
        (Measure.BYTES, 512 * 2**20, "512M"),
        (Measure.BYTES, 1000, "1000"),
        (Measure.BITS_PER_SECOND, 0, "0"),
        (Measure.BYTES_PER_SECOND, 1_500_000, "1.5M"),
    ],
)
def test_amounts_are_written_short(measure: Measure, amount: int, text: str) -> None:
    assert format_amount(amount, measure) == text


amounts = st.one_of(
    st.integers(0, AMOUNT_LIMIT - 1),
    st.builds(
        lambda digits, step, power: digits * step**power % AMOUNT_LIMIT,
        st.integers(0, 4096),
        st.sampled_from([1000, 1024]),
        st.integers(0, 4),
    ),
)


@given(amounts, st.sampled_from(Measure))
def test_a_written_amount_reads_back_and_is_no_longer_than_the_plain_number(amount: int, measure: Measure) -> None:
    text = format_amount(amount, measure)
    assert parse_amount(text, measure) == amount
    assert len(text) <= len(f"{amount}m" if measure is Measure.MILLI else str(amount))


@given(amounts, st.sampled_from(DIMENSIONS.names))
def test_an_amount_for_people_reads_back(amount: int, name: str) -> None:
    # "3 m" is the one case in which a name is a suffix too.
    if name != "m":
        assert parse_dimension(describe_amount(amount, name, DIMENSIONS), name, DIMENSIONS) == amount


def test_amounts_for_people_have_units() -> None:
    vector = DIMENSIONS.vector(cpu=2500, memory=2**33, network=5 * 10**8, disk_read=5 * 10**7, iops_read=2000, gpu=500)
    texts = [
        describe_amount(amount, name, DIMENSIONS)
        for name, amount in zip(DIMENSIONS.names, vector, strict=True)
        if amount
    ]
    assert texts == ["2.5 cores", "8G", "500Mbit/s", "50MB/s", "2K/s", "0.5 gpu"]
    assert describe_amount(1000, "cpu", DIMENSIONS) == "1 core"


def test_a_sum_beyond_the_largest_amount_is_written_and_a_debt_is_not() -> None:
    assert format_amount(1100 * 2**40, Measure.BYTES) == "1100T"
    with pytest.raises(InputError, match="is not an amount"):
        format_amount(-1, Measure.BYTES)


@pytest.mark.parametrize(
    ("text", "duration", "written"),
    [
        ("90s", 90 * SECOND, "90s"),
        ("2h", 2 * HOUR, "2h"),
        ("1h30m", 90 * MINUTE, "90m"),
        ("1h 30min", 90 * MINUTE, "90m"),
        ("1.5 hours", 90 * MINUTE, "90m"),
        ("5min", 5 * MINUTE, "5m"),
        ("250ms", SECOND // 4, "250ms"),
        ("1d", DAY, "1d"),
        ("2w", 14 * DAY, "14d"),
        ("90", 90 * SECOND, "90s"),
        ("0.5", SECOND // 2, "0.5s"),
        ("3µs", 3, "3us"),
        ("1d1us", DAY + 1, "1d1us"),
        ("0", 0, "0s"),
    ],
)
def test_durations_are_read_and_written(text: str, duration: int, written: str) -> None:
    assert parse_duration(text) == duration
    assert format_duration(duration) == written


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "nothing is given"),
        ("-5s", "is negative"),
        ("5M", "did you mean min?"),
        ("2hors", "did you mean hours?"),
        ("1-00:00:00", "'1-00:00:00' is not a duration (did you mean 1d? a duration such as"),
        ("2-03:15", "did you mean 2d3h15m?"),
        ("1-12", "did you mean 1d12h?"),
        ("00:30:00", "did you mean 30m?"),
        ("1:30", "did you mean 1m30s or 1h30m?"),
        ("0:00", "did you mean 0s"),
        ("1 fortnight", "unknown unit 'fortnight' (a duration such as"),
        ("1h30", "has a number without a unit"),
        ("30m1h", "parts from large to small"),
        ("1h1h", "each once"),
        ("1.5h30m", "decimals only in the last"),
        ("0.0000001s", "is finer than microseconds"),
        ("200000d", "at most 36500d"),
        ("h", "does not begin with a number"),
    ],
)
def test_durations_that_are_refused(text: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_duration(text)
    assert part in str(caught.value)


@given(
    st.one_of(
        st.integers(0, DURATION_LIMIT),
        st.integers(0, 100_000).map(lambda n: n * SECOND),
        st.integers(0, 1000).map(lambda n: n * MINUTE),
    )
)
def test_a_written_duration_reads_back_and_is_never_longer_than_in_microseconds(duration: int) -> None:
    text = format_duration(duration)
    assert parse_duration(text) == duration
    assert len(text) <= len(f"{duration}us")


@given(st.text(max_size=12))
def test_any_text_is_an_amount_a_duration_or_an_input_error(text: str) -> None:
    for measure in Measure:
        try:
            assert 0 <= parse_amount(text, measure) < AMOUNT_LIMIT
        except InputError as error:
            assert str(error)
    try:
        assert 0 <= parse_duration(text) <= DURATION_LIMIT
    except InputError as error:
        assert str(error)


@pytest.mark.parametrize(("text", "share"), [("90%", "0.9"), ("0.9", "0.9"), ("110 %", "1.1"), ("1", "1"), ("0", "0")])
def test_shares_are_exact(text: str, share: str) -> None:
    assert parse_share(text) == Decimal(share)
    assert format_share(parse_share(text)) == share


@given(st.floats(0, 1e9, allow_nan=False))
def test_a_float_is_written_so_that_it_reads_back(value: float) -> None:
    text = format_share(value)
    if len(text) <= 60:
        assert float(parse_share(text)) == value


def test_a_share_has_no_other_unit() -> None:
    with pytest.raises(InputError, match="unknown unit 'pct'"):
        parse_share("90pct")


@pytest.mark.parametrize("text", ["", "1.5", "-1", "x", "0", "11", "٣"])
def test_counts_outside_their_range_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="a whole number from 1 to 10"):
        parse_count(text, least=1, most=10)


def test_the_closest_word_ignores_case_and_underscores() -> None:
    assert closest("PREEMPTBELOV", ["preempt_above", "preempt_below"]) == "preempt_below"
    assert closest("zebra", ["preempt_above"]) == ""


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("nmae", "name"),
        ("resorce", "resource"),
        ("evnironment", "environment"),
        ("network", "network_adjacent"),
        # They share letters with a key, and nothing else.
        ("surge", ""),
        ("canary", ""),
        ("progress_deadline", ""),
    ],
)
def test_a_word_is_suggested_only_if_it_is_near(word: str, near: str) -> None:
    known = ["name", "resource", "environment", "network_adjacent", "near", "deadline", "nodes", "rank"]
    assert closest(word, known) == near


@pytest.mark.parametrize(
    ("duration", "told"),
    [
        (18_862_119, "18s"),
        (SECOND - 1, "999ms"),
        (5 * MINUTE + 30 * SECOND + 17, "5m30s"),
        (2 * HOUR - 1, "1h59m"),
        (3 * DAY + 2 * HOUR + 59 * MINUTE, "3d2h"),
        (122 * DAY + 23 * HOUR, "122d"),
        (12, "0s"),
    ],
)
def test_durations_for_people_are_rounded_down_to_few_digits(duration: int, told: str) -> None:
    assert rounded_duration(duration) == told
    assert parse_duration(told) <= duration
