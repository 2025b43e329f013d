# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the tests of the examples and of the pages share: the system tests' network and processes, and a staged urds."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import urdstest as t  # noqa: E402
from staged import Staged, run  # noqa: E402,F401

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
_staged = None


def staged():
    """The build that t.URDS is of, installed once."""
    global _staged
    if _staged is None:
        build = os.path.dirname(os.path.dirname(t.URDS))
        _staged = Staged(build, os.path.join(t.tempdir(), "staged"))
        t.check(not _staged.problem and len(_staged.pc) == 1, _staged.problem, _staged.pc)
    return _staged
