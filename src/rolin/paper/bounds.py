"""Sections 5.1 and 7: what the paper says about its regret bounds, in random settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rolin._support.checks import count_of
from rolin.model.theory import RegretBound, bayes_regret_bound, linear_bandit_regret_bound
from rolin.paper.claims import Check, Claim
from rolin.paper.folder import Folder
from rolin.paper.reproduce import Report, claims_page, records
from rolin.paper.setting import N_ARMS, N_FEATURES, ROUNDS

__all__ = ["Setting", "bounds", "random_settings", "trivial"]

SETTINGS = 1000
DISCUSSION = "Section 5.1"


@dataclass(frozen=True)
class Setting:
    """The arguments of Theorem 1."""

    rounds: int = ROUNDS
    n_arms: int = N_ARMS
    n_features: int = N_FEATURES
    context_norm: float = math.sqrt(N_FEATURES)
    coef_std: float = 1.0
    arm_std: float = 0.5
    noise_std: float = 1.0

    @property
    def bound(self) -> RegretBound:
        """The bound of Theorem 1."""
        return bayes_regret_bound(**vars(self))

    def changed(self, **numbers: Any) -> Setting:
        """Return another setting."""
        return replace(self, **numbers)


def random_settings(seed: int, count: int) -> list[Setting]:
    """Return settings with scales over four decades."""
    rng = np.random.default_rng(seed)
    stds = 10.0 ** rng.uniform(-2, 2, (count, 4))
    return [
        Setting(
            rounds=int(10 ** rng.uniform(1, 6)),
            n_arms=int(10 ** rng.uniform(0, 4)),
            n_features=int(10 ** rng.uniform(0, 3)),
            context_norm=norm,
            coef_std=coef,
            arm_std=arm,
            noise_std=noise,
        )
        for norm, coef, arm, noise in stds.tolist()
    ]


def trivial(setting: Setting) -> RegretBound:
    """Return the bound by a trivial analysis: max{σ₀², 1/λ} (L² + 1) instead of σ₀² + L²/λ (Section 5.1)."""
    largest = max(setting.arm_std, setting.coef_std)
    return linear_bandit_regret_bound(
        rounds=setting.rounds,
        n_features=setting.n_features + setting.n_arms,
        max_std=largest * math.hypot(setting.context_norm, 1.0),
        noise_std=setting.noise_std,
        n_actions=setting.n_arms,
    )


def bounds(folder: Path, *, seed: int = 0, settings: int | None = None) -> Report:
    """Check the statements about Theorems 1 and 2, and write them to a folder.

    Parameters
    ----------
    folder
        Output folder; created if it does not exist.
    seed
        A non-negative integer.
    settings
        Number of random settings; by default 1000.
    """
    count = SETTINGS if settings is None else count_of("settings", settings, least=1)
    seed = count_of("seed", seed)
    output = Folder(folder, {"experiment": "bounds", "seed": seed, "settings": count})
    drawn = random_settings(seed, count)
    verdicts = [(claim, claim.check({})) for claim in _claims(drawn)]
    table = _table()
    output.write("summary.json", records(table))
    note = (
        f"{count} random settings: K to 10 000, d to 1000, n to 10⁶, L and all scales from 0.01 to 100. "
        "The bounds at the size of Figure 1 (K = 50, d = 10, n = 3000, L = √10):\n\n"
        + _markdown(table)
    )
    output.write("claims.md", claims_page("Theorems 1 and 2", verdicts, [note]))
    output.write_settings()
    return Report("Bounds of Theorem 1 at the size of Figure 1", folder, table, verdicts)


def _table() -> pd.DataFrame:
    rows = []
    for arm_std in (0.0, 0.25, 0.5, 1.0):
        setting = Setting(arm_std=arm_std)
        rows.append(
            {
                "arm_std": arm_std,
                "theorem_1": setting.bound.total,
                "trivial_analysis": trivial(setting).total,
                "linear_bandit": _linear(setting).total,
            }
        )
    return pd.DataFrame(rows)


def _linear(setting: Setting, **options: Any) -> RegretBound:
    """Return Theorem 2's bound without arm effects: d coefficients instead of d + K."""
    given: dict[str, Any] = {"n_actions": setting.n_arms, **options}
    return linear_bandit_regret_bound(
        rounds=setting.rounds,
        n_features=setting.n_features,
        max_std=setting.context_norm * setting.coef_std,
        noise_std=setting.noise_std,
        **given,
    )


def _every(
    where: str, settings: Iterable[Setting], holds: Callable[[Setting], bool], evidence: str = ""
) -> Check:
    """Check that a statement holds in every setting."""
    outcomes = [holds(setting) for setting in settings]
    text = f"in {sum(outcomes)} of {len(outcomes)} settings"
    return Check(where, all(outcomes), f"{text}; {evidence}" if evidence else text)


def _tail(d: int, log: float) -> float:
    """Return E[‖z‖ 1{‖z‖ > √(2 d log(1/δ))}] of d standard normals: what the proof bounds by √(2/π) d^1.5 δ."""
    from scipy.special import gammaincc, gammaln  # takes 0.1 s to import

    a = 0.5 * (d + 1)
    return float(math.sqrt(2.0) * math.exp(gammaln(a) - gammaln(0.5 * d)) * gammaincc(a, d * log))


def _range(values: list[float]) -> str:
    return f"{min(values):.3g} to {max(values):.3g}"


def _claims(drawn: list[Setting]) -> list[Claim]:
    def grows(name: str) -> Check:
        return _every(
            f"twice the {name}", drawn,
            lambda s: s.changed(**{name: 2.0 * getattr(s, name)}).bound.total > s.bound.total,
        )  # fmt: skip

    def improves(_: object) -> list[Check]:
        def evidence(settings: list[Setting]) -> str:
            ratios = [trivial(s).total / s.bound.total for s in settings]
            return f"the trivial bound is {_range(ratios)} times as high"

        # Both are equal if σ₀² = 1/λ, up to rounding.
        equal = [s.changed(arm_std=s.coef_std) for s in drawn]
        rounding = 1.0 + 1e-12
        return [
            _every(
                "never worse than the trivial bound", drawn,
                lambda s: s.bound.total <= trivial(s).total * rounding, evidence(drawn),
            ),
            _every(
                "better than the trivial bound, σ₀² = 1/λ", equal,
                lambda s: s.bound.total * rounding < trivial(s).total, evidence(equal),
            ),
        ]  # fmt: skip

    def k_armed(_: object) -> list[Check]:
        nearly = [
            s.changed(
                n_arms=10_000 * s.n_features, coef_std=1e-6 * s.arm_std / max(s.context_norm, 1.0)
            )
            for s in drawn
        ]

        def ratio(s: Setting) -> float:
            return s.bound.total / s.changed(n_features=0, context_norm=0.0).bound.total

        def gain(s: Setting) -> float:
            return trivial(s).learning / s.bound.learning / math.hypot(s.context_norm, 1.0)

        def factor_l(where: str, settings: list[Setting]) -> Check:
            gains = [gain(s) for s in settings]
            evidence = (
                f"ratio over √(L² + 1): {_range(gains)}, claimed 1 up to logarithms (0.3 to 1.1)"
            )
            return _every(
                f"the trivial bound over ours, {where}",
                settings,
                lambda s: 0.3 < gain(s) < 1.1,
                evidence,
            )

        # Many rounds, so that logarithms of n hardly differ, and long contexts, so that L matters.
        long = [s.changed(rounds=10**15) for s in nearly if s.context_norm >= 3.0]
        return [
            _every(
                "over the bound of a K-armed bandit, K = 10 000 d", nearly,
                lambda s: abs(ratio(s) - 1.0) < 1e-3,
                f"ratio at most {max(ratio(s) for s in nearly):.6f}, claimed → 1",
            ),
            factor_l("σ₀ ≥ σ", [s for s in long if s.arm_std >= s.noise_std]),
            factor_l("σ₀ ≤ σ/(10 L)", [s for s in long if s.arm_std * s.context_norm <= s.noise_std / 10]),
        ]  # fmt: skip

    def order(_: object) -> list[Check]:
        def scaled(s: Setting) -> float:
            """Return the learning term over σ_max √((d + K) n), and over a logarithm."""
            bound = s.bound
            size = bound.max_std * math.sqrt((s.n_features + s.n_arms) * s.rounds)
            return (
                bound.learning
                / size
                / math.log(1.0 + s.rounds * max((bound.max_std / s.noise_std) ** 2, 1.0))
            )

        def at_most_two(where: str, settings: list[Setting]) -> Check:
            evidence = (
                f"{_range([scaled(s) for s in settings])} times that, claimed bounded (here by 2)"
            )
            return _every(where, settings, lambda s: scaled(s) <= 2.0, evidence)

        return [
            at_most_two("σ_max ≥ σ", [s for s in drawn if s.bound.max_std >= s.noise_std]),
            at_most_two("σ_max ≤ σ/10", [s for s in drawn if s.bound.max_std <= s.noise_std / 10]),
        ]  # fmt: skip

    def root_n(_: object) -> list[Check]:
        def exponent(s: Setting) -> float:
            large, larger = (s.changed(rounds=10**power).bound.learning for power in (12, 14))
            return math.log(larger / large) / math.log(100.0)

        exponents = [exponent(s) for s in drawn]
        return [
            _every(
                "exponent of n, from 10¹² to 10¹⁴ rounds", drawn,
                lambda s: 0.5 <= exponent(s) < 0.6, f"{_range(exponents)}, √n with logarithms is 0.5 to 0.6",
            )
        ]  # fmt: skip

    def root_size(_: object) -> list[Check]:
        def rise(s: Setting) -> float:
            more = s.changed(n_arms=2 * s.n_arms, n_features=2 * s.n_features)
            return more.bound.learning / s.bound.learning

        return [
            _every(
                "twice d + K", drawn, lambda s: 1.0 <= rise(s) <= math.sqrt(2.0) + 1e-9,
                f"the learning term rises by {_range([rise(s) for s in drawn])}, at most √2",
            )
        ]  # fmt: skip

    def keeps_k(_: object) -> list[Check]:
        without = [s.changed(arm_std=0.0) for s in drawn]
        ratios = [s.bound.total / _linear(s).total for s in without]
        return [
            _every(
                "σ₀ = 0, over Theorem 2 with d coefficients", without,
                lambda s: s.bound.total > _linear(s).total, f"{_range(ratios)} times as high",
            )
        ]  # fmt: skip

    def few_contexts(_: object) -> list[Check]:
        def ratio(s: Setting, delta: float) -> tuple[float, float]:
            """Return the learning term and the whole bound with K contexts, over those with any number."""
            few = _linear(s, failure_probability=delta)
            many = _linear(s, n_actions=None)
            return few.learning / many.learning, few.total / many.total

        def learning(s: Setting) -> float:
            return ratio(s, 1.0 / s.rounds)[0] * math.sqrt(s.n_features)

        def with_log_k(s: Setting) -> float:
            scale = math.sqrt(s.n_features / (1.0 + math.log(s.n_arms) / math.log(s.rounds)))
            return ratio(s, 1.0 / (s.rounds * s.n_arms))[0] * scale

        def whole(s: Setting) -> float:
            return ratio(s, 1.0 / s.rounds)[1]

        return [
            _every(
                "the first term with δ = 1/n", drawn, lambda s: math.isclose(learning(s), 1.0),
                f"{_range([learning(s) for s in drawn])} times 1/√d",
            ),
            _every(
                "the first term with δ = 1/(K n)", drawn, lambda s: math.isclose(with_log_k(s), 1.0),
                f"{_range([with_log_k(s) for s in drawn])} times √(1 + log K/log n)/√d",
            ),
            _every(
                "the whole bound with δ = 1/n", drawn, lambda s: whole(s) <= 1.0,
                f"{_range([whole(s) for s in drawn])} times as high, as its second term has K for d^1.5",
            ),
        ]  # fmt: skip

    def any_delta(_: object) -> list[Check]:
        dimensions = (1, 2, 10, 100, 1000)

        def check(delta: float) -> Check:
            log = -math.log(delta)
            if log < 0.0:
                return Check(
                    f"δ = {delta:g}", False,
                    f"log(1/δ) = {log:.3g}: the bound is the root of a negative number",
                )  # fmt: skip
            shares = [
                _tail(d, log) / (math.sqrt(2.0 / math.pi) * d**1.5 * delta) for d in dimensions
            ]
            return Check(
                f"δ = {delta:g}", max(shares) <= 1.0 + 1e-9,
                f"the regret when the interval fails is {_range(shares)} of the bound's second term, d = 1 to 1000",
            )  # fmt: skip

        return [check(delta) for delta in (1e-6, 0.5, 1.0, 2.0)]

    return [
        Claim(
            "the bound grows with σ₀, L and 1/λ", DISCUSSION,
            "The regret increases when λ is low, when σ₀ is high, and when L is high.",
            lambda _: [grows(name) for name in ("arm_std", "context_norm", "coef_std")],
        ),
        Claim(
            "always an improvement", DISCUSSION,
            "The analysis is always an improvement on a trivial one.", improves,
        ),
        Claim(
            "the limit of a K-armed bandit", DISCUSSION,
            "When θ is nearly certain and K ≫ d, the bound approaches that of a K-armed Bayesian bandit, and the trivial "
            "one is higher by a factor of L.", k_armed,
        ),
        Claim(
            "the order of the bound", DISCUSSION,
            "The Bayes regret is O(√((σ₀² + L²/λ) (d + K) n)) up to logarithmic factors.", order,
        ),
        Claim(
            "√n", DISCUSSION,
            "The dependence on the horizon n is optimal: √n up to logarithmic factors. (That no policy can do better is a lower "
            "bound of others.)",
            root_n,
        ),
        Claim(
            "√(d + K)", DISCUSSION,
            "The dependence on d + K arises due to learning d + K parameters.", root_size,
        ),
        Claim(
            "K stays where it should not", "Conclusions",
            "As σ₀ → 0, one would expect O(√(d n)), while the bound is O(√((d + K) n)).", keeps_k,
        ),
        Claim(
            "few contexts are better", "Appendix B.2",
            "With at most K contexts in a round, the bound improves from O(√d) to O(√(log K)).", few_contexts,
        ),
        Claim(
            "any δ", "Theorem 2", "The bound of Theorem 2 holds for any δ > 0.", any_delta,
        ),
    ]  # fmt: skip


def _markdown(table: pd.DataFrame) -> str:
    lines = [
        "| σ₀ | Theorem 1 | trivial analysis | Theorem 2 with d coefficients (no arm effects) |",
        "|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.arm_std:g} | {row.theorem_1:.0f} | {row.trivial_analysis:.0f} | {row.linear_bandit:.0f} |"
        for row in table.itertuples()
    ]
    return "\n".join(lines)
