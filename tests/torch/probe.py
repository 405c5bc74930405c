"""What the tests need to know of the device: fallbacks, flushes, live nodes, memory."""
import os

import torch_tiny


def fallbacks():
    """Operator name -> number of its runs on the CPU so far."""
    return dict(torch_tiny.fallback_counts())


def flush_count():
    return torch_tiny.stats()["flushes"]


def flushes_since(mark):
    """FlushRecords of the flushes after the `mark`-th."""
    count = flush_count() - mark
    records = torch_tiny.history()
    assert count <= len(records), f"{count} flushes, but the history keeps {len(records)}"
    return records[len(records) - count:]


def live_nodes():
    return torch_tiny.live_nodes()


def resident_bytes():
    """Resident memory of this process."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
