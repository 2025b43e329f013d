#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds doctor: findings about this host, and each verdict on a peer, with peers that are played here; docs/doctor.md."""
import errno
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import urdstest as t
from urdstest import check

PORT = 16385
LOW, MID, HIGH = "127.13.0.1", "127.13.0.5", "127.13.0.9"
LIMIT = 3 * t.SLOW
VERDICTS = {"no_route": "no route", "filtered": "filtered", "refused": "refused", "closed": "accepted then closed",
            "not_rds": "not RDS", "kernel": "kernel RDS", "urds": "urds 1"}
HDR = struct.Struct(">QQIHHBB4sH16s")


# ---------------------------------------------------------------- the page

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "doctor.md")
# What stands for something else in the texts of the page.
STANDS_FOR = {"ERROR": "[A-Z][A-Za-z ]+", "SOURCE": "[0-9a-f.:]+", "N": "[0-9.]+", "RELEASE": "[0-9.]+",
              r"\[": "(?:", r"\]": ")?"}
left_out = []  # cases that cannot run here


def pattern(text):
    text = re.escape(text).replace(r"\ ", " ")
    return re.compile("".join(STANDS_FOR.get(w, w) for w in re.split(r"(\b[A-Z]+\b|\\[\[\]])", text)))


def page_rows():
    """(verdict, pattern of the text, remedy, command) of each line of its table."""
    rows = []
    with open(PAGE, encoding="utf-8") as f:
        for line in f:
            if line.startswith("| `"):
                verdict, text, _, remedy, command = (c.strip() for c in line.strip()[1:-1].split(" |"))
                rows.append((verdict.strip("`"), pattern(text.strip("`")), remedy or None, command.split("`")[1]))
    return rows


ROWS = page_rows()
shown_rows = set()


def on_the_page(p, verdict, text, remedy):
    """The page has one line for this; if it names this command, the line is right."""
    rows = [r for r in ROWS if r[0] == verdict and r[1].fullmatch(text) and r[2] == remedy]
    check(len(rows) == 1, f"{len(rows)} lines of docs/doctor.md for:", verdict, text, remedy)
    args = [a for i, a in enumerate(p.args) if a not in ("-w", "--json") and p.args[i - 1] != "-w"]
    if rows[0][3] == " ".join(["urds", *args]):
        shown_rows.add(rows[0])


def leave_out(why):
    left_out.append(why)
    raise t.Skip(why)


# ---------------------------------------------------------------- a peer

class Peer:
    """Listens on the RDS port of addr, and does what @serve(connection, address of the other end) does."""

    def __init__(self, addr, serve, backlog=16):
        self.addr, self.serve = addr, serve
        self.open = []
        self.s = socket.socket()
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind((addr, PORT))
        self.s.listen(backlog)
        if serve:
            threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                c, (other, _) = self.s.accept()
            except OSError:
                return
            self.open.append(c)
            threading.Thread(target=self.run, args=(c, other), daemon=True).start()

    def run(self, c, other):
        try:
            self.serve(c, other)
        except OSError:
            pass  # the other end went

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.s.close()
        for c in self.open:
            c.close()


def get(c, n):
    data = b""
    while len(data) < n:
        more = c.recv(n - len(data))
        if not more:
            raise OSError("ended")
        data += more
    return data


def order(addr):
    return [int(x) for x in addr.split(".")]


def kernel(addr, pings=True, deaf=None):
    """What a 6.1 kernel does with a connection (docs/protocol/wire.md 5 to 9), as far as an empty node needs it."""

    def talk(c):
        seq = 1
        c.sendall(HDR.pack(0, 0, 8192, 0, 0, 1, 0, b"", 0, b"") + bytes(8192))  # its congestion map
        while True:
            _, _, n, sport, dport, flags, *_ = HDR.unpack(get(c, HDR.size))
            get(c, n)
            while deaf and deaf.is_set():
                time.sleep(0.05)
            if dport == 0 and sport and flags != 1 and pings:
                ext = b"\x05\x00\x08" if sport == 1 else b""  # NPATHS 8
                c.sendall(HDR.pack(seq, 0, 0, 0, sport, 0, 0, b"", 0, ext))
                seq += 1

    def serve(c, other):
        if order(addr) > order(other):
            talk(c)
        c.close()  # a knock: connections run from the smaller address
        with socket.socket() as back:
            back.bind((addr, 0))
            back.connect((other, PORT))
            talk(back)

    return serve


def ask(source, peer, *more, limit=LIMIT, **kw):
    """The verdict on @peer, from JSON; the line for people says the same."""
    p = t.run("doctor", "-w", limit, "-I", source, *more, "--json", peer, **kw)
    check(not p.err, p)
    got = json.loads(p.out)
    check(got["peer"] == peer and got["source"] == source, got)
    check(got["works"] is (got["verdict"] in ("kernel", "urds")) and p.rc == (0 if got["works"] else 1), p)
    check((got["remedy"] is None) is got["works"] and got["text"], got)
    on_the_page(p, VERDICTS[got["verdict"]], got["text"], got["remedy"])
    return got


def shown(source, peer, verdict, limit=LIMIT):
    """Exactly one verdict, in words."""
    p = t.run("doctor", "-w", limit, "-I", source, peer)
    works = verdict in ("kernel", "urds")
    check(p.rc == (0 if works else 1) and not p.err, p)
    check(p.lines[0].startswith(f"{peer}: {VERDICTS[verdict]}: "), p)
    check(len(p.lines) == 1 if works else len(p.lines) == 2 and p.lines[1].startswith("  -> "), p)
    on_the_page(p, VERDICTS[verdict], p.lines[0].split(": ", 2)[2], None if works else p.lines[1][5:])


def both_ways(peer_of, verdict, limit=LIMIT):
    """From the smaller address, which connects, and from the larger one, which is called."""
    for source in (LOW, HIGH):
        with peer_of():
            check(ask(source, MID, limit=limit)["verdict"] == verdict, f"from {source}")
    with peer_of():
        shown(LOW, MID, verdict, limit)


def test_urds():
    t.listen(MID)
    for source in (LOW, HIGH):
        got = ask(source, MID)
        check(got["verdict"] == "urds" and got["version"] == 1 and got["rtt_ns"] > 0 and got["release"] == got["urds"], got)
    shown(LOW, MID, "urds")


def test_urds_through_the_owner_of_the_source():
    t.listen(MID)
    t.listen(LOW)
    check(ask(LOW, MID)["verdict"] == "urds")
    check(ask(LOW, MID)["verdict"] == "urds")  # connected already
    check(ask(MID, MID)["verdict"] == "urds")  # itself


def test_urds_by_routing():
    t.listen(MID)
    p = t.run("doctor", "-w", LIMIT, MID)
    check(p.rc == 0 and p.lines[0].startswith(f"{MID}: urds 1: connected from 127."), p)


def test_urds_of_ipv6():
    t.listen("::1")
    p = t.run("doctor", "-w", LIMIT, "::1")
    check(p.rc == 0 and p.lines[0].startswith("::1: urds"), p)


def test_urds_whatever_this_side_is_told_to_be():
    t.listen(MID)
    check(ask(LOW, MID, env={"URDS_EXT": "0"})["verdict"] == "urds")


def test_urds_that_plays_a_kernel():
    p = t.Proc("listen", MID, env={"URDS_EXT": "0"})
    p.expect("^ready")
    check(ask(LOW, MID)["verdict"] == "kernel")


def test_kernel():
    both_ways(lambda: Peer(MID, kernel(MID)), "kernel")


def test_kernel_that_answers_no_pings():
    with Peer(MID, kernel(MID, pings=False)):
        got = ask(LOW, MID, limit=6 * t.SLOW)
        check(got["verdict"] == "kernel" and got["rtt_ns"] == 0 and "ping" in got["text"], got)


def test_too_little_time_to_tell():
    def map_only(c, _):
        c.sendall(HDR.pack(0, 0, 8192, 0, 0, 1, 0, b"", 0, b"") + bytes(8192))
        while c.recv(65536):
            pass

    with Peer(MID, map_only):
        p = t.run("doctor", "-w", 1, "-I", LOW, MID)
        check(p.rc == 1 and not p.out and "-w" in p.err, p)


def test_connection_that_has_fallen_silent():
    deaf = threading.Event()
    with Peer(MID, kernel(MID, deaf=deaf)):
        t.listen(LOW)
        check(ask(LOW, MID, limit=6 * t.SLOW)["verdict"] == "kernel")
        deaf.set()
        got = ask(LOW, MID)
        check(got["verdict"] == "filtered" and "older connection" in got["text"], got)
        deaf.clear()


def test_refused():
    for source in (LOW, HIGH):
        check(ask(source, MID)["verdict"] == "refused")
    shown(LOW, MID, "refused")


def test_refused_through_an_owner_that_knows_it_already():
    t.listen(LOW)
    check(ask(LOW, MID)["verdict"] == "refused")
    check(ask(LOW, MID)["verdict"] == "refused")


def test_own_address_that_nobody_owns():
    check(ask(MID, MID)["verdict"] == "refused")
    with Peer(MID, lambda c, _: c.recv(1)):
        check(ask(MID, MID)["verdict"] == "not_rds")
    with Peer(MID, lambda c, _: c.sendall(b"SSH-2.0-another\r\n")):
        got = ask(MID, MID)
        check(got["verdict"] == "not_rds" and "says something else" in got["text"], got)


def test_no_route():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        if s.connect_ex(("198.51.100.1", 9)) != errno.ENETUNREACH:
            leave_out("there is a route to everywhere, and no network namespace of our own")
    p = t.run("doctor", "--json", "198.51.100.1")
    got = json.loads(p.out)
    check(p.rc == 1 and not p.err and got["verdict"] == "no_route", p)
    on_the_page(p, VERDICTS["no_route"], got["text"], got["remedy"])
    check(ask(LOW, "198.51.100.1")["verdict"] == "no_route")
    shown(LOW, "198.51.100.1", "no_route")


class Full(Peer):
    """Its queue of connections is full, so that its system drops attempts: as if they were filtered."""

    def __init__(self):
        super().__init__(MID, None, backlog=0)
        while len(self.open) < 8:
            c = socket.socket()
            c.settimeout(0.3 * t.SLOW)
            self.open.append(c)
            try:
                c.connect((MID, PORT))
            except socket.timeout:
                return
        raise t.Failed("a full queue of connections accepts more of them")


def test_filtered_on_this_host():
    route = "198.51.100.7"
    if not t.isolated or not shutil.which("ip"):
        leave_out("needs a network namespace of its own, and ip")
    subprocess.run(["ip", "route", "add", "prohibit", route], check=True)
    check(ask(LOW, route)["verdict"] == "filtered")


def test_filtered_and_the_system_gave_up_first():
    if not t.isolated:
        leave_out("needs a network namespace of its own")
    with open("/proc/sys/net/ipv4/tcp_syn_retries", "r+", encoding="ascii") as f:
        before = f.read()
        f.seek(0)
        f.write("1")
        f.flush()
        try:
            with Full():
                got = ask(LOW, MID, limit=7)
        finally:
            f.seek(0)
            f.write(before)
    check(got["verdict"] == "filtered" and got["text"] == "connection attempts have no answer", got)


def test_filtered():
    both_ways(Full, "filtered", limit=1)


def test_filtered_and_the_library_gave_up_first():
    with Full():
        check(ask(LOW, MID, limit=7)["verdict"] == "filtered")


def test_accepted_then_closed():
    both_ways(lambda: Peer(MID, lambda c, _: c.close()), "closed", limit=1)
    with Peer(MID, lambda c, _: c.close()):
        check("connect to " + HIGH in ask(HIGH, MID, limit=1)["text"])  # right by itself, and why it is not enough


def test_not_rds_silent():
    both_ways(lambda: Peer(MID, lambda c, _: c.recv(1) and c.recv(1 << 20)), "not_rds", limit=1)


def test_not_rds_talkative():
    def web(c, _):
        c.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nServer: another one\r\n\r\n")
        while c.recv(65536):
            pass

    both_ways(lambda: Peer(MID, web), "not_rds")


def test_not_rds_few_words_then_closed():
    def banner(c, _):
        c.sendall(b"SSH-2.0-another\r\n")
        c.recv(1)
        c.close()

    with Peer(MID, banner):
        check(ask(LOW, MID)["verdict"] == "not_rds")


def test_peer_outside_of_the_networks():
    p = t.run("doctor", "-w", LIMIT, "-I", LOW, MID, env={"URDS_PEERS": "10.0.0.0/8"})
    check(p.rc == 1 and not p.out and "networks of URDS_PEERS; unset" in p.err, p)
    t.listen(LOW, env={"URDS_PEERS": "10.0.0.0/8"})
    p = t.run("doctor", "-w", LIMIT, "-I", LOW, MID)
    check(p.rc == 1 and not p.out and "networks of URDS_PEERS, which the owner of the source was started with; unset" in p.err, p)


def test_source_that_cannot_be_used():
    t.listen(MID)
    p = t.run("doctor", "-w", LIMIT, "-I", "192.0.2.1", MID)
    check(p.rc == 1 and not p.out and "192.0.2.1" in p.err, p)
    with Peer(LOW, None):
        p = t.run("doctor", "-w", LIMIT, "-I", LOW, MID)
        check(p.rc == 1 and not p.out and f"urds doctor -I {LOW}" in p.err, p)
        p = t.run("doctor", "-w", LIMIT, "-I", LOW, HIGH)
        check(p.rc == 1 and p.lines[0].startswith(f"{HIGH}: refused: "), p)


def test_bad_usage():
    for args in (["-w", "0", MID], ["-w", "soon", MID], ["-w"], ["-x"], ["--nonsense"], [MID, LOW], ["-I", "no such", MID],
                 ["256.0.0.1"]):
        p = t.run("doctor", *args)
        check(p.rc == 2 and not p.out and p.err_lines[-1] == "Try 'urds doctor --help'.", p)


def test_page_has_each_verdict_and_the_command_that_shows_it():
    if len(sys.argv) > 2:
        raise t.NotHere("not all cases were run")
    if left_out:
        raise t.Skip("left out: " + ", ".join(left_out))
    check({r[0] for r in ROWS} == set(VERDICTS.values()), "verdicts of the page:", {r[0] for r in ROWS})
    missing = [r for r in ROWS if r not in shown_rows]
    check(not missing, "no case showed:", *[(r[0], r[1].pattern, r[3]) for r in missing])


# ---------------------------------------------------------------- this host

def host(*args, **kw):
    """check -> the findings of it; the lines for people say the same."""
    p = t.run("doctor", "--json", *args, **kw)
    got = json.loads(p.out)
    check(not p.err and p.rc == (0 if got["ok"] else 1), p)
    check(got["ok"] is not any(c["level"] == "stop" for c in got["checks"]), got)
    lines = t.run("doctor", *args, **kw)
    check(lines.rc == p.rc, lines, p)
    wanted = []
    for c in got["checks"]:
        wanted.append(f"{c['level']:4}  {c['check']:7}  {c['text']}")
        if c["remedy"]:
            wanted.append(" " * 15 + "-> " + c["remedy"])
    check(lines.lines == wanted, lines, *wanted)
    found = {}
    for c in got["checks"]:
        check(c["level"] == "ok" or c["remedy"], c)
        found.setdefault(c["check"], []).append(c)
    return found


def only(found, name, level):
    check(len(found[name]) == 1 and found[name][0]["level"] == level, found[name])
    return found[name][0]["text"]


class Proc:
    """A /proc of our own making."""

    def __init__(self, **files):
        self.dir = tempfile.mkdtemp(prefix="urds-proc-")
        given = {"modules": "", "net/tcp": "", "net/tcp6": "", "sys/net/core/wmem_max": "4194304",
                 "sys/net/core/rmem_max": "4194304", "sys/net/ipv4/tcp_wmem": "4096\t16384\t4194304",
                 "sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456"}
        given.update({k.replace("__", "/"): v for k, v in files.items()})
        for name, text in given.items():
            path = os.path.join(self.dir, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text + "\n")

    def __enter__(self):
        return "--proc", self.dir

    def __exit__(self, *_):
        shutil.rmtree(self.dir)


def listener(addr, family="tcp"):
    """A line of /proc/net/tcp."""
    words = struct.unpack("=" + "I" * (1 if family == "tcp" else 4),
                          socket.inet_pton(socket.AF_INET if family == "tcp" else socket.AF_INET6, addr))
    return (f"   0: {''.join(f'{w:08X}' for w in words)}:{PORT:04X} {'0' * 8 * len(words)}:0000 0A 00000000:00000000 "
            "00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0")


def test_healthy_host():
    with Proc() as proc:
        found = host(*proc, "-I", LOW)
    check(list(found) == ["kernel", "port", "address", "files", "buffers"], found)
    for name in found:
        only(found, name, "ok")


def test_port_is_taken():
    with Peer(MID, None):
        text = only(host("-I", MID), "port", "stop")
        check(f"pid {os.getpid()} (python3" in text and MID in text, text)
        only(host("-I", LOW), "port", "ok")  # another address's
        check(any(f"pid {os.getpid()}" in c["text"] and c["level"] == "stop" for c in host()["port"]))
    with Peer("0.0.0.0", None):
        text = only(host("-I", LOW), "port", "stop")
        check(f"pid {os.getpid()}" in text and "every address" in text, text)


def test_port_is_taken_over_ipv6():
    with socket.socket(socket.AF_INET6) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("::", PORT))
        s.listen()
        for source in (LOW, "::1"):
            check(f"pid {os.getpid()}" in only(host("-I", source), "port", "stop"))


def test_port_is_another_users():
    with Peer(MID, None):
        text = only(host("-I", MID, **t.another_user()), "port", "stop")
        check("uid 0" in text and str(os.getpid()) not in text, text)


def test_address_is_owned_by_urds():
    owner = t.listen(MID)
    check(f"pid {owner.pid}" in only(host("-I", MID), "port", "ok"))
    owner.freeze()
    text = only(host("-I", MID), "port", "stop")
    check(f"pid {owner.pid}" in text and "stopped" in text, text)


def test_kernel_has_rds():
    with Proc(modules="rds 131072 0 - Live 0x0") as proc:
        only(host(*proc), "kernel", "ok")
    with Proc(modules="rds_tcp 65536 0 - Live 0x0\nrds 131072 1 rds_tcp, Live 0x0") as proc:
        found = host(*proc)
        check("rds_tcp" in only(found, "kernel", "warn"))
        only(found, "port", "ok")
    with Proc(modules="rds_tcp 65536 0 - Live 0x0\nrds 131072 1 rds_tcp, Live 0x0", net__tcp6=listener("::", "tcp6")) as proc:
        text = only(host(*proc), "port", "stop")
        check("rds_tcp" in text, text)
    with Proc(net__protocols="RDS       1024      0      -1   NI       0   no   rds") as proc:
        check("kernel has RDS" in only(host(*proc), "kernel", "ok"))


def test_listener_without_a_process():
    with Proc(net__tcp=listener("0.0.0.0")) as proc:
        check("no process here" in only(host(*proc, "-I", LOW), "port", "stop"))
    with Proc(net__tcp=listener(MID)) as proc:
        check(MID in only(host(*proc, "-I", MID), "port", "stop"))
        only(host(*proc, "-I", LOW), "port", "ok")
    with Proc(net__tcp6=listener("::ffff:" + MID, "tcp6")) as proc:
        check(MID in only(host(*proc, "-I", MID), "port", "stop"))


def test_garbage_in_proc():
    with Proc(net__tcp="what\n: : :\n" + "9" * 600 + "\n" + listener(MID)[:60], modules="\n\n" + "x" * 2000,
              sys__net__core__wmem_max="much") as proc:
        found = host(*proc, "-I", LOW)
        only(found, "port", "ok")
        only(found, "kernel", "ok")


def test_address_is_not_local():
    text = only(host("-I", "192.0.2.1"), "address", "stop")
    check("192.0.2.1" in text, text)


def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))


def test_few_files():
    with Proc() as proc:
        check("20" in only(host(*proc, preexec_fn=limited(20)), "files", "stop"))
        check("256" in only(host(*proc, preexec_fn=limited(256)), "files", "warn"))
        only(host(*proc, preexec_fn=limited(1024)), "files", "ok")


def test_small_buffers():
    with Proc(sys__net__core__wmem_max="212992", sys__net__ipv4__tcp_rmem="4096 8192 16384") as proc:
        found = host(*proc)["buffers"]
    check([c["level"] for c in found] == ["warn", "warn"], found)
    check("wmem_max is 212992" in found[0]["text"] and "wmem_max=1048576" in found[0]["remedy"], found)
    check("tcp_rmem is 16384" in found[1]["text"] and "tcp_rmem" in found[1]["remedy"], found)


t.main(globals())
