# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds against the Linux kernel's RDS, in a lab: messages both ways while connections die, restarts of
either side, stopped processes, black holes, the tools.

    kernel_test.py [TEST...]      a short run: one address order and one family
    URDS_INTEROP=full             both orders, IPv4 and IPv6, and the long counts

$URDSPEER, $URDS and $PCAP_REENCODE are the programs of this build, $URDSPEER_EXE is urdspeer for Windows, by
default that of scripts/check's stage mingw.  Lines "# figure ..." say what was measured.
"""

import collections
import hashlib
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import lab
import wine

FULL = os.environ.get('URDS_INTEROP') == 'full'
BUILD = os.path.join(wine.ROOT, 'build')
URDSPEER = os.environ.get('URDSPEER', os.path.join(BUILD, 'tests', 'interop', 'urdspeer'))
URDS = os.environ.get('URDS', os.path.join(BUILD, 'tools', 'urds'))
MINGW = os.path.join(wine.ROOT, 'build-check', 'mingw')
URDSPEER_EXE = os.environ.get('URDSPEER_EXE', os.path.join(MINGW, 'tests', 'interop', 'urdspeer.exe'))
REENCODE = os.environ.get('PCAP_REENCODE', os.path.join(BUILD, 'tests', 'interop', 'pcap_reencode'))

# Our side of the address order ("above": the kernel is the one to connect) and the family.
CASES = [('below', 4), ('above', 4), ('below', 6), ('above', 6)] if FULL else [('below', 4)]


def figure(text):
    print(f'# figure {text}', flush=True)


def host_of(addr):
    return f'[{addr}]' if ':' in addr else addr


def port_of(addr, port):
    return f'{host_of(addr)}:{port}'


class Case:
    """A pair of addresses that never met before, and a port."""

    ports = 4000

    def __init__(self, net, order='below', family=4):
        self.net, self.order, self.family = net, order, family
        self.me = net.host_addr(above=order == 'above', family=family)
        self.kernel = net.addr(family=family, high=order == 'below')
        Case.ports += 100
        self.port = Case.ports
        self.mine, self.theirs = port_of(self.me, self.port), port_of(self.kernel, self.port)

    def __str__(self):
        return f'urds {self.order}, IPv{self.family}'

    def peer(self, mode, *args, **kw):
        """rdspeer in the guest, between these addresses."""
        return self.net.peer(mode, '--local', self.theirs, '--peer', self.mine, *map(str, args), **kw)

    def urds(self, mode, *args):
        """urdspeer here, between these addresses."""
        return self.net.host([URDSPEER, mode, '--local', self.mine, '--peer', self.theirs,
                              *map(str, args)])


_net = None


def the_lab():
    """The lab of all tests: booting takes seconds."""
    global _net
    if _net is None:
        lab.temp_dir()
        _net = lab.Lab(share=[lab.rdspeer_dir(), lab.temp_dir()], mem=512, timeout=5400 if FULL else 900)
        _net.__enter__()
        lab.atexit.register(_net.close)
        figure(f'guest up in {_net.boot_seconds:.1f} s')
    return _net


def verdict(p, timeout, of='done'):
    """Sent, received, lost, duplicated, reordered, corrupt: of all, or of 'peer ADDR:PORT'."""
    status = p.wait(timeout)
    m = p.wait_line('^' + re.escape(of) + r' sent (\d+) received (\d+) lost (\d+) duplicated (\d+) reordered (\d+) '
                    r'corrupt (\d+)', 5, from_start=True)
    got = [int(x) for x in m.groups()]
    if status != 0 or got[2:] != [0, 0, 0, 0]:
        tail = '\n'.join(p.lines[-25:])
        raise lab.LabError(f'{p.name}: exit status {status}\n{tail}')
    return got


def counters(p):
    return {m.group(1): int(m.group(2)) for m in
            (re.match(r'counter (\S+) (\d+)', line) for line in p.lines) if m}


def replays(path):
    """RETRANSMITTED frames in a capture: of each (source, destination), and what is said of the capture."""
    n = collections.Counter()
    p = subprocess.Popen([REENCODE, '--dump', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    for line in p.stdout:
        if ' flags=04 ' in line or ' flags=06 ' in line:
            w = line.split(' ', 3)
            n[tuple(x.rpartition(':')[0].strip('[]') for x in w[1:3])] += 1
    err = p.stderr.read()
    assert p.wait() == 0, err
    return n, err.strip()


# ---- tests

def pings():
    """urds ping to the kernel; the kernel pings an address that urds listen holds."""
    net = the_lab()
    for order, family in CASES:
        c = Case(net, order, family)
        out = net.run_host([URDS, 'ping', '-c', '5', '-i', '0.1', '-I', c.me, c.kernel])
        assert len(re.findall(r'^ *\d+: \d+ usec', out, re.M)) == 5, out
        listen = net.host([URDS, 'listen', c.me])
        listen.wait_line('ready', 10)
        got = net.peer('ping', c.me, '-I', c.kernel, '-c', '10', '--interval', '50', '--stall', '5').check(30)
        assert 'done sent 10 received 10' in got, got
        usec = sorted(int(x) for x in re.findall(r'usec (\d+)', got))
        figure(f'{c}: urds ping {out.split(":")[-1].strip()}, kernel ping median {usec[5]} usec, '
               f'first {re.search("usec (.*)", got).group(1)}')
        listen.signal(signal.SIGTERM)
        listen.check(10)


class Killer:
    """Breaks the connections in turn in the guest, every HALF seconds, and some time later on our side
    (ss -K or urds_reset)."""

    def __init__(self, case, urds, every=0.5):
        self.case, self.urds, self.every = case, urds, every
        self.done = {'guest': 0, 'ss': 0, 'reset': 0}
        self.nothing = 0
        # Once started it costs the slow guest nothing; each kill is one write (Lab.kill_guest_connections).
        self.guest = case.net.guest(['sh', '-c', f'while sleep {every}; do echo 4194304 '
                                     '> /proc/sys/net/rds/tcp/rds_tcp_sndbuf; echo killed; done'])

    def ours(self):
        if self.done['ss'] <= self.done['reset']:
            kind, n = 'ss', self.case.net.kill_host_connections('src', host_of(self.case.me))
        else:
            self.urds.signal(signal.SIGUSR1)
            kind, n = 'reset', int(self.urds.wait_line(r'^reset (-?\d+)', 5).group(1))
        if n < 1:
            self.nothing += 1
        else:
            self.done[kind] += 1

    def run(self, kills):
        """Until there were KILLS, or the exchange is over."""
        try:
            while self.total < kills and 'complete' not in self.urds.output:
                self.guest.wait_line('killed', 20)
                self.done['guest'] += 1
                time.sleep(random.uniform(0.1, 0.8) * self.every)
                self.ours()
        except lab.LabError:
            if self.urds.is_running():
                raise
        finally:
            self.guest.stop()

    @property
    def total(self):
        return sum(self.done.values())


def until_enough(attempt):
    """ATTEMPT is given how many times as long it is to be, and returns what it lacked for a verdict, if anything: few connections die
    in time where the machine is busy with something else."""
    for times in 1, 3:
        lacks = attempt(times)
        if not lacks:
            return
        figure(f'not enough for a verdict: {lacks}')
    raise lab.LabError(lacks)


def exchange_with_kills():
    """Verified messages in both directions at once while connections die in the middle of them."""
    exchange_in(the_lab())


def in_qemu():
    """The same beside an emulated PC (QEMU), the other address order and family: another machine, slower."""
    lab.need('qemu')
    with lab.Lab(emulator='qemu', share=[lab.rdspeer_dir()], timeout=1800 if FULL else 600) as net:
        figure(f'QEMU guest up in {net.boot_seconds:.1f} s')
        exchange_in(net, CASES if FULL else [('above', 6)])


def exchange_with_fences():
    """The same where TCP does not say what has arrived, as on Windows: the kernel is asked."""
    exchange_in(the_lab(), CASES if FULL else [('above', 4), ('below', 4)], options=['--no-tcp-acks'])


def exchange_in(net, cases=None, options=()):
    for order, family in cases or CASES:
        until_enough(lambda times: exchange_once(net, order, family, options, times))


def exchange_once(net, order, family, options, times):
    """Returns what did not happen often enough for a verdict."""
    n, big, empty, pairs, kills = (14000, 120, 150, 4, 52) if FULL else (3000, 40, 60, 4, 12)
    n, big, empty = n * times, big * times, empty * times
    c = Case(net, order, family)
    args = ['--send', n, '--recv', n, '--big', big, '--empty', empty, '--pairs', pairs,
            '--seed', random.randrange(1 << 32), '--timeout', 300, '--stall', 30,
            '--sizes', '1-31*30,32-1024*40,1025-16384*25,16385-131072*5']
    path = os.path.join(os.environ.get('LAB_KEEP', lab.temp_dir()), f'kills-{order}-{family}.pcap')
    cap = net.capture(path, 'tcp port 16385')
    net.delay(4)
    start = time.monotonic()
    theirs = c.peer('exchange', *args, timeout=330)
    ours = c.urds('exchange', *args, *options)
    ours.wait_line('ready', 10)
    killer = Killer(c, ours, 0.4)
    killer.run(kills)
    took = time.monotonic() - start
    try:
        got, got2 = verdict(ours, 330), verdict(theirs, 60)
    except lab.LabError:
        # Whose loss it is stands there: were the bytes acknowledged by our TCP, or did the kernel never send them again?
        net.end_capture(cap)
        kept = os.path.join(tempfile.gettempdir(), f'urds-interop-failed-{os.getpid()}.pcap')
        shutil.copy(path, kept)
        print(f'# the capture of it is kept: {kept}')
        raise
    net.delay(0)
    net.end_capture(cap)
    again, said = replays(path)
    mine, kernel = again[c.me, c.kernel], again[c.kernel, c.me]
    figure(f'{c}: {got[0]} sent {got[1]} received, {pairs * big} of 1 MiB and {pairs * empty} empty '
           f'each way; lost 0 duplicated 0 reordered 0 on both sides; kills {killer.done} in '
           f'{took:.1f} s ({killer.nothing} found no connection); RETRANSMITTED ours {mine} '
           f"kernel's {kernel}; {said}")
    assert got[:2] == [n * pairs, n * pairs] == got2[:2]
    if 'LAB_KEEP' not in os.environ:
        os.unlink(path)
    if killer.total < kills:
        return f'only {killer.total} kills before the end'
    need = 25 if FULL else 5
    return None if min(mine, kernel) >= need else f'too few replays seen: ours {mine}, of the kernel {kernel}'


# ---- all to all

class Mesh:
    """Connections that die between each two of three nodes, in the guest, which hits both of its own, and here by ss -K."""

    def __init__(self, net, ends, every):
        self.net, self.ends, self.every = net, ends, every
        self.hits = {name: 0 for name in ends}  # while they had something to say
        self.guest_kills = 0
        self.guest = net.guest(['sh', '-c', f'while echo 4194304 > /proc/sys/net/rds/tcp/rds_tcp_sndbuf; do echo killed; '
                                f'sleep {every}; done'])

    def run(self, programs):
        """Until the one of PROGRAMS that tells for each two nodes has everything, or one has ended."""
        before = self.guest.output.count('killed')

        def at_work():
            return [name for name, p in programs.items() if p.is_running() and 'complete' not in p.output]

        try:
            while names := at_work():
                time.sleep(random.uniform(0.3, 1.2) / len(names) * self.every)
                name = min(names, key=lambda x: (self.hits[x], random.random()))
                a, b = self.ends[name]
                if self.net.kill_host_connections('src', host_of(a), 'and', 'dst', host_of(b)) > 0 and name in at_work():
                    self.hits[name] += 1
        finally:
            self.guest.stop()
            self.guest_kills = self.guest.output.count('killed') - before


def need_windows():
    if not os.path.isfile(URDSPEER_EXE):
        raise lab.Skip('no urdspeer.exe: scripts/check --stage mingw --build makes it, or URDSPEER_EXE names it')
    if not wine.is_there():
        raise lab.Skip('no Wine: scripts/setup check')


def mixed():
    """All to all: urds for Windows under Wine, urds here and the kernel exchange verified messages both ways, each with the two
    others, while connections die.  The three addresses are in each order that there is with the kernel's."""
    need_windows()
    net = the_lab()
    prefix = os.path.join(lab.temp_dir(), 'wine')
    try:
        for order, family in [('above', 4), ('below', 4), ('above', 6), ('below', 6)] if FULL else [('above', 4)]:
            until_enough(lambda times: mixed_in(net, prefix, order, family, times))
    finally:
        wine.end(prefix)


def mixed_in(net, prefix, order, family, times):
    """Returns what did not happen often enough for a verdict."""
    n, big, empty, kills = (10000, 40, 100, 12) if FULL else (2000, 8, 20, 2)
    n, big, empty = n * times, big * times, empty * times
    start = time.monotonic()
    # The kernel's address is between ours, and both talk to the same one.
    here, there = Case(net, order, family), Case(net, 'below' if order == 'above' else 'above', family)
    here.kernel = there.kernel = net.addr(family=family, high=True)
    for c in here, there:
        c.theirs = port_of(c.kernel, c.port)
    args = ['--send', n, '--recv', n, '--big', big, '--empty', empty, '--seed', random.randrange(1 << 32), '--timeout', 600,
            '--stall', 60, '--sizes', '1-31*30,32-1024*40,1025-16384*25,16385-65536*5']

    def node(c, other):
        """The first pair of ports with the kernel, the next one with the other program."""
        return ['exchange', '--local', c.mine, '--peer', c.theirs, '--peer', port_of(other.me, other.port + 1), *args]

    captures = {}
    for dev in 'lab0', 'lo':
        path = os.path.join(os.environ.get('LAB_KEEP', lab.temp_dir()), f'mixed-{dev}-{order}-{family}.pcap')
        captures[path] = net.capture(path, 'tcp port 16385', dev=dev)
    # There is always something on the way.
    net.delay(4)
    net.slow_lo(100)
    mesh = Mesh(net, {'native-kernel': (here.me, here.kernel), 'wine-kernel': (there.me, there.kernel),
                      'native-wine': (here.me, there.me)}, 0.4)
    # It takes its time to start, the first time to make its prefix.
    windows = net.host(wine.argv(prefix, URDSPEER_EXE, node(there, here)), name='urdspeer.exe', files=True,
                       env=wine.env(os.path.join(os.path.dirname(URDSPEER_EXE), '..', '..', 'src', 'lib', 'urds.dll')))
    windows.wait_line('ready', 120)
    native = net.host([URDSPEER, *node(here, there)])
    kernels = [c.peer('exchange', *args, timeout=630) for c in (here, there)]
    native.wait_line('ready', 10)
    ready = time.monotonic()
    mesh.run({'native-kernel': kernels[0], 'wine-kernel': kernels[1], 'native-wine': windows})
    try:
        got = [verdict(p, 630, of) for p, of in
               ((native, f'peer {here.theirs}'), (native, f'peer {port_of(there.me, there.port + 1)}'), (kernels[0], 'done'),
                (windows, f'peer {there.theirs}'), (windows, f'peer {port_of(here.me, here.port + 1)}'), (kernels[1], 'done'))]
    finally:
        took = time.monotonic() - ready
        net.delay(0)
        net.slow_lo(0)
        for p in captures.values():
            net.end_capture(p)
    again, said = collections.Counter(), []
    for path in captures:
        more, text = replays(path)
        again += more
        said.append(text)
        if 'LAB_KEEP' not in os.environ:
            os.unlink(path)
    names = {here.me: 'native', there.me: 'wine', here.kernel: 'kernel'}
    by_name = {f'{names[a]}>{names[b]}': k for (a, b), k in sorted(again.items())}
    figure(f'native {order} the kernel, Wine on the other side, IPv{family}: {n} sent {n} received, {big} of 1 MiB and {empty} empty '
           f'in each of 6 directions; lost 0 duplicated 0 reordered 0 in all; kills in the guest {mesh.guest_kills}, by ss {mesh.hits} '
           f'in {took:.1f} s after {ready - start:.1f} s; RETRANSMITTED {by_name}; {"; ".join(said)}')
    assert got == [[n, n, 0, 0, 0, 0]] * 6, got
    if min(*mesh.hits.values(), mesh.guest_kills) < kills:
        return f'too few kills before the end: {mesh.hits}'
    # A kernel replays little in a short run, so that counts for each two then.
    if len(by_name if FULL else {frozenset(ends) for ends in again}) < (6 if FULL else 3):
        return f'no replays between some: {by_name}'
    return None


# ---- restarts

VERIFIED_SIZES = '32-1024*80,1025-16384*15,16385-65536*5'   # all with a header


class Server:
    """The guest's echo server."""

    def __init__(self, c):
        self.c = c
        self.start()

    def start(self):
        self.proc = self.c.net.peer('serve', self.c.theirs, '--timeout', '3000', timeout=3000)
        self.proc.wait_line('ready', 20)
        self.ready = time.monotonic()


def echo(c, *args):
    p = c.urds('echo', '--sizes', VERIFIED_SIZES, '--seed', random.randrange(1 << 32), '--timeout', 1000, *args)
    p.wait_line('ready', 10)
    return p


def spread(ms):
    return f'median {statistics.median(ms):.0f} ms, worst {max(ms):.0f} ms of {len(ms)}'


def restarts():
    """Our process is killed (SIGKILL) under load and started again: nothing of its new life is lost, and
    the first message comes back within 2 s."""
    net = the_lab()
    runs = 20 if FULL else 4
    for order, family in CASES if FULL else [('below', 4), ('above', 4)]:
        c = Case(net, order, family)
        server = Server(c)
        ms = []
        for i in range(runs // (len(CASES) if FULL else 2)):
            p = echo(c)
            m = p.wait_line(r'^first (\d+) after (\d+) ms', 10)
            ms.append(int(m.group(2)))
            assert m.group(1) == '0', f'run {i}: the first that came back was number {m.group(1)}'
            time.sleep(random.uniform(0.3, 0.8))
            assert 'gap' not in p.output, p.output
            p.signal(signal.SIGKILL)
            p.wait(5)
        p = echo(c, '--count', 3000)
        done = re.search(r'done sent 3000 came 3000 stale (\d+) missing 0 again 0 corrupt 0', p.check(60))
        assert done, p.output
        server.proc.stop()
        figure(f'{c}: our process killed {len(ms)} times: first message back after {spread(ms)}')
        assert max(ms) <= 2000


def reboots():
    """The guest dies and boots again."""
    net = the_lab()
    for k, (order, family) in enumerate(CASES if FULL else [('below', 4), ('above', 4)]):
        c = Case(net, order, family)
        server = Server(c)
        p = echo(c)
        p.wait_line('^first 0 ', 10)
        ms = []
        for _ in range((2 if k == 0 else 1) if FULL else 1):
            time.sleep(1)
            net.reboot()
            server.start()
            m = p.wait_line(r'^back .* at (\d+)', 20)
            ms.append(int(m.group(1)) - server.ready * 1000)
            at = len(p.lines)
            time.sleep(2)
            # What the dead kernel had acknowledged is gone with it; of its new life nothing is.
            more = [x for x in p.lines[at:] if x.startswith(('gap', 'back'))]
            assert len([x for x in more if x.startswith('gap')]) <= 1 and len(more) <= 1, p.output
        p.signal(signal.SIGTERM)
        out = p.check(20)
        figure(f'{c}: guest rebooted {len(ms)} times: first message back {spread(ms)} after its server was '
               f'ready; {out.splitlines()[-1]}')
        assert max(ms) <= 2000
        server.proc.stop()


# ---- stopped

def stopped():
    """Our process stands still under load: its connections stay."""
    net = the_lab()
    seconds = 60 if FULL else 5

    def connections(c):
        return sorted(line.split()[2:4] for line in net.host_connections() if f'{c.me}]' in line or
                      f'{c.me}:' in line)

    for order, family in CASES:
        c = Case(net, order, family)
        args = ['--send', 4000, '--recv', 4000, '--big', 40, '--pairs', 2, '--timeout', 200, '--stall', 90]
        net.delay(2)
        theirs = c.peer('exchange', *args, timeout=250)
        ours = c.urds('exchange', *args)
        ours.wait_line('ready', 10)
        time.sleep(1)
        before = connections(c)
        ours.signal(signal.SIGSTOP)
        time.sleep(seconds)
        assert 'complete' not in ours.output
        after = connections(c)
        ours.signal(signal.SIGCONT)
        time.sleep(0.3)
        assert len(before) == 1 and before == after == connections(c), (before, after, connections(c))
        verdict(ours, 120)
        verdict(theirs, 60)
        net.delay(0)
        resets = counters(ours).get('conn_reset', 0)
        figure(f'{c}: our process stopped for {seconds} s under load: {resets} reconnects; all delivered')
        assert resets == 0


def black_hole():
    """The guest vanishes and comes back."""
    net = the_lab()
    for order, family in CASES:
        for seconds in (10, 35) if FULL else (3,):
            c = Case(net, order, family)
            server = Server(c)
            p = echo(c)
            p.wait_line('^first 0 ', 10)
            time.sleep(1)
            net.pause()
            time.sleep(seconds)
            net.resume()
            resumed = time.monotonic()
            m = p.wait_line(r'^back .* at (\d+)', 60)
            ms = int(m.group(1)) - resumed * 1000
            time.sleep(2)
            p.signal(signal.SIGTERM)
            out = p.check(20)
            resets = counters(p).get('conn_reset', 0)
            server.proc.stop()
            figure(f'{c}: black hole of {seconds} s: {resets} reconnects, flowing {ms:.0f} ms after; '
                   + out.splitlines()[-1])
            assert ' missing 0 again 0 corrupt 0' in out, out
            assert ms <= 2000 and resets <= 1


# ---- cat

def cats():
    """urds cat to and from the guest."""
    net = the_lab()
    size = (100 if FULL else 8) << 20
    d = lab.temp_dir()
    data = random.randbytes(1 << 20) * (size >> 20)
    want = hashlib.sha256(data).hexdigest()
    with open(f'{d}/in', 'wb') as f:
        f.write(data)

    def digest(name):
        with open(f'{d}/{name}', 'rb') as f:
            return hashlib.sha256(f.read()).hexdigest()

    for order, family in CASES:
        c = Case(net, order, family)
        start = time.monotonic()
        recv = net.peer('catrecv', c.theirs, '-o', f'{d}/out1')
        recv.wait_line('ready', 10)
        with open(f'{d}/in', 'rb') as f:
            net.host([URDS, 'cat', '-I', c.me, c.theirs], stdin=f).check(120)
        recv.check(30)
        there = time.monotonic() - start
        start = time.monotonic()
        out = net.host(['sh', '-c', 'exec "$0" cat -v -l "$1" > "$2"', URDS, c.mine, f'{d}/out2'])
        out.wait_line('ready', 10)
        net.peer('catsend', c.mine, '-l', port_of(c.kernel, c.port + 1), '-i', f'{d}/in').check(120)
        out.check(30)
        assert digest('out1') == want and digest('out2') == want
        figure(f'{c}: urds cat {size >> 20} MiB to the kernel in {there:.1f} s, from it in '
               f'{time.monotonic() - start:.1f} s, sha256 equal')


# ---- a pair of kernels of which one becomes urds

def takeover():
    """Two kernels use 8 paths; the address of one goes away, the other queues messages for it on all of them;
    urds takes the address: all arrive.  The kernel has the lower address, so that it connects."""
    ports, count, size = 16, 100, 4000
    with lab.Lab(guests=2, share=[lab.rdspeer_dir()], mem=384) as net:
        a, b = net.addr(1), '192.0.2.210'
        # Attempts to reach nobody shall not take minutes.
        net.run_guest(['sh', '-c', 'echo 1 > /proc/sys/net/ipv4/tcp_syn_retries'])
        net.run_guest(['ip', 'addr', 'add', b + '/24', 'dev', 'eth0'], guest=2)
        net.peer('ping', b, '-I', a, '-c', '5', '--interval', '200').check(30)
        paths = len(set(re.findall(r'^tcp .*', net.peer('info', 'tcp').check(20), re.M)))
        assert paths >= 8, paths
        net.run_guest(['ip', 'addr', 'del', b + '/24', 'dev', 'eth0'], guest=2)
        net.kill_guest_connections(2)
        time.sleep(1)
        floods = [net.peer('flood', '--local', f'{a}:{5000 + i}', '--peer', f'{b}:{5000 + i}', '--size',
                           str(size), '--count', str(count), '--linger', '90') for i in range(ports)]
        for f in floods:
            f.wait_line('ready', 20)
        time.sleep(2)
        net.add_host_addr(b)
        net.run_guest(['ip', 'neigh', 'flush', 'dev', 'eth0'])
        t = time.monotonic()
        sink = net.host([URDSPEER, 'sink', f'{b}:5000', '--pairs', str(ports), '--count', str(ports * count),
                         '--seconds', '60'])
        out = sink.check(90)
        figure(f'{paths} connections between two kernels, then urds in place of one: '
               f'{out.splitlines()[-1]} after {time.monotonic() - t:.1f} s')
        assert f'done received {ports * count} ' in out, out
        for f in floods:
            f.check(30)


if __name__ == '__main__':
    lab.main(pings, exchange_with_kills, exchange_with_fences, mixed, restarts, reboots, stopped, black_hole, cats, in_qemu,
             *([takeover] if FULL or sys.argv[1:] else []))
