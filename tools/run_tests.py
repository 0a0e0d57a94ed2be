"""Runs CTest and pytest and ends with the line `N passed, N failed` over all test cases of both.

CTest runs one binary per folder; the cases are counted from the XML that googletest writes. A binary that fails without a failed case of its own (it
crashed, or could not start) counts as one failure, and so does a pytest that ends without a report. Skipped cases are in neither number.

Usage: run_tests.py BUILD_FOLDER [pytest arguments...]
"""

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml


def count(report):
    """(passed, failed, skipped names) of a JUnit-style file."""
    passed, failed, skipped = 0, 0, []
    for case in xml.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped.append(f"{case.get('classname')}.{case.get('name')}")
        else:
            passed += 1
    return passed, failed, skipped


def run_ctest(build, reports):
    # The folder's trailing slash makes googletest write one file per binary.
    environment = {**os.environ, "GTEST_OUTPUT": f"xml:{reports}/gtest/"}
    summary = reports / "ctest.xml"
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--output-junit", str(summary)]
    code = subprocess.run(command, env=environment).returncode
    passed, failed, skipped = 0, 0, []
    for report in sorted((reports / "gtest").glob("*.xml")):
        counts = count(report)
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    broken = count(summary)[1] if summary.exists() else 1
    return passed, max(failed, broken, int(code != 0)), skipped


def run_pytest(reports, arguments):
    summary = reports / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", f"--junitxml={summary}", *(arguments or ["tests"])]
    code = subprocess.run(command).returncode
    if not summary.exists():
        return 0, 1, []
    passed, failed, skipped = count(summary)
    return passed, max(failed, int(code != 0)), skipped


def main():
    build, arguments = sys.argv[1], sys.argv[2:]
    reports = pathlib.Path(build).resolve() / "test-reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    results = run_ctest(build, reports), run_pytest(reports, arguments)
    passed, failed = (sum(result[i] for result in results) for i in (0, 1))
    skipped = [name for result in results for name in result[2]]
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
