"""The limits of a request: depth of its body, members given twice, and rate of its key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rolin.service.errors import Refusal
from rolin.service.json_text import check_json
from rolin.service.limits import RateLimit

VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('[]{}"\\,:é☃\n/a'), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=20,
)


def nested(value: Any) -> int:
    """Return the depth of a parsed value."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(nested, value), default=0) if isinstance(value, list) else 0


def problem(body: bytes, most: int) -> tuple[str, str | None] | None:
    """Return what is wrong with a text, and where; `None` if nothing is."""
    try:
        check_json(body, most)
    except Refusal as refusal:
        return ("deep" if "nested deeper" in str(refusal) else "twice"), refusal.field
    return None


@given(VALUES, st.booleans(), st.sampled_from([None, 0, 3]), st.integers(0, 6))
def test_a_text_is_too_deep_if_its_value_is(
    value: Any, ascii: bool, indent: int | None, most: int
) -> None:
    """Brackets, quotes and backslashes in texts do not count, and neither does white space."""
    body = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert (problem(body, most) is not None) == (nested(value) > most)


@given(st.text(st.sampled_from('[]{}"\\,:a☃\n'), max_size=40), st.integers(0, 6))
@example('["\\\\"]]', 1)
@example('["\\"[[', 0)
@example("\\", 0)
@example("[{[{}]}]", 3)
def test_no_text_that_a_parser_reads_hides_its_depth(text: str, most: int) -> None:
    """A text that is not JSON may pass, but only if a parser stops before it is too deep."""
    depth = deepest = 0
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        read = int(found[1]) if (found := re.search(r"\(byte (\d+)\)", str(error))) else None
    else:
        read = None
    in_text = escaped = False
    for byte in text.encode()[:read]:
        character = chr(byte)
        if in_text:
            in_text = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            in_text = True
        else:
            depth += (character in "[{") - (character in "]}")
            deepest = max(deepest, depth)
    if deepest > most:
        assert problem(text.encode(), most) is not None


class Pairs(list[tuple[str, Any]]):
    """The members of an object, which may be given twice."""


PAIRS = st.recursive(
    st.none() | st.integers() | st.sampled_from(["", "a", '{"a":1,"a":2}', ":,"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(st.sampled_from(["", "a", "b", "é", '"', "\\", ":"]), inner), max_size=3).map(Pairs)
    ),
    max_leaves=20,
)  # fmt: skip


def written(value: Any, spell: Callable[[str], str]) -> str:
    """Return a value as JSON, with keys spelt by a function."""
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{spell(k)}: {written(v, spell)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(v, spell) for v in value) + "]"
    return json.dumps(value)


def first_repeated(value: Any, place: str | None = None) -> str | None:
    """Return the place of a member that is given twice, as a user would write it; names may be empty."""

    def member(name: str) -> str:
        return name if place is None else f"{place}.{name}"

    inside = (
        [(f"{place or ''}[{i}]", v) for i, v in enumerate(value)] if type(value) is list else []
    )
    if isinstance(value, Pairs):
        names = [k for k, _ in value]
        for i, name in enumerate(names):
            if name in names[:i]:
                return member(name)
        inside = [(member(k), v) for k, v in value]
    return next((p for where, v in inside if (p := first_repeated(v, where)) is not None), None)


@given(PAIRS, st.booleans())
@example(Pairs([("", Pairs([("", None), ("", None)]))]), False)
@example([Pairs([("a", Pairs([("", None), ("", None)]))])], False)
def test_a_member_given_twice_is_found(value: Any, escaped: bool) -> None:
    """However its name is spelt, and only within one object."""

    def spell(name: str) -> str:
        codes = "".join(f"\\u{ord(character):04x}" for character in name)
        return f'"{codes}"' if escaped else json.dumps(name)

    place = first_repeated(value)
    expected = None if place is None else ("twice", place)
    assert problem(written(value, spell).encode(), 500) == expected


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"decisions":[{"arms":["\xff"]},{"id":"1","id":"2"}]}', "decisions[1].id"),
        (b'{"a":[' + b"9" * 5000 + b'],"b":1,"b":2}', "b"),
        (b'{"\\ud800":1,"\\ud800":2}', "?"),
        (b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}', "\U0001f600"),
        (b'{"' + b"a" * 1000 + b'":1,"' + b"a" * 1000 + b'":2}', "a" * 200 + "…"),
    ],
)
def test_a_member_given_twice_is_found_beside_what_is_invalid(body: bytes, place: str) -> None:
    """Bytes that are not UTF-8, long integers and halves of pairs hide nothing; the answer is short, and can be sent."""
    assert problem(body, 32) == ("twice", place)


def test_an_escaped_name_takes_no_longer_and_needs_no_memory() -> None:
    """Clients in Python escape all letters but English ones. Names of items are made for what is wrong only."""
    body = json.dumps([{"größe": 1}] * 50_000).encode()
    start = perf_counter()
    assert problem(body, 32) is None
    assert perf_counter() - start < 0.5
    assert problem(b'{"' + b"A" * 100_000 + b'\\u0041":[' + b"0," * 50_000 + b"0]}", 32) is None


def test_many_members_are_told_apart() -> None:
    """No two of 100 000 names are taken for the same."""
    names = [f"{i:x}" for i in range(100_000)]
    assert problem(json.dumps(dict.fromkeys(names, 1)).encode(), 1) is None
    body = json.dumps(dict.fromkeys(names, 1))[:-1] + ', "ffff": 2}'
    assert problem(body.encode(), 1) == ("twice", "ffff")


@pytest.mark.parametrize(
    "part",
    [b"[", b"]", b"[[]", b"[" * 31 + b"]" * 31, b"[" * 33 + b"]" * 32, b"\\n", b'"":', b'{"":'],
)
def test_a_hostile_body_is_checked_quickly(part: bytes) -> None:
    """The time does not depend on what is in it."""
    body = part * (4_000_000 // len(part))
    check_json(b"{}", 1)  # compiled
    start = perf_counter()
    for most in (32, 500):
        problem(body, most)
    assert perf_counter() - start < 1.0


# Tenths of rates and 1024ths of seconds: the sums below are exact fractions, and so are the oracle's.
@given(
    rate=st.integers(1, 50),
    burst=st.integers(1, 5),
    steps=st.lists(st.integers(0, 400), max_size=60),
)
def test_the_rate_is_that_of_a_bucket_counted_in_fractions(
    rate: int, burst: int, steps: list[int]
) -> None:
    """Requests pass as by exact arithmetic; who waits as long as told passes, and no sooner."""
    now = Fraction(0)
    limit = RateLimit(rate, burst, clock=lambda: float(now))
    tokens = Fraction(burst)
    for step in steps:
        passed = Fraction(step, 1024)
        now += passed
        tokens = min(Fraction(burst), tokens + passed * rate)
        wait = limit.wait("key")
        if tokens >= 1:
            assert wait == 0.0
            tokens -= 1
        else:
            assert wait == pytest.approx(float((1 - tokens) / rate), rel=1e-12)


@given(st.integers(1, 20), st.integers(1, 8), st.lists(st.floats(0, 0.3), max_size=80))
def test_no_window_has_more_than_burst_and_rate(rate: int, burst: int, steps: list[float]) -> None:
    """In any window of w seconds, at most burst + rate w requests pass."""
    now = 0.0
    limit = RateLimit(rate, burst, clock=lambda: now)
    passed = []
    for step in steps:
        now += step
        if limit.wait("key") == 0.0:
            passed.append(now)
    for i, first in enumerate(passed):
        for j in range(i, len(passed)):
            # 1e-9: the clock's sums are rounded.
            assert j - i + 1 <= burst + rate * (passed[j] - first) + 1e-9


def test_waiting_as_told_is_enough_and_keys_do_not_share() -> None:
    """A key that waits as long as it was told passes; another key has a bucket of its own."""
    now = 0.0
    limit = RateLimit(4.0, 1, clock=lambda: now)
    assert limit.wait("a") == 0.0
    assert limit.wait("a") == 0.25
    assert limit.wait("b") == 0.0
    now = 0.1875
    assert limit.wait("a") == 0.0625
    now = 0.25
    assert limit.wait("a") == 0.0
    assert RateLimit(0.0, 1, clock=lambda: now).wait("a") == 0.0


def test_no_rate_is_no_limit() -> None:
    """A rate of 0 lets everything pass, and remembers nothing."""
    limit = RateLimit(0.0, 1)
    assert {limit.wait(str(i % 3)) for i in range(100)} == {0.0}
