#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Completion for bash: what --help lists is what it offers, and it offers nothing that is not understood."""
import os
import re
import shutil
import subprocess

import urdstest as t
from urdstest import check

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "completion", "urds.bash")
LINKS = {"ping": "rds-ping", "info": "rds-info", "stress": "rds-stress"}


def complete(*words):
    """What is offered for the last word. The first is called as the binary under test."""
    if not shutil.which("bash"):
        raise t.Skip("bash is not installed")
    program = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}\n'
               '_urds "$1"; printf "%s\\n" "${COMPREPLY[@]}"')
    p = subprocess.run(["bash", "--noprofile", "--norc", "-euc", program, "bash", SCRIPT, *words], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, text=True, check=False)
    check(p.returncode == 0 and not p.stderr, words, p.stderr)
    return [w for w in p.stdout.split("\n") if w]


def help_of(*words):
    p = t.run(*words)
    check(p.rc == 0 and len(p.lines) > 3, p)
    return p.lines


def commands():
    found = {m.group(1) for l in help_of("--help") for m in [re.match(r"  urds (\w+)", l)] if m}
    check(len(found) >= 7, found)
    return sorted(found)


def options_of(command):
    """Those that a command's help lists: usage lines, and lines that begin with an option."""
    found = set()
    for line in help_of(command, "--help"):
        if not re.match(r"\s+-|usage: | +urds ", line):
            continue
        line = re.sub(r"^(usage:)?\s+urds \w+", "", line)
        for m in re.finditer(r"(?:^|[\s\[,])(--[a-z][a-z-]*\*?|-[A-Za-z]+)", line):
            word = m.group(1)
            found |= {word} if word.startswith("--") else {"-" + letter for letter in word[1:]}
    return found


def test_every_command_is_completed():
    check(set(commands()) <= set(complete(t.URDS, "")), complete(t.URDS, ""))
    check(complete(t.URDS, "do") == ["doctor"] and complete(t.URDS, "li") == ["listen"])


def test_every_option_of_every_help_is_completed():
    for command in commands():
        offered = set(complete(t.URDS, command, "-"))
        listed = options_of(command)
        check({"--help"} <= listed, command, listed)
        for option in listed:
            if option.endswith("*"):
                check(any(o.startswith(option[:-1]) for o in offered), command, option)
            else:
                check(option in offered, f"{command}: {option} is not offered", offered)


def test_no_other_option_is_offered():
    hidden = re.compile(r"--rdma-")  # the help of stress names these in one word
    for command in commands():
        for option in set(complete(t.URDS, command, "-")) - options_of(command):
            check(command == "stress" and hidden.match(option), f"{command}: {option} is offered, and its help does not know it")


def test_links_are_completed_as_their_commands():
    for command, link in LINKS.items():
        check(complete(link, "-") == complete(t.URDS, command, "-") != [], link)


def test_beginnings():
    check(complete(t.URDS, "info", "--p") == ["--peers"])
    check(complete(t.URDS, "doctor", "-I", "127.13.9.1", "--j") == ["--json"])
    check(complete(t.URDS, "stress", "--show-h") == ["--show-histogram"])
    check(complete("rds-info", "--o") == ["--owners"])
    check(complete(t.URDS, "nonsense", "-") == [])


def test_values():
    check(complete(t.URDS, "demo", "--fault", "") == ["drop"])
    check(complete(t.URDS, "stress", "--use-cong-monitor", "") == ["0", "1"])
    check(complete(t.URDS, "doctor", "--proc", "/pro") == ["/proc"])
    check(complete(t.URDS, "ping", "-c", "-") == [])  # an argument, not an option


def test_owned_addresses():
    t.listen("127.13.9.1")
    t.listen("127.13.9.2")
    check(sorted(complete(t.URDS, "info", "127.13.9.")) == ["127.13.9.1", "127.13.9.2"])
    check(complete(t.URDS, "ping", "-I", "127.13.9.2") == ["127.13.9.2"])


t.main(globals())
