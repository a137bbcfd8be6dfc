"""Find candidates among all arms of a catalogue: those with the highest scores in one draw of the policy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rolin.bandit import Bandit
from rolin.catalogue import Catalogue
from rolin.policies import LinearPolicy
from rolin.service.catalogue import StoredCatalogue

__all__ = ["Retrieval"]


class Retrieval:
    """Finds the best arms of a catalogue for one bandit; the caller asks for one search at a time.

    Parameters
    ----------
    bandit
        The bandit; its contexts are vectors.
    stored
        The catalogue.
    """

    def __init__(self, bandit: Bandit[Any], stored: StoredCatalogue) -> None:
        self._bandit, self.stored = bandit, stored
        # In single precision, because they only choose the candidates.
        self._features = stored.vectors(bandit.policy.n_features)
        self._catalogue = self._made(bandit.policy)

    def _made(self, policy: LinearPolicy) -> Catalogue:
        return Catalogue(policy, self._features, self.stored.names())

    def best(self, number: int, excluded: Collection[str], key: str) -> list[str]:
        """Return the names of the best arms, best first; fewer if there are not as many.

        Parameters
        ----------
        number
            How many.
        excluded
            Arms to leave out.
        key
            The key of the random numbers.
        """
        if self._catalogue.policy is not (policy := self._bandit.policy):  # it was loaded again
            self._catalogue = self._made(policy)
        with self._bandit.hold_policy() as policy:
            n_left = len(self._catalogue) - self.stored.count({*excluded, *policy.removed_arms})
            top_k = max(1, min(number, n_left))
            found = self._catalogue.decide(top_k=top_k, exclude=excluded, key=key)
        return [str(name) for name in found.ranking]
