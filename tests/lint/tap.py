# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the lint tests share: TAP output, and the list of files that belong to the tree."""
import os
import subprocess
import sys

count = failed = 0


def case(name, complaints):
    """One case; it holds if there is nothing to complain about."""
    global count, failed
    count += 1
    complaints = list(complaints)
    failed += bool(complaints)
    for line in complaints:
        print("#", line)
    print(f"{'not ok' if complaints else 'ok'} {count} - {name}")


def skip(name, why):
    """A case that cannot be answered here."""
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}")


def done():
    print(f"1..{count}")
    sys.exit(1 if failed else 0)


def tracked(root):
    """Paths relative to root, from git, or from a walk in an unpacked tarball."""
    if os.path.exists(os.path.join(root, ".git")):
        out = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, stdout=subprocess.PIPE).stdout
        names = [os.fsdecode(n) for n in out.split(b"\0") if n]
    else:
        names = []
        for where, dirs, files in os.walk(root):
            dirs[:] = [d for d in dirs if d not in ("dist", "__pycache__") and not d.startswith("build")]
            names += [os.path.relpath(os.path.join(where, f), root) for f in files]
    return sorted(n for n in names if os.path.isfile(os.path.join(root, n)))


def text(root, name):
    """Contents of a text file, None for a binary one."""
    with open(os.path.join(root, name), "rb") as f:
        data = f.read()
    return None if b"\0" in data else data.decode("utf-8", "replace")
