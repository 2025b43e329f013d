#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds demo."""
import ctypes
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import termios
import time

import urdstest as t
from urdstest import check

LAST = re.compile(r"^demo: sent (\d+) received (\d+) lost (\d+) duplicated (\d+) reordered (\d+) kills (\d+) "
                  r"retransmitted (\d+)$")
# Under a sanitizer a few thousand messages say as much.
FEWER = ("--messages", 10000, "--time-limit", 100) if t.SLOW > 1 else ()


def last(p):
    m = LAST.match(p.lines[-1]) if p.lines else None
    check(m, p)
    return [int(x) for x in m.groups()]


def test_everything_arrives():
    start = time.monotonic()
    p = t.run("demo", *FEWER, limit=120)
    sent, received, lost, duplicated, reordered, kills, retransmitted = last(p)
    check(p.rc == 0 and not p.err, p)
    check(sent >= (10000 if FEWER else 100000) and sent == received and kills >= 5 and retransmitted >= 1, p)
    check(lost == duplicated == reordered == 0, p)
    check(FEWER or time.monotonic() - start < 30, "it took", time.monotonic() - start)
    pids = re.findall(r"is pid (\d+)", p.out)
    check(len(set(pids)) == 2 and "\r" not in p.out, p)


def test_dropped_message_is_noticed():
    for args, env in ((("--fault", "drop"), {}), ((), {"URDS_DEMO_FAULT": "drop"})):
        p = t.run("demo", *args, "--messages", 10000, "--time-limit", 100, env=env, limit=120)
        sent, received, lost, duplicated, reordered, _, _ = last(p)
        check(p.rc == 1 and sent == 10000 and received == 9999, p)
        check(lost == 1 and duplicated == 0 and reordered == 0, p)


def test_dropped_message_is_noticed_in_a_whole_demo():
    if FEWER:
        raise t.NotHere("too slow here; the shorter one has run")
    p = t.run("demo", "--fault", "drop", limit=60)
    check(p.rc == 1 and last(p)[2] == 1, p)


def test_taken_address_is_explained():
    owner = t.listen("127.0.0.2")
    p = t.run("demo", limit=60)
    check(p.rc == 1 and f"pid {owner.pid}" in p.err and "127.0.0.2" in p.err, p)
    check(last(p)[0] == 0, p)


def test_taken_port_is_explained():
    with socket.create_server(("127.0.0.1", 16385)):
        p = t.run("demo", limit=60)
    check(p.rc == 1 and "127.0.0.1" in p.err and "16385" in p.err, p)


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_nodes_do_not_outlive_the_command():
    for sig, rc in ((signal.SIGKILL, -9), (signal.SIGTERM, 1), (signal.SIGINT, 1)):
        p = t.Proc("demo")
        pids = p.expect(r"is pid (\d+), .* is pid (\d+)").groups()
        p.signal(sig)
        check(p.end() == rc, p)
        t.until(lambda: all(is_gone(x) for x in pids), "a node lives on")


def test_a_terminals_interrupt_is_no_failure_of_a_node():
    for sig in (signal.SIGINT, signal.SIGHUP) * 5:
        p = t.Proc("demo", start_new_session=True)
        p.expect("is pid")
        os.killpg(p.pid, sig)
        check(p.end() == 1 and p.err == "urds demo: interrupted; the nodes are stopped", p)


def test_a_hangup_under_nohup_changes_nothing():
    p = t.Proc("demo", "--messages", 1000, "--time-limit", 100, start_new_session=True,
               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    p.expect("is pid")
    os.killpg(p.pid, signal.SIGHUP)
    p.expect("^demo: sent", limit=100)
    check(last(p)[1] == 1000 and not p.err, p)


def test_node_that_dies_ends_it():
    p = t.Proc("demo")
    pid = int(p.expect(r"is pid (\d+), ").group(1))
    os.kill(pid, signal.SIGKILL)
    check(p.end() == 1 and f"pid {pid}" in p.err, p)
    last(p)


def test_time_limit():
    p = t.Proc("demo", "--time-limit", 2)
    pid = int(p.expect(r"is pid (\d+), ").group(1))
    os.kill(pid, signal.SIGSTOP)
    check(p.end() == 1 and "--time-limit" in p.err, p)


def unread(pid):
    """The most bytes that wait at one of its sockets."""
    PIDFD_GETFD = 438
    process = os.pidfd_open(pid)
    most = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:"):
            ours = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, int(fd), 0)
            if ours < 0:
                raise t.Skip("another's descriptors cannot be looked at here: " + os.strerror(ctypes.get_errno()))
            most = max(most, struct.unpack("i", fcntl.ioctl(ours, termios.FIONREAD, bytes(4)))[0])
            os.close(ours)
    os.close(process)
    return most


def test_parent_that_stood_still_goes_on():
    # What the nodes said meanwhile is more than one line holds.
    p = t.Proc("demo", "--messages", 10000000, "--time-limit", 100)
    p.expect("^demo: ping 127.0.0.2 -> 127.0.0.1: 10 of 10")
    p.freeze()
    t.until(lambda: unread(p.pid) > 600, "the nodes say nothing")
    p.signal(signal.SIGCONT)
    t.until(lambda: p.p.poll() is not None or unread(p.pid) < 200, "nothing is read")
    p.signal(signal.SIGINT)
    check(p.end() == 1 and "interrupted" in p.err, p)


def test_output_that_goes_nowhere_is_an_error():
    with open("/dev/full", "w") as full:
        p = t.run("demo", "--messages", 1000, stdout=full, limit=60)
    check(p.rc == 1 and "cannot write to standard output: No space left" in p.err, p)
    p = t.run("demo", "--messages", 1000, preexec_fn=lambda: os.close(1), stdout=subprocess.DEVNULL, limit=60)
    check(p.rc == 1 and "cannot write to standard output: Bad file descriptor" in p.err, p)


def test_bad_input():
    for args, words in ((("x",), "'x'"), (("--fault", "x"), "'x'"), (("--messages", "x"), "--messages x"),
                        (("--time-limit", "0"), "--time-limit 0"), (("--nosuch",), "--help")):
        p = t.run("demo", *args)
        check(p.rc == 2 and words in p.err and not p.out, p)
    p = t.run("demo", env={"URDS_DEMO_FAULT": "x"})
    check(p.rc == 2 and "'x'" in p.err, p)


t.main(globals())
