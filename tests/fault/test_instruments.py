"""The instruments of the fault tests leave nothing of themselves behind."""

import subprocess
import sys

_PATCH_FIRST = """
from tests.faults import connecting_by
with connecting_by(lambda path, mode, **options: None):
    pass
from sqlindex.store import driver, salvage
assert salvage.connect is driver.connect
"""


def test_a_module_first_imported_by_the_instrument_keeps_the_real_connect() -> None:
    subprocess.run([sys.executable, "-c", _PATCH_FIRST], check=True, timeout=60)
