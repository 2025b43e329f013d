#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `meson install` leaves is enough to build and run a program, in C and in C++, with every compiler there is; and
`man` finds a page for each function."""
import os
import re
import shutil
import sys
import tempfile

from staged import Staged, run

source, build, version, exports = sys.argv[1:5]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
cases = [("cc", "c", "-std=c99"), ("gcc", "c", "-std=c11"), ("clang", "c", "-std=c11"),
         ("g++", "c++", "-std=c++11"), ("g++", "c++", "-std=c++17"), ("clang++", "c++", "-std=c++17")]
number = failed = 0


def case(name, problem):
    global number, failed
    number += 1
    failed += bool(problem)
    for line in (problem or "").splitlines():
        print("#", line)
    print(f"{'not ok' if problem else 'ok'} {number} - {name}")


def skip(name, program):
    global number
    number += 1
    print(f"ok {number} - {name} # SKIP {program} is missing: scripts/setup check installs it")


with tempfile.TemporaryDirectory() as tmp:
    staged = Staged(build, tmp)
    case("install__succeeds", staged.problem)
    if shutil.which("man"):
        with open(exports) as f:
            functions = re.findall(r"^\t(urds_\w+);$", f.read(), re.M)
        man = [d for d, dirs, _ in os.walk(tmp) if "man3" in dirs]
        problems = [] if len(functions) > 30 else [f"only {functions}"]
        for n in functions + ["urds", "urds_info"]:
            rc, out = run("man", "-M", ":".join(man), "-w", "3", n)
            if rc or not os.path.isfile(out.strip()):
                problems.append(f"{n}: {out.strip()}")
        case("man__finds_every_function", "\n".join(problems))
    else:
        skip("man__finds_every_function", "man")
    case("install__has_one_pkg_config_file", "" if len(staged.pc) == 1 else f"found {staged.pc}")
    if len(staged.pc) == 1:
        rc, flags = staged.pkg_config("--cflags", "--libs")
        case("pkg_config__knows_urds", flags if rc else "")
        rc, said = staged.pkg_config("--modversion")
        case("pkg_config__says_the_version", "" if said.strip() == version else f"{said!r}, not {version}")
        for i, (compiler, language, standard) in enumerate(cases):
            name = f"program__{compiler}_{standard.removeprefix('-std=')}"
            if not shutil.which(compiler):
                skip(name, compiler)
                continue
            exe = os.path.join(tmp, f"program{i}")
            rc, out = run(compiler, "-x", language, standard, *STRICT, "-D_GNU_SOURCE", "-o", exe,
                          os.path.join(source, "program.c"), "-x", "none", *flags.split())
            if rc == 0:
                rc, out = run(exe, f"127.12.90.{i + 1}", env=staged.run_env())
                out = "" if rc == 0 and out.strip() == version else f"exit {rc}: {out}"
            case(name, out)
print(f"1..{number}")
sys.exit(1 if failed else 0)
