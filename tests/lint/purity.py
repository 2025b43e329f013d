#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The archives of wire/ and core/ import nothing: no clock, no allocator, no system call."""
import glob
import os
import re
import subprocess
import sys

import tap

PURE = ("wire", "core")
ALLOWED = re.compile(
    r"mem(cpy|move|set|cmp|chr)|__mem(cpy|move|set)_chk"    # plain and fortified
    r"|abort|__assert_fail"
    r"|__stack_chk_(fail|guard)|_GLOBAL_OFFSET_TABLE_"      # what compilers add: protector, PIC,
    r"|__(asan|ubsan|tsan|sanitizer|gcov|llvm)_\w+"         # instrumentation,
    r"|__start___sancov\w*|__stop___sancov\w*"
    r"|__[a-z]+[sdt]i[234]?")                               # and arithmetic from libgcc

source, build = sys.argv[1:3]


def nm(archive, *options):
    out = subprocess.run(["nm", "-P", *options, archive], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {line.split()[0] for line in out.splitlines() if line.strip() and not line.rstrip().endswith(":")}


archives = {layer: glob.glob(os.path.join(build, "src", layer, "lib*.a")) for layer in PURE}
own = {s for layer in PURE for a in archives[layer] for s in nm(a, "--defined-only", "--extern-only")}
for layer in PURE:
    complaints = []
    if not archives[layer] and glob.glob(os.path.join(source, "src", layer, "**", "*.c"), recursive=True):
        complaints.append(f"no archive in {build}/src/{layer}, though there are sources")
    for archive in archives[layer]:
        complaints += [f"{os.path.basename(archive)} imports {s}" for s in sorted(nm(archive, "-u"))
                       if s not in own and not ALLOWED.fullmatch(s)]
        # What wire/ takes from core/ would point the wrong way.
        if layer == "wire":
            below = {s for a in archives["wire"] for s in nm(a, "--defined-only", "--extern-only")}
            complaints += [f"{os.path.basename(archive)} imports {s}, which core/ defines"
                           for s in sorted(nm(archive, "-u") & own - below)]
    tap.case(f"purity__{layer}_imports_nothing", complaints)
tap.done()
