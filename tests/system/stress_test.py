#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds stress and rds-stress."""
import errno
import json
import os
import re
import resource
import signal
import socket
import subprocess

import urdstest as t
from stresspeer import Peer
from stressrun import A, B, HEADER, ROW, active, independent_drives, independent_waits, passive, rows
from urdstest import check


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
    a = active("-o", "-z", "-T", 1, "--show-histogram", "--show-params")
    check(a.end() == 0 and p.end() == 0, a, p)
    average = ROW.match(a.lines[a.lines.index(HEADER) + 1])
    check(average and int(average.group(2)) > 0 and int(average.group(3)) == 0, a)
    check(average.group(5) == "-1.00" and "-" * 45 not in a.lines, a)
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


def test_independent_peer_waits_at_the_larger_address():
    independent_waits("127.9.0.4", "127.9.0.3")


def test_independent_peer_waits_at_the_smaller_address():
    independent_waits("127.9.0.3", "127.9.0.4")


def test_independent_peer_drives_from_the_larger_address():
    rows(independent_drives("127.9.0.4", "127.9.0.3"))


def test_independent_peer_drives_from_the_smaller_address():
    rows(independent_drives("127.9.0.3", "127.9.0.4"))


def test_corrupted_byte_is_reported():
    p = independent_drives("127.9.0.3", "127.9.0.4", corrupt_after=500)
    check("An incoming message has a corrupted payload at offset 5; 1 out of 961 bytes corrupted" in p.lines, p)
    check(re.search(r"child pid \d+ exited with status 1", p.err), p)


def counter(addr, name):
    p = t.run("info", "-c", "--json", addr)
    check(p.rc == 0, p)
    return json.loads(p.out)["counters"][name]


def test_congested_port_gets_nothing_until_it_clears():
    local, remote = "127.9.0.4", "127.9.0.3"
    peer = Peer(local, remote)
    peer.listen()
    try:
        a = t.Proc("stress", "-s", local, "-r", remote, "-v")
        peer.start_passive(t.LIMIT_S)
        peer.begin()
        while peer.acks < 10 or peer.received < 10:
            peer.take(*peer.link.receive())
        # Its request, unanswered so far, and the ack of ours, so that nothing is under way.
        last = peer.link.receive(), peer.link.receive()
        peer.link.send_map(peer.port + 1)
        for message in last:
            peer.take(*message)
        # It owes an ack, and may send a request.
        before = counter(remote, "cong_send_error")
        t.until(lambda: counter(remote, "cong_send_error") >= before + 20, "no send was tried")
        check(peer.link.waiting() is None, "a message to a congested port")
        peer.link.send_map()
        goal = peer.received + 100
        while peer.received < goal:
            peer.take(*peer.link.receive())
        a.expect(ROW.pattern)
        a.signal(signal.SIGINT)
        check(a.end() == 0 and not a.err, a)
    finally:
        peer.close()


def test_rdma_is_not_accepted_from_the_wire():
    p = passive()
    for at, value in ((12, b"\0\0\4\0"), (None, None)):
        block = bytearray(Peer(A, B).options())
        if at is not None:
            block[at:at + 4] = value
        else:
            block = b"2.0.7".ljust(6, b"\0").ljust(16, b"\xff") + block + b"\0\1"
        with socket.create_connection((B, 4000), source_address=(A, 0)) as s:
            s.sendall(block)
            check(s.recv(1) == b"", p)
    p.expect("RDMA not supported by this kernel", "err")
    p.expect("--async", "err")
    p.signal(signal.SIGINT)
    check(p.end() == 0, p)


def test_rdma_is_asked_for_once_the_address_is_known():
    p = passive()
    a = t.run("stress", "-s", B, "-D", "1k")
    check(a.rc == 1 and a.out == f"connecting to {B}:4000", a)
    check("check_rdma_support: RDS_FREE_MR failed with unexpected error, errno: 22" in a.err, a)
    p.expect("ignored a connection", "err")
    p.signal(signal.SIGINT)
    check(p.end() == 0, p)


def test_reset_breaks_the_connection():
    here = "127.0.0.1"  # where packets to B leave from
    p = passive()
    a = t.Proc("stress", "-s", B, "-v")
    a.expect(ROW.pattern)
    for args in (("-r", here), ()):
        before = counter(here, "conn_reset")
        r = t.run("stress", "--reset", "-s", B, *args)
        check(r.rc == 0 and not r.err and not r.out, r)
        t.until(lambda: counter(here, "conn_reset") > before, "the connection is not broken")
        n = len(a.lines)  # the line that comes next may be of a second before
        t.until(lambda: any(ROW.match(l) and int(ROW.match(l).group(2)) > 0 for l in a.lines[n + 1:]), str(a))
    a.signal(signal.SIGINT)
    check(a.end() == 0 and p.end() == 0 and not a.err and not p.err, a, p)


def test_output_that_goes_nowhere_ends_it():
    with open("/dev/full", "w") as full:
        for args in (("-r", B), ("-s", B, "-r", A)):
            p = t.run("stress", *args, stdout=full)
            check(p.rc == 1 and p.err == "urds stress: cannot write to standard output: No space left on device", p)


def short_files():
    """For a new process: a file that is as long as it may be is an error, and no signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))


def test_output_that_goes_nowhere_later_ends_both_sides():
    with open(t.tempdir() + "/short", "w") as short:
        p = passive()
        a = active(stdout=short, preexec_fn=short_files)
        check(a.end() == 1 and a.err == "urds stress: cannot write to standard output: File too large", a)
        check(p.end() == 0 and not p.err, p)


def test_closed_output_is_no_socket():
    """What is printed does not go to the other side."""
    with socket.create_server((B, 4000)) as s:
        p = t.Proc("stress", "-s", B, "-r", A, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(1))
        check(p.end() == 1 and p.err == "urds stress: cannot write to standard output: Bad file descriptor", p)
        s.setblocking(False)
        try:
            check(s.accept()[0].recv(100) == b"", p)
        except BlockingIOError:
            pass


def test_too_few_descriptors_are_said():
    # A sanitizer that looks for leaks at the end would need some.
    for is_called in True, False:
        p = t.Proc("stress", "-r", B, env={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"})
        p.expect("^waiting")
        if is_called:
            p.freeze()
            s = socket.create_connection((B, 4000))
        # Seen by accept(), or by poll() already, which needs to be allowed as many as it is given.
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (0, 0))
        if is_called:
            p.signal(signal.SIGCONT)
        check(p.end() == 1 and "cannot accept a connection: Too many open files; raise the limit" in p.err, p)
    s.close()


def test_interrupt_before_there_is_a_connection():
    with open(t.tempdir() + "/retrying", "w+") as out:
        a = active("--connect-retries", 100, stdout=out)
        t.until(lambda: os.pread(out.fileno(), 1000, 0).endswith(b" - retrying"), str(a))
        a.signal(signal.SIGINT)
        check(a.end() == 0 and not a.err, a)
    # One that has sent half of its options.
    p = passive()
    with socket.create_connection((B, 4000)) as s:
        s.sendall(Peer(A, B).options()[:30])
        p.signal(signal.SIGINT)
        check(p.end() == 0 and not p.err, p)


def test_usage_errors():
    for args, rc, words in ((("-h",), 2, "usage"), (("--nosuch",), 2, "usage"), (("-q", "x"), 1, "invalid number 'x'"),
                            (("-q", "62"), 1, "req size must be at least 63 bytes"),
                            (("-a", "62"), 1, "ack size must be at least 63 bytes"),
                            (("-Q", "256"), 1, "invalid number '256'"),
                            (("-s", "nosuch.invalid"), 1, "invalid host name or dotted quad 'nosuch.invalid'"),
                            (("--reset",), 1, "give it with -s"),
                            (("-s", B, "-r", A, "-D", "1k"), 1, "check_rdma_support: RDS_FREE_MR failed with unexpected error, errno: 22"),
                            (("-s", B, "-r", A, "--async"), 1, "sendto() failed, errno: 22 (Invalid argument)"),
                            (("-s", B, "-r", A, "--reset"), 1, f"cannot reset the connection from {A} to {B}"),
                            (("-d", "0"), 1, "depth"), (("-t", "0"), 1, "tasks"),
                            (("--rdma-cache-mrs", "1"), 1, "--rdma-use-get-mr"),
                            (("-r", "192.0.2.77"), 1, "192.0.2.77")):
        p = t.run(*args, name=t.link("rds-stress"))
        check(p.rc == rc and words in p.err, p)


def test_nobody_waits():
    p = t.run("stress", "-s", B, "-r", A)
    check(p.rc == 1 and p.out == f"connecting to {B}:4000: Connection refused" and f"connect({B}) failed" in p.err, p)


t.main(globals())
