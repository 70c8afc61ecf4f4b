#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes json_schema_suite.json: the cases of the JSON-Schema-Test-Suite for draft 2020-12, without remote references.

Argument: the folder of the suite, such as `json` in the source distribution of the package jsonschema.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> None:
    suite = Path(sys.argv[1])
    tests = suite / "tests" / "draft2020-12"
    cases = []
    for file in [*sorted(tests.glob("*.json")), *sorted((tests / "optional" / "format").glob("*.json"))]:
        if file.stem == "refRemote":
            continue
        for case in json.loads(file.read_text()):
            instances = [[test["data"], test["valid"]] for test in case["tests"]]
            cases.append({"file": file.stem, "schema": case["schema"], "instances": instances})
    data = {
        "source": "https://github.com/json-schema-org/JSON-Schema-Test-Suite",
        "licence": (suite / "LICENSE").read_text(),
    }
    lines = ",\n".join(json.dumps(case) for case in cases)
    text = json.dumps(data, indent=1)[:-2] + f',\n "cases": [\n{lines}\n]}}\n'
    json.loads(text)
    (HERE / "json_schema_suite.json").write_text(text)
    print(len(cases), "schemas,", sum(len(case["instances"]) for case in cases), "instances")


if __name__ == "__main__":
    main()
