"""All errors and warnings of `rolin`.

    RolinError
    ├── InputError (ValueError)             an argument is invalid; the call changed nothing
    │   ├── ParameterError                  an option has an invalid value
    │   │   └── UnknownOption (TypeError)   an option does not exist, or is not passed by name
    │   ├── ShapeError                      an array has the wrong shape, length or type
    │   ├── NotFiniteError                  a number is NaN, infinite, or too large to compute with
    │   ├── ArmError                        names of arms are duplicate, unhashable, removed or missing
    │   ├── UnknownDecision (KeyError)      no decision has this id
    │   ├── DecisionConflict                the id belongs to another question, or the decision has expired
    │   └── RewardConflict                  the decision already has another reward, or has expired
    ├── MergeError (ValueError)             two policies or moments cannot be combined
    ├── StateFileError                      a file is not a state that this version can read
    ├── JournalError                        a journal cannot be read or written, or belongs to another policy
    │   └── NotLearned                      it was recorded, but the policy could not learn from it
    ├── DataError                           external data are missing or malformed
    ├── EngineError                         a cluster cannot be reached, or its workers keep dying
    ├── MissingExtra (ImportError)          an optional dependency is not installed
    └── Unsupported (NotImplementedError)   a policy does not have the requested capability

There are three warnings, all of them UserWarning. ApproximationWarning: a result is approximate. OverlapWarning: a log
has too few of the choices that a policy would make to estimate the policy's value. ScaleWarning: scales could not be
estimated, so the earlier ones are still in use.

Messages say what was given and what was expected.
"""

from __future__ import annotations

__all__ = [
    "ApproximationWarning",
    "ArmError",
    "DataError",
    "DecisionConflict",
    "EngineError",
    "InputError",
    "JournalError",
    "MergeError",
    "MissingExtra",
    "NotFiniteError",
    "NotLearned",
    "OverlapWarning",
    "ParameterError",
    "RewardConflict",
    "RolinError",
    "ScaleWarning",
    "ShapeError",
    "StateFileError",
    "UnknownDecision",
    "UnknownOption",
    "Unsupported",
]


class RolinError(Exception):
    """Base of all errors of `rolin`."""


class InputError(RolinError, ValueError):
    """An argument is invalid; the call changed nothing."""


class ParameterError(InputError):
    """An option has an invalid value."""


class UnknownOption(ParameterError, TypeError):
    """An option does not exist, or is not passed by name."""


class ShapeError(InputError):
    """An array has the wrong shape, length or type."""


class NotFiniteError(InputError):
    """A number is NaN, infinite, or so large that computing with it would overflow."""


class ArmError(InputError):
    """Names of arms are duplicate, unhashable, removed or missing."""


class UnknownDecision(InputError, KeyError):
    """No decision has this id."""

    __str__ = Exception.__str__  # otherwise a KeyError shows its message in quotes


class DecisionConflict(InputError):
    """A decision with this id was asked another question, or has expired before it was activated."""


class RewardConflict(InputError):
    """The decision already has another reward, or has expired."""


class MergeError(RolinError, ValueError):
    """Two policies or moments cannot be combined."""


class StateFileError(RolinError):
    """A file is not a state that this version of `rolin` can read."""


class JournalError(RolinError):
    """A journal cannot be read or written, or belongs to another policy; nothing was written."""


class NotLearned(JournalError):
    """A reward or a change was recorded, but the policy could not learn from it, and never will."""


class DataError(RolinError):
    """External data are missing or malformed; the message names the file and the line."""


class EngineError(RolinError):
    """A cluster cannot be reached, or its workers keep dying."""


class MissingExtra(RolinError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""


class Unsupported(RolinError, NotImplementedError):
    """A policy does not have the requested capability."""


class ApproximationWarning(UserWarning):
    """A result is approximate."""


class OverlapWarning(UserWarning):
    """A log has too few of the choices that a policy would make to estimate the policy's value."""


class ScaleWarning(UserWarning):
    """Scales could not be estimated from the rewards so far; the earlier ones are still in use."""
