#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The ownership record against clients that mean no good, and other users."""
import os
import random
import signal
import socket
import struct
import time

import urdstest as t
from urdstest import check

A = "127.2.0.1"


def ident(addr):
    with t.record_connect(addr) as s:
        status, body = t.record_ask(s, t.IDENT)
    check(status == 0, "IDENT is refused", status)
    instance, pid, uid = struct.unpack(">QII", body[:16])
    texts, at = [], 16
    for _ in range(3):
        n = body[at]
        texts.append(body[at + 1:at + 1 + n].decode())
        at += 1 + n
    return instance, pid, uid, *texts


def test_says_who_it_is():
    p = t.listen(A)
    instance, pid, uid, mode, version, program = ident(A)
    check(instance and pid == p.pid and uid == os.geteuid(), instance, pid, uid)
    check(mode == "embedded" and version and program == "urds", mode, version, program)


def test_two_addresses_of_one_context_are_one_instance():
    t.listen(A, "127.2.0.2")
    check(ident(A)[0] == ident("127.2.0.2")[0])
    t.listen("127.2.0.3")
    check(ident(A)[0] != ident("127.2.0.3")[0])


def test_garbage_closes_the_client_and_nothing_else():
    p = t.listen(A)
    rng = random.Random(1)
    bad = [b"", b"x", bytes(11), bytes(12), bytes(70000), t.record_message(t.IDENT, length=13),
           t.record_message(t.IDENT, length=0xffffffff), t.record_message(t.IDENT, version=0),
           t.record_message(t.INFO, bytes(4), version=2), t.record_message(t.IDENT, status=-3),
           t.record_message(t.INFO, b"abc"), t.record_message(t.PING, bytes(3)),
           t.record_message(t.PING, b"\xff" + bytes(23)), t.record_message(t.RESET, bytes(19)),
           t.record_message(99), t.record_message(t.IDENT | t.REPLY)]
    bad += [rng.randbytes(rng.randrange(1, 200)) for _ in range(200)]
    for m in bad:
        with t.record_connect(A) as s:
            try:
                s.send(m)
                check(s.recv(65536) == b"", "an answer to", m[:40].hex())
            except (ConnectionError, BrokenPipeError):
                pass
            except OSError as e:
                check(e.errno == 90, e)  # EMSGSIZE: this one never left
    check(ident(A)[1] == p.pid)


def test_a_crowd_of_silent_clients_locks_nobody_out():
    t.listen(A)
    crowd = [t.record_connect(A) for _ in range(100)]
    with t.record_connect(A):
        pass
    # The silent ones are sent away after a second, and the crowd is larger than the table.
    t.until(lambda: try_ident(A), "nobody can ask any more", 5 * t.SLOW)
    for s in crowd:
        s.close()


def try_ident(addr):
    try:
        return ident(addr)[1]
    except (OSError, t.Failed):
        return 0


def test_a_client_that_does_not_read_is_closed():
    p = t.listen(A)
    with t.record_connect(A, 20) as s:
        s.settimeout(None)
        sent = 0
        try:
            while sent < 200000:
                s.send(t.record_message(t.INFO, struct.pack(">I", 10000)))
                sent += 1
        except (ConnectionError, BrokenPipeError):
            pass
        check(sent < 200000, "it took every request without an answer being read")
    check(ident(A)[1] == p.pid)


def test_unknown_information_is_refused():
    t.listen(A)
    with t.record_connect(A) as s:
        for source in (0, 1, 9999, 10002, 0x7fffffff, 0xffffffff):
            status, _ = t.record_ask(s, t.INFO, struct.pack(">I", source))
            check(status < 0, "source", source, "status", status)
        status, body = t.record_ask(s, t.INFO, struct.pack(">I", 10000))
        check(status == 0 and struct.unpack(">I", body[:4])[0] == 40, status, body[:12].hex())


def test_ping_and_its_answer():
    t.listen(A, "127.2.0.2")
    with t.record_connect(A) as s:
        status, body = t.record_ask(s, t.PING, b"\5\0\0\0" + t.record_addr("127.2.0.2"))
        check(status == 0 and body[0] == 5, status, body.hex())
        rtt = struct.unpack(">Q", body[4:12])[0]
        check(0 < rtt < 10 * 10**9 and body[12:32] == t.record_addr("127.2.0.2"), rtt, body.hex())


def test_others_learn_who_it_is_and_no_more():
    t.need_another_user()
    p = t.listen(A)
    pid = os.fork()
    if pid == 0:
        code = 9
        try:
            t.become_another_user()
            with t.record_connect(A) as s:
                good = t.record_ask(s, t.IDENT)[0] == 0
                for kind, body in ((t.INFO, struct.pack(">I", 10000)), (t.RESET, t.record_addr("127.2.0.2")),
                                   (t.PING, bytes(4) + t.record_addr("127.2.0.2"))):
                    good = good and t.record_ask(s, kind, body)[0] == -25  # URDS_EACCES
                code = 0 if good else 1
        finally:
            os._exit(code)
    check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "another user was not refused")
    check(ident(A)[1] == p.pid)


def test_others_cannot_crowd_out_the_owners_user():
    t.need_another_user()
    t.listen(A)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        t.become_another_user()
        end = time.monotonic() + 3
        crowd = []
        os.write(w, b"x")
        while time.monotonic() < end:
            try:
                s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                s.setblocking(False)
                s.connect("\0urds/owner/" + A)
                crowd.append(s)
            except OSError:
                time.sleep(0.001)
            crowd = crowd[-500:]
        os._exit(0)
    os.read(r, 1)
    good = sum(bool(try_ident(A)) for _ in range(20))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    check(good >= 18, f"only {good} of 20 questions were answered")


def test_owner_ends_while_clients_are_there():
    p = t.listen(A)
    clients = [t.record_connect(A) for _ in range(10)]
    for s in clients:
        t.record_ask(s, t.IDENT)
    t.record_ask(clients[0], t.PING, bytes(4) + t.record_addr(A))
    p.signal(signal.SIGTERM)
    check(p.end() == 0, p)
    for s in clients:
        try:
            check(s.recv(100) == b"")
        except ConnectionError:
            pass
    t.listen(A)


t.main(globals())
