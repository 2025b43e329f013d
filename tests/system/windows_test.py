#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The commands on Windows, under Wine, among themselves and with those of this system.

The second argument is urds.dll, the third the folder of the examples, the fourth a program that knows priorities. The Wine of this test has a prefix
of its own, for its server belongs to the network namespace that it was started in.
"""
import concurrent.futures
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading

EXE, DLL, EXAMPLES, PRIORITY = sys.argv[1], sys.argv.pop(2), sys.argv.pop(2), sys.argv.pop(2)
if EXE == "none":
    print("1..0 # SKIP built without json-c, so there are no commands: scripts/fetch-sources")
    sys.exit(0)

import stressrun
import urdstest as t
from stresspeer import Peer
from stressrun import ROW, independent_drives, independent_waits, rows
from urdstest import check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import wine as under

t.LIMIT_S = 60  # a program takes its time to start
ONE, TWO, THREE = "127.9.0.1", "127.9.0.2", "127.9.0.3"
MIB = 1 << 20
numbers = itertools.count()


def path(name):
    return os.path.join(t.tempdir(), name)


class Wine(t.Proc):
    """urds.exe; stdout: the name of a file, or the lines of a Proc."""

    # pylint: disable=super-init-not-called
    def __init__(self, *args, stdin=subprocess.DEVNULL, stdout=None, exe=None, env=None):
        number = next(numbers)
        self.args = [str(a) for a in args]
        self.lines, self.err_lines = [], []
        self.changed = threading.Condition()
        out, err = stdout or path(f"{number}.out"), path(f"{number}.err")
        self.out_name = out
        with open(out, "wb") as o, open(err, "wb") as e:
            self.p = subprocess.Popen(under.argv(path("wine"), exe or t.URDS, self.args), stdin=stdin, stdout=o, stderr=e,
                                      env={**under.env(DLL), **(env or {})})
        self.pid = self.p.pid
        self.readers = [threading.Thread(target=self._follow, args=(err, self.err_lines), daemon=True)]
        if stdout is None:
            self.readers.append(threading.Thread(target=self._follow, args=(out, self.lines), daemon=True))
        for r in self.readers:
            r.start()
        t.procs.append(self)

    def raw(self):
        with open(self.out_name, "rb") as f:
            return f.read()

    def _follow(self, name, lines):
        for line in under.lines_of(name, lambda: self.p.poll() is not None):
            with self.changed:
                lines.append(line.decode("utf-8", "replace"))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()


def wine(*args, **kw):
    """To its end."""
    p = Wine(*args, **kw)
    p.rc = p.end()
    return p


def native():
    """The commands of this system: of `make stage`, or of `make`."""
    for name in (os.environ.get("URDS_NATIVE", ""), "dist/bin/urds", "build/tools/urds"):
        name = os.path.join(under.ROOT, name)
        if os.path.isfile(name):
            return name
    raise t.Skip("urds is not built for this system: make stage")


def here(*args, **kw):
    return t.run(*args, name=native(), **kw)


def ready(p, *addrs):
    for a in addrs:
        p.expect(f"^ready {a}$")
    return p


def listen(*addrs):
    return ready(Wine("listen", *addrs), *addrs)


def listen_here(*addrs):
    return ready(t.Proc("listen", *addrs, name=native()), *addrs)


def replies(p):
    return sum(" usec" in l and "ERROR" not in l for l in p.lines)


def test_wine_is_there():
    # A first prefix takes a while, and is no part of what the other cases limit.
    p = Wine("--version")
    check(p.end(300) == 0 and p.out.startswith("urds (urds) "), p)


def test_usage_errors():
    for args, rc, words in ([], 2, "urds listen ADDR"), (["nothing"], 2, "no command 'nothing'"), \
            (["listen"], 2, "which address"), (["cat"], 2, "ADDR:PORT"), (["cat", "-l", "1.2.3.4"], 2, "no port"), \
            (["ping"], 1, "Missing destination"), (["ping", "-c", "x", ONE], 1, "Bad packet count"), \
            (["info", "-y"], 1, "Invalid option '-y'"), (["doctor", "--proc", "/proc"], 2, "no /proc"), \
            (["listen", "127.9.0.1:22"], 1, "leave out ':22'"), (["listen", "192.0.2.1"], 1, "not an address of"):
        p = wine(*args)
        check(p.rc == rc and words in p.err, p, f"status {p.rc}, expected {rc} and {words!r}")


def test_called_rds_ping_it_is_that():
    exe = shutil.copy(t.URDS, path("rds-ping.exe"))
    p = wine(exe=exe)
    check(p.rc == 1 and "usage: rds-ping [-c count]" in p.err, p)


def test_ping_and_the_end_by_ctrl_c():
    l = listen(ONE)
    p = wine("ping", "-c", 3, "-i", "0.5", "-I", TWO, ONE)
    check(p.rc == 0 and replies(p) == 3, p)
    l.signal(signal.SIGINT)
    check(l.end() == 0, l)
    p = wine("ping", "-c", 1, "-i", "0.5", "-I", TWO, ONE)
    check(p.rc == 1 and "no reply from " + ONE in p.err, p)


def test_ping_through_the_owner_of_the_source():
    listen(ONE)
    listen(TWO)
    p = wine("ping", "-c", 2, "-i", "0.5", "-I", TWO, ONE)
    check(p.rc == 0 and replies(p) == 2, p)


def test_second_owner_is_told_who_the_first_is():
    listen(ONE)
    p = wine("listen", ONE)
    check(p.rc == 1 and "pid " in p.err and "urds" in p.err, p)


def test_ping_to_and_from_this_system():
    listen(ONE)
    listen_here(TWO)
    p = here("ping", "-c", 3, "-i", "0.5", "-I", TWO, ONE)
    check(p.rc == 0 and replies(p) == 3, p)
    p = wine("ping", "-c", 3, "-i", "0.5", "-I", ONE, TWO)
    check(p.rc == 0 and replies(p) == 3, p)
    p = wine("ping", "-c", 2, "-i", "0.5", "-I", THREE, "--json", TWO)
    got = [json.loads(l) for l in p.lines]
    check(p.rc == 0 and len(got) == 2 and all(g["from"] == TWO and g["rtt_ns"] > 0 for g in got), p)


def test_info_of_an_owner():
    listen(ONE)
    listen(TWO)
    p = wine("ping", "-c", 1, "-I", TWO, ONE)
    check(p.rc == 0, p)
    p = wine("info", "--json", ONE)
    check(p.rc == 0 and not p.err, p)
    got = json.loads(p.out)
    check([(c["local_addr"], c["remote_addr"], c["connected"]) for c in got["connections"]] == [(ONE, TWO, True)], p)
    check([(c["remote_addr"], c["state"], c["end"]) for c in got["peers"]] == [(TWO, "up", "urds")], p)
    check(got["counters"]["recv_ping"] == 1, got["counters"])
    # Numbers that a double cannot hold.
    check(got["connections"][0]["next_tx"] > 1 << 60, got["connections"])
    p = wine("info", "--owners", "--json")
    owners = json.loads(p.out)["owners"]
    check([o["addr"] for o in owners] == [ONE, TWO] and all(o["pid"] > 0 and o["answered"] for o in owners), p)
    p = wine("info", "-n")
    check(p.rc == 0 and "RDS Connections:" in p.lines and sum(ONE in l for l in p.lines) == 2, p)


def transfer(size, sender, receiver):
    """sender(args, stdin) and receiver(args, stdout) start a process."""
    data = random.Random(size).randbytes(size)
    with open(path("in"), "wb") as f:
        f.write(data)
    r = receiver(["cat", "-v", "-l", TWO + ":4000"], path("copy"))
    r.expect("ready ", "err")
    with open(path("in"), "rb") as f:
        s = sender(["cat", "-I", ONE, TWO + ":4000"], f)
    check(s.end() == 0 and not s.err, s)
    check(r.end() == 0, r)
    with open(path("copy"), "rb") as f:
        check(f.read() == data, "the copy differs")


def wine_sender(args, stdin):
    return Wine(*args, stdin=stdin)


def wine_receiver(args, out):
    return Wine(*args, stdout=out)


def native_sender(args, stdin):
    return t.Proc(*args, stdin=stdin, name=native())


def native_receiver(args, out):
    with open(out, "wb") as f:
        return t.Proc(*args, stdout=f, name=native())


def test_cat():
    for size in 0, 1, 65537, 4 * MIB:
        transfer(size, wine_sender, wine_receiver)


def test_cat_to_this_system():
    transfer(8 * MIB, wine_sender, native_receiver)


def test_cat_from_this_system():
    transfer(8 * MIB, native_sender, wine_receiver)


def test_doctor():
    p = wine("doctor", "-I", ONE)
    check(p.rc == 0 and not p.err and f"ok    address  {ONE} is an address of this host" in p.lines, p)
    p = wine("doctor", "-I", "192.0.2.1")
    check(p.rc == 1 and "stop  address  192.0.2.1 is not an address of this host" in p.lines, p)
    listen(ONE)
    p = wine("doctor", "--json")
    ports = [c for c in json.loads(p.out)["checks"] if c["check"] == "port"]
    check(p.rc == 0 and len(ports) == 1 and ports[0]["text"].startswith(f"{ONE} is owned by pid "), p)
    p = wine("doctor", "-I", TWO, ONE)
    check(p.rc == 0 and p.out.startswith(f"{ONE}: urds "), p)
    p = wine("doctor", "-w", "2", "-I", TWO, THREE)
    check(p.rc == 1 and p.out.startswith(f"{THREE}: refused"), p)


def test_configuration_file():
    with open(path("urds.conf"), "w") as f:
        f.write("paths = 1;\nnothing = 2;\n")
    p = wine("listen", ONE, env={"URDS_CONFIG": path("urds.conf")})
    check(p.rc == 1 and "line 2: there is no setting 'nothing'" in p.err, p)


def test_demo():
    p = wine("demo", "--messages", 20000, "--time-limit", 50)
    check(p.rc == 0 and re.fullmatch("demo: sent 20000 received 20000 lost 0 duplicated 0 reordered 0 "
                                     r"kills \d+ retransmitted \d+", p.lines[-1]), p)
    p = wine("demo", "--messages", 2000, "--fault", "drop", "--time-limit", 50)
    check(p.rc == 1 and "received 1999 lost 1 " in p.lines[-1], p)


def test_demo_from_a_folder_of_any_name():
    os.makedirs(path("f\u00f6lder \u65e5\u672c"))
    p = wine("demo", "--messages", 20000, "--time-limit", 50, exe=shutil.copy(t.URDS, path("f\u00f6lder \u65e5\u672c/urds.exe")))
    check(p.rc == 0 and "sent 20000 received 20000 lost 0 " in p.lines[-1], p)


def endless_demo():
    p = Wine("demo", "--messages", 100000000, "--time-limit", 100)
    p.expect("^demo: ping 127.0.0.2 -> 127.0.0.1: 10 of 10")
    return p


def test_demo_ends_by_ctrl_c():
    p = endless_demo()
    p.signal(signal.SIGINT)
    check(p.end() == 1 and p.err.endswith("interrupted; the nodes are stopped"), p)


def is_free(addr):
    try:
        listen(addr).stop()
        return True
    except t.Failed:
        return False


def test_demo_that_is_killed_takes_its_nodes_along():
    p = endless_demo()
    p.stop()
    t.until(lambda: all(is_free(a) for a in ("127.0.0.1", "127.0.0.2")), "a node lives on")


FOUR, FIVE, SIX, SEVEN, EIGHT, NINE = (f"127.9.0.{n}" for n in range(4, 10))
VERIFIED = "-t 2 -d 3 -q 1024 -a 256 -v".split()
ENOUGH = 10000


def native_proc(*args):
    return t.Proc(*args, name=native())


def has_enough(p):
    """Requests sent, and requests received, in the lines so far; each was acked."""
    got = [r for r in map(ROW.match, p.lines) if r and not r.group(6)]
    return all(sum(int(r.group(column)) for r in got) >= ENOUGH for column in (2, 3))


def verified(at, to, active_start, passive_start, meanwhile=lambda a: None):
    p = stressrun.passive(start=passive_start, at=to)
    a = stressrun.active(*VERIFIED, start=active_start, at=at, to=to)
    t.until(lambda: (has_enough(a) and has_enough(p)) or a.p.poll() is not None, f"{a}\n{p}")
    meanwhile(a)
    a.signal(signal.SIGINT)
    check(a.end() == 0 and p.end() == 0 and not a.err and not p.err, a, p)
    check(a.lines[1:3] == ["negotiated options, tasks will start in 2 seconds", "Starting up...."], a)
    for side in a, p:
        check(all(r.group(1) == "2" for r in rows(side)) and has_enough(side), side)


def resets(addr):
    p = wine("info", "-c", "--json", addr)
    check(p.rc == 0, p)
    return json.loads(p.out)["counters"]["conn_reset"]


def reset(a):
    before = resets(FOUR)
    p = wine("stress", "--reset", "-r", FOUR, "-s", THREE)
    check(p.rc == 0 and not p.out and not p.err, p)
    t.until(lambda: resets(FOUR) > before, "the connection is not broken")
    n = len(a.lines)  # the line that comes next may be of a second before
    t.until(lambda: any(ROW.match(l) and int(ROW.match(l).group(2)) > 0 for l in a.lines[n + 1:]), str(a))


def at_once(*functions):
    """Most of a stress test is waiting, so several go together."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for f in [pool.submit(f) for f in functions]:
            f.result()


def test_stress_drives_one_of_this_system_and_is_driven_by_one():
    at_once(lambda: verified(ONE, TWO, Wine, native_proc), lambda: verified(THREE, FOUR, native_proc, Wine, reset))


def priority_class(p, addr):
    """Of a program that owns an address, as the system says it."""
    owners = json.loads(wine("info", "--owners", "--json").out)["owners"]
    pid, = [o["pid"] for o in owners if o["addr"] == addr]
    c = wine(pid, exe=PRIORITY)
    check(c.rc == 0, c, p)
    return c.out


def independent_waits_for_perfdata():
    a, peer = independent_waits(FOUR, THREE, "--show-perfdata", start=Wine)
    check(peer.perfdata == 1, peer.perfdata)
    # The Wine of this test does not say how many interrupts there are.
    stressrun.check_perf(a, 2, 1024, 256, has_interrupts=False)


def independent_asks_for_real_time():
    p = independent_drives(FIVE, SIX, start=Wine, rtprio=1,
                           before_end=lambda p: check(priority_class(p, SIX) == "real time", p))
    check(all(r.group(5) == "-1.00" for r in rows(p)), p)


def soakers_are_no_real_time():
    """One that measures what is left over is asked to take everything."""
    p = Wine("stress", "-c", "-r", SEVEN)
    p.expect("^waiting")
    check(p.lines[0] == f"started {len(os.sched_getaffinity(0))} cycle soaking processes", p)
    peer = Peer(EIGHT, SEVEN, rtprio=1)
    try:
        peer.start_active(t.LIMIT_S)
        check(p.end() == 1 and "no real-time scheduling (-R)" in p.err and "leave -c out" in p.err, p)
        check(peer.control.recv(1) == b"", "the control connection is still there")
    finally:
        peer.close()


def test_stress_and_an_independent_peer():
    at_once(independent_waits_for_perfdata, independent_asks_for_real_time, soakers_are_no_real_time)


def corrupted_byte_is_reported():
    p = independent_drives(THREE, FOUR, start=Wine, corrupt_after=500)
    check("An incoming message has a corrupted payload at offset 5; 1 out of 961 bytes corrupted" in p.lines, p)
    check(re.search(r"child pid \d+ exited with status 1", p.err), p)


def second_ctrl_c_ends_at_once(tries=3):
    peer = Peer(FIVE, SIX)
    peer.listen()
    try:
        a = Wine("stress", "-s", FIVE, "-r", SIX)
        peer.start_passive(t.LIMIT_S)
        t.until(lambda: b"Starting up" in a.raw(), str(a))
        a.signal(signal.SIGINT)
        check(peer.control.recv(1) == b"", a)  # it has noticed, and gives messages under way a second
        a.signal(signal.SIGINT)
        rc = a.end()
    finally:
        peer.close()
    if rc == 0 and tries > 1:  # we were away for that second
        second_ctrl_c_ends_at_once(tries - 1)
        return
    check(rc != 0 and "(average)" not in a.out and not a.err, a)


def ctrl_c_while_nobody_comes():
    p = stressrun.passive(start=Wine, at=SEVEN)
    p.signal(signal.SIGINT)
    check(p.end() == 0 and not p.err, p)


def what_is_left_over_is_measured():
    p = stressrun.passive("-c", start=Wine, at=EIGHT)
    a = stressrun.active("-T", 1, "-z", "--show-histogram", start=Wine, at=NINE, to=EIGHT)
    check(a.end() == 0 and p.end() == 0 and not a.err and not p.err, a, p)
    check(all(0 <= float(r.group(5)) < 100 for r in rows(p)), p)
    average = ROW.match(a.lines[a.lines.index(stressrun.HEADER) + 1])
    check(average and average.group(6) and average.group(5) == "-1.00" and int(average.group(2)) > 0, a)
    check(a.lines[-1].startswith("[ 32768 -  65536]"), a)


def what_is_not_there_is_said():
    exe = shutil.copy(t.URDS, path("rds-stress.exe"))
    for args, rc, words in (["-h"], 2, "usage"), (["-q", "62"], 1, "req size must be at least 63 bytes"), \
            (["-s", TWO, "-r", ONE], 1, f"connect({TWO}) failed"), (["-r", "192.0.2.77"], 1, "192.0.2.77"), \
            (["-s", TWO, "-r", ONE, "-D", "1k"], 1, "check_rdma_support: RDS_FREE_MR failed with unexpected error, errno: 22"), \
            (["-s", TWO, "-r", ONE, "--async"], 1, "sendto() failed, errno: 22 (Invalid argument)"), \
            (["-s", TWO, "-r", ONE, "--reset"], 1, f"cannot reset the connection from {ONE} to {TWO}"):
        p = wine(*args, exe=exe)
        check(p.rc == rc and words in p.err, p, f"status {p.rc}, expected {rc} and {words!r}")


def output_that_goes_nowhere_ends_it():
    for args in ["stress", "-r", THREE], ["demo", "--messages", 1000, "--time-limit", 50]:
        p = wine(*args, stdout="/dev/full")
        check(p.rc == 1 and "cannot write to standard output: " in p.err, p)


def test_stress_ends_early_or_after_its_time():
    at_once(output_that_goes_nowhere_ends_it, corrupted_byte_is_reported, second_ctrl_c_ends_at_once, ctrl_c_while_nobody_comes, what_is_left_over_is_measured,
            what_is_not_there_is_said)


def test_examples():
    for server in "echo_server.exe", "echo_server_poll.exe":
        s = Wine(ONE, exe=os.path.join(EXAMPLES, server))
        s.expect("^ready$")
        for client in "echo_client.exe", "echo_client_poll.exe":
            c = wine(TWO, ONE, 300, exe=os.path.join(EXAMPLES, client))
            check(c.rc == 0 and c.lines == ["300 messages and their echoes"], server, client, c)
        s.stop()


t.at_end.append(lambda: under.end(path("wine")))
t.main(globals())
