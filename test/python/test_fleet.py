# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""intarsia.fleet: its IR verifies, has what was said, and invalid fleets are errors that say what to try."""

import doctest
import subprocess

import pytest
from intarsia import agent, fleet


def verified(tools, text):
    run = subprocess.run([tools.path("intarsia-opt"), "-"], input=text, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr + text
    return run.stdout


def test_the_example_prints_what_it_says():
    assert doctest.testmod(fleet).failed == 0


def test_everything_verifies(tools):
    """Each argument is in the IR, as intarsia-opt prints it."""
    fast = fleet.Pool("fast", "nvidia/h100-sxm", 16, 8, whole_nodes=True, dollars_per_hour=2.99, availability=0.95)
    own = fleet.Pool("own", "here.yaml", 2, owned=fleet.Owned(15625, years=3, interest=0.05))
    links = [
        fleet.Link(fast, own, 50, 10, shared="spine", one_way=True, dollars_per_gigabyte=0.01),
        fleet.Link(fast, fast, 400, 5),
    ]
    network = fleet.Network(12.5, 20, shared="switch")
    whole = fleet.Fleet(
        "my hall", [fast, own], links, network=network, power_cap_kilowatts=45, grams_per_kilowatt_hour=350
    )
    text = verified(tools, str(whole))
    for said in (
        'fleet.system @"my hall" attributes {grams_per_kilowatt_hour = 3.500000e+02 : f64',
        'fleet.device @here.yaml {file = "here.yaml"}',
        "count 16 per_node 8 whole_nodes price #fleet.rental<dollars_per_hour = 2.99> {availability = 0.9",
        "dollars = 15625, years = 3, interest = 0.05, dollars_per_kilowatt_hour = 0.12",
        "fleet.link @fast to @own {",
        "one_way",
        'shared = "spine"',
        'fleet.network {gigabytes_per_second = 1.250000e+01 : f64, microseconds = 2.000000e+01 : f64, shared = "switch"}',
    ):
        assert said.replace(" : f64", "") in text.replace(" : f64", ""), said


L4 = fleet.Pool("l4", "nvidia/l4", 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fleet.Fleet("f", []), "fleet 'f' has no pool"),
        (lambda: fleet.Fleet("f", [L4, L4]), "fleet 'f' has two pools 'l4'"),
        (lambda: fleet.Fleet("f", [fleet.Pool("nvidia/l4", "nvidia/l4", 1)]), "is called like a device"),
        (lambda: fleet.Pool("p", "nvidia/l4", 0), "count of pool 'p' is 0, must be a whole number above zero"),
        (lambda: fleet.Pool("p", "nvidia/l4", 1.5), "count of pool 'p' is 1.5"),
        (lambda: fleet.Pool("p", "nvidia/l4", 1, dollars_per_hour=-1), "dollars_per_hour of pool 'p' is -1"),
        (
            lambda: fleet.Pool("p", "nvidia/l4", 1, dollars_per_hour=1, owned=fleet.Owned(1000)),
            "has both dollars_per_hour and owned",
        ),
        (
            lambda: fleet.Fleet("f", [L4], [fleet.Link(L4, fleet.Pool("far", "nvidia/l4", 1), 1, 1)]),
            "ends at pool 'far', which the fleet does not have",
        ),
        (lambda: str(fleet.Fleet("f", [L4], network=fleet.Network(float("nan"), 1))), "gigabytes_per_second of a link"),
    ],
)
def test_what_is_wrong_is_said(make, message):
    with pytest.raises(fleet.FleetError) as error:
        make()
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: fleet.Pool("p\rq", "nvidia/l4", 1),
            "name of a pool is 'p\\rq', must have no line ends and other control",
        ),
        (
            lambda: fleet.Pool("p", "nvidia/l4\n", 1),
            "device of pool 'p' is 'nvidia/l4\\n', must have no line ends and other control",
        ),
        (lambda: fleet.Fleet("f\x7f", [L4]), "name of a fleet is 'f\\x7f', must have no line ends and other control"),
    ],
)
def test_names_have_no_control_characters(make, message):
    with pytest.raises(agent.AgentError) as error:
        make()
    assert message in str(error.value)
