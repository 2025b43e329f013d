# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Does lab.py do what it says?  Reboot, pause, killed connections, capture; two guests as the two
kernels.  Prints what it measures.  Arguments: the names of the tests to run."""

import os
import re
import time

import lab


def note(text):
    print('# ' + text, flush=True)


def exchange(net, n, pairs=1, port=4000, extra=()):
    """Verified messages between guests 1 and 2.  Returns the two programs."""
    common = ['--send', n, '--recv', n, '--pairs', pairs, '--seed', port, '--timeout', 100, *extra]
    ends = [(1, net.addr(1), net.addr(2)), (2, net.addr(2), net.addr(1))]
    return [net.peer('exchange', '--local', f'{a}:{port}', '--peer', f'{b}:{port}', *common, guest=g)
            for g, a, b in ends]


def verdict(p, timeout=120):
    status = p.wait(timeout)
    m = p.wait_line(r'done sent (\d+) received (\d+) lost (\d+) duplicated (\d+) reordered (\d+) '
                    r'corrupt (\d+)', 5, from_start=True)
    return status, [int(x) for x in m.groups()]


def two_guests():
    with lab.Lab(guests=2, share=[lab.rdspeer_dir()], mem=384) as net:
        note(f'two guests up in {net.boot_seconds:.1f} s')
        # Two kernels that meet lose messages while they settle on their 8 connections (README.md).
        net.peer('ping', net.addr(2), '-c', '3', '--interval', '300').check(30)
        for p in exchange(net, 500, extra=['--big', '10', '--empty', '30']):
            p.wait_line('complete', 60)
            assert verdict(p) == (0, [500, 500, 0, 0, 0, 0]), p.output
        net.run_guest(['true'])

        # Connections die between messages.
        for kind in ('guest 1', 'guest 2'):
            net.kill_guest_connections(int(kind[-1]))
            t = time.monotonic()
            out = net.peer('ping', net.addr(2), '-c', '1', guest=1).check(30)
            note(f'{kind} dropped its connections: first ping {re.search("usec .*", out).group()}, '
                 f'{time.monotonic() - t:.2f} s with the start of the program')

        assert net.counters()['conn_reset'] > 0


def capture_and_kill():
    with lab.Lab(share=[lab.rdspeer_dir()]) as net:
        path = os.path.join(lab.temp_dir(), 'lab0.pcap')
        cap = net.capture(path, 'tcp port 16385')
        me = net.host_addr(above=True)
        # The kernel has the lower address, so it connects to us; a listener is enough here.
        listener = net.host(['python3', '-c', LISTENER, me])
        listener.wait_line('ready', 10)
        ping = net.peer('ping', me, '-I', net.addr(), '--stall', '3')
        listener.wait_line('connection', 10)
        lab.wait_until(net.host_connections, 5, 'a connection of ours')
        t = time.monotonic()
        n = net.kill_host_connections()
        listener.wait_line('connection', 10)
        note(f'{n} connections killed on our side, kernel connected again after '
             f'{time.monotonic() - t:.3f} s, with the killing')
        t = time.monotonic()
        net.kill_guest_connections()
        listener.wait_line('connection', 10)
        note(f'killed in the guest: connected again after {time.monotonic() - t:.3f} s, with the killing')
        ping.stop()
        net.end_capture(cap)
        assert os.path.getsize(path) > 500
        assert n >= 1


LISTENER = '''
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((sys.argv[1], 16385))
s.listen(64)
print('ready', flush=True)
kept = []
while True:
    kept.append(s.accept()[0])
    print('connection', flush=True)
'''


def reboot_and_pause():
    with lab.Lab(share=[lab.rdspeer_dir()]) as net:
        def answers():
            return net.host(['busybox', 'ping', '-c', '1', '-W', '1', net.addr()]).wait(10) == 0
        assert answers()
        net.pause()
        assert not answers()
        net.resume()
        assert answers()
        sink = net.peer('sink', f'{net.addr()}:4000')
        sink.wait_line('ready', 10)
        note(f'reboot took {net.reboot():.2f} s')
        assert sink.wait(10) == 125  # its guest is gone
        assert answers()
        assert 'conn_reset' in net.counters()  # the share is there again
        high = net.addr(high=True)
        low = net.host_addr(above=False)
        net.run_host(['busybox', 'ping', '-c', '1', '-W', '1', '-I', low, high])
        six = net.host_addr(family=6)
        net.run_host(['busybox', 'ping', '-6', '-c', '1', '-W', '2', '-I', six, net.addr(family=6)])


def nothing_is_left():
    with lab.Lab() as net:
        name = net.name
        net.host(['sleep', '1000'], name='left')
        net.guest(['sleep', '1000'])
    out = os.popen('ps -eo pid,args').read()
    assert name not in out, out
    assert not os.path.exists(f'/run/netns/{name}')


lab.main(two_guests, capture_and_kill, reboot_and_pause, nothing_is_left)
