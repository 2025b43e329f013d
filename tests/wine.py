# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Windows programs under Wine, for tests: with files for output, never pipes, which background services would keep open.

A Wine prefix belongs to one test: its server belongs to the network namespace that it was started in.
"""
import os
import shutil
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def is_there():
    return any(shutil.which(w) for w in ("wine64", "/usr/lib/wine/wine64", "wine"))


def argv(prefix, exe, args):
    """The command line that runs EXE; the prefix is made by the first one."""
    return [os.path.join(ROOT, "scripts", "wine-run"), "--prefix", prefix, "--exec", exe, *map(str, args)]


def env(dll):
    """The environment in which Windows programs find DLL."""
    return {**os.environ, "WINEPATH": "Z:" + os.path.dirname(os.path.abspath(dll))}


def lines_of(name, has_ended):
    """The lines of a file as they come, as bytes without their ends, until the program that writes it has ended."""
    rest = b""
    with open(name, "rb") as f:
        while True:
            is_over = has_ended()
            more = f.read()
            *whole, rest = (rest + more).split(b"\n")
            if is_over and rest:
                whole.append(rest)
            for line in whole:
                yield line.rstrip(b"\r")
            if is_over:
                return
            if not more:
                time.sleep(0.02)


def end(prefix):
    """Whatever is left of this prefix, and nothing else."""
    server = shutil.which("wineserver") or "/usr/lib/wine/wineserver64"
    if os.path.exists(server):
        subprocess.run([server, "-k"], env={**os.environ, "WINEPREFIX": prefix}, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
