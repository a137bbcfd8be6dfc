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
    │   ├── MaybeRecorded                   the call was interrupted; repeat it to see whether it was recorded
    │   └── NotLearned                      it was recorded, but the policy could not learn from it
    ├── DataError                           external data are missing or malformed
    ├── EngineError                         a cluster cannot be reached, or its workers keep dying
    ├── ServiceError                        the decision service refused a request of a client
    │   ├── AccessDenied                    the key is missing, unknown, or does not allow the request
    │   ├── NotFound                        there is no such bandit or decision
    │   ├── Conflict                        the id or name is in use with other content
    │   ├── ServiceUnavailable              the service did not answer in time, or cannot do it at present
    │   └── UnexpectedAnswer                what came is not the answer to what was asked
    ├── MissingExtra (ImportError)          an optional dependency is not installed
    └── Unsupported (NotImplementedError)   a policy does not have the requested capability

There are four warnings, all of them UserWarning. ApproximationWarning: a result is approximate. OverlapWarning: a log
has too few of the choices that a policy would make to estimate the policy's value. ScaleWarning: scales could not be
estimated, so the earlier ones are still in use. SharedContextWarning: all arms share one context, and the policy has no
slopes, so it learns only which arm is best on average.

Messages say what was given and what was expected.
"""

from __future__ import annotations

__all__ = [
    "AccessDenied",
    "ApproximationWarning",
    "ArmError",
    "Conflict",
    "DataError",
    "DecisionConflict",
    "EngineError",
    "InputError",
    "JournalError",
    "MaybeRecorded",
    "MergeError",
    "MissingExtra",
    "NotFiniteError",
    "NotFound",
    "NotLearned",
    "OverlapWarning",
    "ParameterError",
    "RewardConflict",
    "RolinError",
    "ScaleWarning",
    "ServiceError",
    "ServiceUnavailable",
    "ShapeError",
    "SharedContextWarning",
    "StateFileError",
    "UnexpectedAnswer",
    "UnknownDecision",
    "UnknownOption",
    "Unsupported",
]


class RolinError(Exception):
    """Base of all errors of `rolin`."""


class InputError(RolinError, ValueError):
    """An argument is invalid; the call changed nothing.

    Parameters
    ----------
    args
        The message.
    argument
        Name of the argument, such as `"top_k"`, if it is known.
    """

    def __init__(self, *args: object, argument: str | None = None) -> None:
        super().__init__(*args)
        self.argument = argument


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


class MaybeRecorded(JournalError):
    """It is not known whether the call was recorded; repeat it with the same id to see."""


class NotLearned(JournalError):
    """A reward or a change was recorded, but the policy could not learn from it, and never will."""


class DataError(RolinError):
    """External data are missing or malformed; the message names the file and the line."""


class EngineError(RolinError):
    """A cluster cannot be reached, or its workers keep dying."""


class ServiceError(RolinError):
    """The decision service refused a request.

    Parameters
    ----------
    message
        What was asked, and what the service said about it.
    status
        The HTTP status; `None` if there was no answer.
    code
        What kind of error it is, such as `"invalid_request"`.
    field
        The part of the request that is meant, such as `"arms[3].features"`.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.field = status, code, field

    @property
    def message(self) -> str:
        """What was asked, and what the service said about it."""
        return str(self)


class AccessDenied(ServiceError):
    """The key is missing, unknown, or does not allow the request."""


class NotFound(ServiceError):
    """There is no such bandit or decision."""


class Conflict(ServiceError):
    """The id or name is in use with other content."""


class ServiceUnavailable(ServiceError):
    """The decision service did not answer in time, or cannot do what was asked at present."""


class UnexpectedAnswer(ServiceError):
    """What came is not the answer of a decision service to what was asked; nothing of it is used."""


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


class SharedContextWarning(UserWarning):
    """All arms share one context, and the policy has no slopes, so it learns only which arm is best on average."""
