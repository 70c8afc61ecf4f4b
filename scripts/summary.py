#!/usr/bin/env python3
# Part of Intarsia, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums up JUnit XML reports of CTest, lit and pytest.

usage: summary.py [--also-failed=N] REPORT...

REPORT is a path without .xml; a report that is missing counts as one failure. N more failures are added to the sum.

Prints a line for each report, every skipped test with its reason, the slowest tests, and ``N passed, N failed`` as the
last line.
The exit code is 1 if a test failed, or was skipped without a reason.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

#: How many of the slowest tests are printed: who makes the tests slower sees it there.
SLOWEST = 30


@dataclass
class Report:
    """Results of one test runner."""

    name: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    seconds: list[tuple[float, str]] = field(default_factory=list)


def skip_reason(case: ElementTree.Element, skipped: ElementTree.Element) -> str:
    """Return the reason why a test was skipped, from the report or from the test's output (GoogleTest)."""
    message = (skipped.get("message") or skipped.text or "").strip()
    if message and not message.startswith("SKIP_REGULAR_EXPRESSION"):
        return message
    lines = [line.strip() for line in (case.findtext("system-out") or "").splitlines()]
    for number, line in enumerate(lines):
        if line.endswith("Skipped") and number + 1 < len(lines):
            return lines[number + 1]
    return ""


def read(path: Path) -> Report:
    """Read one report, with the reports of the GoogleTest programs that it started."""
    report = Report(f"{path.parent.parent.name} {path.name}")
    read_file(path.with_suffix(".xml"), report)
    programs = len(report.failed)  # a program with failed tests is one failed test for CTest
    files = sorted(path.with_name(path.name + "-gtest").glob("*.xml"))
    if files:
        report.seconds.clear()  # of whole programs
    for file in files:
        failed = len(report.failed)
        read_file(file, report)
        if len(report.failed) == failed:
            report.passed -= 1  # CTest counts a program without failures as a passed test
        elif programs > 0:
            programs -= 1
            del report.failed[0]
    if report.passed == 0 and not report.failed:
        report.failed.append("no test ran")
    return report


def read_file(path: Path, report: Report) -> None:
    """Add the test cases of one file to a report."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        report.failed.append(f"no report: {error}")
        return
    for case in root.iter("testcase"):
        name = f"{case.get('classname') or ''}::{case.get('name') or ''}"
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            report.failed.append(name)
        elif skipped is not None:
            report.skipped.append((name, skip_reason(case, skipped)))
        else:
            report.passed += 1
        report.seconds.append((float(case.get("time") or 0), name))


def main(arguments: list[str]) -> int:
    """Print the sums of all reports."""
    parser = argparse.ArgumentParser(description="Sum up JUnit XML reports.")
    parser.add_argument("--also-failed", type=int, default=0, metavar="N", help="failures to add to the sum")
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="path of a report, without .xml")
    options = parser.parse_args(arguments)
    reports = [read(path) for path in options.reports]
    print("==> Summary")
    for report in reports:
        print(f"{report.name:>12}: {report.passed} passed, {len(report.failed)} failed, {len(report.skipped)} skipped")
        for name in report.failed:
            print(f"            FAILED {name}")
        for name, reason in report.skipped:
            print(f"            skipped {name}: {reason or 'NO REASON GIVEN'}")
    print(f"==> The {SLOWEST} slowest tests, with the fixtures that they are the first to use")
    for seconds, name in sorted((one for report in reports for one in report.seconds), reverse=True)[:SLOWEST]:
        print(f"{seconds:10.1f} s  {name}")
    unexplained = sum(not reason for report in reports for _, reason in report.skipped)
    if unexplained:
        print(f"error: {unexplained} tests were skipped without a reason")
    failed = sum(len(report.failed) for report in reports) + unexplained + options.also_failed
    print(f"{sum(report.passed for report in reports)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
