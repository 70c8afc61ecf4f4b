# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fleets: the machines that the planner may place agents on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from .figures import AgentError, check_text
from .text import attributes, real, symbol

__all__ = ["Fleet", "FleetError", "Link", "Network", "Owned", "Pool"]


class FleetError(AgentError):
    """A fleet that cannot be written; the message says what to change."""


def _number(argument: str, what: str, value: object, least: float = 0) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) >= least:
        raise FleetError(f"{argument} of {what} is {value!r}, must be a number from {least:g} on")
    return float(value)


def _whole(argument: str, what: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise FleetError(f"{argument} of {what} is {value!r}, must be a whole number above zero")
    return value


@dataclass(frozen=True)
class Owned:
    """Terms of an own device: what it cost, for how many years, at what interest, and the price of its energy."""

    dollars: float
    years: float = 4
    interest: float = 0.08
    dollars_per_kilowatt_hour: float = 0.12

    def _text(self) -> str:
        figures = {name: _number(name, "an own device", value) for name, value in vars(self).items()}
        return f"#fleet.owned<{', '.join(f'{name} = {value!r}' for name, value in figures.items())}>"


@dataclass(frozen=True, eq=False)
class Pool:
    """Equal devices.

    Parameters
    ----------
    name
        Its name in the fleet.
    device
        The device's name in the catalogue, such as ``nvidia/h100-sxm``, or the path of a file of that form (ending in
        ``.yaml``), such as ``intarsia-plan --probe`` writes.
    count, per_node
        The number of devices, and of those in one node (by default all).
    whole_nodes
        True if only whole nodes can be rented.
    dollars_per_hour, owned
        The price of a device: rental, or the terms of an own one; by default what the catalogue says.
    availability
        The fraction of time for which a device is there.

    """

    name: str
    device: str
    count: int
    per_node: int | None = None
    whole_nodes: bool = False
    dollars_per_hour: float | None = None
    owned: Owned | None = None
    availability: float | None = None

    def __post_init__(self) -> None:
        what = f"pool {self.name!r}"
        check_text("name", "a pool", self.name)
        check_text("device", what, self.device)
        _whole("count", what, self.count)
        if self.per_node is not None:
            _whole("per_node", what, self.per_node)
        if self.dollars_per_hour is not None and self.owned is not None:
            raise FleetError(f"{what} has both dollars_per_hour and owned, must have one price")
        if self.dollars_per_hour is not None:
            _number("dollars_per_hour", what, self.dollars_per_hour)
        if self.owned is not None and not isinstance(self.owned, Owned):
            raise FleetError(f"owned of {what} is {self.owned!r}, must be such as fleet.Owned(dollars=15625)")

    def _text(self) -> str:
        text = f"fleet.pool {symbol(self.name)} of {symbol(self.device)} count {self.count}"
        if self.per_node is not None:
            text += f" per_node {self.per_node}"
        if self.whole_nodes:
            text += " whole_nodes"
        if self.dollars_per_hour is not None:
            text += f" price #fleet.rental<dollars_per_hour = {float(self.dollars_per_hour)!r}>"
        if self.owned is not None:
            text += f" price {self.owned._text()}"
        available = None if self.availability is None else float(self.availability)
        return text + attributes({"availability": available})


@dataclass(frozen=True, eq=False)
class Network:
    """What all pools without a link of their own send each other data over.

    It has `gigabytes_per_second` (10^9 bytes) between each two pools in each direction, and `microseconds` of latency.
    With `shared`, a name, all of them are one wire.
    """

    gigabytes_per_second: float
    microseconds: float
    shared: str | None = None
    dollars_per_gigabyte: float | None = None

    def _figures(self) -> dict[str, object]:
        check_text("shared", "a link", self.shared)
        cost = self.dollars_per_gigabyte
        return {
            "gigabytes_per_second": _number("gigabytes_per_second", "a link", self.gigabytes_per_second),
            "microseconds": _number("microseconds", "a link", self.microseconds),
            "shared": self.shared,
            "dollars_per_gigabyte": None if cost is None else _number("dollars_per_gigabyte", "a link", cost),
        }

    def _text(self) -> str:
        return f"fleet.network{attributes(self._figures())}"


@dataclass(frozen=True, eq=False)
class Link:
    """A link between two pools, or between nodes of one; with `one_way` there is no way back."""

    source: Pool
    destination: Pool
    gigabytes_per_second: float
    microseconds: float
    shared: str | None = None
    one_way: bool = False
    dollars_per_gigabyte: float | None = None

    def _text(self) -> str:
        wire = Network(self.gigabytes_per_second, self.microseconds, self.shared, self.dollars_per_gigabyte)
        options = attributes({**wire._figures(), "one_way": self.one_way or None})
        return f"fleet.link {symbol(self.source.name)} to {symbol(self.destination.name)}{options}"


class Fleet:
    """Pools, and what connects them. Print it: the text is what ``intarsia-plan --fleet`` reads."""

    def __init__(
        self,
        name: str,
        pools: Sequence[Pool],
        links: Sequence[Link] = (),
        *,
        network: Network | None = None,
        power_cap_kilowatts: float | None = None,
        grams_per_kilowatt_hour: float | None = None,
    ) -> None:
        check_text("name", "a fleet", name)
        self.name = name
        self.pools = list(pools)
        self.links = list(links)
        self.network = network
        self.limits = {
            "power_cap_kilowatts": power_cap_kilowatts,
            "grams_per_kilowatt_hour": grams_per_kilowatt_hour,
        }
        if not self.pools:
            raise FleetError(f"fleet {name!r} has no pool: nothing can be placed on it")
        names = [pool.name for pool in self.pools]
        for pool in self.pools:
            if names.count(pool.name) > 1:
                raise FleetError(f"fleet {name!r} has two pools {pool.name!r}")
            if any(pool.name == other.device for other in self.pools):
                raise FleetError(f"pool {pool.name!r} of fleet {name!r} is called like a device; choose another name")
        for link in self.links:
            for end in (link.source, link.destination):
                if end not in self.pools:
                    raise FleetError(
                        f"a link of fleet {name!r} ends at pool {end.name!r}, which the fleet does not have"
                    )

    def __str__(self) -> str:
        limits = {
            key: None if value is None else _number(key, f"fleet {self.name!r}", value)
            for key, value in self.limits.items()
        }
        given = ", ".join(f"{key} = {real(value)}" for key, value in limits.items() if value is not None)
        lines = [f"fleet.system {symbol(self.name)}{f' attributes {{{given}}}' if given else ''} {{"]
        for device in dict.fromkeys(pool.device for pool in self.pools):
            key = "file" if device.endswith((".yaml", ".yml")) else "catalogue"
            lines.append(f"  fleet.device {symbol(device)}{attributes({key: device})}")
        lines += [f"  {pool._text()}" for pool in self.pools]
        lines += [f"  {link._text()}" for link in self.links]
        if self.network is not None:
            lines.append(f"  {self.network._text()}")
        return "\n".join([*lines, "}"])
