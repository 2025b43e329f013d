# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the tests of urds stress share: both sides, alone and with the independent peer, and their lines."""
import re
import signal

import urdstest as t
from stresspeer import Peer
from urdstest import check

A, B = "127.9.0.1", "127.9.0.2"
HEADER = "tsks   tx/s   rx/s  tx+rx K/s    mbi K/s    mbo K/s tx us/c   rtt us cpu %"
ROW = re.compile(r"^ *(\d+) +(\d+) +(\d+) +(\d+\.\d\d) +0\.00 +0\.00 +\d+\.\d\d +\d+\.\d\d +(-1\.00|\d+\.\d\d)(  \(average\))?$")


def passive(*args, **kw):
    p = t.Proc("stress", "-r", B, *args, **kw)
    p.expect(f"^waiting for incoming connection on {B}:4000$")
    return p


def active(*args):
    return t.Proc("stress", "-s", B, "-r", A, *args)


def rows(p):
    """The data rows after the header, the average last."""
    check(HEADER in p.lines, p)
    got = [ROW.match(l) for l in p.lines[p.lines.index(HEADER) + 1:] if l != "-" * 45]
    check(got and all(got) and got[-1].group(6) and not any(r.group(6) for r in got[:-1]), p)
    return got


def has_rows(p):
    """Two lines, of which the second is of a second with traffic throughout."""
    return sum(1 for l in p.lines if ROW.match(l) or re.match(r"::\d", l)) >= 2


def independent_waits(local, remote, *args, **kw):
    """The independent peer as the passive side."""
    peer = Peer(local, remote, **kw)
    peer.listen()
    try:
        a = t.Proc("stress", "-s", local, "-r", remote, "-t", 2, "-d", 3, "-a", 256, "-v", *args)
        peer.start_passive(t.LIMIT_S)
        peer.run(2000, lambda: has_rows(a))
        # Ended from this side before the control connection: what comes after is no longer checked.
        a.signal(signal.SIGINT)
        check(a.end() == 0 and not a.err, a)
        check(peer.link.maps > 0, "no congestion map came")
    finally:
        peer.close()
    return a, peer


def independent_drives(local, remote, **kw):
    p = t.Proc("stress", "-r", remote)
    p.expect("^waiting")
    peer = Peer(local, remote, tasks=2, depth=3, ack=256, **kw)
    try:
        peer.start_active(t.LIMIT_S)
        if "corrupt_after" in kw:
            try:
                peer.run(1 << 30)
            except (EOFError, OSError):
                pass
            check(p.end() == 1, p)
        else:
            peer.run(2000, lambda: has_rows(p))
            peer.control.close()
            check(p.end() == 0 and not p.err, p)
    finally:
        peer.close()
    return p
