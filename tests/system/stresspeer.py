# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A peer for urds stress, written from the descriptions of rds-stress and of RDS over TCP.

It shares no code with urds: one connection per pair of addresses, opened by the smaller address; 48-byte
headers; probes answered with one path; congestion maps read, and sent when a case says so.
"""
import select
import socket
import struct
import threading
import time

TCP_PORT = 16385
MAP_BYTES = 8192
HEADER = struct.Struct(">QQIHHBBIH16s")
MESSAGE = struct.Struct(">I4s4sHHHB")
MESSAGE_BYTES = 63
BLOCK_BYTES = 59
FLAGS_AT = 32  # in the block: summary, real time, trace, verify, parameters, counters, ...
RTPRIO, PERFDATA = 1, 5


def pattern(n):
    out = bytearray()
    last = 0
    for i in range(n):
        last = 11 if i == 0 else (41 * (last + 3) + i // 256) & 0xff
        out.append(last)
    return bytes(out)


def read_all(s, n):
    out = bytearray()
    while len(out) < n:
        more = s.recv(n - len(out))
        if not more:
            raise EOFError
        out += more
    return bytes(out)


class Link:
    """RDS over TCP between two addresses."""

    def __init__(self, local, remote):
        self.local, self.remote = local, remote
        self.is_smaller = socket.inet_aton(local) < socket.inet_aton(remote)
        self.listener = socket.create_server((local, TCP_PORT))
        self.sequence = time.time_ns()
        self.maps = 0
        self.congested = bytes(MAP_BYTES)
        self.conn = None
        self.lock = threading.Lock()

    def up(self, limit=20):
        end = time.monotonic() + limit
        while self.conn is None:
            if self.is_smaller:
                try:
                    self.conn = socket.create_connection((self.remote, TCP_PORT), timeout=limit,
                                                         source_address=(self.local, 0))
                except ConnectionRefusedError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.02)
            else:
                self.listener.settimeout(limit)
                self.conn, (who, _) = self.listener.accept()
                if who != self.remote:
                    self.conn.close()
                    self.conn = None
        self.conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conn.settimeout(limit)

    def send(self, sport, dport, payload=b"", ext=bytes(16)):
        with self.lock:
            self.sequence += 1
            head = HEADER.pack(self.sequence, 0, len(payload), sport, dport, 0, 0, 0, 0, ext)
            self.conn.sendall(head + payload)

    def send_map(self, *ports):
        """Says that these ports of ours are congested, and no others."""
        bits = bytearray(MAP_BYTES)
        for p in ports:
            bits[p // 8] |= 1 << p % 8
        with self.lock:
            self.conn.sendall(HEADER.pack(0, 0, MAP_BYTES, 0, 0, 1, 0, 0, 0, bytes(16)) + bits)

    def one(self):
        """The next message, if it is for a port of ours: source port, port, payload. Else None."""
        _, _, n, sport, dport, flags, *_ = HEADER.unpack(read_all(self.conn, HEADER.size))
        payload = read_all(self.conn, n)
        if flags == 1 and n == MAP_BYTES:
            self.maps += 1
            self.congested = payload
        elif dport == 0 and sport != 0:
            self.send(0, sport, ext=b"\x05\x00\x01" + bytes(13) if sport == 1 else bytes(16))
        elif dport > 1:
            return sport, dport, payload
        return None

    def receive(self):
        """The next message for a port of ours: source port, port, payload."""
        while True:
            got = self.one()
            if got:
                return got

    def waiting(self):
        """A message for a port of ours that is here already, or None."""
        while select.select([self.conn], [], [], 0)[0]:
            got = self.one()
            if got:
                return got
        return None

    def close(self):
        for s in (self.conn, self.listener):
            if s:
                s.close()


class Flow:
    def __init__(self):
        self.tx = self.rx = 0
        self.next = self.oldest = self.outstanding = self.theirs = 0


class Peer:
    def __init__(self, local, remote, port=4000, tasks=1, depth=1, req=1024, ack=63, verify=1, corrupt_after=None,
                 rtprio=0, perfdata=0):
        self.local, self.remote, self.port = local, remote, port
        self.tasks, self.depth, self.req, self.ack, self.verify = tasks, depth, req, ack, verify
        self.corrupt_after = corrupt_after
        self.rtprio, self.perfdata = rtprio, perfdata
        self.requests = self.acks = self.received = 0
        self.listener = None

    def options(self):
        return (struct.pack(">4I4s4sHHI", self.depth, self.req, self.ack, 0, socket.inet_aton(self.remote),
                            socket.inet_aton(self.local), self.port, self.tasks, 0) +
                bytes([0, self.rtprio, 0, self.verify, 0, self.perfdata, 1, 0, 0, 1, 0, 0, 255, 0, 0]) + struct.pack(">3I", 1, 0, 0))

    def listen(self):
        self.listener = socket.create_server((self.local, self.port))

    def start_passive(self, limit=20):
        self.listener.settimeout(limit)
        self.control, _ = self.listener.accept()
        self.listener.close()
        self.control.settimeout(limit)
        block = read_all(self.control, BLOCK_BYTES)
        self.depth, self.req, self.ack, _, _, mine, self.port, self.tasks, _ = struct.unpack(">4I4s4sHHI", block[:32])
        self.verify = block[FLAGS_AT + 3]
        self.rtprio, self.perfdata = block[FLAGS_AT + RTPRIO], block[FLAGS_AT + PERFDATA]
        if mine != socket.inet_aton(self.remote):
            raise AssertionError("the options name another address: " + block.hex())
        self.link = Link(self.local, self.remote)
        self.control.sendall(read_all(self.control, 1))

    def start_active(self, limit=20):
        self.control = socket.create_connection((self.remote, self.port), timeout=limit, source_address=(self.local, 0))
        self.link = Link(self.local, self.remote)
        self.control.sendall(self.options() + b"\0")
        if read_all(self.control, 1) != b"\0":
            raise AssertionError("GO is not echoed")

    def message(self, flow, me, peer, op, index):
        size = self.req if op == 1 else self.ack
        head = MESSAGE.pack(flow.tx, socket.inet_aton(self.local), socket.inet_aton(self.remote),
                            self.port + 1 + me, self.port + 1 + peer, index, op)
        body = bytearray(self.body[:size - MESSAGE_BYTES])
        if op == 1 and self.corrupt_after is not None and self.requests == self.corrupt_after:
            body[5] ^= 1
        flow.tx += 1
        self.link.send(self.port + 1 + me, self.port + 1 + peer, head.ljust(MESSAGE_BYTES, b"\0") + body)

    def request(self, flow, me, peer):
        self.message(flow, me, peer, 1, flow.next)
        flow.next = (flow.next + 1) % self.depth
        flow.outstanding += 1
        self.requests += 1

    def run(self, requests, is_enough=lambda: True):
        """Until that many requests were acked, as many of the other side were answered, and the caller has enough."""
        self.begin()
        while self.acks < requests or self.received < requests or not is_enough():
            self.take(*self.link.receive())

    def begin(self):
        self.body = pattern(max(self.req, self.ack))
        self.flows = {(a, b): Flow() for a in range(self.tasks) for b in range(self.tasks)}
        self.link.up()
        for (me, peer), f in self.flows.items():
            while f.outstanding < self.depth:
                self.request(f, me, peer)

    def take(self, sport, dport, data):
        me, peer = dport - self.port - 1, sport - self.port - 1
        f = self.flows[me, peer]
        seq, source, dest, from_port, to_port, index, op = MESSAGE.unpack_from(data)
        want = (f.rx, socket.inet_aton(self.remote), socket.inet_aton(self.local), sport, dport,
                f.theirs if op == 1 else f.oldest)
        if (seq, source, dest, from_port, to_port, index) != want or op not in (1, 2):
            raise AssertionError(f"bad header {data[:MESSAGE_BYTES].hex()}, expected {want}")
        if len(data) != (self.req if op == 1 else self.ack):
            raise AssertionError(f"{len(data)} bytes for op {op}")
        if self.verify and data[MESSAGE_BYTES:] != self.body[:len(data) - MESSAGE_BYTES]:
            raise AssertionError("bad payload")
        f.rx += 1
        if op == 1:
            self.received += 1
            self.message(f, me, peer, 2, index)
            f.theirs = (f.theirs + 1) % self.depth
        else:
            self.acks += 1
            f.oldest = (f.oldest + 1) % self.depth
            f.outstanding -= 1
            self.request(f, me, peer)

    def close(self):
        for s in (self.listener, getattr(self, "control", None), getattr(self, "link", None)):
            if s:
                s.close()
