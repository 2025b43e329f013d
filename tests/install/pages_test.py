#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every C block of README.md and docs/from-udp.md is compiled and run.

A block with a main() is a program and has to succeed. Any other block is put into the first program of its page, where
that begins to send. A comment behind a call, a value or `-1: ENAME`, is what the call must return.
"""
import os
import re

from stagedtest import ROOT, STRICT, run, staged, t

PAGES = "README.md", "docs/from-udp.md"
BEGINS_TO_SEND = '\tif (urds_send(s, "hello"'
CLAIM = re.compile(r"^(\s*)(\S.*);\s*/\* (-?\d+)(?:: (E[A-Z]+))? \*/$")
CHECKS = r"""
#include <errno.h>
#include <stdio.h>
#include <urds/urds.h>

static int wrong;

static void claim(const char *what, long long got, long long want, int name, enum urds_err err)
{
	int e = errno;

	if (got == want && (!name || (e == name && urds_errno() == (int)err)))
		return;
	printf("WRONG: %s: %lld, errno %d: %s\n", what, got, e, urds_reason());
	wrong++;
}
"""
check = t.check


def blocks(page):
    """(name of the heading above, text) of each C block."""
    heading, block = "top", None
    with open(os.path.join(ROOT, page)) as f:
        for line in f:
            if line.startswith("#") and block is None:
                heading = re.sub(r"\W+", "_", line.strip("# \n").lower())
            elif line.rstrip() == "```c":
                check(block is None, page, "a block within a block")
                block = []
            elif line.rstrip() == "```" and block is not None:
                yield heading, "".join(block)
                block = None
            elif block is not None:
                block.append(line)
    check(block is None, page, "a block without an end")


def with_checks(snippet):
    """Return: the snippet with its claims checked, and how many there are."""
    lines, n = [], 0
    for line in snippet.splitlines():
        m = CLAIM.match(line)
        if m:
            indent, call, value, name = m.groups()
            err = "URDS_" + ("ECONG" if name == "ENOBUFS" else name) if name else "URDS_ERR_MAX"
            what = '"' + call.replace("\\", "\\\\").replace('"', '\\"') + '"'
            line = f"{indent}claim({what}, {call}, {value}, {name or 0}, {err});"
            n += 1
        lines.append(line)
    return "\n".join(lines), n


def whole(program, snippet):
    """The snippet inside the program, and how many claims it makes."""
    head, found, _ = program.partition(BEGINS_TO_SEND)
    check(found, "the first program does not begin to send with", BEGINS_TO_SEND)
    body, n = with_checks(snippet)
    return f"{CHECKS}\n{head}\t(void)buf;\n{body}\n\treturn wrong;\n}}\n", n


def build_and_run(text):
    """Return: exit status, output."""
    source, exe = (os.path.join(t.tempdir(), n) for n in ("page.c", "page"))
    with open(source, "w") as f:
        f.write(text)
    rc, flags = staged().pkg_config("--cflags", "--libs")
    check(rc == 0, flags)
    rc, out = run("cc", *STRICT, "-Wno-sign-conversion", source, "-o", exe, *flags.split())
    check(rc == 0, out)
    return run(exe, env=staged().run_env())


def runs(text):
    rc, out = build_and_run(text)
    check(rc == 0 and "WRONG" not in out, f"exit status {rc}", out)
    return out


def case(program, text):
    def complete():
        check(runs(text), "it says nothing")

    def piece():
        source, claims = whole(program, text)
        check(claims > 0, "it claims nothing")
        runs(source)

    return complete if "int main(" in text else piece


def cases():
    found = {}
    for page in PAGES:
        all_blocks = list(blocks(page))
        check(all_blocks, page, "has no C block")
        program = all_blocks[0][1]
        check("int main(" in program, page, "does not begin with a program")
        for heading, text in all_blocks:
            name = f"test_{os.path.basename(page)[:-3].lower().replace('-', '_')}_{heading}"
            found[name + (f"_{len(found)}" if name in found else "")] = case(program, text)
    return found


def test_a_wrong_claim_is_noticed():
    """Values, names of errors, and claims that a child of fork makes."""
    program = list(blocks("docs/from-udp.md"))[0][1]
    for snippet in ('\turds_send(s, "hello", 5, 0); /* 4 */', "\turds_recv(t, buf, 1, MSG_DONTWAIT); /* -1: EINVAL */",
                    '\tif (fork() == 0) {\n\t\turds_send(s, "x", 1, 0); /* 1 */\n\t\treturn 0;\n\t}\n\twait(NULL);'):
        source, claims = whole(program, snippet)
        check(claims == 1, source)
        rc, out = build_and_run(source)
        check("WRONG" in out, f"not noticed: {snippet}", rc, out)


t.main({**cases(), **globals()})
