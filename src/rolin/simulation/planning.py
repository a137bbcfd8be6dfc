"""How much exploration pays: simulate the next rounds from what a policy believes now.

The posterior is a distribution over problems. Each run draws one problem from it, lets copies of the policy play it with
several factors on their standard deviations (`exploration`) and with `"auto"`, and adds up the mean rewards of what they
choose.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rolin._support.arms import Name
from rolin._support.checks import as_names, count_of
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin._support.progress import Progress, check_progress, reporter
from rolin.errors import ParameterError, Unsupported
from rolin.model.adaptive import Adaptive
from rolin.model.posterior import Posterior
from rolin.model.scale_schedule import FIRST_ESTIMATE, FIRST_ESTIMATE_OF_SLOPES
from rolin.policies import LinearPolicy
from rolin.policies.exploration import AUTO, Exploration, WithExploration, exploration_of, shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["ExplorationPlan", "Problem", "draw_problem", "plan_exploration"]

Floats = NDArray[np.float64]
_FACTORS: tuple[Exploration, ...] = (0.0, 0.1, 0.25, 0.5, 1.0, AUTO)


class Problem(NamedTuple):
    """Coefficients, shared and of each arm, that could be the true ones."""

    coef: Floats
    """(D,): an intercept is the last."""
    own: dict[Name, Floats]
    """(q,) for each arm: its effect, then its slopes."""
    slopes: NDArray[np.int64]
    """(q - 1,): the features that have slopes."""

    def means(self, contexts: Floats, arms: Sequence[Name]) -> Floats:
        """Return the mean reward (or the logit of a binary one) of each arm."""
        d = contexts.shape[1]
        own = np.array([self.own[arm] for arm in arms])
        shared = contexts @ self.coef[:d] + self.coef[d:].sum()
        means: Floats = shared + own[:, 0] + (contexts[:, self.slopes] * own[:, 1:]).sum(axis=1)
        return means


def draw_problem(
    posterior: Posterior, arms: Sequence[Name], generator: np.random.Generator
) -> Problem:
    """Draw the coefficients, shared and of each arm, jointly from a posterior."""
    coef, own = posterior.draw_model(arms, generator)
    scales = posterior.scales
    slopes = scales.slope_indices(posterior.n_features)[: own.shape[1] - 1]  # none without slopes
    return Problem(coef, dict(zip(arms, own, strict=True)), slopes)


@dataclass(frozen=True, repr=False)
class ExplorationPlan:
    """The expected reward of the next rounds, by the option `exploration`."""

    rounds: int
    """Number of rounds that were simulated."""
    runs: int
    """Number of problems that were drawn."""
    factors: tuple[Exploration, ...]
    """What was tried: numbers, then perhaps `"auto"`."""
    rewards: Floats
    """(runs, F): mean reward per round of each choice in each run. All choices play the same problems."""

    @property
    def mean(self) -> Floats:
        """(F,): expected reward per round of each choice."""
        return np.asarray(self.rewards.mean(axis=0))

    @property
    def std_error(self) -> Floats:
        """(F,): standard error of the difference to the best choice, in paired runs; 0 for the best."""
        apart = self.rewards - self.rewards[:, [int(np.argmax(self.mean))]]
        return np.asarray(apart.std(axis=0, ddof=1) / math.sqrt(self.runs))

    @property
    def best(self) -> Exploration:
        """What to set: `"auto"`, if its expected reward is within two standard errors of the highest, else a factor.

        Of the factors within two standard errors, it is the largest, which also explores what the model does not know.
        """
        short = self.mean.max() - self.mean
        good = [
            f for f, s, e in zip(self.factors, short, self.std_error, strict=True) if s <= 2 * e
        ]
        return good[-1]

    def __repr__(self) -> str:
        """Return the best choice in one line."""
        best, rounds, runs = shown(self.best), self.rounds, self.runs
        return f"<ExplorationPlan: best exploration {best} for {rounds} rounds, {runs} runs>"

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        rows = [
            (shown(f), f"{m:.4g}", f"{m - self.mean.max():.2g} ± {e:.1g}")
            for f, m, e in zip(self.factors, self.mean, self.std_error, strict=True)
        ]
        title = f"Expected reward per round of the next {self.rounds} rounds"
        return html_table(
            title,
            ("exploration", "reward", "less than the best"),
            rows,
            [f"Best: {shown(self.best)}."],
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame, one row per factor, and one for `"auto"`. Needs pandas (`rolin[sim]`)."""
        with needs("sim"):
            import pandas as pd
        columns = {
            "mean": self.mean,
            "difference": self.mean - self.mean.max(),
            "std_error": self.std_error,
        }
        return pd.DataFrame(columns, index=pd.Index(self.factors, name="exploration"))

    def plot(self) -> Figure:
        """Draw the expected reward against the factor, with two standard errors. Needs `rolin[sim]`."""
        with needs("sim"):
            from rolin.simulation.figures import draw_plan
        return draw_plan(self)


def plan_exploration(
    policy: LinearPolicy,
    rounds: int,
    contexts: Iterable[Mapping[Any, ArrayLike] | ArrayLike] | NDArray[np.float64],
    *,
    arms: Iterable[Name] | None = None,
    factors: Iterable[Exploration] = _FACTORS,
    runs: int = 20,
    seed: int = 0,
    progress: Progress = False,
) -> ExplorationPlan:
    """Estimate how much exploration pays in the next rounds, if the policy's model is right.

    Parameters
    ----------
    policy
        A policy of Thompson sampling with a posterior, such as `RoLinTS`. It does not change.
    rounds
        Number of rounds that are still to come.
    contexts
        Candidates as they are expected, such as those of recent decisions: a list of what `decide` takes, or a
        (B, K, d) array. Each round takes one of them at random.
    arms
        The K names, the same for all; by default as for `decide`.
    factors
        What to try: 1 is Thompson sampling, 0 chooses the best mean, and `"auto"` is the default of policies.
    runs
        Number of problems to draw from the posterior. All factors play the same problems.
    seed
        Seed of the simulation.
    progress
        `True` shows a bar; a function is called with the number of runs completed since its last call.

    Notes
    -----
    It plays rounds × runs × factors decisions: about 2 s for 1000 rounds of 50 arms with the default numbers. What the
    model does not know, such as drift or missing interactions, cannot be planned for.

    Examples
    --------
    >>> import rolin
    >>> rng = np.random.default_rng(0)
    >>> policy = rolin.RoLinTS(
    ...     n_features=2, coef_std=1.0, arm_std=0.5, noise_std=1.0, intercept_std=None, seed=7
    ... )
    >>> plan = plan_exploration(policy, 30, rng.normal(size=(100, 40, 2)), runs=10)
    >>> plan.best != 1.0  # 30 rounds are too few to try 40 arms
    True
    """
    if not isinstance(policy, LinearPolicy) or not isinstance(policy, WithExploration):
        raise Unsupported(
            f"{type(policy).__name__} has no posterior or no option `exploration`, expected a policy such as RoLinTS"
        )
    model = policy.posterior
    if isinstance(model, Adaptive) and not model.has_scales:
        least = FIRST_ESTIMATE_OF_SLOPES if "slope_std" in model.learn else FIRST_ESTIMATE
        raise Unsupported(
            f"the policy has not learned its scales yet, so there is nothing to plan from: {model.count:g} rewards, "
            f"expected at least {least} that are not all equal, or numbers as scales"
        )
    rounds = count_of("rounds", rounds, least=1)
    runs, seed = count_of("runs", runs, least=2), count_of("seed", seed)
    checked = {exploration_of(factor) for factor in factors}
    tried = sorted(checked, key=lambda factor: math.inf if factor == AUTO else factor)
    if not tried:
        raise ParameterError("factors is empty, expected at least one factor")
    check_progress(progress)
    names = None if arms is None else as_names(arms)
    questions = [policy.candidates(x, names) for x in contexts]
    if not questions:
        raise ParameterError("contexts is empty, expected the candidates of at least one decision")
    indices = [{name: i for i, name in enumerate(question.names)} for question in questions]
    everyone = list(dict.fromkeys(name for question in questions for name in question.names))
    rewards = np.empty((runs, len(tried)))
    with reporter(progress, "planning", runs) as advance:
        for run in range(runs):
            generator = np.random.default_rng([seed, run])
            problem = draw_problem(policy.posterior, everyone, generator)
            means = [problem.means(q.contexts, q.names) for q in questions]
            order = generator.integers(len(questions), size=rounds)
            noise = generator.standard_normal(rounds)
            luck = generator.random(rounds)
            for i, factor in enumerate(tried):
                player = copy.deepcopy(policy)
                player.exploration = factor
                total = 0.0
                for t, b in enumerate(order.tolist()):
                    question = questions[b]
                    decision = player.decide(
                        question.contexts, question.names, key=f"plan {run} {t}"
                    )
                    mean = float(means[b][indices[b][decision.arm]])
                    if policy.binary:
                        mean = 1.0 / (1.0 + math.exp(-mean))
                        reward = float(luck[t] < mean)
                    else:
                        reward = mean + policy.scales.noise_std * float(noise[t])
                    player.update(decision.arm, decision.context, reward)
                    total += mean
                rewards[run, i] = total / rounds
            advance(1)
    return ExplorationPlan(rounds, runs, tuple(tried), rewards)
