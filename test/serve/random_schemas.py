# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random JSON schemas as clients write them: models of pydantic, parameters of functions, by hand."""

from __future__ import annotations

import random
from typing import Any

#: Keywords that cannot be held while a text is written, and a value for each.
UNHELD: dict[str, Any] = {
    "uniqueItems": True,
    "contains": {"type": "null"},
    "not": {"type": "null"},
    "dependentRequired": {"zz": ["a"]},
    "unevaluatedItems": False,
    "$dynamicRef": "#x",
}
_FORMATS = ("date", "date-time", "time", "uuid", "email", "ipv4", "ipv6", "hostname", "uri", "duration", "color")
_PATTERNS = ("^[A-Z]{2,3}$", r"^\d{3}-\d{4}$", "^(a|b)+$", '^[^"]{0,5}$')


class Schemas:
    """Makes schemas from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.definitions: dict[str, Any] = {}
        #: The keywords of `UNHELD` that the schema has.
        self.unheld: list[str] = []

    def root(self) -> dict[str, Any]:
        schema = self.object(0)
        if self.random.random() < 0.2:
            name = self.random.choice(sorted(UNHELD))
            self.random.choice([schema, *schema["properties"].values()])[name] = UNHELD[name]
            self.unheld.append(name)
        if self.definitions:
            schema["$defs"] = self.definitions
        return schema

    def any(self, depth: int) -> dict[str, Any]:
        kinds = [self.string, self.number, self.constant, self.plain]
        if depth < 3:
            kinds += [self.object, self.array, self.union, self.reference, self.mapping]
        schema = self.random.choice(kinds)(depth)
        if self.random.random() < 0.2:
            schema.update(title="Title", description="What it is", default=None, examples=[1])
        return schema

    def object(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(
            ["a", "b_c", "name", "größe", "x-y", "kind", "0", 'qu"ote'], self.random.randint(1, 4)
        )
        required = [name for name in names if self.random.random() < 0.6]
        schema = {
            "type": "object",
            "properties": {name: self.any(depth + 1) for name in names},
            "required": required,
            "additionalProperties": self.random.choice([False, False, {"type": "integer"}]),
        }
        if not required:
            del schema["required"]
        if self.random.random() < 0.2:
            schema["minProperties"] = min(1, len(names))
            del schema["minProperties"]
        return schema

    def mapping(self, depth: int) -> dict[str, Any]:
        schema = {"type": "object", "additionalProperties": self.any(depth + 1), "maxProperties": 2}
        names = self.random.choice([None, {"enum": ["k", "l"]}, {"pattern": "^[a-z]{1,3}$"}, {"maxLength": 4}])
        return schema if names is None else {**schema, "propertyNames": names}

    def array(self, depth: int) -> dict[str, Any]:
        least = self.random.randint(0, 2)
        schema: dict[str, Any] = {
            "type": "array",
            "items": self.any(depth + 1),
            "maxItems": least + self.random.randint(0, 2),
        }
        if least:
            schema["minItems"] = least
        if self.random.random() < 0.2:
            schema["prefixItems"] = [self.any(depth + 1)]
        return schema

    def union(self, depth: int) -> dict[str, Any]:
        if self.random.random() < 0.4:
            tagged = []
            for tag in ("cat", "dog"):
                one = self.object(depth + 1)
                one["properties"]["tag"] = {"const": tag}
                one["required"] = [*one.get("required", []), "tag"]
                tagged.append(one)
            return {"oneOf": tagged, "discriminator": {"propertyName": "tag"}}
        parts = [self.any(depth + 1), {"type": "null"}]
        return {"anyOf": parts} if self.random.random() < 0.7 else {"allOf": [{"anyOf": parts}]}

    def reference(self, depth: int) -> dict[str, Any]:
        name = f"Def{self.random.randint(0, 2)}"
        if name not in self.definitions:
            self.definitions[name] = {}
            self.definitions[name] = self.any(depth + 1)
            if self.random.random() < 0.3:  # contains itself
                self.definitions[name] = {
                    "type": "object",
                    "properties": {"next": {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]}},
                    "required": ["next"],
                    "additionalProperties": False,
                }
        return {"$ref": f"#/$defs/{name}"}

    def string(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        kind = self.random.randint(0, 3)
        if kind == 0:
            schema["format"] = self.random.choice(_FORMATS)
        elif kind == 1:
            schema["pattern"] = self.random.choice(_PATTERNS)
        else:
            schema["maxLength"] = self.random.choice([0, 3, 20, 4.0])
        return schema

    def number(self, depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": self.random.choice(["integer", "number"])}
        if self.random.random() < 0.6:
            least = self.random.randint(-50, 50)
            schema.update({"minimum": least, self.random.choice(["maximum", "exclusiveMaximum"]): least + 10})
        if self.random.random() < 0.2:
            schema["multipleOf"] = self.random.choice([1, 2, 5, 0.5])
        return schema

    def constant(self, depth: int) -> dict[str, Any]:
        values = self.random.sample([1, "two", None, True, [3], {"four": 4}, 5.5, '6 \n\\"°'], 3)
        return {"enum": values} if self.random.random() < 0.7 else {"const": values[0]}

    def plain(self, depth: int) -> dict[str, Any]:
        return {"type": self.random.choice(["boolean", "null", ["boolean", "null"], ["string", "integer"]])}
