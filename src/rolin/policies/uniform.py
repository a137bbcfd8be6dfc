"""Every arm with the same probability: Uniform."""

from __future__ import annotations

import numpy as np

from rolin.checks import first_not_finite
from rolin.policies.base import LinearPolicy
from rolin.policies.question import Question
from rolin.randomness import Key
from rolin.sampling import Scores

__all__ = ["Uniform"]


class Uniform(LinearPolicy):
    """Choose at random, and learn all the same: for the first data, or a control group.

    Its options are those of [`LinearPolicy`][rolin.LinearPolicy].
    """

    def _score(self, question: Question, key: Key) -> Scores:
        x, _ = question
        if not np.isfinite(x).all():
            raise first_not_finite("contexts", x)
        values = self._random.at(key).random((1, len(x)))
        return int(values.argmax()), values
