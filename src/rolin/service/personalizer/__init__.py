"""Azure Personalizer's API, so that programs written for it work unchanged.

Personalizer's *actions* are arms, its *events* are decisions, and the features of its *context* are the situation. The
first action is the baseline.
"""

from rolin.service.personalizer.routes import PERSONALIZER

__all__ = ["PERSONALIZER"]
