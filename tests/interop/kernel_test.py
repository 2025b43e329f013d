# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""urds against the Linux kernel's RDS, in a lab: messages both ways while connections die, restarts of
either side, stopped processes, black holes, the tools.

    kernel_test.py [TEST...]      a short run: one address order and one family
    URDS_INTEROP=full             both orders, IPv4 and IPv6, and the long counts

$URDSPEER, $URDS and $PCAP_REENCODE are the programs of this build.  Lines "# figure ..." say what was
measured.
"""

import hashlib
import os
import random
import re
import signal
import statistics
import subprocess
import time

import lab

FULL = os.environ.get('URDS_INTEROP') == 'full'
BUILD = os.path.join(lab.HERE, '..', '..', 'build')
URDSPEER = os.environ.get('URDSPEER', os.path.join(BUILD, 'tests', 'interop', 'urdspeer'))
URDS = os.environ.get('URDS', os.path.join(BUILD, 'tools', 'urds'))
REENCODE = os.environ.get('PCAP_REENCODE', os.path.join(BUILD, 'tests', 'interop', 'pcap_reencode'))

# Our side of the address order ("above": the kernel is the one to connect) and the family.
CASES = [('below', 4), ('above', 4), ('below', 6), ('above', 6)] if FULL else [('below', 4)]


def figure(text):
    print(f'# figure {text}', flush=True)


def port_of(addr, port):
    return f'[{addr}]:{port}' if ':' in addr else f'{addr}:{port}'


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


def program_pid(proc, name):
    """The process itself, below "ip netns exec" (which becomes it)."""
    return proc.popen.pid


def verdict(p, timeout):
    status = p.wait(timeout)
    m = p.wait_line(r'done sent (\d+) received (\d+) lost (\d+) duplicated (\d+) reordered (\d+) '
                    r'corrupt (\d+)', 5, from_start=True)
    got = [int(x) for x in m.groups()]
    if status != 0 or got[2:] != [0, 0, 0, 0]:
        tail = '\n'.join(p.lines[-25:])
        raise lab.LabError(f'{p.name}: exit status {status}\n{tail}')
    return got


def counters(p):
    return {m.group(1): int(m.group(2)) for m in
            (re.match(r'counter (\S+) (\d+)', line) for line in p.lines) if m}


def retransmitted(path, me):
    """RETRANSMITTED frames in a capture: (ours, theirs)."""
    n = {True: 0, False: 0}
    p = subprocess.Popen([REENCODE, '--dump', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True)
    for line in p.stdout:
        w = line.split(' ', 3)
        if ' flags=04 ' in w[3] or ' flags=06 ' in w[3]:
            n[w[1].startswith((me + ':', f'[{me}]:'))] += 1
    err = p.stderr.read()
    assert p.wait() == 0, err
    return n[True], n[False], err.strip()


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


def delay(net, ms):
    """Everything the guest sends comes MS later: so that there is always something on the way."""
    how = f'add dev eth0 root netem delay {ms}ms limit 10000' if ms else 'del dev eth0 root'
    net.run_guest(['sh', '-c', f'tc qdisc {how}'])


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
            kind, n = 'ss', self.case.net.kill_host_connections('src', self.case.me)
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


def exchange_with_kills():
    """Verified messages in both directions at once while connections die in the middle of them."""
    net = the_lab()
    n, big, empty, pairs, kills = (9000, 90, 150, 4, 56) if FULL else (3000, 40, 60, 4, 12)
    for order, family in CASES:
        c = Case(net, order, family)
        args = ['--send', n, '--recv', n, '--big', big, '--empty', empty, '--pairs', pairs,
                '--seed', random.randrange(1 << 32), '--timeout', 300, '--stall', 30,
                '--sizes', '1-31*30,32-1024*40,1025-16384*25,16385-131072*5']
        path = os.path.join(lab.temp_dir(), 'kills.pcap')
        cap = net.capture(path, 'tcp port 16385')
        delay(net, 4)
        start = time.monotonic()
        theirs = c.peer('exchange', *args, timeout=330)
        ours = c.urds('exchange', *args)
        ours.wait_line('ready', 10)
        killer = Killer(c, ours)
        killer.run(kills)
        took = time.monotonic() - start
        got, got2 = verdict(ours, 330), verdict(theirs, 60)
        delay(net, 0)
        net.end_capture(cap)
        mine, kernel, said = retransmitted(path, c.me)
        figure(f'{c}: {got[0]} sent {got[1]} received, {pairs * big} of 1 MiB and {pairs * empty} empty '
               f'each way; lost 0 duplicated 0 reordered 0 on both sides; kills {killer.done} in '
               f'{took:.1f} s ({killer.nothing} found no connection); RETRANSMITTED ours {mine} '
               f"kernel's {kernel}; {said}")
        assert got[:2] == [n * pairs, n * pairs] == got2[:2]
        assert killer.total >= kills, f'only {killer.total} kills before the end'
        assert mine >= kills / 2 and kernel >= kills / 2, 'too few replays seen'
        os.unlink(path)


if __name__ == '__main__':
    lab.main(pings, exchange_with_kills)
