#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds info and rds-info."""
import errno
import json
import os
import re
import signal
import socket
import time

import urdstest as t
from urdstest import check, sections

TITLES = ["TCP Connections:", "Counters:", "RDS Sockets:", "RDS Connections:", "Receive Message Queue:",
          "Send Message Queue:", "Retransmit Message Queue:"]  # of rds-info; ours has one more
HEADERS = {
    "TCP Connections:": "      LocalAddr LPort      RemoteAddr RPort  HdrRemain DataRemain    SentNxt  ExpectUna    SeenUna",
    "Counters:": "              CounterName            Value",
    "RDS Sockets:": "      BoundAddr BPort        ConnAddr CPort     SndBuf     RcvBuf    Inode",
    "RDS Connections:": "      LocalAddr      RemoteAddr  Tos           NextTX           NextRX Flgs",
    "Receive Message Queue:": "      LocalAddr LPort      RemoteAddr RPort  Tos              Seq      Bytes",
}
HEADERS["Peers:"] = "      LocalAddr      RemoteAddr      State     End             UpSince LastError"
HEADERS["Send Message Queue:"] = HEADERS["Retransmit Message Queue:"] = HEADERS["Receive Message Queue:"]


def connected_pair():
    """Two owners with a connection between them."""
    a, b = t.listen("127.4.0.1"), t.listen("127.4.0.2")
    p = t.run("ping", "-c", 1, "-I", "127.4.0.1", "127.4.0.2")
    check(p.rc == 0, p)
    return a, b


# Section title -> its key in JSON, and for each column its key or, for flags, how the row looks.
ADDRS = ["local_addr", "remote_addr"]
ENDS = ["local_addr", "local_port", "remote_addr", "remote_port"]
MESSAGE = ENDS + ["tos", "seq", "bytes"]
KEYS = {
    "TCP Connections:": ("tcp_connections", ENDS + ["header_remaining", "data_remaining", "sent_next", "expected_una", "seen_una"]),
    "RDS Sockets:": ("sockets", ["bound_addr", "bound_port", "connected_addr", "connected_port", "sndbuf", "rcvbuf", "inode"]),
    "RDS Connections:": ("connections", ADDRS + ["tos", "next_tx", "next_rx"]),
    "Receive Message Queue:": ("receive_queue", MESSAGE),
    "Send Message Queue:": ("send_queue", MESSAGE),
    "Retransmit Message Queue:": ("retransmit_queue", MESSAGE),
}
FLAGS = [("sending", "s"), ("connecting", "c"), ("connected", "C"), ("error", "E")]


def parsed(p):
    check(p.rc == 0 and not p.err, p)
    return json.loads(p.out)


def rows_of(title, objects):
    """Objects of JSON as the words of the table's rows; numbers must be numbers, addresses strings."""
    rows = []
    for o in objects:
        for key, value in list(o.items()):
            if title == "RDS Sockets:" and key.startswith("connected_") and value is None:
                o[key] = "0.0.0.0" if key == "connected_addr" else 0
                continue
            wanted = str if key.endswith("_addr") or key == "transport" else bool if key in dict(FLAGS) else int
            check(type(value) is wanted, title, key, value)
        row = [str(o[k]) for k in KEYS[title][1]]
        if title == "RDS Connections:":
            row.append("".join(letter if o[key] else "-" for key, letter in FLAGS))
        rows.append(row)
    return rows


def test_json_says_what_the_tables_say():
    connected_pair()
    t.Proc("cat", "-I", "127.4.0.6", "127.4.0.5:4000")  # to nobody: its first message waits

    def both():
        text = sections(t.run("info").lines)
        return text, parsed(t.run("info", "--json"))

    def same():
        text, got = both()
        for title, (key, _) in KEYS.items():
            if sorted(rows_of(title, got[key])) != sorted(r.split() for r in text.get(title, [None])[1:]):
                return False
        return len(got["send_queue"]) > 0

    t.until(same, "tables and JSON differ")  # acknowledgements may be under way between the two calls
    text, got = both()
    check(list(got) == ["urds", "ib_connections", "tcp_connections", "counters", "sockets", "connections", "receive_queue",
                        "send_queue", "retransmit_queue", "peers"], list(got))
    check(got["ib_connections"] is None and isinstance(got["urds"], str), got["urds"])
    check(got["connections"] and got["tcp_connections"] and got["sockets"], got)
    check([r.split()[0] for r in text["Counters:"][1:]] == list(got["counters"]), got["counters"])
    check(all(type(v) is int for v in got["counters"].values()) and got["counters"]["recv_ping"] >= 1, got["counters"])


def test_json_numbers_are_exact():
    connected_pair()
    rows = [r.split() for r in sections(t.run("info", "-n", "127.4.0.1").lines)["RDS Connections:"][1:]]
    got = parsed(t.run("info", "-n", "--json", "127.4.0.1"))["connections"]
    # Counters of messages begin at the date in nanoseconds: more than a floating point number can hold.
    check(len(got) == 1 and got[0]["next_tx"] > 1 << 53 and str(got[0]["next_tx"]) == rows[0][3], got, rows)


def test_json_of_chosen_sections():
    t.listen("127.4.0.1")
    got = parsed(t.run("info", "--json", "-cn"))
    check(list(got) == ["urds", "counters", "connections"] and got["connections"] == [], got)


def test_json_of_ipv6():
    t.listen("::1")
    check(t.run("ping", "-c", 1, "::1").rc == 0)
    got = parsed(t.run("info", "--json", "-n"))["connections"]
    check(["::1", "::1"] in [[c["local_addr"], c["remote_addr"]] for c in got], got)


def test_json_of_owners():
    a, b = t.listen("127.4.0.1"), t.listen("127.4.0.2")
    b.freeze()
    got = {o["addr"]: o for o in parsed(t.run("info", "--json", "--owners"))["owners"]}
    check(set(got) == {"127.4.0.1", "127.4.0.2"}, got)
    check(got["127.4.0.1"]["pid"] == a.pid and got["127.4.0.1"]["answered"] is True and got["127.4.0.1"]["mode"] == "embedded", got)
    check(got["127.4.0.2"]["pid"] == b.pid and got["127.4.0.2"]["answered"] is False and got["127.4.0.2"]["version"] is None, got)


def test_json_with_nobody_to_ask():
    p = t.run("info", "--json")
    check(p.rc == 1 and not p.out and "urds listen" in p.err, p)


def peer(local, remote):
    """What @local's owner knows of @remote, from JSON; the row of the table says the same."""
    for p in parsed(t.run("info", "--json", "--peers", local))["peers"]:
        if (p["local_addr"], p["remote_addr"]) == (local, remote):
            return p
    return None


def peer_row(local, remote):
    rows = [r for r in sections(t.run("info", "--peers", local).lines)["Peers:"][1:] if r.split()[:2] == [local, remote]]
    check(len(rows) == 1, rows)
    return rows[0]


def recent(ns, since):
    """Is it a date between @since and now? Clocks are read one after the other: a moment's tolerance."""
    return since - 10**9 <= ns <= time.time_ns() + 10**9


def test_peer_that_is_up_has_no_error():
    start = time.time_ns()
    connected_pair()
    p = peer("127.4.0.1", "127.4.0.2")
    check(p["state"] == "up" and p["end"] == "urds" and p["version"] == 1 and p["last_error"] is None, p)
    check(recent(p["up_since_ns"], start), p)
    check(re.search(r" up +urds [-0-9]{10} [:0-9]{8} -$", peer_row("127.4.0.1", "127.4.0.2")))


def refused_peer(local, remote, times=1):
    """Tried again for as long as something is queued for it: until the ping ends."""
    t.listen(local)
    ping = t.Proc("ping", "-i", "20ms", "-I", local, remote)
    t.until(lambda: ((peer(local, remote) or {}).get("last_error") or {"count": 0})["count"] >= times, "not tried that often")
    t.procs.remove(ping)
    ping.stop()


def test_peer_that_refuses_is_dated_and_counted():
    for local, remote in (("127.4.0.1", "127.4.0.9"), ("127.4.0.9", "127.4.0.1")):  # who connects, who knocks
        start = time.time_ns()
        refused_peer(local, remote, times=3)
        p = peer(local, remote)
        e = p["last_error"]
        check(p["state"] in ("down", "connecting") and p["end"] == "unknown" and p["up_since_ns"] == 0, p)
        check(e["what"] == "dial" and e["text"] == "connection refused" and e["errno"] == errno.ECONNREFUSED, e)
        check(recent(e["since_ns"], start) and e["since_ns"] < e["last_ns"] and e["over"] is False, e)
        check(re.search(r" connection refused, since [-0-9]{10} [:0-9]{8}, \d+ times, last [-0-9]{10} [:0-9]{8}$",
                        peer_row(local, remote)), peer_row(local, remote))
        t.procs.pop(0).stop()


def test_recovery_ends_a_peers_error():
    refused_peer("127.4.0.1", "127.4.0.2")
    since = peer("127.4.0.1", "127.4.0.2")["last_error"]["since_ns"]
    t.listen("127.4.0.2")
    check(t.run("ping", "-c", 1, "-I", "127.4.0.1", "127.4.0.2").rc == 0)
    p = peer("127.4.0.1", "127.4.0.2")
    check(p["state"] == "up" and p["last_error"]["over"] is True and p["up_since_ns"] >= p["last_error"]["last_ns"], p)
    check(abs(p["last_error"]["since_ns"] - since) < 10**9, p, since)
    check(peer_row("127.4.0.1", "127.4.0.2").endswith("; over"), peer_row("127.4.0.1", "127.4.0.2"))


def test_peer_that_resets_and_peer_that_is_reset():
    connected_pair()
    check(t.reset("127.4.0.1", "127.4.0.2") == 1)
    t.until(lambda: all((peer(*ends)["last_error"] or {}).get("over") and peer(*ends)["state"] == "up"
                        for ends in (("127.4.0.1", "127.4.0.2"), ("127.4.0.2", "127.4.0.1"))), "no reset, or no recovery")
    mine, theirs = peer("127.4.0.1", "127.4.0.2")["last_error"], peer("127.4.0.2", "127.4.0.1")["last_error"]
    check(mine["what"] == "reset" and mine["errno"] == 0, mine)
    check(theirs["what"] == "lost" and theirs["text"] == "reset by peer" and theirs["errno"] == errno.ECONNRESET, theirs)


def test_peer_that_dies_is_closed():
    a, b = connected_pair()
    t.reset("127.4.0.1", "127.4.0.2")  # an error that the next one must replace
    t.until(lambda: peer("127.4.0.1", "127.4.0.2")["state"] == "up", "no recovery")
    b.signal(signal.SIGTERM)
    b.end()
    t.until(lambda: peer("127.4.0.1", "127.4.0.2")["last_error"]["what"] in ("closed", "lost", "dial"), "nothing noticed")
    e = peer("127.4.0.1", "127.4.0.2")["last_error"]
    check(e["over"] is False, e)


def test_peer_that_does_not_speak_rds():
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.4.0.9", 16385))
        s.listen()
        s.settimeout(t.LIMIT_S)
        t.listen("127.4.0.1")
        ping = t.Proc("ping", "-i", "20ms", "-I", "127.4.0.1", "127.4.0.9")
        c, _ = s.accept()
        t.until(lambda: (peer("127.4.0.1", "127.4.0.9") or {}).get("state") == "silent", "not connected")
        c.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nServer: another\r\n\r\n")
        t.until(lambda: (peer("127.4.0.1", "127.4.0.9")["last_error"] or {}).get("what") == "not_rds", "not noticed")
        c.close()
        c, _ = s.accept()
        c.close()  # before it said anything
        t.until(lambda: peer("127.4.0.1", "127.4.0.9")["last_error"]["what"] in ("closed_early", "lost_early"), "not noticed")
        ping.stop()


def test_nobody_to_ask():
    p = t.run("info")
    check(p.rc == 1 and not p.out and "urds listen" in p.err, p)
    p = t.run("info", "127.4.0.1")
    check(p.rc == 1 and not p.out and "127.4.0.1" in p.err, p)


def test_all_sections_in_order():
    t.listen("127.4.0.1")
    p = t.run("info")
    found = sections(p.lines)
    check(p.rc == 0 and list(found) == TITLES + ["Peers:"] and p.lines[0] == "", p)
    for title, lines in found.items():
        check(lines[0] == HEADERS[title], title, lines[0], HEADERS[title])
    check(p.err_lines == ["urds info: Unable get statistics: Protocol not available"], p)


def test_chosen_sections_keep_their_order():
    t.listen("127.4.0.1")
    p = t.run("info", "-tn", "-c")
    check(p.rc == 0 and list(sections(p.lines)) == ["Counters:", "RDS Connections:", "Retransmit Message Queue:"], p)
    check(not p.err, p)


def test_connection_is_shown():
    connected_pair()
    p = t.run("info", "-nT", "127.4.0.1")
    rows = sections(p.lines)["RDS Connections:"][1:]
    check(len(rows) == 1 and rows[0].split()[:3] == ["127.4.0.1", "127.4.0.2", "0"], p)
    flags = rows[0].split()[-1]
    check(len(flags) == 4 and flags[2] == "C", p)
    check(rows[0] == "%15s %15s %4d %16s %16s %4s" % tuple([*rows[0].split()[:2], 0, *rows[0].split()[3:]]), p)
    rows = sections(p.lines)["TCP Connections:"][1:]
    check(any(r.split()[0] == "127.4.0.1" and r.split()[2] == "127.4.0.2" and "16385" in (r.split()[1], r.split()[3])
              for r in rows), p)


def test_all_owners_are_reached():
    connected_pair()
    p = t.run("info", "-n")
    rows = [r.split()[:2] for r in sections(p.lines)["RDS Connections:"][1:]]
    check(sorted(rows) == [["127.4.0.1", "127.4.0.2"], ["127.4.0.2", "127.4.0.1"]], p)


def test_owner_of_two_addresses_is_asked_once():
    t.listen("127.4.0.1", "127.4.0.3")
    t.listen("127.4.0.2")
    check(t.run("ping", "-c", 1, "-I", "127.4.0.1", "127.4.0.2").rc == 0)
    p = t.run("info", "-n")
    check(len(sections(p.lines)["RDS Connections:"][1:]) == 2, p)


def counters(*args):
    rows = [r.split() for r in sections(t.run("info", "-c", *args).lines)["Counters:"][1:]]
    check(len({r[0] for r in rows}) == len(rows), "a counter is shown twice")
    return {name: int(value) for name, value in rows}


def test_counters_of_all_owners_are_added_up():
    connected_pair()
    both, a, b = counters(), counters("127.4.0.1"), counters("127.4.0.2")
    check(both.keys() == a.keys() == b.keys())
    check("send_retransmitted" in a and "conn_reset" in a and "recv_ping" in b, a.keys())
    check(both["recv_ping"] == a["recv_ping"] + b["recv_ping"] and b["recv_ping"] >= 1, both, a, b)


def test_ipv6_makes_columns_wide():
    t.listen("::1")
    check(t.run("ping", "-c", 1, "::1").rc == 0)
    p = t.run("info", "-n")
    lines = sections(p.lines)["RDS Connections:"]
    check(lines[0].startswith("%37s %37s" % ("LocalAddr", "RemoteAddr")), p)
    check(any(r.startswith("%37s %37s" % ("::1", "::1")) for r in lines[1:]), p)


def test_a_makes_columns_wide():
    connected_pair()
    p = t.run("info", "-an", "127.4.0.1")
    lines = sections(p.lines)["RDS Connections:"]
    check(lines[1].startswith("%37s %37s" % ("127.4.0.1", "127.4.0.2")), p)


def test_stopped_owner_is_named_and_the_rest_shown():
    t.listen("127.4.0.1")
    stopped = t.listen("127.4.0.2")
    stopped.freeze()
    p = t.run("info", "-n")
    check(p.rc == 0 and "RDS Connections:" in p.out and f"pid {stopped.pid}" in p.err, p)


def test_owners_are_listed():
    a, b = t.listen("127.4.0.1"), t.listen("::1", "127.4.0.2")
    p = t.run("info", "--owners")
    rows = [r.split()[:2] for r in p.lines[1:]]
    check(p.rc == 0 and sorted(rows) == sorted([["127.4.0.1", str(a.pid)], ["127.4.0.2", str(b.pid)], ["::1", str(b.pid)]]), p)


def test_rds_info_is_the_same():
    t.listen("127.4.0.1")
    p = t.run(name=t.link("rds-info"))
    check(p.rc == 0 and list(sections(p.lines)) == TITLES, p)
    check(p.err_lines == ["rds-info: Unable get statistics: Protocol not available"], p)


def test_output_that_goes_nowhere_is_an_error():
    t.listen("127.9.0.1")
    for args in ("127.9.0.1",), ("--json", "127.9.0.1"), ("--owners",):
        with open("/dev/full", "w") as full:
            p = t.run("info", *args, stdout=full)
        check(p.rc == 1 and p.err_lines[-1] == "urds info: cannot write to standard output: No space left on device", p)


def test_bad_option_prints_the_list():
    p = t.run("-x", name=t.link("rds-info"))
    check(p.rc == 1 and p.err_lines[0] == "rds-info: Invalid option '-x'", p)
    check([l[4:6] for l in p.lines] == ["-I", "-T", "-c", "-k", "-n", "-r", "-s", "-t"], p)
    check(p.lines[2] == "    -c statistic counters", p)


def test_other_users_are_refused_and_told():
    owner = t.listen("127.4.0.1")
    p = t.run("info", **t.another_user())
    check(p.rc == 1 and not p.out and f"pid {owner.pid}" in p.err, p)


t.main(globals())
