"""State files: exact, safe, atomic; merging."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import rolin
from rolin import errors
from rolin.model import state_file
from support.policies import fixed


def trained(**options: object) -> rolin.RoLinTS:
    """A policy with some history."""
    policy: rolin.RoLinTS = fixed(rolin.RoLinTS, n_features=2, seed=5, **options)
    for t in range(20):
        decision = policy.decide(np.random.default_rng(t).normal(size=(3, 2)), ["a", 1, "1"])
        policy.update(decision.arm, decision.context, float(t % 3))
    return policy


def test_names_keep_their_types(tmp_path: Path) -> None:
    """1 and "1" are two arms, also after a file; so are past lives and removed arms."""
    policy = trained()
    for name in ("a", 1, "1"):
        policy.update(name, [1.0, 0.0], 1.0)
    policy.remove_arm("1")
    policy.restore_arm("1", with_past=False)
    policy.update("1", [1.0, 0.0], 2.0)
    policy.remove_arm("a")
    policy.update(2**70, [0.0, 1.0], 1.0)
    policy.update("ünï ✓ \ud800", [0.0, 1.0], 1.0)
    policy.save(tmp_path / "state")
    loaded = rolin.load(tmp_path / "state")
    assert loaded.arms == policy.arms
    assert set(map(type, loaded.arms)) == {int, str}
    assert loaded.removed_arms == ["a"]
    assert loaded.moments.arms == policy.moments.arms
    assert repr(loaded) == repr(policy)
    with pytest.raises(errors.ArmError, match="arm 'a' was removed"):
        loaded.decide(np.ones((1, 2)), ["a"])


def test_only_strings_and_integers_can_be_saved(tmp_path: Path) -> None:
    """Other names live in memory only, and an attempt to save them leaves no file."""
    policy = trained()
    policy.update(("a", "tuple"), [1.0, 0.0], 1.0)
    with pytest.raises(
        errors.ArmError, match=r"arm \('a', 'tuple'\) is a tuple, expected a string or an .* str"
    ):
        policy.save(tmp_path / "state")
    assert list(tmp_path.iterdir()) == []


def test_any_damage_is_found(tmp_path: Path) -> None:
    """Every truncation and every flipped byte gives a StateFileError, and nothing else."""
    path = tmp_path / "state"
    trained().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for length in sorted({0, 1, 8, *rng.integers(0, len(whole), 60).tolist()}):
        path.write_bytes(whole[:length])
        with pytest.raises(errors.StateFileError):
            rolin.load(path)
    for position in [*range(0, 40), *rng.integers(0, len(whole), 200).tolist()]:
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        with pytest.raises(errors.StateFileError):
            rolin.load(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(errors.StateFileError):
        rolin.load(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    """A pickle, a text, another safetensors file, a folder, nothing at all."""
    path = tmp_path / "file"
    for content in (b"\x80\x04\x95 a pickle", b"hello", b"{}"):
        path.write_bytes(content)
        with pytest.raises(errors.StateFileError, match="not a state"):
            rolin.load(path)
    save_file({"weights": np.zeros(3)}, path)
    with pytest.raises(errors.StateFileError, match="but not a state"):
        rolin.load(path)
    with pytest.raises(FileNotFoundError):
        rolin.load(tmp_path / "missing")
    with pytest.raises(errors.StateFileError, match="is not a file"):
        rolin.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        trained().save(tmp_path / "missing" / "state")


def rewritten(path: Path, changes: dict[str, object]) -> None:
    """Change header fields of a state file and give it a digest that fits."""
    with safe_open(path, framework="np") as file:
        header = {**json.loads(file.metadata()[state_file.FORMAT]), **changes}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    del header["digest"]
    header["digest"] = state_file._digest(header, tensors)
    save_file(tensors, path, {state_file.FORMAT: json.dumps(header)})


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"version": 2}, "has format version 2, expected 1: it was written by another version"),
        ({"policy": "Tomorrow"}, "holds a Tomorrow, expected one of BayesRoLinTS, "),
        ({"settings": {"n_features": 3}}, "parts do not fit together: arms has shape"),
        ({"settings": {"n_features": -1}}, "parts do not fit together: n_features=-1"),
        ({"settings": {"n_features": 2, "new": 1}}, "has no option 'new'"),
        ({"settings": [1, 2]}, "parts do not fit together"),
        ({"decisions": -3}, "decisions=-3"),
        ({"decisions": "many"}, "decisions='many'"),
    ],
)
def test_files_of_other_versions_are_refused(
    tmp_path: Path, header: dict[str, object], message: str
) -> None:
    """What this version cannot read is said plainly."""
    path = tmp_path / "state"
    trained().save(path)
    rewritten(path, header)
    with pytest.raises(errors.StateFileError, match=message):
        rolin.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step fails, the file is the old one and nothing else is left behind."""
    path = tmp_path / "state"
    policy = trained()
    policy.save(path)
    old = path.read_bytes()
    policy.update("a", [1.0, 1.0], 1.0)

    def fails(*_: object) -> None:
        raise OSError("disk full")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fails)
            with pytest.raises(OSError, match="disk full"):
                policy.save(path)
        assert path.read_bytes() == old
        assert [file.name for file in tmp_path.iterdir()] == ["state"]
    policy.save(path)
    assert path.read_bytes() != old


def test_saving_is_deterministic(tmp_path: Path) -> None:
    """The same state is the same file, and loading and saving again changes nothing."""
    trained().save(tmp_path / "one")
    trained().save(tmp_path / "two")
    rolin.load(tmp_path / "one").save(tmp_path / "three")
    one = (tmp_path / "one").read_bytes()
    assert one == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()


def test_a_loaded_policy_can_get_a_seed_of_its_own(tmp_path: Path) -> None:
    """With another seed it knows the same and explores differently."""
    trained().save(tmp_path / "state")
    one, two = rolin.load(tmp_path / "state"), rolin.load(tmp_path / "state", seed=6)
    x = np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_array_equal(one.predict(x).mean, two.predict(x).mean)
    assert two.seed == 6
    assert [one.decide(x).arm for _ in range(50)] != [two.decide(x).arm for _ in range(50)]
    with pytest.raises(errors.RolinError, match="seed=-1"):
        rolin.load(tmp_path / "state", seed=-1)


def test_merging_fresh_learners() -> None:
    """Without a base, two learners that started empty are added up."""
    left, right, both = (fixed(rolin.RoLinTS, n_features=1, seed=0) for _ in range(3))
    for policy in (left, both):
        policy.update("a", [1.0], 2.0)
    for policy in (right, both):
        policy.update("a", [2.0], 1.0, weight=0.5)
        policy.update("b", [2.0], 1.0)
    merged = rolin.merge(left, right)
    for x, y in zip(
        merged.predict([[1.0]] * 3, ["a", "b", "c"]),
        both.predict([[1.0]] * 3, ["a", "b", "c"]),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    assert merged.posterior.log_evidence == pytest.approx(both.posterior.log_evidence)


def test_merging_keeps_removals_and_counts_decisions_once() -> None:
    """An arm removed by one learner is removed; the base's decisions are not counted twice."""
    base = trained()
    left, right = trained(), trained()
    for name in ("a", 1):
        for policy in (base, left, right):
            policy.update(name, [1.0, 0.0], 1.0)
    left.remove_arm("a")
    right.decide(np.ones((2, 2)))
    merged = rolin.merge(left, right, base=base)
    assert merged.removed_arms == ["a"]
    assert merged.n_decisions == base.n_decisions + 1
    base.remove_arm("a")  # removed at the start, restored by one of them since
    right.remove_arm("a")
    left.restore_arm("a")
    assert rolin.merge(left, right, base=base).removed_arms == []


def test_what_cannot_be_merged() -> None:
    """Different policies, settings or origins are refused with the difference named."""
    policy = trained()
    with pytest.raises(errors.MergeError, match="RoLinTS cannot be merged with Greedy"):
        rolin.merge(policy, rolin.Greedy(n_features=2))
    with pytest.raises(errors.MergeError, match=r"arm_std differs: 0.5 and 0.1"):
        rolin.merge(policy, trained(arm_std=0.1))
    other = fixed(rolin.RoLinTS, n_features=2, seed=5)
    with pytest.raises(errors.MergeError, match="is in the subtracted moments, but not in"):
        rolin.merge(policy, other, base=policy)
    with pytest.raises(errors.MergeError, match="is in the subtracted moments, but not in"):
        rolin.merge(other, policy, base=policy)


def test_a_new_life_cannot_be_merged_with_an_old_one() -> None:
    """If one learner restarted an arm, the other cannot know which of its rewards are whose."""
    base, left, right = trained(), trained(), trained()
    for policy in (base, left, right):
        policy.update("a", [1.0, 0.0], 1.0)
    for policy in (left, right):
        policy.remove_arm("a")
        policy.restore_arm("a", with_past=False)
        policy.update_many(["a"] * 20, np.ones((20, 2)), np.ones(20))
    with pytest.raises(
        errors.MergeError, match="arm 'a' was restored without its past since the start"
    ):
        rolin.merge(left, right, base=base)
    np.testing.assert_allclose(  # a life that began before the start is no obstacle
        rolin.merge(left, left, base=left).predict(np.ones((1, 2)), ["a"]),
        left.predict(np.ones((1, 2)), ["a"]),
        rtol=1e-9,
    )


def test_little_news_is_not_lost_beside_much() -> None:
    """One reward more on an arm of weight 1e13 counts, to the digits that its means have left."""
    base, other, one = (fixed(rolin.RoLinTS, n_features=1, seed=0) for _ in range(3))
    for policy in (base, other, one):
        policy.update("a", [0.0], 1.0, weight=1e13)
    for policy in (other, one):
        policy.update("a", [1000.0], 500.0)
    merged = rolin.merge(base, other, base=base)
    np.testing.assert_allclose(
        merged.predict([[1.0]], ["a"]), one.predict([[1.0]], ["a"]), rtol=1e-4
    )
    assert merged.moments.count == 2


def test_policies_can_be_copied_and_pickled() -> None:
    """By the standard library, for those who send policies to other processes."""
    policy = trained()
    x = np.ones((3, 2))
    for other in (copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        again = rolin.RoLinTS(**policy.settings)
        assert other.settings == again.settings
        np.testing.assert_array_equal(other.predict(x).mean, policy.predict(x).mean)
        assert [other.decide(x, key=k).arm for k in range(9)] == [
            policy.decide(x, key=k).arm for k in range(9)
        ]


def test_saving_keeps_links_and_permissions(tmp_path: Path) -> None:
    """A link still leads to the file, and a private file stays private."""
    (tmp_path / "real").touch(mode=0o600)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    trained().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600
    rolin.load(tmp_path / "real")


class Own(rolin.RoLinTS):
    """A policy that is defined outside the package."""


def test_policies_defined_elsewhere_are_loaded_by_their_class(tmp_path: Path) -> None:
    """`load` knows the class that it is given; without it, the file is of an unknown policy."""
    policy = Own(n_features=2, seed=3)
    policy.update("a", [1.0, 0.0], 1.0)
    policy.save(tmp_path / "own")
    loaded = rolin.load(tmp_path / "own", Own)
    assert type(loaded) is Own
    assert loaded.arms == ["a"]
    with pytest.raises(errors.StateFileError, match="holds a Own, expected one of"):
        rolin.load(tmp_path / "own")
