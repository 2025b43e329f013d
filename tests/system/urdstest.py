# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the system tests share: TAP, processes whose lines are waited for, a network of one's own.

A test program defines functions named test_* and ends with `urdstest.main(globals())`. Its arguments
are the path of the urds binary and, optionally, words that select cases. Each program runs in a network
namespace of its own where that is allowed, so that programs, and builds, can be tested side by side;
otherwise they take turns.
"""
import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

URDS = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "urds"
# Sanitizers and emulators: everything takes longer.
SLOW = int(os.environ.get("URDS_TEST_SLOW", "1"))
LIMIT_S = 20 * SLOW

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
NOBODY = 65534
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

isolated = False  # in a network namespace of its own
procs = []
at_end = []  # what else a program has to clear up, before its folder goes


class NotHere(Exception):
    """The case asks nothing of this build: it is not counted."""


class Skip(Exception):
    pass


class Failed(Exception):
    pass


class Proc:
    """A process, with the lines of its output as they come."""

    def __init__(self, *args, stdin=subprocess.DEVNULL, stdout=None, name=None, env=None, **kw):
        self.args = [str(a) for a in args]
        self.lines = []
        self.err_lines = []
        self.changed = threading.Condition()
        self.p = subprocess.Popen([name or URDS, *self.args], stdin=stdin, stdout=stdout or subprocess.PIPE,
                                  stderr=subprocess.PIPE, env={**os.environ, **(env or {})}, **kw)
        self.pid = self.p.pid
        self.readers = [threading.Thread(target=self._read, args=(self.p.stderr, self.err_lines))]
        if stdout is None:
            self.readers.append(threading.Thread(target=self._read, args=(self.p.stdout, self.lines)))
        for r in self.readers:
            r.daemon = True
            r.start()
        procs.append(self)

    def _read(self, pipe, lines):
        for line in iter(pipe.readline, b""):
            with self.changed:
                lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.changed.notify_all()

    def __str__(self):
        text = " ".join(["urds", *self.args])
        return "\n".join([text, *("out: " + l for l in self.lines[-20:]), *("err: " + l for l in self.err_lines[-20:])])

    def expect(self, pattern, stream="out", limit=None):
        """Waits for a line that matches, and returns the match."""
        end = time.monotonic() + (limit or LIMIT_S)
        lines = self.lines if stream == "out" else self.err_lines
        seen = 0
        with self.changed:
            while True:
                while seen < len(lines):
                    m = re.search(pattern, lines[seen])
                    seen += 1
                    if m:
                        return m
                alive = any(r.is_alive() for r in self.readers)
                left = end - time.monotonic()
                if left <= 0 or (not alive and seen == len(lines)):
                    raise Failed(f"no line like {pattern!r} from: {self}")
                self.changed.wait(min(left, 0.5))

    def end(self, limit=None):
        """Waits for the end, and returns the exit status."""
        try:
            rc = self.p.wait(limit or LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"did not end: {self}") from None
        for r in self.readers:
            r.join(LIMIT_S)
        return rc

    def signal(self, sig):
        os.kill(self.pid, sig)

    def freeze(self):
        """Stops it like a debugger, and waits until every thread stands still."""
        self.signal(signal.SIGSTOP)

        def is_still(task):
            with open(f"/proc/{self.pid}/task/{task}/stat") as f:
                return f.read().rpartition(")")[2].split()[0] == "T"

        until(lambda: all(is_still(x) for x in os.listdir(f"/proc/{self.pid}/task")), f"{self} does not stop")

    def stop(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGCONT)
            self.p.kill()
            self.p.wait()

    @property
    def out(self):
        return "\n".join(self.lines)

    @property
    def err(self):
        return "\n".join(self.err_lines)


def run(*args, limit=None, **kw):
    """A command to its end."""
    p = Proc(*args, **kw)
    p.rc = p.end(limit)
    return p


def listen(*addrs, **kw):
    p = Proc("listen", *addrs, **kw)
    for a in addrs:
        p.expect("^ready " + re.escape(a) + "$")
    return p


def need_another_user():
    if os.getuid() != 0:
        raise Skip("needs root, to be another user")


def become_another_user():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def another_user():
    """What a Proc needs to run as somebody else: a copy, for the folder of the original may be closed to others."""
    need_another_user()
    libraries = subprocess.run(["ldd", URDS], stdout=subprocess.PIPE, text=True, check=True).stdout
    ours = re.findall(r"=> (/\S*/liburds\.so\S*)", libraries)
    check(ours, libraries)
    for f in (URDS, *ours):
        shutil.copy(f, tempdir())
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "name": os.path.join(tempdir(), os.path.basename(URDS)),
            "env": {"LD_LIBRARY_PATH": tempdir()}}


def check(condition, *what):
    if not condition:
        raise Failed("\n".join(str(w) for w in what) or "check failed")


def until(condition, what, limit=None):
    end = time.monotonic() + (limit or LIMIT_S)
    while not condition():
        if time.monotonic() > end:
            raise Failed("waited in vain: " + what)
        time.sleep(0.01)


def sections(lines):
    """Of what urds info prints: title -> its lines, the header first."""
    found, title, previous = {}, None, None
    for line in lines:
        if previous == "":
            title = line
            found[title] = []
        elif line and title:
            found[title].append(line)
        previous = line
    return found


def link(name):
    """The binary under another name."""
    path = os.path.join(tempdir(), name)
    if not os.path.exists(path):
        os.symlink(URDS, path)
    return path


_tempdir = None


def tempdir():
    global _tempdir
    if _tempdir is None:
        _tempdir = tempfile.mkdtemp(prefix="urds-test-")
        os.chmod(_tempdir, 0o755)
    return _tempdir


# The ownership protocol, written from its description and not from its code.
IDENT, INFO, PING, RESET, REPLY = 1, 2, 3, 4, 0x80


def record_connect(addr, limit=5):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Not Python's own limit, which would make a full backlog an error at once.
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", limit * SLOW, 0))
    s.connect("\0urds/owner/" + addr)
    s.settimeout(limit * SLOW)
    return s


def record_message(kind, body=b"", tag=0, version=1, status=0, length=None):
    n = 12 + len(body) if length is None else length
    return struct.pack(">IBBHi", n, version, kind, tag, status) + body


def record_addr(text):
    if ":" in text:
        return socket.inet_pton(socket.AF_INET6, text) + bytes(4)
    return bytes(10) + b"\xff\xff" + socket.inet_aton(text) + bytes(4)


def record_ask(s, kind, body=b"", tag=7):
    """Return: status, body of the reply."""
    s.send(record_message(kind, body, tag))
    reply = s.recv(65536)
    if not reply:
        raise Failed("the owner closed the connection")
    n, version, got, got_tag, status = struct.unpack(">IBBHi", reply[:12])
    check(n == len(reply) and version == 1 and got == kind | REPLY and got_tag == tag, "bad reply", reply[:40].hex())
    return status, reply[12:]


def reset(local, peer):
    """Breaks the connections between two addresses. Return: how many, 0 if there are none."""
    with record_connect(local) as s:
        status, body = record_ask(s, RESET, record_addr(peer))
        return struct.unpack(">I", body)[0] if status == 0 else 0


def own_network():
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNET | (0 if uid == 0 else CLONE_NEWUSER)
    if libc.unshare(flags) != 0:
        return False
    if flags & CLONE_NEWUSER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open("/proc/self/" + name, "w") as f:
                f.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        ifr = fcntl.ioctl(s, SIOCGIFFLAGS, struct.pack("16sH14x", b"lo", 0))
        up = struct.unpack("16sH14x", ifr)[1] | IFF_UP
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", up))
    return True


def take_turns():
    path = os.path.join(tempfile.gettempdir(), "urds-system-tests.lock")
    f = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(f, fcntl.LOCK_EX)


def main(names):
    global isolated
    words = sys.argv[2:]
    cases = [(n, f) for n, f in names.items() if n.startswith("test_") and callable(f)]
    cases = [c for c in cases if not words or any(w in c[0] for w in words)]
    try:
        isolated = own_network()
    except OSError as e:
        print("# no network namespace:", e)
        isolated = False
    if not isolated:
        print("# without a network namespace the system tests take turns")
        take_turns()
    failed = 0
    prefix = os.path.splitext(os.path.basename(sys.argv[0]))[0].replace("_test", "")
    i = 0
    for name, f in cases:
        i += 1
        title = f"{prefix}__{name[5:]}"
        try:
            f()
            print(f"ok {i} - {title}", flush=True)
        except NotHere as e:
            i -= 1
            print(f"# {title} does not apply: {e}", flush=True)
        except Skip as e:
            print(f"ok {i} - {title} # SKIP {e}", flush=True)
        except Exception as e:  # noqa: BLE001 - any failure is a result
            failed += 1
            for line in (str(e) if isinstance(e, Failed) else traceback.format_exc()).splitlines():
                print("#", line)
            print(f"# again: {sys.argv[0]} {URDS} {name[5:]}")
            print(f"not ok {i} - {title}", flush=True)
        finally:
            for p in procs:
                p.stop()
            procs.clear()
    print(f"1..{i}")
    for f in at_end:
        f()
    if _tempdir:
        shutil.rmtree(_tempdir, ignore_errors=True)
    sys.exit(1 if failed else 0)
