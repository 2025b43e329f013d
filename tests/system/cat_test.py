#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds cat."""
import hashlib
import os
import random
import subprocess
import threading
import time

import urdstest as t
from urdstest import check

SENDER, RECEIVER, PORT = "127.5.0.1", "127.5.0.2", 4000
TO = f"{RECEIVER}:{PORT}"


def receiver(path, *args, addr=TO):
    out = open(path, "wb") if isinstance(path, str) else path
    p = t.Proc("cat", "-v", *args, "-l", addr, stdout=out)
    if isinstance(path, str):
        out.close()
    p.expect("ready ", "err")
    return p


def path(name):
    return os.path.join(t.tempdir(), name)


def digest(name):
    with open(name, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def transfer(data, args=("-I", SENDER), to=TO):
    r = receiver(path("out"), addr=to)
    with open(path("in"), "wb") as f:
        f.write(data)
    with open(path("in"), "rb") as f:
        s = t.run("cat", *args, to, stdin=f)
    check(s.rc == 0 and not s.err, s)
    check(r.end() == 0, r)
    with open(path("out"), "rb") as f:
        check(f.read() == data, "the copy differs")


def test_small_empty_and_exact_sizes():
    for n in (0, 1, 65535, 65536, 65537, 1000000):
        transfer(random.Random(n).randbytes(n))


def test_source_by_routing():
    transfer(b"x" * 1000, args=())


def test_ipv6():
    # One IPv6 address is all this namespace has, so only the parsing of both ends is seen here.
    r = receiver(path("out"), addr="[::1]:4000")
    p = t.run("cat", "[::1]:4000")
    check(p.rc == 1 and "-I" in p.err and "::1" in p.err, p)
    r.stop()


def test_20_mib_with_connections_broken():
    size, piece = 20 << 20, 256 << 10
    rng = random.Random(20)
    r = receiver(path("out"))
    s = t.Proc("cat", "-v", "-I", SENDER, TO, stdin=subprocess.PIPE)
    sha = hashlib.sha256()
    kills = 0
    for at in range(0, size, piece):
        data = rng.randbytes(piece)
        sha.update(data)
        s.p.stdin.write(data)
        s.p.stdin.flush()
        if at // piece % 4 == 3:
            kills += t.reset(*((SENDER, RECEIVER) if at // piece % 8 == 3 else (RECEIVER, SENDER)))
    s.p.stdin.close()
    check(s.end() == 0, s)
    check(r.end() == 0, r)
    check(os.path.getsize(path("out")) == size, os.path.getsize(path("out")))
    check(digest(path("out")) == sha.hexdigest(), "the copy differs")
    print(f"# {kills} connections broken")
    check(kills >= 10, "only", kills, "connections were broken")


def test_slow_reader_slows_the_sender_down():
    r = receiver(subprocess.PIPE)
    data = random.Random(5).randbytes(4 << 20)
    with open(path("in"), "wb") as f:
        f.write(data)
    with open(path("in"), "rb") as f:
        s = t.Proc("cat", "-I", SENDER, TO, stdin=f)
    first = r.p.stdout.read(10)
    check(s.p.poll() is None, "4 MiB went somewhere although nobody reads", s)
    check(first + r.p.stdout.read() == data, "the copy differs")
    check(s.end() == 0 and r.end() == 0, s, r)


def test_second_sender_is_ignored_with_a_warning():
    r = receiver(path("out"))
    s = t.Proc("cat", "-I", SENDER, TO, stdin=subprocess.PIPE)
    s.p.stdin.write(b"one ")
    s.p.stdin.flush()
    t.until(lambda: os.path.getsize(path("out")) == 4, "the first message does not arrive")
    other = t.Proc("cat", "-w", 1, "-I", "127.5.0.3", TO, stdin=subprocess.PIPE)
    other.p.stdin.write(b"two ")
    other.p.stdin.close()
    r.expect("ignored a message from 127.5.0.3", "err")
    check(other.end() == 1 and "no confirmation" in other.err, other)
    s.p.stdin.write(b"three")
    s.p.stdin.close()
    check(s.end() == 0 and r.end() == 0, s, r)
    with open(path("out"), "rb") as f:
        check(f.read() == b"one three")


def test_source_that_is_the_destination_names_I():
    receiver(path("out"))
    p = t.run("cat", "-I", RECEIVER, TO)
    check(p.rc == 1 and "-I" in p.err and RECEIVER in p.err, p)


def test_source_with_another_owner_names_I():
    owner = t.listen(SENDER)
    p = t.run("cat", "-I", SENDER, TO)
    check(p.rc == 1 and "-I" in p.err and f"pid {owner.pid}" in p.err, p)


def test_receiver_at_an_owned_address_is_told():
    owner = t.listen(RECEIVER)
    p = t.run("cat", "-l", TO)
    check(p.rc == 1 and f"pid {owner.pid}" in p.err, p)


def test_nobody_receives():
    t.listen(RECEIVER)
    with open("/dev/zero", "rb") as zero:
        data = zero.read(100)
    s = t.Proc("cat", "-w", 1, "-I", SENDER, TO, stdin=subprocess.PIPE)
    s.p.stdin.write(data)
    s.p.stdin.close()
    check(s.end() == 1 and "no confirmation" in s.err and "urds cat -l" in s.err, s)


def test_nobody_sends():
    start = time.monotonic()
    p = t.run("cat", "-w", 1, "-l", TO)
    check(p.rc == 1 and "gave up" in p.err, p)
    check(time.monotonic() - start < 6 * t.SLOW)


def test_output_that_ends_is_an_error():
    end, begin = os.pipe()
    r = receiver(begin)
    os.close(begin)
    os.close(end)
    s = t.Proc("cat", "-w", 1, "-I", SENDER, TO, stdin=subprocess.PIPE)
    s.p.stdin.write(b"x" * 10)
    s.p.stdin.close()
    check(r.end() == 1 and "standard output" in r.err and "Broken pipe" in r.err, r)
    check(s.end() == 1, s)


def test_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        r = receiver(full)
    s = t.Proc("cat", "-w", 1, "-I", SENDER, TO, stdin=subprocess.PIPE)
    s.p.stdin.write(b"x" * 10)
    s.p.stdin.close()
    check(r.end() == 1 and "No space" in r.err, r)
    s.end()


def test_input_that_fails_is_no_end_of_stream():
    r = receiver(path("out"), "-w", "2")
    with open("/proc/self/mem", "rb") as unreadable:
        s = t.run("cat", "-I", SENDER, TO, stdin=unreadable)
    check(s.rc == 1 and "standard input" in s.err, s)
    check(r.end() == 1, r)


def test_receiver_serves_again_after_kill_9():
    for _ in range(3):
        r = receiver(path("out"))
        r.signal(9)
        r.end()
    transfer(b"y" * 100000)


def test_two_streams_at_once():
    errors = []

    def one(n):
        try:
            data = random.Random(n).randbytes(3 << 20)
            r = receiver(path(f"out{n}"), addr=f"127.5.1.{n}:4000")
            s = t.Proc("cat", "-I", f"127.5.2.{n}", f"127.5.1.{n}:4000", stdin=subprocess.PIPE)
            s.p.stdin.write(data)
            s.p.stdin.close()
            check(s.end() == 0 and r.end() == 0, s, r)
            check(digest(path(f"out{n}")) == hashlib.sha256(data).hexdigest(), "the copy differs")
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=one, args=(n,)) for n in (1, 2)]
    for x in threads:
        x.start()
    for x in threads:
        x.join()
    check(not errors, *errors)


def test_bad_input():
    for args, words in (((), "ADDR:PORT"), (("127.0.0.1",), "no port"), (("127.0.0.1:",), "no port"),
                        (("127.0.0.1:x",), "port"), (("127.0.0.1:70000",), "port"), (("127.0.0.1:0",), "ping"),
                        (("127.0.0.1:1",), "1"), (("::1:4000",), "bracket"), (("[::1:4000",), "[ADDR]"),
                        ((":4000",), "empty"), (("nosuch.invalid:4000",), "nosuch.invalid"),
                        (("-w", "x", TO), "-w x"), (("-l", "-I", SENDER, TO), "-I"), (("-x", TO), "--help"),
                        ((TO, TO), "ADDR:PORT")):
        p = t.run("cat", *args)
        check(p.rc == 2 and words in p.err and not p.out, p)
    p = t.run("cat", "-I", "nosuch.invalid", TO)
    check(p.rc == 1 and "nosuch.invalid" in p.err and "-I" in p.err, p)
    p = t.run("cat", "-I", "192.0.2.77", TO)
    check(p.rc == 1 and "192.0.2.77" in p.err, p)
    p = t.run("cat", "-l", "192.0.2.77:4000")
    check(p.rc == 1 and "192.0.2.77" in p.err, p)


t.main(globals())
