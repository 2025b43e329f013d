#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Licence lines, machine paths, file lengths, words of one system in texts of all, and docs/ARCHITECTURE.md against the files there are.

The page names each source file once, in backquotes, on a line that says what it owns. A pair may be
written `src/core/cong.[ch]` or `src/core/cong.{c,h}`. The line of a file over 600 lines has, after
the word "long:", the reason why it is one file.
"""
import os
import re
import sys

import tap

PAGE = "docs/ARCHITECTURE.md"
SOURCE = (".c", ".h", ".py", ".sh", ".build", ".ini", ".S", ".map", ".def")
SOURCE_NAMES = ("Makefile", "meson_options.txt")
DESCRIBED = ("src/", "include/", "daemon/", "shim/", "tools/", "examples/", "sim/", "tests/")
LONG = 600
# Spelt so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.$})/-])/(?:work|root|home)(?=/)")

root = sys.argv[1]
names = tap.tracked(root)
texts = {n: tap.text(root, n) for n in names}
texts = {n: t for n, t in texts.items() if t is not None}
page = texts.get(PAGE)


def is_source(name):
    return (name.endswith(SOURCE) or os.path.basename(name) in SOURCE_NAMES
            or texts[name].startswith("#!"))


def expand(token):
    """`a.[ch]` and `a.{c,h}` stand for two names."""
    m = re.fullmatch(r"(.*)(?:\[(\w+)\]|\{([\w,.]+)\})(.*)", token)
    if not m:
        return [token]
    middles = list(m.group(2)) if m.group(2) else m.group(3).split(",")
    return [m.group(1) + x + m.group(4) for x in middles]


def described():
    """name -> the lines of the page that name it in backquotes."""
    lines = {}
    for line in page.splitlines():
        for token in re.findall(r"`([^`\s]+)`", line):
            for name in expand(token):
                lines.setdefault(name, []).append(line)
    return lines


tap.case("spdx__every_source_file_names_its_licence",
         (f"{n}: no SPDX-License-Identifier in the first three lines" for n in texts
          if is_source(n) and texts[n].strip()
          and not any("SPDX-License-Identifier:" in l for l in texts[n].splitlines()[:3])))

tap.case("paths__no_file_names_a_machine",
         (f"{n}:{i}: {line.strip()[:100]}" for n in texts
          for i, line in enumerate(texts[n].splitlines(), 1) if MACHINE_PATH.search(line)))

# Commands and files of one system, which somebody on another one would look for in vain.
OF_ONE = re.compile(r"\b(ip (addr|link|route)|ulimit|lsmod|modprobe|sysctl|ss -\w|kill -[A-Z]|iptables|ipconfig|netstat|netsh)\b|/proc/|/etc/(?!urds)")
# What is built for one system only.
BUILT_FOR_ONE = re.compile(r"/(linux|posix|windows)/|_(linux|posix|windows)\.c$|^tools/doctor_proc|^src/lib/record_(ask|pipe|serve)")
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')

tap.case("texts__of_all_systems_name_no_command_of_one",
         (f"{n}:{i}: {m.group(0)[:80]}; such words belong into platform/words.h, doctor_words, tools/system.h" for n in texts
          if n.startswith(("src/", "tools/")) and n.endswith((".c", ".h")) and not BUILT_FOR_ONE.search(n)
          for i, line in enumerate(texts[n].splitlines(), 1) for m in LITERAL.finditer(line) if OF_ONE.search(m.group(0))))

on_page = described() if page else {}


def long_without_reason():
    for n in texts:
        lines = texts[n].count("\n")
        if n.endswith((".c", ".h", ".py", ".sh")) and lines > LONG:
            reason = any(re.search(r"\blong: *\w", l) for l in on_page.get(n, []))
            print(f"# {n}: {lines} lines" + (", explained" if reason else ""))
            if not reason:
                yield f"{n}: {lines} lines; split it, or give a reason (\"long: ...\") on its line in {PAGE}"


tap.case("length__long_files_are_explained", long_without_reason())

if page is None:
    print(f"# {PAGE} is not there, so its list of files is not checked")
else:
    wanted = [n for n in texts if n.startswith(DESCRIBED) and n.endswith((".c", ".h", ".py", ".sh"))]
    tap.case("architecture__every_source_file_has_its_line",
             [f"{n}: not named in {PAGE}" for n in wanted if n not in on_page]
             + [f"{n}: has {len(on_page[n])} lines in {PAGE}, one is meant" for n in wanted
                if len(on_page.get(n, [])) > 1 and sum(l.lstrip().startswith(("-", "*", "|", "`"))
                                                       for l in on_page[n]) > 1])
    tap.case("architecture__names_no_file_that_is_gone",
             (f"{PAGE}: `{n}` does not exist" for n in on_page
              if n.startswith(DESCRIBED + ("scripts/", "meson/")) and n.endswith((".c", ".h", ".py"))
              and "*" not in n and n not in texts))

tap.done()
