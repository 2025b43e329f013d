#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every C file is as `make format` leaves it."""
import os
import subprocess
import sys

import tap

root = sys.argv[1]
if not os.path.exists(os.path.join(root, ".git")):
    tap.skip("layout__is_what_make_format_makes", "not a git checkout")
    tap.done()
run = subprocess.run([os.path.join(root, "scripts", "format"), "--check"], stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT, text=True)
if run.returncode == 77:
    tap.skip("layout__is_what_make_format_makes", "clang-format 14 is missing")
    tap.done()
tap.case("layout__is_what_make_format_makes", run.stdout.splitlines() if run.returncode else [])
tap.done()
