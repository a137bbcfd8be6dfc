"""The limits of a request: depth of its body, and rate of its key."""

from __future__ import annotations

import json
from fractions import Fraction
from time import perf_counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rolin.service.limits import RateLimit, depth_of, is_deeper

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


def scanned(text: str) -> int:
    """Return the largest number of open brackets, character by character; a backslash hides no bracket."""
    depth = most = 0
    in_text = escaped = False
    for character in text:
        if escaped and (in_text or character in '"\\'):
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == '"':
            in_text = not in_text
        elif not in_text:
            escaped = False
            depth += (character in "[{") - (character in "]}")
            most = max(most, depth)
    return most


@given(VALUES, st.booleans(), st.sampled_from([None, 0, 3]))
def test_the_depth_is_that_of_the_parsed_value(value: Any, ascii: bool, indent: int | None) -> None:
    """Brackets, quotes and backslashes in texts do not count, and neither does white space."""
    body = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()
    assert depth_of(body) == nested(value)


@given(st.text(st.sampled_from('[]{}"\\,a☃\n'), max_size=40))
@example('["\\\\"]]')
@example('["\\"[[')
@example("\\")
def test_the_depth_of_any_text_is_that_of_a_scan(text: str) -> None:
    """Invalid texts have a depth too, so that none can hide its depth from the check."""
    assert depth_of(text.encode()) == scanned(text)


@given(VALUES, st.integers(0, 6))
def test_the_quick_check_agrees(value: Any, most: int) -> None:
    """It removes level by level, which changes no answer."""
    body = json.dumps(value).encode()
    assert is_deeper(body, most) == (nested(value) > most)


@given(st.text(st.sampled_from('[]{}"\\a'), max_size=30), st.integers(0, 6))
@example("[{[{}]}]", 3)
@example("]]]][[[[", 3)
def test_the_quick_check_agrees_on_invalid_texts(text: str, most: int) -> None:
    """It never calls a text shallow that a scan finds deep."""
    assert is_deeper(text.encode(), most) == (scanned(text) > most)


def test_a_hostile_body_is_quick() -> None:
    """A body of brackets only is scanned without recursion."""
    n = 4_000_000
    assert depth_of(b"[" * n) == n
    assert depth_of(b"[" * n + b"]" * n) == n
    assert depth_of(b'"' + b"[" * n) == 0  # a parser does not get beyond the text
    assert depth_of(b"\\" * n + b"[[") == 2
    assert depth_of(b"") == 0


@pytest.mark.parametrize(
    "part", [b"[", b"]", b"[[]", b"[" * 31 + b"]" * 31, b"[" * 33 + b"]" * 32, b"\\n"]
)
def test_the_quick_check_of_a_hostile_body_is_quick(part: bytes) -> None:
    """It does not look at a long text once for each level that is allowed, which took 12 s."""
    body = part * (4_000_000 // len(part))
    start = perf_counter()
    assert is_deeper(body, 500) == (depth_of(body) > 500)
    assert perf_counter() - start < 1.5


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
