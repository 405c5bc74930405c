"""Options and fixtures of all Python tests. --full runs the long forms: every OpInfo, thousands of random programs, thousands of steps."""
import importlib.util
import os
import sys

import pytest

os.environ.setdefault("TINY_SPEC", "2")  # every kernel is verified between the passes; also in the processes that tests start

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "torch"), os.path.join(ROOT, "tests", "lower"), os.path.join(ROOT, "benchmarks")]


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="the long forms of the tests")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a minute; run with --full only")


# What is known not to work yet; docs/support.md names the same. A test that begins to pass is reported as XPASS: then its row goes.
KNOWN_GAPS = {
}


def pytest_collection_modifyitems(config, items):
    for item in items:
        for test, reason in KNOWN_GAPS.items():
            if test in item.nodeid:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
    if not config.getoption("--full"):
        slow = [item for item in items if "slow" in item.keywords]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if "slow" not in item.keywords]


def pytest_ignore_collect(collection_path, config):
    """Without torch only the tests that need none are collected."""
    return True if "torch" in collection_path.parts[-2:] and importlib.util.find_spec("torch") is None else None


@pytest.fixture(scope="session")
def full(request):
    return request.config.getoption("--full")


@pytest.fixture
def no_fallback():
    """Fails the test when an operator ran on the CPU in it."""
    import probe
    before = probe.fallbacks()
    yield
    after = probe.fallbacks()
    ran = {op: n - before.get(op, 0) for op, n in after.items() if n > before.get(op, 0)}
    assert not ran, f"operators that ran on the CPU: {ran}"
