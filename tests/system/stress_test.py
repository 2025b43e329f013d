#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds stress and rds-stress."""
import errno
import re
import signal
import socket

import urdstest as t
from stresspeer import Peer
from urdstest import check

A, B = "127.9.0.1", "127.9.0.2"
HEADER = "tsks   tx/s   rx/s  tx+rx K/s    mbi K/s    mbo K/s tx us/c   rtt us cpu %"
ROW = re.compile(r"^ *(\d+) +(\d+) +(\d+) +(\d+\.\d\d) +0\.00 +0\.00 +\d+\.\d\d +\d+\.\d\d +(-1\.00|\d+\.\d\d)(  \(average\))?$")


def passive(*args):
    p = t.Proc("stress", "-r", B, *args)
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


def test_verified_both_ways():
    p = passive()
    a = active("-t", 2, "-d", 3, "-q", 1024, "-a", 256, "-v", "-T", 5)
    check(a.end() == 0 and p.end() == 0, a, p)
    check(not a.err and not p.err, a, p)
    check(a.lines[0] == f"connecting to {B}:4000", a)
    check(a.lines[1:3] == ["negotiated options, tasks will start in 2 seconds", "Starting up...."], a)
    check(re.match(rf"accepted connection from {A}:\d+$", p.lines[1]), p)
    for side in (a, p):
        got = rows(side)
        check(4 <= len(got) - 1 <= 6, side)
        for column in (2, 3):
            total = sum(int(r.group(column)) for r in got[:-1])
            check(total >= (10000 if t.SLOW == 1 else 100), side)


def test_one_way_with_summary_only():
    p = passive()
    a = active("-o", "-z", "-T", 1, "-c", "--show-histogram", "--show-params")
    check(a.end() == 0 and p.end() == 0, a, p)
    average = ROW.match(a.lines[a.lines.index(HEADER) + 1])
    check(average and int(average.group(2)) > 0 and int(average.group(3)) == 0, a)
    check(average.group(5) != "-1.00" and "-" * 45 not in a.lines, a)
    check("Options:" in a.lines and "  Req size   1024   " in a.lines, a)
    check("RTT histogram" in a.lines and a.lines[-1].startswith("[ 32768 -  65536]"), a)


def test_interrupt_ends_both_sides():
    p = passive()
    a = active()
    a.expect(ROW.pattern)
    a.signal(signal.SIGINT)
    check(a.end() == 0 and p.end() == 0, a, p)
    rows(a), rows(p)


def test_interrupt_while_waiting():
    p = passive()
    p.signal(signal.SIGINT)
    check(p.end() == 0 and not p.err, p)


def test_lost_peer_is_noticed():
    p = passive()
    a = active()
    a.expect(ROW.pattern)
    p.signal(signal.SIGKILL)
    check(a.end() == 1 and "the other side ended the test" in a.err, a)


def test_garbage_on_the_control_port_is_survived():
    p = passive()
    for junk in (b"GET / HTTP/1.0\r\n\r\n" + bytes(100), bytes(59), b"\xff" * 59, b"x"):
        with socket.create_connection((B, 4000)) as s:
            try:  # it may be reset before we are through
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                check(s.recv(1) == b"", p)
            except OSError as e:
                check(e.errno in (errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE), e, p)
    t.until(lambda: len([l for l in p.err_lines if "ignored a connection" in l]) == 4, str(p))
    a = active("-T", 1)
    check(a.end() == 0 and p.end() == 0, a, p)


def test_golden_options():
    with socket.create_server((B, 4000)) as s:
        a = active()
        c, _ = s.accept()
        want = bytes.fromhex("00000001 00000400 0000003f 00000000 7f090002 7f090001 0fa0 0001 00000000"
                             "000000000000010000010000ff0000 00000001 00000000 00000000 00")
        got = b""
        while len(got) < len(want):
            more = c.recv(100)
            check(more, got.hex(), a)
            got += more
        check(got == want, got.hex())
        c.close()
    check(a.end() == 1 and "Peer unexpectedly closed connection" in a.err, a)


def test_pattern():
    import stresspeer
    p = stresspeer.pattern(264)
    check(p[:16].hex() == "0b3e694ca73ac508c3b6a1445fb2fd00" and p[252:].hex() == "efc28d100c682440bc98d470", p.hex())


def independent_waits(local, remote, **kw):
    """The independent peer as the passive side."""
    peer = Peer(local, remote, **kw)
    peer.listen()
    try:
        a = t.Proc("stress", "-s", local, "-r", remote, "-t", 2, "-d", 3, "-a", 256, "-v")
        peer.start_passive(t.LIMIT_S)
        peer.run(2000)
        # Ended from this side before the control connection: what comes after is no longer checked.
        a.expect(ROW.pattern)
        a.signal(signal.SIGINT)
        check(a.end() == 0 and not a.err, a)
        check(peer.link.maps > 0, "no congestion map came")
    finally:
        peer.close()


def test_independent_peer_waits_at_the_larger_address():
    independent_waits("127.9.0.4", "127.9.0.3")


def test_independent_peer_waits_at_the_smaller_address():
    independent_waits("127.9.0.3", "127.9.0.4")


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
            peer.run(2000)
            p.expect(ROW.pattern)
            peer.control.close()
            check(p.end() == 0 and not p.err, p)
    finally:
        peer.close()
    return p


def test_independent_peer_drives_from_the_larger_address():
    rows(independent_drives("127.9.0.4", "127.9.0.3"))


def test_independent_peer_drives_from_the_smaller_address():
    rows(independent_drives("127.9.0.3", "127.9.0.4"))


def test_corrupted_byte_is_reported():
    p = independent_drives("127.9.0.3", "127.9.0.4", corrupt_after=500)
    check("An incoming message has a corrupted payload at offset 5; 1 out of 961 bytes corrupted" in p.lines, p)
    check(re.search(r"child pid \d+ exited with status 1", p.err), p)


def test_usage_errors():
    for args, rc, words in ((("-h",), 2, "usage"), (("--nosuch",), 2, "usage"), (("-q", "x"), 1, "invalid number 'x'"),
                            (("-q", "62"), 1, "req size must be at least 63 bytes"),
                            (("-a", "62"), 1, "ack size must be at least 63 bytes"),
                            (("-Q", "256"), 1, "invalid number '256'"),
                            (("-s", "nosuch.invalid"), 1, "invalid host name or dotted quad 'nosuch.invalid'"),
                            (("-D", "1k"), 1, "RDMA"), (("--async",), 1, "--async"), (("--reset",), 1, "--reset"),
                            (("-d", "0"), 1, "depth"), (("-t", "0"), 1, "tasks"),
                            (("--rdma-cache-mrs", "1"), 1, "--rdma-use-get-mr"),
                            (("-r", "192.0.2.77"), 1, "192.0.2.77")):
        p = t.run(*args, name=t.link("rds-stress"))
        check(p.rc == rc and words in p.err, p)


def test_nobody_waits():
    p = t.run("stress", "-s", B, "-r", A)
    check(p.rc == 1 and p.out == f"connecting to {B}:4000: Connection refused" and f"connect({B}) failed" in p.err, p)


t.main(globals())
