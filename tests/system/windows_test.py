#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The commands on Windows, under Wine, among themselves and with those of this system.

The second argument is urds.dll, the third the folder of the examples. The Wine of this test has a prefix of its own, for its server belongs to
the network namespace that it was started in.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading

EXE, DLL, EXAMPLES = sys.argv[1], sys.argv.pop(2), sys.argv.pop(2)
if EXE == "none":
    print("1..0 # SKIP built without json-c, so there are no commands: scripts/fetch-sources")
    sys.exit(0)

import urdstest as t
from urdstest import check

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import wine as under

t.LIMIT_S = 60  # a program takes its time to start
ONE, TWO, THREE = "127.9.0.1", "127.9.0.2", "127.9.0.3"
MIB = 1 << 20
files = 0


def path(name):
    return os.path.join(t.tempdir(), name)


class Wine(t.Proc):
    """urds.exe; stdout: the name of a file, or the lines of a Proc."""

    # pylint: disable=super-init-not-called
    def __init__(self, *args, stdin=subprocess.DEVNULL, stdout=None, exe=None, env=None):
        global files
        files += 1
        self.args = [str(a) for a in args]
        self.lines, self.err_lines = [], []
        self.changed = threading.Condition()
        out, err = stdout or path(f"{files}.out"), path(f"{files}.err")
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
    p = wine("ping", "-c", 3, "-i", "0.05", "-I", TWO, ONE)
    check(p.rc == 0 and replies(p) == 3, p)
    l.signal(signal.SIGINT)
    check(l.end() == 0, l)
    p = wine("ping", "-c", 1, "-i", "0.5", "-I", TWO, ONE)
    check(p.rc == 1 and "no reply from " + ONE in p.err, p)


def test_ping_through_the_owner_of_the_source():
    listen(ONE)
    listen(TWO)
    p = wine("ping", "-c", 2, "-i", "0.05", "-I", TWO, ONE)
    check(p.rc == 0 and replies(p) == 2, p)


def test_second_owner_is_told_who_the_first_is():
    listen(ONE)
    p = wine("listen", ONE)
    check(p.rc == 1 and "pid " in p.err and "urds" in p.err, p)


def test_ping_to_and_from_this_system():
    listen(ONE)
    listen_here(TWO)
    p = here("ping", "-c", 3, "-i", "0.05", "-I", TWO, ONE)
    check(p.rc == 0 and replies(p) == 3, p)
    p = wine("ping", "-c", 3, "-i", "0.05", "-I", ONE, TWO)
    check(p.rc == 0 and replies(p) == 3, p)
    p = wine("ping", "-c", 2, "-i", "0.05", "-I", THREE, "--json", TWO)
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


def endless_demo():
    p = Wine("demo", "--messages", 100000000, "--time-limit", 100)
    p.expect("^demo: ping 127.0.0.2 -> 127.0.0.1: 10 of 10")
    return p


def test_demo_ends_by_ctrl_c():
    p = endless_demo()
    p.signal(signal.SIGINT)
    check(p.end() == 1 and ("ended while it should" in p.err or "interrupted" in p.err), p)


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
