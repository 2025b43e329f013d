#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds stress and rds-stress."""
import ctypes
import errno
import json
import os
import re
import resource
import signal
import socket
import time

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
            peer.run(2000, lambda: has_rows(p))
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


def check_perf(p, tasks, req, ack):
    got = perf_rows(p)
    for r in got:
        check([r[n] for n in PERF[:4]] == [tasks, req, ack, 0] and r["thruput_rdma_in:kB/s"] == 0, r)
        check(all(0 <= r[n] <= 100.001 for n in HOST[:4]) and sum(r[n] for n in HOST[:4]) <= 100.001, r)
    # The counters are those of this test: what was sent is acks and requests, in bytes as the columns say.
    sent = sum(r["send_queued:count"] for r in got)
    check(sum(r["req_sent:count"] for r in got) > 0 and sum(r["thruput:kB/s"] for r in got) > 0, p)
    check(sent > sum(r["req_sent:count"] for r in got), p)
    check(sum(r["tx_delay:microseconds"] for r in got) > 0 and sum(r["rtt:microseconds"] for r in got) > 0, p)
    check(sum(r["user:percent"] + r["system:percent"] for r in got) > 0 and sum(r["intr:count"] for r in got) > 0, p)
    return got


def test_perfdata_on_both_sides():
    p = passive()
    a = active("-q", 2000, "-a", 100, "-t", 2, "-T", 3, "--show-perfdata")
    check(a.end() == 0 and p.end() == 0 and not a.err and not p.err, a, p)
    for side in (a, p):
        got = check_perf(side, 2, 2000, 100)
        check(2 <= len(got) <= 4 and all(r["cpu:percent"] == 0 for r in got), side)


def test_perfdata_with_summary_only():
    p = passive()
    a = active("-T", 1, "-z", "--show-perfdata")
    check(a.end() == 0 and p.end() == 0, a, p)
    check(a.lines[-2].startswith("::nr_tasks:count,") and ROW.match(a.lines[-1]), a)


def test_independent_peer_asks_for_perfdata():
    check_perf(independent_drives("127.9.0.3", "127.9.0.4", perfdata=1), 2, 1024, 256)


def test_independent_peer_is_asked_for_perfdata():
    a, peer = independent_waits("127.9.0.4", "127.9.0.3", "--show-perfdata")
    check(peer.perfdata == 1 and peer.rtprio == 0, peer.perfdata, peer.rtprio)
    check_perf(a, 2, 1024, 256)


def threads(p):
    """Of each thread, the first thread's first: its scheduling policy, its state, the seconds it ran."""
    out = []
    for tid in sorted(map(int, os.listdir(f"/proc/{p.pid}/task")), key=lambda tid: tid != p.pid):
        try:
            with open(f"/proc/{p.pid}/task/{tid}/stat") as f:
                v = f.read().rpartition(")")[2].split()
            out.append((os.sched_getscheduler(tid), v[0], (int(v[11]) + int(v[12])) / os.sysconf("SC_CLK_TCK")))
        except (ProcessLookupError, FileNotFoundError):
            pass
    return out


def soakers(p):
    return [x for x in threads(p) if x[0] == os.SCHED_IDLE]


def test_soakers_on_both_sides():
    cpus = len(os.sched_getaffinity(0))
    p = passive("-c")
    check(p.lines[0] == f"started {cpus} cycle soaking processes" and len(soakers(p)) == cpus, p, threads(p))
    a = active("-c", "-T", 2)
    check(a.end() == 0 and p.end() == 0, a, p)
    check(a.lines[0] == f"started {cpus} cycle soaking processes", a)
    for side in (a, p):
        check(all(0 <= float(r.group(5)) <= 100 for r in rows(side)), side)
        # The other side's soakers get as much.
        check(float(rows(side)[-1].group(5)) >= 10, side)


def test_soakers_measure_what_is_left_over():
    cpus = len(os.sched_getaffinity(0))
    p = passive()
    a = active("-c")

    def moment(n):
        t.until(lambda: len([l for l in a.lines if ROW.match(l)]) >= n, str(a))
        return time.monotonic(), sum(x[2] for x in soakers(a))

    (t0, soaked0), (t1, soaked1) = moment(1), moment(5)
    a.signal(signal.SIGINT)
    check(a.end() == 0 and p.end() == 0, a, p)
    check(all(r.group(5) == "-1.00" for r in rows(p)), p)
    said = sum(float(r.group(5)) for r in rows(a)[1:5]) / 4
    seen = 100 - 100 * (soaked1 - soaked0) / cpus / (t1 - t0)
    check(abs(said - seen) <= 10, f"{said} % busy are said, {seen} % are seen", a)


def test_soakers_sleep_until_the_test_and_keep_to_their_processors():
    one = min(os.sched_getaffinity(0))
    p = passive("-c", preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    check(p.lines[0] == "started 1 cycle soaking processes" and len(soakers(p)) == 1, p, threads(p))
    t.until(lambda: soakers(p)[0][1] == "S", f"{threads(p)}")
    p.signal(signal.SIGINT)
    check(p.end() == 0, p)


def may_real_time():
    pid = os.fork()
    if pid == 0:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def without_privilege():
    """For a new process: no CAP_SYS_NICE, and no limit that stands in for it."""
    PR_CAPBSET_DROP, CAP_SYS_NICE, RLIMIT_RTPRIO = 24, 23, 14
    resource.setrlimit(RLIMIT_RTPRIO, (0, 0))
    if ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def test_real_time_on_both_sides():
    if not may_real_time():
        raise t.Skip("real-time scheduling is not allowed here")
    p = passive()
    a = active("-R")
    for side in (a, p):
        side.expect(ROW.pattern)
        check(threads(side)[0][0] == os.SCHED_RR and os.sched_getparam(side.pid).sched_priority == 1, threads(side))
    a.signal(signal.SIGINT)
    check(a.end() == 0 and p.end() == 0, a, p)


def test_real_time_without_privilege_on_the_passive_side():
    p = passive(preexec_fn=without_privilege)
    a = active("-R")
    check(p.end() == 1 and "no real-time scheduling (-R): Operation not permitted" in p.err, p)
    check(a.end() == 1, a)
    if may_real_time():
        check("the other side ended the test" in a.err, a)


def test_independent_peer_asks_for_real_time():
    p = t.Proc("stress", "-r", "127.9.0.3", preexec_fn=without_privilege)
    p.expect("^waiting")
    peer = Peer("127.9.0.4", "127.9.0.3", rtprio=1)
    try:
        peer.start_active(t.LIMIT_S)
        check(p.end() == 1 and "no real-time scheduling (-R)" in p.err, p)
        check(peer.control.recv(1) == b"", "the control connection is still there")
    finally:
        peer.close()


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


def test_reset_breaks_the_connection():
    p = passive()
    a = active("-v")
    a.expect(ROW.pattern)
    before = counter(A, "conn_reset")
    r = t.run("stress", "--reset", "-s", B, "-r", A)
    check(r.rc == 0 and not r.err and not r.out, r)
    t.until(lambda: counter(A, "conn_reset") > before, "the connection is not broken")
    n = len(a.lines)
    t.until(lambda: any(ROW.match(l) and int(ROW.match(l).group(2)) > 0 for l in a.lines[n + 1:]), str(a))
    a.signal(signal.SIGINT)
    check(a.end() == 0 and p.end() == 0 and not a.err and not p.err, a, p)


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
