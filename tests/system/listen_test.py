#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds listen, and who owns an address."""
import os
import signal
import socket
import time

import urdstest as t
from urdstest import check


def test_says_ready_and_ends_on_sigterm():
    p = t.listen("127.1.0.1", "127.1.0.2")
    check(p.lines == ["ready 127.1.0.1", "ready 127.1.0.2"], p)
    p.signal(signal.SIGTERM)
    check(p.end() == 0, p)


def test_ends_on_sigint():
    p = t.listen("127.1.0.1")
    p.signal(signal.SIGINT)
    check(p.end() == 0, p)


def test_ends_on_sighup_but_not_under_nohup():
    p = t.listen("127.1.0.1")
    p.signal(signal.SIGHUP)
    check(p.end() == 0, p)
    p = t.Proc("listen", "127.1.0.2", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.expect("^ready")
    p.signal(signal.SIGHUP)
    ping = t.run("ping", "-c", 5, "-i", "500ms", "-I", "127.1.0.1", "127.1.0.2")
    check(len(ping.lines) == 5 and p.p.poll() is None, p, ping)
    p.signal(signal.SIGTERM)
    check(p.end() == 0, p)


def test_ipv6():
    p = t.listen("::1")
    p.signal(signal.SIGTERM)
    check(p.end() == 0, p)


def test_second_owner_is_told_who_the_first_is():
    first = t.listen("127.1.0.3")
    p = t.run("listen", "127.1.0.3")
    check(p.rc == 1 and not p.out, p)
    check(f"pid {first.pid}" in p.err and "127.1.0.3 is owned by" in p.err and "(urds, user " in p.err, p)
    check("use another address" in p.err, p)


def test_one_taken_address_means_none():
    t.listen("127.1.0.4")
    p = t.run("listen", "127.1.0.5", "127.1.0.4")
    check(p.rc == 1, p)
    t.listen("127.1.0.5")


def test_stopped_owner_is_named_all_the_same():
    first = t.listen("127.1.0.6")
    first.freeze()
    start = time.monotonic()
    p = t.run("listen", "127.1.0.6")
    check(p.rc == 1 and f"pid {first.pid}" in p.err and "does not answer" in p.err, p)
    check(time.monotonic() - start < 3 * t.SLOW, "it took", time.monotonic() - start)


def test_kill_9_frees_the_address_at_once():
    for _ in range(5):
        p = t.listen("127.1.0.7")
        p.signal(signal.SIGKILL)
        p.end()
    t.listen("127.1.0.7")


def test_address_of_another_host_is_refused():
    p = t.run("listen", "192.0.2.77")
    check(p.rc == 1 and "192.0.2.77" in p.err and not p.out, p)


def test_wildcard_address_is_refused():
    p = t.run("listen", "0.0.0.0")
    check(p.rc == 1 and "0.0.0.0" in p.err and not p.out, p)


def test_foreign_listener_on_the_port_is_named():
    with socket.create_server(("127.1.0.8", 16385)):
        p = t.run("listen", "127.1.0.8")
    check(p.rc == 1 and "16385" in p.err, p)
    t.listen("127.1.0.8")


def test_bad_input():
    for args, rc, words in (((), 2, "which address"), (("-x", "127.1.0.1"), 2, "--help"),
                            (("-x", "127.1.0.1"), 2, "urds listen: invalid option"),
                            (("nosuch.invalid",), 1, "nosuch.invalid"), (("",), 1, "empty"),
                            (("127.1.0.1:4000",), 1, "leave out ':4000'")):
        p = t.run("listen", *args)
        check(p.rc == rc and words in p.err and not p.out, p)


def test_help_and_version():
    for command in (), ("listen",), ("ping",), ("cat",), ("info",), ("doctor",), ("demo",), ("stress",):
        for option in "--help", "--version":
            p = t.run(*command, option)
            check(p.rc == 0 and p.out and not p.err, p)
    p = t.run("nosuch")
    check(p.rc == 2 and "nosuch" in p.err, p)
    check(t.run().rc == 2)


def test_closed_stdout_is_an_error():
    with open("/dev/full", "w") as full:
        p = t.run("listen", "127.1.0.9", stdout=full)
    check(p.rc == 1 and "standard output" in p.err, p)


def test_bad_environment_is_named():
    for name, value in (("URDS_SPIN_US", "abc"), ("URDS_SPIN_US", "-1"), ("URDS_MEMORY", "1G"), ("URDS_EXT", "yes"),
                        ("URDS_SPIN", "2"), ("URDS_PATHS", "3"), ("URDS_PATHS", "4294967297"),
                        ("URDS_PEERS", "10.0.0.0/33"), ("URDS_PEERS", "127.0.0.1,,::1"), ("URDS_PEERS", "::1/129"),
                        ("URDS_PEERS", "10.0.0.1/"), ("URDS_PEERS", "all")):
        p = t.run("listen", "127.1.0.11", env={name: value})
        check(p.rc == 1 and name in p.err and value in p.err, name, value, p)
    p = t.run("listen", "--help", env={"URDS_PATHS": "3"})
    check(p.rc == 0, p)


def test_idle_owner_runs_nothing():
    if t.SLOW > 1:
        raise t.NotHere("sanitizers have threads of their own")
    p = t.listen("127.1.0.10")

    def switches():
        n = 0
        for task in os.listdir(f"/proc/{p.pid}/task"):
            with open(f"/proc/{p.pid}/task/{task}/status") as f:
                n += sum(int(l.split()[1]) for l in f if l.startswith("voluntary_ctxt_switches"))
        return n

    t.until(lambda: (a := switches(), time.sleep(0.2), switches() == a)[2], "the owner never comes to rest")
    before = switches()
    time.sleep(1)  # the measurement
    check(switches() == before, f"{switches() - before} times in one second a thread of an idle owner ran")


t.main(globals())
