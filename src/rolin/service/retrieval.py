"""Find candidates among all arms of a catalogue: those with the highest scores in one draw of the policy."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rolin.bandit import Bandit
from rolin.catalogue import Catalogue
from rolin.errors import Unsupported
from rolin.features import BaseFeatureMap, FeatureMap
from rolin.policies import RoLinTS
from rolin.service.catalogue import StoredCatalogue
from rolin.service.errors import Refusal

__all__ = ["Retrieval", "check_can_search"]


def check_can_search(bandit: Bandit[Any]) -> None:
    """Refuse a bandit whose features do not allow to score all arms of a catalogue at once."""
    if not (bandit.feature_map is None or isinstance(bandit.feature_map, FeatureMap)):
        raise Refusal(
            422,
            "candidates are found only by bandits that take vectors or declare their fields, expected the names of "
            "candidates",
            field="candidates",
        )


class Retrieval:
    """Finds the best arms of a catalogue for one bandit; the caller asks for one search at a time.

    Parameters
    ----------
    bandit
        The bandit; it takes vectors, or has a `FeatureMap`.
    stored
        The catalogue.
    """

    def __init__(self, bandit: Bandit[Any], stored: StoredCatalogue) -> None:
        self._bandit, self.stored = bandit, stored
        self._prepare()

    def _prepare(self) -> None:
        """Encode all arms."""
        bandit = self._bandit
        self._map, self._policy = bandit.feature_map, bandit.policy
        self._features = _features(self.stored, self._map, self._policy.n_features)
        self._catalogue = self._made(self._policy)

    def _made(self, policy: Any) -> Catalogue:
        depends = isinstance(self._map, FeatureMap) and bool(self._map.situation)
        if depends and isinstance(policy, RoLinTS) and policy.rule == "marginal":
            # Only joint draws can be made without the context of every arm.
            policy = policy.with_sampling("joint")
        try:
            return Catalogue(
                policy,
                self._features,
                self.stored.names(),
                feature_map=self._map,
                arm_vectors=depends,
            )
        except Unsupported as error:
            raise Refusal(
                422, f"{error}; or name candidates in the request", field="candidates"
            ) from error

    def best(
        self, number: int, excluded: Collection[str], key: str, situation: Any = None
    ) -> list[str]:
        """Return the names of the best arms, best first; fewer if there are not as many.

        Parameters
        ----------
        number
            How many.
        excluded
            Arms to leave out.
        key
            The key of the random numbers.
        situation
            The fields of the situation, if the bandit has a feature map.
        """
        if self._bandit.feature_map != self._map:
            self._prepare()
        elif self._policy is not (policy := self._bandit.policy):  # it was loaded again
            self._policy, self._catalogue = policy, self._made(policy)
        if isinstance(self._map, FeatureMap) and not self._map.situation:
            situation = None
        with self._bandit.hold_policy() as policy:
            n_left = len(self._catalogue) - self.stored.count({*excluded, *policy.removed_arms})
            top_k = max(1, min(number, n_left))
            found = self._catalogue.decide(
                top_k=top_k, exclude=excluded, key=key, situation=situation
            )
        return [str(name) for name in found.ranking]


def _features(
    stored: StoredCatalogue, feature_map: BaseFeatureMap | None, n_features: int
) -> NDArray[np.float32]:
    """Return the features of all arms, in single precision, because they only choose the candidates."""
    if feature_map is None:
        return stored.vectors(n_features)
    assert isinstance(feature_map, FeatureMap)  # the caller has checked
    if not feature_map.situation:
        return stored.encoded(lambda rows, names: feature_map.transform(rows, names=names))
    return stored.encoded(lambda rows, names: feature_map.arm_vectors(rows, names=names))
