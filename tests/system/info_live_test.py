#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds info beside two processes that exchange messages: what it shows agrees with what they say. The second argument is the
program that they run."""
import json
import os
import subprocess
import sys

TALKER = os.path.abspath(sys.argv.pop(2))

import urdstest as t
from urdstest import check, sections

A, B = ("127.14.0.1", 4000), ("127.14.0.2", 5000)


class Talker(t.Proc):
    """Exchanges messages of known sizes with another one, and says how many."""

    def __init__(self, me, peer):
        super().__init__(*me, *peer, name=TALKER, stdin=subprocess.PIPE)
        self.me, self.peer = me, peer
        self.expect("^ready$")

    def tell(self, word):
        self.p.stdin.write(word.encode() + b"\n")
        self.p.stdin.flush()

    def says(self):
        """sent, received, begun: messages and bytes."""
        said = len(self.lines)
        self.tell("say")
        t.until(lambda: len(self.lines) > said, f"no answer from {self}")
        w = self.lines[said].split()
        check(w[0::3] == ["sent", "received", "begun"], self)
        return {k: (int(m), int(b)) for k, m, b in zip(w[0::3], w[1::3], w[2::3])}


def pair():
    return Talker(A, B), Talker(B, A)


def talk(a, b, messages):
    """Until more than that many have come on either side; they go on."""
    for x in (a, b):
        x.tell("go")
    t.until(lambda: min(x.says()["received"][0] for x in (a, b)) > messages, f"no messages\n{a}\n{b}")


def info(*args):
    p = t.run("info", "--json", *args)
    check(p.rc == 0 and not p.err, p)
    return json.loads(p.out)


def tables(*args):
    p = t.run("info", *args)
    check(p.rc == 0, p)
    return {title: [line.split() for line in lines[1:]] for title, lines in sections(p.lines).items()}


def counted(counters):
    """What the counters say that a program sent and received: messages and bytes."""
    return {"sent": (counters["send_queued"], counters["copy_from_user"]),
            "received": (counters["recv_delivered"], counters["copy_to_user"])}


def said(program):
    return {k: v for k, v in program.says().items() if k != "begun"}


def connection(got, local, remote):
    rows = [c for c in got["connections"] if (c["local_addr"], c["remote_addr"]) == (local, remote)]
    check(len(rows) == 1, got["connections"])
    return rows[0]


def at_rest(a, b):
    """Neither sends; all that was sent has been received and acknowledged."""
    for x in (a, b):
        x.tell("stop")
    t.until(lambda: said(a)["sent"] == said(b)["received"] and said(b)["sent"] == said(a)["received"], f"not all came\n{a}\n{b}")

    def is_acknowledged():
        got = info()
        return not (got["send_queue"] or got["retransmit_queue"] or got["receive_queue"])
    t.until(is_acknowledged, "something stays queued")


def test_counters_while_messages_flow():
    a, b = pair()
    talk(a, b, 100)
    for _ in range(10):
        for x in (a, b):
            before, got, after = x.says(), info(x.me[0]), x.says()
            now = counted(got["counters"])
            for i in range(2):  # messages, bytes
                # A call may be under way: it is counted in there, and what it did is said when it has returned.
                check(before["sent"][i] <= now["sent"][i] <= after["begun"][i], before, now, after)
                check(before["received"][i] <= now["received"][i] <= after["received"][i] + (1, 5000)[i], before, now, after)
            check(after["sent"][0] > before["sent"][0], "nothing is sent meanwhile", before, after)
            c = connection(got, x.me[0], x.peer[0])
            check(c["connected"] and c["transport"] == "tcp" and not c["error"], c)
            check([p["state"] for p in got["peers"] if p["remote_addr"] == x.peer[0]] == ["up"], got["peers"])
            check([(s["bound_addr"], s["bound_port"]) for s in got["sockets"]] == [x.me], got["sockets"])


def test_counters_and_sequence_numbers_when_all_has_come():
    a, b = pair()
    a.tell("go")
    t.until(lambda: b.says()["received"][0] > 0, f"no messages\n{a}\n{b}")
    at_rest(a, b)
    first = {x: (said(x), connection(info(x.me[0]), x.me[0], x.peer[0])) for x in (a, b)}
    talk(a, b, 500)
    at_rest(a, b)
    for x, y in ((a, b), (b, a)):
        words, got = said(x), info(x.me[0])
        check(counted(got["counters"]) == words and words["sent"] == said(y)["received"], counted(got["counters"]), words, said(y))
        # Each message took one number, here and there.
        c, other = connection(got, x.me[0], x.peer[0]), connection(info(y.me[0]), y.me[0], x.me[0])
        was, was_there = first[x][1], first[y][1]
        n = words["sent"][0] - first[x][0]["sent"][0]
        check(n > 500 and c["next_tx"] - was["next_tx"] == n == other["next_rx"] - was_there["next_rx"], c, was, other, was_there, n)
        check(c["next_tx"] == other["next_rx"], c, other)
        # The tables for people.
        rows = tables(x.me[0])
        check([r[:2] for r in rows["RDS Sockets:"]] == [[x.me[0], str(x.me[1])]], rows["RDS Sockets:"])
        check([r[:2] + r[3:] for r in rows["RDS Connections:"]] == [[x.me[0], x.peer[0], str(c["next_tx"]), str(c["next_rx"]), "--C-"]],
              rows["RDS Connections:"])
        check(counted({name: int(v) for name, v in rows["Counters:"]}) == words, rows["Counters:"], words)


def test_one_question_to_both():
    a, b = pair()
    talk(a, b, 100)
    at_rest(a, b)
    got = info()
    check(sorted((s["bound_addr"], s["bound_port"]) for s in got["sockets"]) == [A, B], got["sockets"])
    check(sorted((c["local_addr"], c["remote_addr"]) for c in got["connections"]) == [(A[0], B[0]), (B[0], A[0])], got["connections"])
    both = {k: tuple(map(sum, zip(said(a)[k], said(b)[k]))) for k in ("sent", "received")}
    check(counted(got["counters"]) == both, counted(got["counters"]), both)
    check(sorted(r[:2] for r in tables()["RDS Sockets:"]) == [[x[0], str(x[1])] for x in (A, B)])


t.main(globals())
