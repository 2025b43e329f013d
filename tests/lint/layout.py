#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every C file is as `make format` leaves it."""
import os
import subprocess
import sys

import tap

root = sys.argv[1]
if not os.path.exists(os.path.join(root, ".git")):
    print("1..1\nok 1 - layout # SKIP not a git checkout")
    sys.exit(0)
run = subprocess.run([os.path.join(root, "scripts", "format"), "--check"], stdout=subprocess.PIPE,
                     stderr=subprocess.STDOUT, text=True)
if run.returncode == 77:
    print("1..1\nok 1 - layout # SKIP clang-format 14 is missing")
    sys.exit(0)
tap.case("layout__is_what_make_format_makes", run.stdout.splitlines() if run.returncode else [])
tap.done()
