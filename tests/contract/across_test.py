#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A link between two systems: tcp_peer, maybe a Windows program under Wine, and this process, which shares no code with it.

across_test.py TCP_PEER"""
import errno
import os
import shlex
import socket
import subprocess
import sys
import threading
import time

BYTES = 3_000_000
LIMIT_S = 60
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def stream(tag):
    """What an end with this tag sends: ep.c."""
    return bytes((tag + pos * 31 + (pos >> 8) * 7 + (pos >> 16) * 3) & 255 for pos in range(BYTES))


STREAM = {2: stream(2), 3: stream(3)}  # who dialled, who accepted


def command(peer):
    if not peer.endswith(".exe"):
        return [peer]
    wrapper = shlex.split(os.environ.get("MESON_EXE_WRAPPER", "")) or [os.path.join(ROOT, "scripts", "wine-run")]
    return [*wrapper, peer]


def exchange(s, ours, theirs, ends_last):
    """Each direction is ended by its sender. Wine 8 completes a send that waits when the other end has ended its direction, in
    the middle, and now and then never: beside it we do not end ours before all has come."""
    def send():
        s.sendall(STREAM[ours])
        if not ends_last:
            s.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got = bytearray()
    while True:
        try:
            piece = s.recv(100_000)
        except TimeoutError as e:
            raise AssertionError(f"nothing comes behind {len(got)} bytes; ours are sent: {not sender.is_alive()}") from e
        if not piece:
            break
        got += piece
    sender.join(LIMIT_S)
    assert not sender.is_alive(), "our bytes are not read"
    assert len(got) == BYTES, f"{len(got)} bytes came"
    assert got == STREAM[theirs], "other bytes came"
    if ends_last:
        s.shutdown(socket.SHUT_WR)


def connect(family, here, there, port, process):
    """As soon as somebody listens."""
    end = time.monotonic() + LIMIT_S
    while True:
        s = socket.socket(family, socket.SOCK_STREAM)
        s.bind((here, 0))
        try:
            s.connect((there, port))
            s.settimeout(LIMIT_S)
            return s
        except OSError as e:
            s.close()
            assert e.errno == errno.ECONNREFUSED and time.monotonic() < end and process.poll() is None, e
        time.sleep(0.02)


def case(peer, family, theirs, ours, role, *more):
    with socket.socket(family, socket.SOCK_STREAM) as door:
        door.settimeout(LIMIT_S)
        door.bind((ours, 0))
        port = door.getsockname()[1]
        if role == "dial":
            door.listen()
        else:
            door.close()  # its number is free for theirs
        process = subprocess.Popen([*command(peer), role, theirs, ours, str(port), str(BYTES), *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            if role == "dial":
                s, (host, from_port, *_) = accept(door, process)
                s.settimeout(LIMIT_S)
                assert host == theirs and from_port % 8 == 5, (host, from_port)
            else:
                s = connect(family, ours, theirs, port, process)
            with s:
                exchange(s, *((3, 2) if role == "dial" else (2, 3)), peer.endswith(".exe"))
            said, _ = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0 and said.strip() == "done", said
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            tell(port, process)
            raise
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()


def accept(door, process):
    """As soon as it dials, unless it ends without."""
    end = time.monotonic() + LIMIT_S
    door.settimeout(0.2)
    while True:
        try:
            return door.accept()
        except TimeoutError:
            assert process.poll() is None, "it ended and did not dial"
            assert time.monotonic() < end, "it does not dial"


def tell(port, process):
    """What a person would look at next."""
    print(f"# it runs: {process.poll() is None}; its sockets, and ours:")
    states = subprocess.run(["ss", "-tanio", f"( sport = {port} or dport = {port} )"], stdout=subprocess.PIPE, text=True)
    print("".join(f"#   {line}\n" for line in states.stdout.splitlines()), end="")
    process.terminate()
    said, _ = process.communicate(timeout=LIMIT_S)
    print("".join(f"# it said: {line}\n" for line in said.splitlines()), end="", flush=True)


def main():
    failed = 0
    cases = [(role, name, family, theirs, ours, more)
             for name, family, theirs, ours in (("ipv4", socket.AF_INET, "127.0.0.8", "127.0.0.9"),
                                                ("ipv6", socket.AF_INET6, "::1", "::1"))
             for role in ("dial", "listen")
             for more in ((), ("in-place",))]
    print(f"1..{len(cases)}")
    for i, (role, name, family, theirs, ours, more) in enumerate(cases, 1):
        title = "__".join(("across", "_".join((name, role, *more)).replace("-", "_")))
        try:
            case(sys.argv[1], family, theirs, ours, role, *more)
            print(f"ok {i} - {title}", flush=True)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as e:
            failed += 1
            print(f"# {type(e).__name__}: {e}\nnot ok {i} - {title}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
