# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prepare a JSON schema for llguidance: the same meaning in the keywords that it knows, other keywords are named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..support.errors import InvalidArgumentError

#: Microseconds that compiling a schema may take by the costs below; a schema with more is refused before it is
#: compiled. Costs were measured with llguidance 1.9.1 on one core of a Zen 4 processor.
MOST_COST = 1_000_000
_COST_OF_SCHEMA = 40
_COST_OF_VALUE = 4
#: A name that is required.
_COST_OF_NAME = 1
#: The optional properties of an object may occur in any subset, which costs their number squared over this.
_COST_OF_OPTIONAL = 16
#: Divisibility is a state machine with one state for each remainder.
_COST_OF_REMAINDER = 9

#: Schemas that are looked at to tell alternatives of oneOf apart: references let a short text have many.
_MOST_LOOKS = 100_000

#: Passes over all schemas until it is known which have values that end; one is enough for most.
_MOST_PASSES = 50

#: The deepest nesting of objects and lists in a schema; llguidance's reader of JSON has a limit of 128.
_MOST_DEPTH = 100

#: Keywords that need the whole value, where a grammar knows only what has been written.
_UNSUPPORTED = (
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "$dynamicRef",
    "$recursiveRef",
)
#: The formats of JSON Schema 2020-12, section 7.3. Other names define nothing that could be checked.
_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer"),
        *("relative-json-pointer", "regex"),
    }
)
#: Formats whose expressions in llguidance allow more than RFC 3339 does: days that a month does not have, and leap
#: seconds at any minute. These have no leap seconds, and no year 0, which Python's dates lack.
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"({_YEAR}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
    f"|{_LEAP_YEAR}-02-29)"
)
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([Zz]|[+\-]([01][0-9]|2[0-3]):[0-5][0-9])"
_PATTERNS = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}[Tt]{_TIME}$"}
#: Keywords whose values are whole numbers, which JSON may write as 2.0.
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_KINDS = frozenset(("null", "boolean", "string", "array", "object", "integer", "fraction"))
#: Keywords whose values are schemas, or lists of them.
_SCHEMA_KEYS = ("items", "prefixItems", "additionalItems", "additionalProperties", "anyOf", "oneOf", "allOf")
#: Keywords beside a reference that join it to what is there.
_JOINED = frozenset(("properties", "required", "additionalProperties", "patternProperties", "anyOf", "oneOf"))
#: Keywords that say what other properties an object may have, or may say so.
_OPEN = frozenset(
    {
        *(
            "additionalProperties",
            "unevaluatedProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "$ref",
        ),
        *("anyOf", "oneOf", "if", "not", "dependentSchemas", "$dynamicRef"),
    }
)
_APPLICATORS = ("allOf", "anyOf", "oneOf", "$ref", "if", "dependentSchemas", "not")


@dataclass(frozen=True)
class PreparedSchema:
    """A schema for llguidance.

    Attributes
    ----------
    schema : dict
    cost : int
        Microseconds that compiling it takes, about.
    dropped : tuple of str
        Keywords, with their places, that the schema has lost because they cannot be held.
    """

    schema: dict[str, Any]
    cost: int = 0
    dropped: tuple[str, ...] = ()


def prepare_schema(text: str) -> dict[str, Any]:
    """Return what `prepare` does with nothing dropped."""
    return prepare(text).schema


def prepare(text: str, *, drops: bool = False, closes: bool = False) -> PreparedSchema:
    """Return a schema with the same meaning, without keywords that llguidance lacks but that can be said otherwise.

    Parameters
    ----------
    text : str
        The schema as JSON.
    drops : bool
        Drop keywords that cannot be held while a text is written: more texts are valid by the result.
    closes : bool
        Let objects have no properties but those that they list; see `close_objects`.

    Raises
    ------
    InvalidArgumentError
        The text is not a JSON schema, is too large, or has keywords that cannot be held while a text is written; their
        places are in the message.
    """
    try:
        schema = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _error("is nested too deep") from None
    except ValueError as error:
        raise _error(str(error)) from error
    if schema is True:
        return PreparedSchema({})
    if schema is False:
        raise _error("the schema is false: nothing is valid by it")
    if not isinstance(schema, dict):
        raise _error(f"is a {type(schema).__name__}, must be an object or a boolean")
    try:
        if closes:
            close_objects(schema)
        preparation = _Preparation(schema, drops)
        preparation.run()
        return PreparedSchema(schema, preparation.cost, tuple(preparation.dropped))
    except RecursionError:  # a value that the schema compares: what llguidance reads is not so deep
        raise _error("is nested too deep") from None


def close_objects(schema: dict[str, Any]) -> None:
    """Say of objects with properties that they have no others, where a schema does not say whether they may.

    What is valid by the result is valid by the schema. Models that are not used to a schema go on inventing properties
    as long as they may. Schemas that are joined to others are left as they are: one would exclude what the other
    requires.
    """
    parts = list(_all_parts(schema))
    if any("allOf" in part or ("$ref" in part and part.keys() & _JOINED) for part in parts):
        return
    for part in parts:
        properties = part.get("properties")
        if (
            isinstance(properties, dict)
            and not part.keys() & _OPEN
            and set(_names(part, "required")) <= set(properties)
        ):
            part["additionalProperties"] = False


def _all_parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            yield part
            waiting += [part[key] for key in _SCHEMA_KEYS if key in part]
            for key in ("properties", "patternProperties", "$defs", "definitions"):
                if isinstance(part.get(key), dict):
                    waiting += part[key].values()


class _Preparation:
    """Rewrites a schema in place, the parts that its references reach among it."""

    def __init__(self, root: dict[str, Any], drops: bool) -> None:
        self.root = root
        self.drops = drops
        self.dropped: list[str] = []
        self.cost = 0
        self.looks = 0
        self.refused: list[str] = []
        self.visited: set[int] = set()
        self.reached: list[tuple[dict[str, Any], str]] = []
        self.waiting: list[tuple[dict[str, Any], str, int]] = [(root, "#", 0)]

    def run(self) -> None:
        while self.waiting:
            schema, where, depth = self.waiting.pop()
            if id(schema) not in self.visited:
                self.visited.add(id(schema))
                self.reached.append((schema, where))
                self._rewrite(schema, where)
                self._refuse(schema, where)
                self._count(schema)
                if depth > _MOST_DEPTH:
                    raise _error(f"is nested deeper than {_MOST_DEPTH}")
                if self.cost > MOST_COST:
                    raise _error(
                        "is too large: it would take longer than a second to compile; fewer optional properties, "
                        "smaller multipleOf and smaller enums help"
                    )
                self.waiting += [(part, f"{where}/{name}", depth + 1) for name, part in self._parts(schema)]
                target = self._target(schema)
                if target is not None:
                    self.waiting.append((target, schema["$ref"], 0))
        if self.refused:
            more = f", and {len(self.refused) - 5} more" if len(self.refused) > 5 else ""
            raise _error(
                f"these keywords cannot be held while a text is written: {', '.join(self.refused[:5])}{more}; leave "
                "them out, and check them in the finished text"
            )
        if any("$ref" in schema for schema, _ in self.reached):
            self._drop_endless()

    def _drop_endless(self) -> None:
        """Refuse a schema whose values contain themselves without an end; leave out parts of which that is true.

        A grammar would begin such a value, and then have no token that may come next.
        """
        ends: set[int] = set()
        for _ in range(_MOST_PASSES):
            # What is reached later is a part of what is reached before.
            new = [
                schema for schema, _ in reversed(self.reached) if id(schema) not in ends and self._ends(schema, ends)
            ]
            if not new:
                break
            ends |= set(map(id, new))
        else:
            raise _error("its references are nested too deep")

        def is_endless(part: Any) -> bool:
            return isinstance(part, dict) and id(part) not in ends

        if is_endless(self.root):
            where = next(where for schema, where in reversed(self.reached) if id(schema) not in ends)
            raise _error(f"no text follows it: {where} refers to itself, or needs a value that contains itself ($ref)")
        for schema, _ in self.reached:
            for key in ("properties", "patternProperties"):
                if isinstance(schema.get(key), dict):
                    schema[key] = {name: not is_endless(part) and part for name, part in schema[key].items()}
            for key in ("items", "additionalItems", "additionalProperties"):
                if is_endless(schema.get(key)):
                    schema[key] = False
            for key in ("anyOf", "oneOf"):
                if isinstance(schema.get(key), list):
                    schema[key] = [part for part in schema[key] if not is_endless(part)]
            if isinstance(schema.get("prefixItems"), list):
                schema["prefixItems"] = [not is_endless(part) and part for part in schema["prefixItems"]]

    def _ends(self, schema: dict[str, Any], ends: set[int]) -> bool:
        """Return True if a schema has a value that ends, given the schemas of which that is known."""

        def does(part: Any) -> bool:
            return id(part) in ends if isinstance(part, dict) else part is not False

        if "const" in schema or isinstance(schema.get("enum"), list):
            return True
        target = self._target(schema)
        if target is not None and not does(target):
            return False
        if isinstance(schema.get("allOf"), list) and not all(map(does, schema["allOf"])):
            return False
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list) and schema[key] and not any(map(does, schema[key])):
                return False
        types = schema.get("type")
        types = types if isinstance(types, (str, list)) else ["object", "array"]
        properties = schema.get("properties")
        if "object" in types and isinstance(properties, dict):
            names = [name for name in _names(schema, "required") if name in properties]
            if not all(does(properties[name]) for name in names):
                return False
        least = schema.get("minItems")
        if "array" in types and type(least) is int and least > 0:
            prefix = schema["prefixItems"] if isinstance(schema.get("prefixItems"), list) else []
            rest = [schema["items"]] if len(prefix) < least and "items" in schema else []
            return all(map(does, [*prefix[:least], *rest]))
        return True

    def _parts(self, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the schemas that a schema consists of."""
        for key in ("properties", "patternProperties"):
            if isinstance(schema.get(key), dict):
                yield from ((f"{key}/{name}", part) for name, part in schema[key].items() if isinstance(part, dict))
        for key in ("allOf", "anyOf", "oneOf", "prefixItems", "items"):
            if isinstance(schema.get(key), list):
                yield from ((f"{key}/{i}", part) for i, part in enumerate(schema[key]) if isinstance(part, dict))
        for key in ("items", "additionalItems", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield key, schema[key]

    def _target(self, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Return the schema that a reference within this document means."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at: Any = self.root
        for name in reference[1:].split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            if isinstance(at, list) and name.isdecimal() and len(name) < 10 and int(name) < len(at):
                at = at[int(name)]
            elif isinstance(at, dict) and name in at:
                at = at[name]
            else:
                return None
        return at if isinstance(at, dict) and (reference == "#" or reference.startswith("#/")) else None

    def _rewrite(self, schema: dict[str, Any], where: str) -> None:
        """Drop keywords that say nothing, and say others in those that llguidance knows."""
        for key, idle in (
            ("uniqueItems", (False,)),
            ("not", (False,)),
            ("propertyNames", (True, {}, {"type": "string"})),
            ("dependentRequired", ({},)),
            ("dependentSchemas", ({},)),
            ("dependencies", ({},)),
            ("unevaluatedItems", (True, {})),
            ("unevaluatedProperties", (True, {})),
        ):
            if any(type(schema.get(key)) is type(value) and schema[key] == value for value in idle):
                del schema[key]
        idle_together = ("minContains", "maxContains") if "contains" not in schema else ()
        if "if" not in schema or not ("then" in schema or "else" in schema):
            idle_together += ("if", "then", "else")
        for key in idle_together:
            schema.pop(key, None)
        if isinstance(schema.get("format"), str):
            self._rewrite_format(schema, where)
        for key in _COUNTS:
            if type(schema.get(key)) is float and schema[key].is_integer():
                schema[key] = int(schema[key])
        self._rewrite_dependent(schema)
        if "unevaluatedProperties" in schema and not any(key in schema for key in _APPLICATORS):
            value = schema.pop("unevaluatedProperties")
            schema.setdefault("additionalProperties", value)
        if "propertyNames" in schema:
            self._rewrite_names(schema)
        if isinstance(schema.get("oneOf"), list) and self._are_disjoint(schema["oneOf"]):
            self._take_one_for_any(schema, where)

    def _rewrite_format(self, schema: dict[str, Any], where: str) -> None:
        """Drop a format that defines nothing, and say others by a pattern."""
        if schema["format"] not in _FORMATS:
            del schema["format"]
        elif schema["format"] in _PATTERNS:
            pattern = {"pattern": _PATTERNS[schema.pop("format")]}
            if "pattern" not in schema:
                schema.update(pattern)
            else:
                self._add_to_all(schema, where, pattern)

    @staticmethod
    def _add_to_all(schema: dict[str, Any], where: str, part: dict[str, Any]) -> None:
        """Append a schema to allOf."""
        others = schema.get("allOf", [])
        if not isinstance(others, list):
            raise _error(f"{where}: allOf is a {type(others).__name__}, must be a list")
        schema["allOf"] = [*others, part]

    def _take_one_for_any(self, schema: dict[str, Any], where: str) -> None:
        """Say oneOf by anyOf."""
        alternatives = schema.pop("oneOf")
        if "anyOf" in schema:
            self._add_to_all(schema, where, {"anyOf": alternatives})
        else:
            schema["anyOf"] = alternatives

    def _rewrite_dependent(self, schema: dict[str, Any]) -> None:
        """Require what properties that are required depend on."""
        dependent, required = schema.get("dependentRequired"), schema.get("required", [])
        if not isinstance(dependent, dict) or not _are_names(required) or not all(map(_are_names, dependent.values())):
            return
        self.cost += _COST_OF_NAME * (len(required) + sum(map(len, dependent.values())))
        known = dict.fromkeys(required)
        waiting = list(known)
        while waiting:
            others = dict.fromkeys(other for other in dependent.get(waiting.pop(), ()) if other not in known)
            known |= others
            waiting += others
        if known:
            schema["required"] = list(known)
        if all(known.keys() >= set(others) for others in dependent.values()):
            del schema["dependentRequired"]

    def _rewrite_names(self, schema: dict[str, Any]) -> None:
        """Say which names the properties of an object may have by properties and patterns."""
        names, value = schema["propertyNames"], schema.get("additionalProperties", True)
        if not isinstance(names, dict) or schema.get("patternProperties"):
            return
        names = _without_titles(names)
        if set(names) == {"$ref"}:
            names = _without_titles(self._target(names) or {})
        types = names.get("type")
        if types == "string" or (isinstance(types, list) and "string" in types):
            names = {key: part for key, part in names.items() if key != "type"}  # names are strings
        own = schema.get("properties") or {}
        if set(names) in ({"enum"}, {"const"}):
            allowed = names.get("enum", [names.get("const")])
            if isinstance(allowed, list) and isinstance(own, dict):
                schema["properties"] = {name: own.get(name, value) for name in allowed if isinstance(name, str)}
                schema["additionalProperties"] = False
                del schema["propertyNames"]
            return
        if own or not names:
            return
        if set(names) == {"pattern"} and isinstance(names["pattern"], str):
            pattern = names["pattern"]
        elif set(names) <= {"minLength", "maxLength"} and all(type(bound) is int for bound in names.values()):
            pattern = f"^(?s:.{{{names.get('minLength', 0)},{names.get('maxLength', '')}}})$"
        else:
            return
        schema["patternProperties"] = {pattern: value}
        schema["additionalProperties"] = False
        del schema["propertyNames"]

    def _refuse(self, schema: dict[str, Any], where: str) -> None:
        if len(where) > 100:
            where = f"{where[:50]}…{where[-50:]}"
        unsupported = [key for key in _UNSUPPORTED if key in schema]
        if self.drops:
            for key in unsupported:
                del schema[key]
            self.dropped += [f"{where}: {key}" for key in unsupported]
            if isinstance(schema.get("oneOf"), list):
                self._take_one_for_any(schema, where)
                self.dropped.append(f"{where}: oneOf")
            return
        self.refused += [f"{where}: {key}" for key in unsupported]
        guidance = self.root.get("x-guidance")
        if "oneOf" in schema and not (isinstance(guidance, dict) and guidance.get("coerce_one_of")):
            self.refused.append(f"{where}: oneOf (a value may be valid by several; anyOf allows that)")

    def _count(self, schema: dict[str, Any]) -> None:
        self.cost += _COST_OF_SCHEMA
        if isinstance(schema.get("enum"), list):
            self.cost += _COST_OF_VALUE * len(schema["enum"])
        if isinstance(schema.get("properties"), dict):
            required = schema.get("required")
            needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
            optional = len(schema["properties"].keys() - needed)
            self.cost += optional * optional // _COST_OF_OPTIONAL
        divisor = schema.get("multipleOf")
        if isinstance(divisor, (int, float)) and 0 < divisor < float("inf"):
            remainders = divisor
            if divisor < 1 or divisor != int(divisor):
                # A decimal fraction is counted in units of its last digit.
                digits = f"{divisor:.17g}".partition("e")[0].replace(".", "").lstrip("0").rstrip("0")
                remainders = int(digits or 1)
            self.cost += int(min(remainders, MOST_COST)) * _COST_OF_REMAINDER

    def _are_disjoint(self, alternatives: list[Any]) -> bool:
        """Return True if no value can be valid by two of some schemas, so that oneOf is anyOf."""
        if len(alternatives) > 64:
            values = [self._values(one) for one in alternatives]
            return None not in values and sum(map(len, values)) == len(frozenset().union(*values))
        return all(self._exclude(one, other) for i, one in enumerate(alternatives) for other in alternatives[:i])

    def _exclude(self, one: Any, other: Any, depth: int = 0) -> bool:
        """Return True if it is certain that no value is valid by both schemas."""
        if one is False or other is False:
            return True
        if not (isinstance(one, dict) and isinstance(other, dict)) or not self._may_look(depth):
            return False
        if not self._kinds(one) & self._kinds(other):
            return True
        values, others = self._values(one), self._values(other)
        if values is not None and others is not None and not values & others:
            return True
        for left, right in ((one, other), (other, one)):
            for key in ("anyOf", "oneOf"):
                parts = left.get(key)
                if isinstance(parts, list) and all(self._exclude(part, right, depth + 1) for part in parts):
                    return True
            parts = left.get("allOf")
            if isinstance(parts, list) and any(self._exclude(part, right, depth + 1) for part in parts):
                return True
            target = self._target(left)
            if target is not None and self._exclude(target, right, depth + 1):
                return True
        if self._kinds(one) == self._kinds(other) == {"object"}:
            shared = set(_names(one, "required")) & set(_names(other, "required"))
            mine, its = one.get("properties"), other.get("properties")
            if isinstance(mine, dict) and isinstance(its, dict):
                return any(self._exclude(mine.get(name), its.get(name), depth + 1) for name in shared)
        return False

    def _may_look(self, depth: int) -> bool:
        """Return True if one more schema may be looked at to tell alternatives apart; else nothing is certain."""
        self.looks += 1
        return depth <= 8 and self.looks <= _MOST_LOOKS

    def _kinds(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """Return the kinds of values that may be valid by a schema; a number with a fraction is a kind of its own."""
        if schema is False:
            return frozenset()
        if not isinstance(schema, dict) or not self._may_look(depth):
            return _KINDS
        kinds = _KINDS
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            kinds &= {_kind(value) for value in values}
        types = schema.get("type")
        types = [types] if isinstance(types, str) else types
        if isinstance(types, list):
            named = {str(name) for name in types}
            kinds &= named | ({"integer", "fraction"} if "number" in named else set())
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                kinds &= frozenset().union(*(self._kinds(part, depth + 1) for part in schema[key]))
        for part in schema["allOf"] if isinstance(schema.get("allOf"), list) else ():
            kinds &= self._kinds(part, depth + 1)
        target = self._target(schema)
        return kinds if target is None else kinds & self._kinds(target, depth + 1)

    def _values(self, schema: Any, depth: int = 0) -> frozenset[str] | None:
        """Return the values that may be valid by a schema, as JSON; None if they are not listed."""
        if not isinstance(schema, dict) or not self._may_look(depth):
            return None
        values = schema.get("enum", [schema["const"]] if "const" in schema else None)
        if isinstance(values, list):
            return frozenset(map(_canonical, values))
        target = self._target(schema)
        return None if target is None else self._values(target, depth + 1)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: part for key, part in schema.items() if key not in ("title", "description")}


def _names(schema: dict[str, Any], key: str) -> list[str]:
    names = schema.get(key)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == value // 1 else "fraction"
    return {type(None): "null", str: "string", list: "array", dict: "object"}[type(value)]


def _canonical(value: Any) -> str:
    """Return a value as JSON that is the same for equal values: 1.0 is 1."""
    if isinstance(value, float) and value == value // 1:
        value = int(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_canonical, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_canonical(value[name])}" for name in sorted(value)) + "}"
    return json.dumps(value)


def _error(message: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"json_schema: {message}", "invalid argument")
