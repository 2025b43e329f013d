#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What urds stress measures and what it asks of the system: counters, processors, real time."""
import ctypes
import os
import resource
import signal
import socket
import time

import urdstest as t
from stresspeer import Peer
from stressrun import ROW, active, check_perf, independent_drives, independent_waits, passive, rows
from urdstest import check


def test_perfdata_on_both_sides():
    p = passive("-c")
    a = active("-q", 2000, "-a", 100, "-t", 2, "-T", 3, "--show-perfdata")
    check(a.end() == 0 and p.end() == 0 and not a.err and not p.err, a, p)
    for side in (a, p):
        got = check_perf(side, 2, 2000, 100)
        check(2 <= len(got) <= 4, side)
        check(all((0 < r["cpu:percent"] <= 100) if side is p else r["cpu:percent"] == 0 for r in got), side)


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


def test_options_without_a_start_end_it():
    # Half a minute.
    p = t.Proc("stress", "-r", "127.9.0.3")
    p.expect("^waiting")
    with socket.create_connection(("127.9.0.3", 4000), source_address=("127.9.0.4", 0)) as s:
        s.sendall(Peer("127.9.0.4", "127.9.0.3").options())
        check(p.end(60 * t.SLOW) == 1 and "no start of the test: it sent nothing in time" in p.err, p)


t.main(globals())
