"""API keys: what is stored, who is let in, and how a key replaces another."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolin.errors import DataError, ParameterError
from rolin.service import keys as keys_module
from rolin.service.keys import SCOPES, Keys, bearer_key


def test_a_key_is_verified_with_its_scopes(tmp_path: Path) -> None:
    """A key allows its scopes; `admin` allows everything."""
    keys = Keys(tmp_path)
    text, key = keys.create("shop", ["decide", "reward"])
    boss, _ = keys.create("boss", ["admin"])
    found = keys.find(text)
    assert found == key
    assert [scope for scope in SCOPES if found.allows(scope)] == ["decide", "reward"]
    for scheme in ("bearer", "BEARER", "Bearer "):
        admin = keys.find(bearer_key({"authorization": f"{scheme} {boss}"}) or "")
        assert admin is not None
        assert all(admin.allows(scope) for scope in SCOPES)
    assert bearer_key({}) is None
    for header in ("", "Bearer", "Bearer ", text, f"Basic {text}", f"Bearer {text[:-1]}", f"Bearer {text}x", f"Bearer {text.lower()}", "Bearer \udcff", f"Bearer {key.id}", f"Bearer {key.digest.hex()}"):  # fmt: skip
        assert keys.find(bearer_key({"authorization": header}) or "") is None, header


@given(st.text())
def test_no_other_text_is_a_key(text: str) -> None:
    """Whatever a header holds, it is rejected without an error."""
    keys = Keys("nowhere", api_key="0123456789abcdef")
    assert bearer_key({"authorization": text}) is None or text[:7].lower() == "bearer "
    assert keys.find(text) is None


def test_the_file_holds_hashes_only(tmp_path: Path) -> None:
    """The key is nowhere on the disk; the file is for its owner only, whatever its mode was."""
    keys = Keys(tmp_path / "new" / "folder")
    text, key = keys.create("shop", ["read"])
    content = keys.path.read_text()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and text[3:] in path.read_text()]  # fmt: skip
    assert json.loads(content) == {
        "format": 1,
        "keys": [
            {
                "name": "shop",
                "scopes": ["read"],
                "created": key.created,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
            }
        ],
    }
    assert text not in repr(key)
    assert len(text) == 3 + 43  # 256 bits, 6 per character
    if os.name == "posix":
        keys.path.chmod(0o644)
        keys.create("other", ["read"])
        assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_one_key_replaces_another(tmp_path: Path) -> None:
    """A name has two keys while its callers change from one to the other, and never three."""
    keys = Keys(tmp_path)
    old, old_key = keys.create("shop", ["decide"])
    new, new_key = keys.create("shop", ["decide"])
    with pytest.raises(ParameterError, match=f"{old_key.id} and {new_key.id} already.*revoke one"):
        keys.create("shop", ["decide"])
    assert keys.find(old) == old_key
    assert keys.revoke(old_key.id) == old_key
    assert keys.find(old) is None
    assert keys.find(new) == new_key
    assert keys.list() == (new_key,)
    with pytest.raises(ParameterError, match=f"no key has the id {old_key.id!r}.*{new_key.id}"):
        keys.revoke(old_key.id)
    keys.create("shop", ["decide"])


def test_the_key_of_the_settings_is_not_stored(tmp_path: Path) -> None:
    """It has all scopes, and is gone when the service starts without it."""
    keys = Keys(tmp_path, api_key="0123456789abcdef")
    found = keys.find("0123456789abcdef")
    assert found is not None
    assert found.allows("admin")
    assert keys.list() == (found,)
    assert not keys.path.exists()
    keys.create("shop", ["read"])
    assert keys.find("0123456789abcdef") == found
    assert Keys(tmp_path).find("0123456789abcdef") is None


def test_another_process_creates_and_revokes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The service sees changed keys within a second; a damaged file leaves the keys as they were."""
    now = 0.0
    monkeypatch.setattr(keys_module, "monotonic", lambda: now)
    service, command = Keys(tmp_path), Keys(tmp_path)
    text, key = command.create("shop", ["read"])
    assert service.find(text) is None
    now = 1.0
    assert service.find(text) == key
    good = service.path.read_bytes()
    service.path.write_text("{")
    now = 2.0
    with caplog.at_level(logging.ERROR):
        assert service.find(text) == key
    assert "still in use" in caplog.text
    assert text not in caplog.text
    service.path.write_bytes(good)
    command.revoke(key.id)
    now = 2.5
    assert service.find(text) == key
    now = 3.0
    assert service.find(text) is None


def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    """Objects of several processes, here of threads, do not overwrite each other's keys."""
    if sys.platform == "win32":
        pytest.skip("Windows has no such lock")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda i: Keys(tmp_path).create(f"n{i}", ["read"])[1], range(24)))
    assert set(Keys(tmp_path).list()) == set(made)


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "a/b", "ü", "a" * 65, "a\n", None])
def test_names_are_checked(name: str, tmp_path: Path) -> None:
    """A bad name or scope is rejected, and nothing is stored."""
    keys = Keys(tmp_path)
    with pytest.raises(ParameterError, match="expected 1 to 64 letters"):
        keys.create(name, ["read"])
    for scopes in ([], ["write"], ["read", "Admin"]):
        with pytest.raises(ParameterError, match="expected some of decide, reward, read, admin"):
            keys.create("a", scopes)
    assert not keys.path.exists()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "1", '{"format": 2, "keys": []}', '{"format": 1}', '{"format": 1, "keys": [1]}', '{"format": 1, "keys": [{}]}', "[" * 100_000, '{"format": 1, "keys": [{"name": "a", "scopes": ["x"], "created": "", "sha256": "' + "00" * 32 + '"}]}', '{"format": 1, "keys": [{"name": "a", "scopes": ["read"], "created": "", "sha256": "00"}]}', '{"format": 1, "keys": [{"name": 1, "scopes": ["read"], "created": "", "sha256": "00"}]}'],
)  # fmt: skip
def test_damaged_files_are_rejected(content: str, tmp_path: Path) -> None:
    """A service does not start with keys that it cannot read, and says what to do."""
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(DataError, match=r"cannot be read as API keys.*restore it, or remove it"):
        Keys(tmp_path)
