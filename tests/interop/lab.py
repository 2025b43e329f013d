# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A lab with a kernel RDS peer, for interop tests (Python standard library only).

    import lab

    def test(t):
        with lab.Lab(share=[lab.rdspeer_dir()]) as net:
            me = net.host_addr(above=True)            # 192.0.2.110, on lab0
            sink = net.guest([lab.rdspeer(), 'sink', net.addr() + ':4000'])
            sink.wait_line('ready', 10)
            net.host(['./my-program', me]).check(30)
            net.reboot()

    lab.main(test)       # exit status for meson: 0, 1, or 77 where a lab is impossible

Programs under test run on this machine in the lab's network namespace; lab0 there is the wire.
Everything a Lab started is gone when its block ends, and also when this process is killed: the lab
script watches it.
"""

import atexit
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..'))
import wine  # pylint: disable=wrong-import-position

KERNEL_PEER = os.path.join(HERE, 'kernel-peer')
RDS_PORT = 16385


class LabError(Exception):
    """The lab, or a program in it, did not do what the test needs."""


class Skip(Exception):
    """The test cannot run here."""


def log(text):
    print(f'# {time.strftime("%H:%M:%S")} {text}', file=sys.stderr, flush=True)


# ---- the guest's program

_temp = None
_numbers = itertools.count(1)


def temp_dir():
    """A directory of this process, removed at its end."""
    global _temp
    if _temp is None:
        _temp = tempfile.mkdtemp(prefix='urds-interop-')
        atexit.register(shutil.rmtree, _temp, ignore_errors=True)
    return _temp


def rdspeer():
    """Path of the static rdspeer: $RDSPEER (set by meson), or built now."""
    path = os.environ.get('RDSPEER')
    if path:
        return os.path.abspath(path)
    path = os.path.join(temp_dir(), 'rdspeer')
    if not os.path.exists(path):
        guest = os.path.join(HERE, 'guest')
        sources = [os.path.join(guest, f) for f in sorted(os.listdir(guest)) if f.endswith('.c')]
        subprocess.run(['gcc', '-D_GNU_SOURCE', '-std=gnu11', '-O2', '-static', '-o', path] + sources,
                       check=True)
    return path


def rdspeer_dir():
    return os.path.dirname(rdspeer())


# ---- processes

class Proc:
    """A running program whose lines of output can be waited for.

    Lines of standard output and error arrive in .lines (in order of arrival).  The program and its
    children are killed by stop(), and by the end of the lab.  FILES: it gets files for output and no
    pipes (Windows programs)."""

    def __init__(self, argv, name=None, env=None, echo=None, stdin=None, files=False):
        self.argv, self.name = argv, name or os.path.basename(argv[0])
        self.lines, self._read = [], 0
        self._cond = threading.Condition()
        self._echo = os.environ.get('LAB_VERBOSE') == '1' if echo is None else echo
        names = [os.path.join(temp_dir(), f'{next(_numbers)}.{x}') for x in ('out', 'err')] if files else []
        out, err = [open(f, 'wb') for f in names] or [subprocess.PIPE] * 2
        self.popen = subprocess.Popen(argv, stdin=stdin or subprocess.DEVNULL, stdout=out, stderr=err,
                                      start_new_session=True, env=env)
        if files:
            out.close()
            err.close()
        self._threads = [threading.Thread(target=self._pump, args=(f,), daemon=True) for f in
                         ([wine.lines_of(f, lambda: not self.is_running()) for f in names] or
                          (self.popen.stdout, self.popen.stderr))]
        for t in self._threads:
            t.start()

    def _pump(self, stream):
        for raw in stream:
            line = raw.decode(errors='replace').rstrip('\n')
            if self._echo:
                log(f'{self.name}: {line}')
            with self._cond:
                self.lines.append(line)
                self._cond.notify_all()

    @property
    def output(self):
        with self._cond:
            return '\n'.join(self.lines)

    def is_running(self):
        return self.popen.poll() is None

    def wait_line(self, pattern, timeout=10, from_start=False):
        """The match of the next line that has regular expression PATTERN; lines before it are
        passed over.  LabError when the program ends or time runs out before."""
        end = time.monotonic() + timeout
        at = 0 if from_start else self._read
        while True:
            with self._cond:
                while at < len(self.lines):
                    m = re.search(pattern, self.lines[at])
                    at += 1
                    if m:
                        self._read = max(self._read, at)
                        return m
                # all output of an ended program is read when its pumps have ended
                is_over = not self.is_running() and not any(t.is_alive() for t in self._threads)
                if not is_over and time.monotonic() < end:
                    self._cond.wait(min(0.1, max(0.0, end - time.monotonic())))
                    continue
                if is_over and at < len(self.lines):
                    continue
            raise LabError(f'{self.name}: no line "{pattern}" ' +
                           (f'before its end (status {self.popen.returncode})' if is_over
                            else f'within {timeout} s') + self._tail())

    def _tail(self):
        return ''.join(f'\n    {self.name}| {x}' for x in self.lines[-20:])

    def wait(self, timeout):
        """Exit status; LabError (the program is stopped) when time runs out."""
        try:
            status = self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise LabError(f'{self.name}: still running after {timeout} s{self._tail()}') from None
        for t in self._threads:
            t.join(5)
        return status

    def check(self, timeout, status=0):
        """wait(), and LabError unless the exit status is as said.  Returns the output."""
        got = self.wait(timeout)
        if got != status:
            raise LabError(f'{self.name}: exit status {got}, not {status}{self._tail()}')
        return self.output

    def signal(self, sig):
        self.popen.send_signal(sig)

    def stop(self, grace=2):
        """SIGTERM, and SIGKILL to its session after the grace."""
        if self.is_running():
            self.popen.terminate()
            try:
                self.popen.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        self.popen.wait()
        for t in self._threads:
            t.join(5)


# ---- the lab

class Lab:
    """A lab that exists inside a with block.

    guests     number of guests              emulator  'uml' or 'qemu'
    share      directories that the guest sees at the same path, writable
    netns      make namespaces a, b, c in the guest as well
    mem        MiB of each guest             mtu       of the wire
    timeout    seconds after which everything is killed
    options    more options of "kernel-peer up"
    """

    def __init__(self, guests=1, emulator='uml', share=(), netns=False, mem=None, mtu=None,
                 timeout=600, options=(), name=None):
        self.name = name or f'urds-{os.getpid()}-{next(_numbers)}'
        self.emulator = emulator
        self._up = ['--' + emulator, '--guests', str(guests), '--timeout', str(timeout),
                    '--owner', str(os.getpid())]
        for d in share:
            self._up += ['--share', d]
        if netns:
            self._up.append('--netns')
        if mem:
            self._up += ['--mem', str(mem)]
        if mtu:
            self._up += ['--mtu', str(mtu)]
        self._up += list(options)
        self._procs, self._paused = [], set()
        self._next = {True: 110, False: 10}

    def __enter__(self):
        t = time.monotonic()
        try:
            self._tool('up', *self._up, timeout=180)
        except BaseException:
            self.close()
            raise
        self.boot_seconds = time.monotonic() - t
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for p in reversed(self._procs):
            p.stop(grace=1)
        self._procs.clear()
        subprocess.run([KERNEL_PEER, 'down', '--name', self.name], stdin=subprocess.DEVNULL,
                       timeout=60, check=False)

    def _tool(self, verb, *args, timeout=60):
        argv = [KERNEL_PEER, verb, '--name', self.name, *args]
        p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=timeout, text=True, check=False)
        if p.returncode != 0:
            raise LabError(f'kernel-peer {verb}: exit status {p.returncode}: {p.stdout.strip()}')
        return p.stdout

    # -- addresses

    def addr(self, guest=1, family=4, high=False):
        """An address of the guest.  HIGH: its second one, so that most of ours are below it."""
        n = guest + (100 if high else 1)
        return f'192.0.2.{n}' if family == 4 else f'2001:db8::{n}'

    def host_addr(self, above=True, family=4):
        """A new address of this machine on lab0, never used in this lab before (a kernel remembers
        peers).  ABOVE: higher than all addresses of guests, so the kernel is the one to connect;
        else lower than their high ones (use addr(high=True)) and it is we who connect."""
        n = self._next[above]
        self._next[above] += 1
        if n > (250 if above else 99):
            raise LabError('out of addresses')
        addr = f'192.0.2.{n}' if family == 4 else f'2001:db8::{n}'
        self.add_host_addr(addr)
        return addr

    def add_host_addr(self, addr):
        v6 = ':' in addr
        self.ip('addr', 'add', addr + ('/64' if v6 else '/24'), 'dev', 'lab0',
                *(['nodad', 'preferred_lft', '0'] if v6 else []))

    def del_host_addr(self, addr):
        self.ip('addr', 'del', addr + ('/64' if ':' in addr else '/24'), 'dev', 'lab0')

    def ip(self, *args):
        """ip(8) in the lab's namespace."""
        subprocess.run(['ip', '-n', self.name, *args], check=True, stdin=subprocess.DEVNULL)

    # -- programs

    def _start(self, argv, **kw):
        p = Proc(argv, **kw)
        self._procs.append(p)
        return p

    def host_argv(self, argv):
        """The command line that runs ARGV on this machine in the lab's namespace."""
        return ['ip', 'netns', 'exec', self.name, *map(str, argv)]

    def host(self, argv, name=None, **kw):
        """Starts a program on this machine, in the lab's namespace.  Returns a Proc."""
        return self._start(self.host_argv(argv), name=name or os.path.basename(argv[0]), **kw)

    def guest(self, argv, guest=1, netns=None, timeout=300, name=None):
        """Starts a program in a guest (in its namespace NETNS).  Returns a Proc."""
        inner = (['ip', 'netns', 'exec', netns] if netns else []) + [str(a) for a in argv]
        return self._start([KERNEL_PEER, 'exec', '--name', self.name, '--guest', str(guest),
                            '--timeout', str(timeout), '--', *inner],
                           name=name or f'guest{guest}:{os.path.basename(str(argv[0]))}')

    def run_host(self, argv, timeout=60, **kw):
        """Runs to the end; LabError unless the exit status is 0.  Returns the output."""
        return self.host(argv, **kw).check(timeout)

    def run_guest(self, argv, timeout=60, **kw):
        return self.guest(argv, timeout=timeout, **kw).check(timeout + 5)

    def peer(self, *args, guest=1, netns=None, timeout=300):
        """Starts rdspeer in a guest (the lab needs share=[rdspeer_dir()])."""
        return self.guest([rdspeer(), *args], guest=guest, netns=netns, timeout=timeout,
                          name=f'rdspeer {args[0]}')

    def counters(self, guest=1, netns=None):
        """The guest kernel's RDS counters, as a dictionary."""
        text = self.peer('info', 'counters', guest=guest, netns=netns, timeout=20).check(25)
        return {w[1]: int(w[2]) for w in (x.split() for x in text.splitlines()) if w[0] == 'counter'}

    # -- trouble

    def kill_guest_connections(self, guest=1, netns=None):
        """The guest's kernel drops all its RDS TCP connections (and connects again)."""
        if self.emulator == 'uml':
            # No ss -K there; a write to this drops every connection of the namespace.  The default,
            # 0, cannot be written, so from the first time on the buffer has a fixed size.
            argv = ['sh', '-c', 'echo 4194304 > /proc/sys/net/rds/tcp/rds_tcp_sndbuf']
        else:
            argv = ['sh', '-c', 'modprobe tcp_diag; ss -K -n -t '
                    f'"( sport = :{RDS_PORT} or dport = :{RDS_PORT} )"']
        self.run_guest(argv, guest=guest, netns=netns)

    def kill_host_connections(self, *filter_words):
        """Destroys this machine's RDS connections: RST to the peer, ECONNABORTED to the owner.
        Further words are a filter of ss(8), for example 'dst', '192.0.2.2'.  Returns how many."""
        what = ['(', 'sport', '=', f':{RDS_PORT}', 'or', 'dport', '=', f':{RDS_PORT}', ')']
        if filter_words:
            what += ['and', *filter_words]
        out = subprocess.run(self.host_argv(['ss', '-H', '-K', '-n', '-t', *what]), check=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
        return len(out.splitlines())

    def host_connections(self):
        """Lines of ss(8) for this machine's established RDS connections."""
        what = ['state', 'established', f'( sport = :{RDS_PORT} or dport = :{RDS_PORT} )']
        return subprocess.run(self.host_argv(['ss', '-H', '-n', '-t', *what]), check=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True).stdout.splitlines()

    def reboot(self, guest=1):
        """The guest dies without a word and boots again; programs there are gone.  Returns seconds."""
        t = time.monotonic()
        self._paused.discard(guest)
        self._tool('reboot', '--guest', str(guest), timeout=150)
        return time.monotonic() - t

    def pause(self, guest=1):
        """The guest becomes a black hole: the wire is up, nothing answers."""
        self._tool('pause', '--guest', str(guest))
        self._paused.add(guest)

    def resume(self, guest=1):
        self._tool('resume', '--guest', str(guest))
        self._paused.discard(guest)

    def delay(self, ms, guest=1):
        """What the guest sends comes MS milliseconds later (0: no longer), so that there is always
        something on the way, acknowledgements too."""
        how = f'add dev eth0 root netem delay {ms}ms limit 10000' if ms else 'del dev eth0 root'
        self.run_guest(['sh', '-c', f'tc qdisc {how}'], guest=guest)

    def slow_lo(self, mbit):
        """What programs on this machine send each other takes its time (0: no longer).  What waits is of connections that may
        be gone, so it is little: long messages have to get through between kills."""
        how = f'add dev lo root tbf rate {mbit}mbit burst 256kb limit 1mb' if mbit else 'del dev lo root'
        self.run_host(['tc', 'qdisc', *how.split()])

    def link(self, up):
        """The wire itself, up or down."""
        self.ip('link', 'set', 'lab0', 'up' if up else 'down')

    # -- capture

    def capture(self, path, *filter_words, dev='lab0'):
        """Starts a capture of DEV to PATH and waits until it is on.  end_capture(p) finishes it."""
        p = self.host(['tcpdump', '-Z', 'root', '-U', '-n', '-s', '0', '-B', '131072', '-i', dev,
                       '-w', path, *filter_words], name='tcpdump')
        p.wait_line('listening on', 10)
        return p

    def end_capture(self, p):
        time.sleep(1.5)  # the kernel hands packets over when a block is full, or after tcpdump's second
        p.signal(signal.SIGINT)
        p.check(10)

    def console(self, guest=1):
        """The guest's kernel log so far."""
        base = os.environ.get('TMPDIR', '/tmp')
        with open(f'{base}/kernel-peer-{self.name}/g{guest}/console.log', errors='replace') as f:
            return f.read()


# ---- running as a test

def wait_until(condition, timeout, what, step=0.02):
    """Waits for CONDITION() to be true and returns its value; LabError after TIMEOUT seconds."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise LabError(f'{what}: not within {timeout} s')
        time.sleep(step)


def need(emulator='uml', programs=('ip', 'ss', 'tcpdump')):
    """Skip unless a lab can be made here."""
    if os.geteuid() != 0:
        raise Skip('not root')
    if not os.path.exists('/dev/net/tun'):
        raise Skip('no /dev/net/tun')
    for p in (*programs, 'linux.uml' if emulator == 'uml' else 'qemu-system-x86_64', 'busybox'):
        if not shutil.which(p):
            raise Skip(f'no {p}: run tests/interop/kernel-peer setup --{emulator}')


def main(*tests, emulator='uml'):
    """Runs the test functions (no arguments) and exits: 0; 1 failed; 77 not possible here, none of them,
    which under CI=true is a failure too, of each."""
    def on_signal(sig, _):
        raise SystemExit(128 + sig)
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, on_signal)
    try:
        need(emulator)
    except Skip as e:
        print(f'cannot run here: {e}', flush=True)
        sys.exit(1 if os.environ.get('CI') == 'true' else 77)
    failed = skipped = 0
    chosen = [t for t in tests if not sys.argv[1:] or t.__name__ in sys.argv[1:]]
    for test in chosen:
        start = time.monotonic()
        why = ''
        try:
            test()
            result = 'ok'
        except Skip as e:
            skipped += 1
            result, why = 'ok', f'SKIP {e}, '
            if os.environ.get('CI') == 'true':
                failed += 1
                result, why = 'not ok', f'cannot run here: {e}, '
        except Exception as e:
            failed += 1
            result = 'not ok'
            if not isinstance(e, LabError):
                traceback.print_exc()
            print('\n'.join('# ' + x for x in str(e).splitlines()))
        print(f'{result} - {test.__name__} # {why}{time.monotonic() - start:.1f} s', flush=True)
    print(f'1..{len(chosen)}', flush=True)
    sys.exit(1 if failed else 77 if skipped == len(chosen) > 0 else 0)
