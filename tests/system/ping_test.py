#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds ping and rds-ping."""
import errno
import json
import os
import re
import signal
import time

import urdstest as t
from urdstest import check

LINE = re.compile(r"^ {1,3}\d+: \d+ usec$")


# One that answers: with -c the last reply has one interval to come in, and a busy machine needs it.
def good_lines(p, n):
    check(len(p.lines) == n and all(LINE.match(l) for l in p.lines), p)
    check([int(l.split(":")[0]) for l in p.lines] == list(range(1, n + 1)), p)


def test_node_answers():
    t.listen("127.3.0.2")
    p = t.run("ping", "-c", 5, "-i", "0.5", "-I", "127.3.0.1", "127.3.0.2")
    check(p.rc == 0 and not p.err, p)
    good_lines(p, 5)


def test_through_the_owner_of_the_source():
    t.listen("127.3.0.2")
    t.listen("127.3.0.1")
    p = t.run("ping", "-c", 12, "-i", "500ms", "-I", "127.3.0.1", "127.3.0.2")
    check(p.rc == 0 and not p.err, p)
    good_lines(p, 12)


def test_own_address_through_its_owner():
    t.listen("127.3.0.2")
    p = t.run("ping", "-c", 2, "-i", "500ms", "-I", "127.3.0.2", "127.3.0.2")
    check(p.rc == 0, p)
    good_lines(p, 2)


def test_own_address_without_owner_is_explained():
    p = t.run("ping", "-c", 1, "-I", "127.3.0.9", "127.3.0.9")
    check(p.rc == 1 and not p.out and "-I" in p.err and "127.3.0.9" in p.err, p)


def test_source_by_routing():
    t.listen("127.3.0.2")
    p = t.run("ping", "-c", 1, "127.3.0.2")
    check(p.rc == 0, p)


def test_ipv6():
    t.listen("::1")
    p = t.run("ping", "-c", 2, "-i", "500ms", "::1")
    check(p.rc == 0, p)
    good_lines(p, 2)


def test_json_lines():
    t.listen("127.3.0.2")
    p = t.run("ping", "--json", "-c", 3, "-i", "500ms", "-I", "127.3.0.1", "127.3.0.2")
    got = [json.loads(line) for line in p.lines]
    # Each has a socket of its own: on a busy machine the first may wait for the connection until the second has its answer too.
    check(p.rc == 0 and not p.err and sorted(o["request"] for o in got) == [1, 2, 3], p)
    for o in got:
        check(list(o) == ["request", "destination", "rtt_ns", "from", "duplicate"], o)
        check(type(o["rtt_ns"]) is int and o["rtt_ns"] > 0 and o["from"] == o["destination"] == "127.3.0.2", o)
        check(o["duplicate"] is False, o)


def test_json_of_an_error():
    p = t.run("ping", "--json", "-c", 1, "-i", "50ms", "-I", "127.3.0.1", "127.3.0.2", env={"URDS_PEERS": "10.0.0.0/8"})
    got = [json.loads(line) for line in p.lines]
    check(p.rc == 1 and len(got) == 1 and list(got[0]) == ["request", "destination", "error"], p)
    check(got[0]["error"] == os.strerror(errno.EACCES), p)


def test_silence_ends_with_count():
    start = time.monotonic()
    p = t.run("ping", "-c", 20, "-i", "0.02", "-I", "127.3.0.1", "127.3.0.8")
    check(p.rc == 1 and not p.out and "127.3.0.8" in p.err, p)
    check(time.monotonic() - start < 5 * t.SLOW, "it took", time.monotonic() - start)


def test_silence_through_the_owner_ends_with_count():
    t.listen("127.3.0.1")
    p = t.run("ping", "-c", 20, "-i", "0.02", "-I", "127.3.0.1", "127.3.0.8")
    check(p.rc == 1 and not p.out, p)


def test_answers_come_once_the_node_is_there():
    p = t.Proc("ping", "-i", "0.1", "-I", "127.3.0.1", "127.3.0.2")
    t.until(lambda: os.path.exists(f"/proc/{p.pid}/task") and len(os.listdir(f"/proc/{p.pid}/task")) > 1,
            "ping has no threads")
    t.listen("127.3.0.2")
    p.expect(r"^ +\d+: \d+ usec$")


def test_lines_come_at_once_through_a_pipe():
    t.listen("127.3.0.2")
    p = t.Proc("ping", "-i", "0.1", "-I", "127.3.0.1", "127.3.0.2")
    p.expect("^ {3}1: ")
    check(p.p.poll() is None, p)
    p.expect("^ {3}2: ")


def test_stopped_owner_of_the_source_is_named():
    owner = t.listen("127.3.0.1")
    owner.freeze()
    p = t.run("ping", "-c", 1, "-I", "127.3.0.1", "127.3.0.2", limit=5 * t.SLOW)
    check(p.rc == 1 and f"pid {owner.pid}" in p.err and "-I" in p.err, p)


def test_owner_that_ends_meanwhile():
    owner = t.listen("127.3.0.1")
    t.listen("127.3.0.2")
    p = t.Proc("ping", "-i", "0.1", "-I", "127.3.0.1", "127.3.0.2")
    p.expect("1: ")
    owner.signal(signal.SIGKILL)
    check(p.end() == 1 and "127.3.0.1" in p.err, p)


def test_rds_ping_is_the_same():
    t.listen("127.3.0.2")
    p = t.run("-c", 2, "-i", "0.5", "-I", "127.3.0.1", "127.3.0.2", name=t.link("rds-ping"))
    check(p.rc == 0, p)
    good_lines(p, 2)


def test_usage_errors_are_rds_pings():
    name = t.link("rds-ping")
    for args, words in ((("-x",), "Unknown option"), ((), "Missing destination address"),
                        (("127.0.0.1", "127.0.0.2"), "Missing destination address"), (("-c",), "Unknown option")):
        p = t.run(*args, name=name)
        check(p.rc == 1 and not p.out and p.err.startswith("rds-ping version ") and words in p.err, p)


def test_bad_values():
    for args, words in ((("-c", "x", "127.0.0.1"), "Bad packet count <x>"),
                        (("-i", "x", "127.0.0.1"), "Bad wait time <x>"),
                        (("-i", "1s", "127.0.0.1"), "Bad wait time <1s>"),
                        (("-i", "0", "127.0.0.1"), "Bad wait time <0>"),
                        (("-I", "nosuch.invalid", "127.0.0.1"), "Unknown source address <nosuch.invalid>"),
                        (("-I", "::1", "127.0.0.1"), "Unknown source address <::1>"),
                        (("-I", "192.0.2.77", "127.0.0.1"), "192.0.2.77"),
                        (("nosuch.invalid",), "Cannot parse destination address <nosuch.invalid>"),
                        (("-Q", "3", "127.0.0.1"), "type of service")):
        p = t.run("ping", *args)
        check(p.rc == 1 and words in p.err and not p.out, p)


def test_requests_that_cannot_be_sent_are_no_fault_of_the_other_end():
    for owner in False, True:  # of the source: this command, or another one
        if owner:
            t.listen("127.3.0.1", env={"URDS_PEERS": "10.0.0.0/8"})
        p = t.run("ping", "-c", 2, "-i", "20ms", "-I", "127.3.0.1", "127.3.0.2", env={} if owner else {"URDS_PEERS": "10.0.0.0/8"})
        check(p.rc == 1 and len(p.lines) == 2 and all(l.endswith(": ERROR: Permission denied") for l in p.lines), p)
        check(p.err == "urds ping: nothing could be sent to 127.3.0.2; 'urds doctor -I 127.3.0.1 127.3.0.2' says more", p)


def test_output_that_goes_nowhere_ends_it():
    t.listen("127.9.0.2")
    with open("/dev/full", "w") as full:
        p = t.run("ping", "-I", "127.9.0.1", "127.9.0.2", stdout=full)
    check(p.rc == 1 and p.err == "urds ping: cannot write to standard output: No space left on device", p)


t.main(globals())
