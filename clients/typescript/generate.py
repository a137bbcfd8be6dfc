"""Write the types of requests and answers, `src/schemas.ts`, from the OpenAPI document of the service.

    python clients/typescript/generate.py           write the file
    python clients/typescript/generate.py --check   write nothing; exit with 1 if the file differs

It needs the extra `service`, and the packages that `npm install` puts into this folder.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rolin.service.openapi import document

HERE = Path(__file__).parent
TARGET = HERE / "src/schemas.ts"
USED = ("DecisionRequest", "DecisionAnswer", "DecisionBatch", "RewardRequest", "RewardBatch", "ActivationBatch", "BatchAnswer", "Error")  # fmt: skip
"""The bodies that the client sends and reads."""


def with_parts(names: tuple[str, ...], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return schemas by name, with those that they are made of."""
    found: dict[str, Any] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schemas[name]
            waiting += re.findall(r'"#/components/schemas/(\w+)"', json.dumps(schemas[name]))
    return dict(sorted(found.items()))


def generated() -> str:
    """Return the content of the file, as the current document gives it."""
    whole = document()
    schemas = with_parts(USED, whole["components"]["schemas"])
    part = {**whole, "paths": {}, "components": {"schemas": schemas}}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "openapi.json"), Path(folder, "schemas.ts")
        source.write_text(json.dumps(part), encoding="utf-8")
        program = HERE / "node_modules/.bin/openapi-typescript"
        options = ["--default-non-nullable=false", "--empty-objects-unknown", f"--output={target}"]
        subprocess.run([program, source, *options], check=True, capture_output=True)
        return target.read_text(encoding="utf-8")


def main() -> None:
    """Write the file, or compare it."""
    text = generated()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit(f"{TARGET.name} is out of date: run python clients/typescript/generate.py")


if __name__ == "__main__":
    main()
