"""Everything `rolin` raises on purpose.

    RolinError
    ├── InputError (ValueError)       an argument of a call; the call changed nothing
    │   ├── ParameterError            an option has a value it cannot have
    │   │   └── UnknownOption (TypeError)   there is no option of that name
    │   ├── ShapeError                an array of the wrong shape or length
    │   ├── NotFiniteError            NaN, infinity, or a number too large to compute with
    │   ├── ArmError                  names of arms: duplicate, unhashable, removed, none at all
    │   ├── UnknownDecision (KeyError)   no decision has that id
    │   └── RewardConflict             another reward for a decision that has one
    ├── MergeError (ValueError)       evidence that cannot be combined
    ├── StateFileError                a file that is not a state this version can read
    ├── JournalError                  a journal that cannot be read, written, or is another's
    ├── DataError                     data from outside that is missing or malformed
    ├── EngineError                   a cluster that cannot be reached, or whose workers die
    ├── MissingExtra (ImportError)    a part that needs packages which are not installed
    └── Unsupported (NotImplementedError)   a policy without the capability that was asked for

And two warnings: ApproximationWarning (UserWarning), where a result is near but not exact, and
OverlapWarning (UserWarning), where a log is too different from a policy to say what it is worth.

Messages say what was given and what was expected.
"""

from __future__ import annotations

__all__ = [
    "ApproximationWarning",
    "ArmError",
    "DataError",
    "EngineError",
    "InputError",
    "JournalError",
    "MergeError",
    "MissingExtra",
    "NotFiniteError",
    "OverlapWarning",
    "ParameterError",
    "RewardConflict",
    "RolinError",
    "ShapeError",
    "StateFileError",
    "UnknownDecision",
    "UnknownOption",
    "Unsupported",
]


class RolinError(Exception):
    """Base of every error that `rolin` raises on purpose."""


class InputError(RolinError, ValueError):
    """An argument of the call is wrong; the call changed nothing."""


class ParameterError(InputError):
    """An option has a value that it cannot have."""


class UnknownOption(ParameterError, TypeError):
    """There is no option of that name."""


class ShapeError(InputError):
    """An array has the wrong shape or length."""


class NotFiniteError(InputError):
    """A number is NaN, infinite, or so large that computing with it would overflow."""


class ArmError(InputError):
    """The names of the arms are wrong: duplicate, unhashable, removed, or none at all."""


class UnknownDecision(InputError, KeyError):
    """No decision has the id that was given."""

    __str__ = Exception.__str__  # a KeyError shows its message in quotes


class RewardConflict(InputError):
    """A decision that has a reward, or has expired, is given another reward."""


class MergeError(RolinError, ValueError):
    """Two pieces of evidence cannot be combined."""


class StateFileError(RolinError):
    """A file is not a state that this version of `rolin` can read."""


class JournalError(RolinError):
    """A journal cannot be read or written, or belongs to another policy; nothing was written."""


class DataError(RolinError):
    """Data from outside are missing or malformed; says which file and which line."""


class EngineError(RolinError):
    """A cluster cannot be reached, or its workers die again and again."""


class MissingExtra(RolinError, ImportError):
    """A part of the library needs packages that are not installed; names the extra."""


class Unsupported(RolinError, NotImplementedError):
    """A policy does not have the capability that was asked for."""


class ApproximationWarning(UserWarning):
    """A result is near what was asked for, but not exactly it."""


class OverlapWarning(UserWarning):
    """A log holds too little of what a policy would do to say what the policy is worth."""
