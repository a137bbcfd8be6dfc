"""The options that linear policies share, declared once.

`LinearPolicy.__init__` holds their defaults and its docstring describes them. A policy with further options takes the
shared ones as `**options: Unpack[…]`, so that type checkers and editors know them:

```python
@with_shared_options
class RoLinTS(LinearPolicy):
    def __init__(
        self, *, n_features: int, sampling: Sampling = "marginal", **options: Unpack[RoLinOptions]
    ) -> None: ...
```

`with_shared_options` writes them into the signature and the docstring, for `help` and `inspect.signature`.
A policy that is not a `LinearPolicy` uses `with_options_of(LinearPolicy)`, which does the same for the options that it
has in common with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar, get_args, get_type_hints

from rolin.model.estimation import Method
from rolin.model.scales import CoefScale, InterceptScale, Numbers, Scale, SlopeScale

__all__ = [
    "LearningOptions",
    "LinOptions",
    "PriorOptions",
    "RoLinOptions",
    "SharedOptions",
    "SlopeOptions",
    "options_of",
    "parameter_docs",
    "takes_positions",
    "with_options_of",
    "with_shared_options",
]

Class = TypeVar("Class", bound=type)
_HEADING = "Parameters\n----------\n"


class PriorOptions(TypedDict, total=False):
    """The options that `BayesRoLinTS` shares with the linear policies; see `LinearPolicy` for their meaning."""

    coef_mean: Numbers
    intercept_mean: float


class LearningOptions(PriorOptions, total=False):
    """The options of every linear policy that are not scales."""

    learn_by: Method
    half_life: float | None
    seed: int | None


class SlopeOptions(LearningOptions, total=False):
    """The options of policies with arm effects that are not scales, and those of slopes."""

    slope_std: SlopeScale
    slopes: Sequence[int] | None


class SharedOptions(LearningOptions, total=False):
    """What every linear policy takes, beside `n_features`; see `LinearPolicy` for their meaning."""

    coef_std: CoefScale


class LinOptions(SharedOptions, total=False):
    """The options of policies without arm effects."""

    intercept_std: InterceptScale
    noise_std: Scale


class RoLinOptions(LinOptions, SlopeOptions, total=False):
    """The options of policies with arm effects."""

    arm_std: Scale


def with_shared_options(policy: Class) -> Class:
    """Write the options of the base class into the signature and the docstring of a policy class.

    In the docstring, the entry `**options` of the section "Parameters" stands for them.
    """
    parent = next(base for base in policy.__mro__[1:] if "__init__" in vars(base))
    return with_options_of(parent)(policy)


def with_options_of(source: type) -> Callable[[Class], Class]:
    """Return a decorator like `with_shared_options`, for options of a class that need not be the base."""

    def write(policy: Class) -> Class:
        init = vars(policy).get("__init__")
        if init is not None and _takes_options(init):
            init.__signature__ = _signature(init, inspect.signature(vars(source)["__init__"]))
        if policy.__doc__ is not None:  # it is None under python -OO
            policy.__doc__ = _docstring(policy, source)
        return policy

    return write


def _takes_options(init: Any) -> bool:
    """Return whether a function ends with `**options`."""
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(init).parameters.values())


def options_of(policy: type) -> list[str] | None:
    """Return the names of a policy's options, or `None` if it takes any."""
    init: Any = policy.__init__  # type: ignore[misc]  # the one that this class uses
    parameters = inspect.signature(init).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return None
    return [name for name in parameters if name != "self"]


def takes_positions(policy: type) -> bool:
    """Return whether some options of a policy may be passed by position."""
    init: Any = policy.__init__  # type: ignore[misc]  # the one that this class uses
    _, *options = inspect.signature(init).parameters.values()
    return any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in options)


def parameter_docs(policy: type) -> dict[str, str]:
    """Return the entries of the section "Parameters" of a docstring, by the name of the parameter."""
    _, _, after = inspect.cleandoc(policy.__doc__ or "").partition(_HEADING)
    entries: dict[str, str] = {}
    name = ""
    for line in after.partition("\n\n")[0].splitlines():
        if not line.startswith(" "):
            name = line
        entries[name] = entries.get(name, "") + f"{line}\n"
    return entries


def _signature(init: Any, parent: inspect.Signature) -> inspect.Signature:
    """Return a signature with the shared options instead of `**options`."""
    own = dict(inspect.signature(init).parameters)
    shared, *_ = get_args(get_type_hints(init)[own.popitem()[0]])
    inherited = {
        n: p for n, p in parent.parameters.items() if n in own or n in get_type_hints(shared)
    }
    seed = inherited.pop("seed")
    parameters = {**inherited, **own, "seed": seed}  # own options go before the seed
    return inspect.Signature(list(parameters.values()), return_annotation=None)


def _docstring(policy: type, source: type) -> str:
    """Return the docstring with an entry for every option, in the order of the signature.

    Entries that the policy and its bases do not have are those of `source`.
    """
    before, heading, after = inspect.cleandoc(policy.__doc__ or "").partition(_HEADING)
    _, blank, rest = after.partition("\n\n")
    entries = parameter_docs(source)
    for base in reversed(policy.__mro__):
        entries |= parameter_docs(base)
    section = "".join(entries[name] for name in options_of(policy) or ())
    return before + heading + section.removesuffix("\n") + blank + rest
