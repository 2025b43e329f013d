#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One list of public names: what the headers declare, what the library exports, and the lists for both systems."""
import re
import subprocess
import sys

import tap

source, library = sys.argv[1:3]


def listed(name, pattern):
    return re.findall(pattern, tap.text(source, name), re.M)


def differ(what, names, than):
    return ([f"{what} lacks {n}" for n in sorted(set(than) - set(names))] +
            [f"{what} has {n}, which no header declares" for n in sorted(set(names) - set(than))] +
            [f"{what} has {n} twice" for n in sorted(set(names)) if names.count(n) > 1])


declared = []
for header in ("urds.h", "owner.h", "log.h"):
    flat = re.sub(r"/\*.*?\*/", "", tap.text(source, f"include/urds/{header}"), flags=re.S)
    declared += re.findall(r"^URDS_API[^;{]*?\b(urds_\w+)\s*\(", flat, re.M)

tap.case("headers__declare_something", [] if len(declared) > 30 else [f"only {declared}"])
tap.case("map__has_what_headers_declare", differ("urds.map", listed("src/lib/urds.map", r"^\t(urds_\w+);$"), declared))
tap.case("def__has_what_headers_declare", differ("urds.def", listed("src/lib/urds.def", r"^    (\w+)$"), declared))
if library.endswith(".dll"):
    objdump = sys.argv[3]
    out = subprocess.run([objdump, "-p", library], check=True, stdout=subprocess.PIPE, text=True).stdout
    table = out.partition("[Ordinal/Name Pointer] Table")[2].partition("\n\n")[0]
    tap.case("library__exports_what_headers_declare",
             differ("the library", re.findall(r"^\t\[ *\d+\] (?:\+base\[ *\d+\] +[0-9a-f]+ )?(\w+)$", table, re.M), declared))
    # Nothing that Windows 7 lacks, no thread library of the compiler's, no file that we would have to bring.
    own = {"bcrypt.dll", "iphlpapi.dll", "kernel32.dll", "msvcrt.dll", "ws2_32.dll", "advapi32.dll"}
    needs = {n.lower() for n in re.findall(r"DLL Name: (\S+)", out)}
    tap.case("library__needs_what_every_windows_has", [f"it needs {n}" for n in sorted(needs - own)])
    tap.done()
out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE, text=True).stdout
symbols = [line.split()[-1] for line in out.splitlines()]
versions = {s.partition("@")[2].lstrip("@") for s in symbols if "@" in s and not s.startswith("URDS_")}
exported = [s.partition("@")[0] for s in symbols]
exported = [s for s in exported if not re.fullmatch(r"URDS_\d+|_init|_fini|_edata|_end|__bss_start|__odr_asan.*", s)]
tap.case("library__exports_what_headers_declare", differ("the library", exported, declared))
tap.case("library__versions_every_name", [] if versions == {"URDS_0"} else [f"versions {sorted(versions)}"])
tap.done()
