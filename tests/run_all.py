"""Runs every test and counts them: the core's GoogleTest programs through ctest, then pytest. The last line is "N passed, N failed"."""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run_core(build, reports, jobs):
    """(passed, failed, skipped) of the GoogleTest programs. A program that dies counts as one failure besides what it reported."""
    cache = os.environ.get("TINY_CACHE_DIR", os.path.join(reports, "cache"))
    env = os.environ | {"GTEST_OUTPUT": f"json:{reports}/", "TINY_CACHE_DIR": cache}
    listed = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, capture_output=True, text=True, check=True).stdout)
    code = subprocess.run(["ctest", "--output-on-failure", "-j", str(jobs)], cwd=build, env=env).returncode
    passed = failed = skipped = 0
    reported = {}
    for path in glob.glob(os.path.join(reports, "*.json")):
        with open(path) as f:
            data = json.load(f)
        tests = [t for suite in data["testsuites"] for t in suite["testsuite"]]
        reported[os.path.splitext(os.path.basename(path))[0]] = len(tests)
        for t in tests:
            if t.get("failures"):
                failed += 1
            elif t.get("result") == "SKIPPED":
                skipped += 1
            else:
                passed += t.get("result") == "COMPLETED"
    silent = [t["name"] for t in listed["tests"] if not reported.get(t["name"])]
    failed += len(silent)
    if code and not failed:
        failed = 1
    if silent:
        print("no report from: " + ", ".join(silent))
    return passed, failed, skipped


def run_pytest(reports, arguments):
    report = os.path.join(reports, "pytest.xml")
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", "--durations=15", "--timeout=900",
                          f"--junitxml={report}", *(arguments or ["tests"])], cwd=ROOT).returncode
    if not os.path.exists(report):
        return 0, 1, 0
    suite = next(iter(ElementTree.parse(report).getroot().iter("testsuite")))
    total, failed, errors, skipped = (int(suite.get(k, 0)) for k in ("tests", "failures", "errors", "skipped"))
    if code and not failed + errors:
        errors = 1
    return total - failed - errors - skipped, failed + errors, skipped


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--build", default="build")
    ap.add_argument("--core-only", action="store_true")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("pytest", nargs="*", help="arguments for pytest")
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as reports:
        counts = [run_core(os.path.join(ROOT, a.build), reports, a.jobs) if shutil.which("ctest") else (0, 1, 0)]
        if not a.core_only:
            counts.append(run_pytest(reports, a.pytest))
    passed, failed, skipped = map(sum, zip(*counts))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
