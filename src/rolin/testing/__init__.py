"""Contract checks for policies and environments: run them on the ones of `rolin` or on your own.

```python
from rolin.testing import check_policy

check_policy(MyPolicy)  # called as MyPolicy(n_features=…, seed=…)
```

The checks depend on what the policy can do. Every policy must decide and update. A policy with `predict`, `save` or
`moments` is also checked for its predictions, for continuing exactly after loading, and for merging. To get one test
per check, parametrize over `checks_for(make)`.
"""

from __future__ import annotations

from typing import Any

from rolin.errors import Unsupported
from rolin.testing import deciding, learning, state
from rolin.testing.capabilities import Decides, MakePolicy, Predicts, Saves
from rolin.testing.environments import check_environment
from rolin.testing.problems import N_FEATURES, NAMES, Check, contexts

__all__ = [
    "Check",
    "Decides",
    "MakePolicy",
    "Predicts",
    "Saves",
    "check_environment",
    "check_policy",
    "checks_for",
]


def check_policy(make: MakePolicy) -> None:
    """Run all checks that apply to a policy; raise `AssertionError` if one fails.

    Parameters
    ----------
    make
        Creates the policy: a class, or another callable that takes `n_features` and `seed`.

    Examples
    --------
    >>> import rolin
    >>> check_policy(rolin.Greedy)
    """
    for check in checks_for(make):
        check(make)


def checks_for(make: MakePolicy) -> list[Check]:
    """Return the checks that apply to a policy, by what it can do.

    Parameters
    ----------
    make
        Creates the policy: a class, or another callable that takes `n_features` and `seed`.
    """
    policy = make(n_features=N_FEATURES, seed=0)
    assert isinstance(policy, Decides), f"{policy!r} lacks decide or update"
    learns_scales = getattr(policy, "learns_scales", False)
    forgets = getattr(policy, "half_life", None) is not None
    exact = getattr(policy, "exact", True)
    checks: list[Check] = [
        deciding.deciding_changes_nothing,
        deciding.the_same_seed_decides_the_same,
        deciding.the_same_key_decides_the_same,
        deciding.mapping_and_array_decide_the_same,
        deciding.one_context_for_all_arms_is_that_context_repeated,
        deciding.names_have_one_form,
        deciding.excluded_arms_are_not_chosen,
        deciding.rankings_are_whole,
        deciding.an_empty_question_is_refused,
        deciding.bad_questions_change_nothing,
        deciding.inputs_stay_as_they_are,
        learning.bad_updates_change_nothing,
    ]
    if getattr(policy, "new_arms_are_equal", True):
        checks += [deciding.ties_are_broken_at_random]
    if hasattr(policy, "decide_many"):
        checks += [deciding.many_decisions_are_single_ones]
    if hasattr(policy, "update_many"):
        checks += [learning.many_updates_are_single_ones, learning.bad_batches_change_nothing]
    if hasattr(policy, "remove_arm"):
        checks += [learning.removed_arms_come_back]
    if _knows_probabilities(policy):
        checks += [deciding.probabilities_are_those_of_decisions]
    if isinstance(policy, Predicts):
        checks += [learning.predictions_follow_their_arms]
        # Three equal rewards are evidence of low noise and make earlier rewards older. One reward of weight 3 does
        # neither.
        if exact and not learns_scales and not forgets:
            checks += [learning.a_weight_counts_as_repeats]
    if isinstance(policy, Saves):
        checks += [state.a_loaded_policy_continues_exactly]
    if hasattr(policy, "moments") and exact and not forgets:
        checks += [state.merged_learners_are_one_learner]
    return checks


def _knows_probabilities(policy: Any) -> bool:
    """Return whether a policy can compute its probabilities."""
    try:
        policy.probabilities(contexts(0), NAMES)
    except (AttributeError, Unsupported):
        return False
    return True
