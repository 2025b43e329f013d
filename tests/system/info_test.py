#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds info and rds-info."""
import os

import urdstest as t
from urdstest import check

TITLES = ["TCP Connections:", "Counters:", "RDS Sockets:", "RDS Connections:", "Receive Message Queue:",
          "Send Message Queue:", "Retransmit Message Queue:"]
HEADERS = {
    "TCP Connections:": "      LocalAddr LPort      RemoteAddr RPort  HdrRemain DataRemain    SentNxt  ExpectUna    SeenUna",
    "Counters:": "              CounterName            Value",
    "RDS Sockets:": "      BoundAddr BPort        ConnAddr CPort     SndBuf     RcvBuf    Inode",
    "RDS Connections:": "      LocalAddr      RemoteAddr  Tos           NextTX           NextRX Flgs",
    "Receive Message Queue:": "      LocalAddr LPort      RemoteAddr RPort  Tos              Seq      Bytes",
}
HEADERS["Send Message Queue:"] = HEADERS["Retransmit Message Queue:"] = HEADERS["Receive Message Queue:"]


def sections(lines):
    """title -> its lines, the header first."""
    found, title, previous = {}, None, None
    for line in lines:
        if previous == "":
            title = line
            found[title] = []
        elif line and title:
            found[title].append(line)
        previous = line
    return found


def connected_pair():
    """Two owners with a connection between them."""
    a, b = t.listen("127.4.0.1"), t.listen("127.4.0.2")
    p = t.run("ping", "-c", 1, "-I", "127.4.0.1", "127.4.0.2")
    check(p.rc == 0, p)
    return a, b


def test_nobody_to_ask():
    p = t.run("info")
    check(p.rc == 1 and not p.out and "urds listen" in p.err, p)
    p = t.run("info", "127.4.0.1")
    check(p.rc == 1 and not p.out and "127.4.0.1" in p.err, p)


def test_all_sections_in_order():
    t.listen("127.4.0.1")
    p = t.run("info")
    found = sections(p.lines)
    check(p.rc == 0 and list(found) == TITLES and p.lines[0] == "", p)
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


def test_bad_option_prints_the_list():
    p = t.run("-x", name=t.link("rds-info"))
    check(p.rc == 1 and p.err_lines[0] == "rds-info: Invalid option '-x'", p)
    check([l[4:6] for l in p.lines] == ["-I", "-T", "-c", "-k", "-n", "-r", "-s", "-t"], p)
    check(p.lines[2] == "    -c statistic counters", p)


def test_other_users_are_refused_and_told():
    if os.getuid() != 0:
        raise t.Skip("needs root, to be another user")
    owner = t.listen("127.4.0.1")
    try:
        p = t.run("info", user=65534, group=65534, extra_groups=[])
    except PermissionError:
        raise t.Skip("the binary cannot be run by another user") from None
    check(p.rc == 1 and not p.out and f"pid {owner.pid}" in p.err, p)


t.main(globals())
