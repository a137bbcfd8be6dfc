"""Extension of griffe: show the options that policies share in the signature and docstring of every policy.

In the source, which griffe reads, the shared options are `**options`. The imported classes have them written out, by
`rolin.policies.options`.
"""

from __future__ import annotations

import inspect
from typing import Any

import griffe

import rolin


class SharedOptions(griffe.Extension):
    """Take signatures and docstrings of policies from the imported classes."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Change the policies of the package after it was read."""
        for policy in rolin.policies.find().values() if pkg.name == rolin.__name__ else ():
            # Policies that are not linear may share options with those that are.
            ancestors = [rolin.LinearPolicy, *reversed(policy.__mro__)]
            bases = [_definition(pkg, base) for base in ancestors if _is_ours(base)]
            parameters = {
                parameter.name: parameter
                for base in bases
                if "__init__" in base.members
                for parameter in base.members["__init__"].parameters
            }
            definition = bases[-1]
            definition.docstring.value = inspect.cleandoc(policy.__doc__ or "")
            if "__init__" in definition.members:
                names = inspect.signature(policy.__init__).parameters
                definition.members["__init__"].parameters = griffe.Parameters(
                    *(parameters[name] for name in names)
                )


def _is_ours(base: type) -> bool:
    return base.__module__.startswith(rolin.policies.__name__)


def _definition(package: griffe.Module, base: type) -> Any:
    """Return what griffe has read about a class."""
    _, _, module = base.__module__.partition(".")
    return package[module].members[base.__name__]
