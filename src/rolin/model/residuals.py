"""What later rewards differ by from the means that a posterior predicted, and how that depends on what is uncertain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rolin._support.arms import Name, canonical
from rolin.model.posterior import Posterior
from rolin.model.summaries import OwnCoefficients

__all__ = ["Residuals", "SlopeSums", "residuals_of"]

Floats = NDArray[np.float64]


class Residuals(NamedTuple):
    """What later rewards differ by from their predicted means, and how these depend on what is uncertain."""

    arms: tuple[Name, ...]
    """The K distinct arms."""
    codes: NDArray[np.int64]
    """(n,): index of each reward's arm."""
    loadings: Floats
    """(n, D): e = loadings'z + η + ε, with D independent standard normal numbers z that all rewards share."""
    values: Floats
    """(n,): e"""
    own_variance: Floats
    """(K,): variance of η of each arm; of arms with slopes, for a context of zeros."""
    entries: Floats | None = None
    """(n, q): of arms with slopes, η = entries'ζ_i with q independent standard normal numbers ζ_i of each arm."""

    @property
    def known_variance(self) -> Floats:
        """(n,): variance of each residual without noise."""
        own = (
            self.own_variance[self.codes] if self.entries is None else (self.entries**2).sum(axis=1)
        )
        variance: Floats = (self.loadings**2).sum(axis=1) + own
        return variance


def residuals_of(
    posterior: Posterior, arms: Sequence[Name], contexts: Floats, rewards: Floats
) -> Residuals:
    """Return the residuals of rewards that a posterior has not seen.

    Parameters
    ----------
    posterior
        The posterior.
    arms
        The arms of n rewards.
    contexts
        (n, d): their contexts.
    rewards
        (n,): the rewards.
    """
    code_of: dict[Name, int] = {}
    codes = np.array(
        [code_of.setdefault(canonical(name), len(code_of)) for name in arms], dtype=np.int64
    )
    x = contexts
    if posterior.scales.has_intercept:
        x = np.column_stack([x, np.ones(len(x))])
    if posterior.own_coefficients([]).features:
        return _with_slopes(posterior, posterior.own_coefficients(list(code_of)), codes, x, rewards)
    effects = posterior.arm_effects(list(code_of))
    mean = x @ posterior.coefficients.mean + effects.mean[codes]
    return Residuals(
        tuple(code_of),
        codes,
        np.ascontiguousarray(posterior.loadings(x) - effects.loadings[codes]),
        rewards - mean,
        effects.own_variance,
    )


def _with_slopes(
    posterior: Posterior,
    own: OwnCoefficients,
    codes: NDArray[np.int64],
    x: Floats,
    rewards: Floats,
) -> Residuals:
    """Return the residuals of arms with slopes: e = (T x - L_i'z)'ζ + z'η_i + ε with η_i = R_i ζ_i and V_i = R_i R_i'."""
    roots = own.roots
    mean, loadings = x @ posterior.coefficients.mean, posterior.loadings(x)
    z = own.entries(x)
    entries = np.empty_like(z)
    for i, rows in _rows_by_arm(codes, len(own.arms)):
        mean[rows] += z[rows] @ own.mean[i]
        loadings[rows] -= z[rows] @ own.loadings[i]
        entries[rows] = z[rows] @ roots[i]
    return Residuals(
        own.arms, codes, loadings, rewards - mean, own.covariance[:, 0, 0], entries
    )  # fmt: skip


def _rows_by_arm(codes: NDArray[np.int64], n_arms: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the index of each arm with the indices of its rows."""
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=n_arms))
    yield from enumerate(np.split(order, ends[:-1]))


class SlopeSums(NamedTuple):
    """Residuals of arms with slopes, as sums from which their own numbers ζ_i can be integrated out.

    Of each arm, the weighted entries are √h Z = U diag(s) W'. With Y = √h (loadings, residuals), the density needs
    Y'(I + share Z Z')⁻¹ Y = R + Σ E'diag(1/(1 + share s²)) E, where E = U'Y and R = Y'Y - E'E: only positive terms.
    """

    squares: Floats
    """(m,): s² of all arms."""
    inside: Floats
    """(m, D + 1): E of all arms."""
    outside: Floats
    """(D + 1, D + 1): R"""
    mean_variance: Floats
    """(K,): variance of the own part of each arm's mean residual."""

    @classmethod
    def of(cls, residuals: Residuals, weights: Floats) -> SlopeSums:
        """Return the sums of residuals with these weights."""
        assert residuals.entries is not None  # because the arms have slopes
        n_arms = len(residuals.arms)
        root = np.sqrt(weights)[:, None]
        y = root * np.column_stack([residuals.loadings, residuals.values])
        outside, squares, inside = np.zeros((y.shape[1], y.shape[1])), [], []
        mean_variance = np.empty(n_arms)
        for i, rows in _rows_by_arm(residuals.codes, n_arms):
            entries = residuals.entries[rows]
            u, s, _ = np.linalg.svd(root[rows] * entries, full_matrices=False)
            e = u.T @ y[rows]
            rest = y[rows] - u @ e
            outside += rest.T @ rest
            squares.append(s**2)
            inside.append(e)
            mean = weights[rows] @ entries / weights[rows].sum()
            mean_variance[i] = mean @ mean
        return cls(np.concatenate(squares), np.concatenate(inside), outside, mean_variance)

    def marginal(self, share: float) -> tuple[Floats, Floats, Floats, float]:
        """Return share s², and A, b and c as `HeldOut.density` describes them."""
        grown = share * self.squares
        left = self.outside + (self.inside / (1.0 + grown)[:, None]).T @ self.inside
        return grown, left[:-1, :-1], left[:-1, -1], float(left[-1, -1])
