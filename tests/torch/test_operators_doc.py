"""docs/operators.md says what is so: lines of it, drawn by a hash of the operator's name, are found again. --full takes all."""
import os
import sys
import zlib

import pytest
from torch.testing._internal.common_methods_invocations import op_db

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import operators_doc  # noqa: E402

PARTS = 60
DOC = open(os.path.join(ROOT, "docs", "operators.md"), encoding="utf-8").read().splitlines()
ROWS = {row.split(" | ")[0].removeprefix("| "): row for row in DOC if row.startswith("| ")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [pytest.param(k, id=operators_doc.title(op), marks=[] if zlib.crc32(op.name.encode()) % PARTS == 0 else pytest.mark.slow)
                                    for k, op in enumerate(op_db)])
def test_line(number):
    title = operators_doc.title(op_db[number])
    assert operators_doc.line(number) == ROWS.get(title)


def test_every_row_of_the_tables_has_its_reason():
    reasons = operators_doc.reasons()
    assert reasons and "no lowering yet" not in reasons.values()
    tail = DOC[DOC.index("## Rows of the tables that name the CPU"):]
    assert {f"| {name.removeprefix('aten::')} | {reason} |" for name, reason in reasons.items()} == {r for r in tail if r.startswith("| ")
                                                                                                  and not r.startswith("| aten operator")}
