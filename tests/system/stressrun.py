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
PERF = ("nr_tasks:count req_size:bytes ack_size:bytes rdma_size:bytes req_sent:count thruput:kB/s thruput_rdma_in:kB/s "
        "thruput_rdma_out:kB/s tx_delay:microseconds rtt:microseconds cpu:percent").split()
HOST = "user:percent system:percent idle:percent irq:percent intr:count".split()


def perf_rows(p):
    """The lines with counters, as dictionaries by the names of the header; their form, and the average's."""
    check(HEADER not in p.lines, p)
    heads = [i for i, l in enumerate(p.lines) if l.startswith("::nr_tasks")]
    check(len(heads) == 1, p)
    names = p.lines[heads[0]][2:].split(",")
    check(names[:len(PERF)] == PERF and names[-len(HOST):] == HOST and len(set(names)) == len(names), names)
    counters = names[len(PERF):-len(HOST)]
    check(counters[0] == "conn_reset:count" and "recv_bytes_added_to_sock:bytes" in counters, counters)
    *lines, dashes, average = p.lines[heads[0] + 1:]
    check(dashes == "-" * 45 and ROW.match(average) and ROW.match(average).group(6), p)
    check(lines and all(re.fullmatch(r"::\d+,\d+,\d+,\d+,\d+(,\d+\.\d{6})+", l) for l in lines), p)
    got = [[float(v) for v in l[2:].split(",")] for l in lines]
    check(all(len(g) == len(names) for g in got), p)
    return [dict(zip(names, g)) for g in got]


def check_perf(p, tasks, req, ack, has_interrupts=True):
    got = perf_rows(p)
    for r in got:
        check([r[n] for n in PERF[:4]] == [tasks, req, ack, 0] and r["thruput_rdma_in:kB/s"] == 0, r)
        check(all(0 <= r[n] <= 100.001 for n in HOST[:4]) and sum(r[n] for n in HOST[:4]) <= 100.001, r)
    # The counters are those of this test: what was sent is acks and requests, in bytes as the columns say.
    sent = sum(r["send_queued:count"] for r in got)
    check(sum(r["req_sent:count"] for r in got) > 0 and sum(r["thruput:kB/s"] for r in got) > 0, p)
    check(sent > sum(r["req_sent:count"] for r in got), p)
    check(sum(r["tx_delay:microseconds"] for r in got) > 0 and sum(r["rtt:microseconds"] for r in got) > 0, p)
    check(sum(r["user:percent"] + r["system:percent"] for r in got) > 0, p)
    check(not has_interrupts or sum(r["intr:count"] for r in got) > 0, p)
    return got


def passive(*args, start=t.Proc, at=B, **kw):
    p = start("stress", "-r", at, *args, **kw)
    p.expect(f"^waiting for incoming connection on {at}:4000$")
    return p


def active(*args, start=t.Proc, at=A, to=B, **kw):
    return start("stress", "-s", to, "-r", at, *args, **kw)


def rows(p):
    """The data rows after the header, the average last."""
    check(HEADER in p.lines, p)
    got = [ROW.match(l) for l in p.lines[p.lines.index(HEADER) + 1:] if l != "-" * 45]
    check(got and all(got) and got[-1].group(6) and not any(r.group(6) for r in got[:-1]), p)
    return got


def has_rows(p):
    """Two lines, of which the second is of a second with traffic throughout."""
    return sum(1 for l in p.lines if ROW.match(l) or re.match(r"::\d", l)) >= 2


def independent_waits(local, remote, *args, start=t.Proc, **kw):
    """The independent peer as the passive side."""
    peer = Peer(local, remote, **kw)
    peer.listen()
    try:
        a = start("stress", "-s", local, "-r", remote, "-t", 2, "-d", 3, "-a", 256, "-v", *args)
        peer.start_passive(t.LIMIT_S)
        peer.run(2000, lambda: has_rows(a))
        # Ended from this side before the control connection: what comes after is no longer checked.
        a.signal(signal.SIGINT)
        check(a.end() == 0 and not a.err, a)
        check(peer.link.maps > 0, "no congestion map came")
    finally:
        peer.close()
    return a, peer


def independent_drives(local, remote, *args, start=t.Proc, before_end=lambda p: None, **kw):
    p = start("stress", "-r", remote, *args)
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
            before_end(p)
            peer.control.close()
            check(p.end() == 0 and not p.err, p)
    finally:
        peer.close()
    return p
