"""Runs CTest and pytest and ends with the line `N passed, N failed` over all test cases of both.

CTest runs one binary per folder of tests/; its cases are counted from the XML that googletest writes. A binary that fails without a failed
case of its own (it crashed, or could not start) counts as one failure, and so does a pytest that ends without a report. Skipped cases are
in neither number and are named.

Usage: run_tests.py BUILD_FOLDER [pytest arguments...]
"""

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, []

    def add_report(self, path):
        """Adds the cases of a JUnit-style file; returns whether one of them failed."""
        failed_before = self.failed
        for case in xml.parse(path).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                self.skipped.append(f"{case.get('classname')}.{case.get('name')}")
            else:
                self.passed += 1
        return self.failed > failed_before


def run_ctest(build, reports, totals):
    # The folder's trailing slash makes googletest write one file per binary.
    environment = {**os.environ, "GTEST_OUTPUT": f"xml:{reports}/gtest/"}
    summary = reports / "ctest.xml"
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--output-junit", str(summary)]
    code = subprocess.run(command, env=environment).returncode
    failed_before = totals.failed
    for binary in xml.parse(summary).iter("testcase") if summary.exists() else ():
        cases = reports / "gtest" / f"{binary.get('name')}_tests.xml"
        has_failed_case = cases.exists() and totals.add_report(cases)
        if binary.get("status") != "run" and not has_failed_case:
            totals.failed += 1
    if code != 0 and totals.failed == failed_before:
        totals.failed += 1


def run_pytest(reports, arguments, totals):
    summary = reports / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={summary}", *(arguments or ["tests"])]
    code = subprocess.run(command).returncode
    has_failed_case = summary.exists() and totals.add_report(summary)
    if code != 0 and not has_failed_case:
        totals.failed += 1


def main():
    build, arguments = sys.argv[1], sys.argv[2:]
    reports = pathlib.Path(build).resolve() / "test-reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    totals = Totals()
    run_ctest(build, reports, totals)
    run_pytest(reports, arguments, totals)
    for name in totals.skipped:
        print(f"skipped: {name}")
    print(f"{totals.passed} passed, {totals.failed} failed", flush=True)
    sys.exit(1 if totals.failed else 0)


if __name__ == "__main__":
    main()
