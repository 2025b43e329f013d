#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What URDS_LOG writes, and what a configuration file sets."""
import datetime
import os
import re
import signal
import socket
import struct
import tempfile

import urdstest as t
from urdstest import check

A, B = "127.14.0.1", "127.14.0.2"
FORM = re.compile(r'time=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6})Z level=(error|warn|info|debug) event=([a-z_]+)((?: [a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^" ]+))*)$')


def fields(line):
    """A line taken apart; fails if it is not of the form."""
    m = FORM.match(line)
    check(m, line)
    f = dict(re.findall(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|[^" ]+)', m.group(4)))
    when = datetime.datetime.fromisoformat(m.group(1) + "+00:00")
    check(abs((datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()) < 3600, line)
    return {"level": m.group(2), "event": m.group(3), **f}


def logged(lines, event):
    return [f for f in map(fields, (l for l in lines if l.startswith("time="))) if f["event"] == event]


def listen(addr, log, **kw):
    p = t.Proc("listen", addr, env={"URDS_LOG": log}, **kw)
    p.expect(f"^ready {addr}$")
    return p


def test_a_connection_from_beginning_to_end():
    a = listen(A, "debug")
    p = t.run("ping", "-c", 1, "-I", B, A, env={"URDS_LOG": "debug"})
    check(p.rc == 0, p)
    a.expect("event=drop", "err")
    mine = {"local": A, "remote": B, "path": "0"}
    # The smaller address connects, because the larger one asks for it.
    check(logged(p.err_lines, "knock")[0] == {"level": "info", "event": "knock", "local": B, "remote": A, "path": "0",
                                              "reason": '"messages wait"'}, p)
    check(logged(a.err_lines, "connect")[0] == {"level": "info", "event": "connect", **mine,
                                                "reason": '"the peer asks for it"'}, a)
    check(logged(a.err_lines, "up")[0] == {"level": "info", "event": "up", **mine}, a)
    check(logged(a.err_lines, "known")[0] == {"level": "debug", "event": "known", **mine, "peer": "urds", "version": "1"}, a)
    check(logged(a.err_lines, "drop")[0] == {"level": "warn", "event": "drop", "local": A, "remote": B, "fault": "closed",
                                             "count": "1", "reason": '"closed by peer"'}, a)
    order = [f["event"] for f in map(fields, a.err_lines)]
    check(order[:4] == ["connect", "up", "known", "drop"], order)


def test_a_restarted_peer():
    a = listen(A, "info")
    b = listen(B, "off")
    check(t.run("ping", "-c", 1, "-I", A, B).rc == 0)
    b.signal(signal.SIGKILL)
    b.end()
    a.expect("event=drop .*fault=(closed|lost)", "err")
    b = listen(B, "off")
    check(t.run("ping", "-c", 1, "-I", A, B).rc == 0)
    a.expect(f"event=restarted local={A} remote={B} incarnation=[0-9a-f]{{8}} ", "err")
    check(len(logged(a.err_lines, "up")) == 2 and not logged(a.err_lines, "known"), a)


def test_a_reset_and_what_is_not_rds():
    b = listen(B, "warn")
    with socket.socket() as s:
        s.bind((A, 0))
        s.connect((B, 16385))
        s.sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(100))
        b.expect(f"level=warn event=drop local={B} remote={A} fault=not_rds ", "err")
    with socket.socket() as s:
        s.bind((A, 0))
        s.connect((B, 16385))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    b.expect(f'level=warn event=drop local={B} remote={A} fault=lost_early .*reason="reset by peer before it said anything"', "err")


def test_attempts_that_fail_are_held_back():
    p = t.run("ping", "-c", 1, "-I", A, B, env={"URDS_LOG": "warn"})
    failed = logged(p.err_lines, "connect_failed")
    check(p.rc == 1 and failed and failed[0]["fault"] == "dial" and failed[0]["reason"] == '"connection refused"', p)
    check(len(failed) <= 10 * t.SLOW and not logged(p.err_lines, "connect"), p)


def test_who_is_refused_and_why():
    a = t.Proc("listen", A, env={"URDS_LOG": "warn", "URDS_PEERS": "127.14.0.9"})
    a.expect("^ready")
    with socket.socket() as s:
        s.bind((B, 0))
        s.connect((A, 16385))
        a.expect(f'event=refused local={A} remote={B} reason="in none of the networks of URDS_PEERS"', "err")
    p = t.run("ping", "-c", 1, "-I", B, A, env={"URDS_LOG": "info", "URDS_PEERS": "127.14.0.9"})
    check(p.rc == 1 and logged(p.err_lines, "refused")[0]["remote"] == A, p)
    check(logged(p.err_lines, "call_failed")[0]["error"] == "URDS_EACCES", p)


def test_calls_that_fail():
    a = listen(A, "off")
    b = t.run("listen", A, env={"URDS_LOG": "info"})
    failed = logged(b.err_lines, "call_failed")
    check(b.rc == 1 and failed[0]["error"] == "URDS_EADDRINUSE" and str(a.pid) in failed[0]["reason"], b)
    b = t.run("listen", A, env={"URDS_LOG": "warn"})
    check(not logged(b.err_lines, "call_failed"), b)


def test_to_a_file():
    with tempfile.TemporaryDirectory() as d:
        name = os.path.join(d, "urds.log")
        with open(name, "w") as f:
            f.write("what was there\n")
        a = listen(A, f"info:{name}")
        check(t.run("ping", "-c", 1, "-I", B, A, env={"URDS_LOG": f"info:{name}"}).rc == 0)

        def lines():
            with open(name) as f:
                return f.read().splitlines()
        t.until(lambda: any("event=drop" in l for l in lines()), "no drop in the file")
        check(lines()[0] == "what was there" and not a.err_lines, lines())
        # Two processes write to it, and every line is whole.
        check({f["local"] for f in map(fields, lines()[1:])} == {A, B}, lines())
        os.chmod(name, 0o640)
        new = os.path.join(d, "new.log")
        check(t.run("listen", "192.0.2.1", env={"URDS_LOG": f"info:{new}"}).rc == 1)
        check(os.stat(new).st_mode & 0o777 & ~0o640 == 0, oct(os.stat(new).st_mode))


def test_bad_values_say_what_is_good():
    for bad in ("loud", "info:", "INFO", ":x", "info,warn"):
        p = t.run("listen", A, env={"URDS_LOG": bad})
        check(p.rc == 1 and f"URDS_LOG (environment) = {bad}: give off, error, warn, info or debug" in p.err, p)
    p = t.run("listen", A, env={"URDS_LOG": "info:/nowhere/x"})
    check(p.rc == 1 and "cannot write to that file: No such file" in p.err, p)


def test_a_full_pipe_holds_nobody_up():
    r, w = os.pipe()
    os.set_blocking(w, False)
    try:
        while True:
            os.write(w, bytes(4096))
    except BlockingIOError:
        pass
    os.set_blocking(w, True)
    # A process whose standard error is that pipe.
    p = t.Proc("-c", f'exec "$0" listen {A} 2>&{w}', t.URDS, name="/bin/sh", env={"URDS_LOG": "debug"}, pass_fds=[w])
    p.expect("^ready")
    for _ in range(3):
        check(t.run("ping", "-c", 1, "-I", B, A).rc == 0)
    p.signal(signal.SIGTERM)
    check(p.end() == 0, p)
    os.close(r)
    os.close(w)


# ---------------------------------------------------------------- the file

def with_file(text, *args, **env):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(text)
        f.flush()
        p = t.run(*args, env={"URDS_CONFIG": f.name, **env})
        p.file = f.name
        return p


def test_settings_from_a_file():
    a = listen(A, "off")
    ping = ("ping", "-c", 1, "-I", B, A)
    p = with_file('# a comment\npeers = [ "127.14.0.9", "10.0.0.0/8" ];\nlog = "info";\n', *ping)
    check(p.rc == 1 and logged(p.err_lines, "refused"), p)
    p = with_file('peers = "127.14.0.0/24"; log = "debug"; ext = 0; spin = false; spin_us = 20; memory = 100000000; paths = 2;', *ping)
    check(p.rc == 0 and logged(p.err_lines, "known")[0]["peer"] == "kernel", p)
    # The environment goes first.
    p = with_file('peers = "127.14.0.9"; log = "debug";', *ping, URDS_PEERS=A, URDS_LOG="off")
    check(p.rc == 0 and not p.err_lines, p)
    check(with_file("", *ping).rc == 0 and a.p.poll() is None)


def test_mistakes_in_a_file_are_named():
    def said(text, *words, **env):
        p = with_file(text, "listen", A, **env)
        check(p.rc == 1 and all(w in p.err for w in (p.file, *words)), p, words)
    said("ext = 1\nspni = 1\n", "line 2", "no setting 'spni'", "spin")
    said("ext = 1\nspin = = 1\n", "line 2", "syntax error")
    said("paths = 3", "paths = 3: it must be 1, 2, 4 or 8")
    said("paths = 77", "paths = 77: it must be a number from 0 to 8")
    said("spin_us = -1", "spin_us = -1")
    said("peers = [ \"10.0.0.0/8\", \"x\" ]", "peers = 10.0.0.0/8,x: 'x' is no network")
    said("peers = { a = 1; }", "line 1", "a number, a string, or [ strings ]")
    said("peers = [ 1, 2 ]", "line 1", "a number, a string, or [ strings ]")
    said('log = "loud"', "log = loud: give off")
    p = t.run("listen", A, env={"URDS_CONFIG": "/nowhere/urds.conf"})
    check(p.rc == 1 and "cannot read /nowhere/urds.conf: No such file" in p.err, p)
    p = t.run("listen", A, env={"URDS_CONFIG": "/"})
    check(p.rc == 1 and "/" in p.err, p)


t.main(globals())
