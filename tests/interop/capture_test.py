# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Our traffic with the kernel against captures of kernels among themselves: every frame of ours must decode
and encode again to the byte, and be one that a kernel could send; every difference in how frames and
connections are used must be one that a numbered rule of the wire rules (docs/protocol) demands.  Prints
the differences with their numbers; fails on any other.

    capture_test.py [FILE OUR-ADDRESS]     a new capture, in both roles, with and without the urds extension
                                           (or an old one)
"""

import glob
import ipaddress
import os
import random
import re
import signal
import subprocess
import sys
import time

import lab

BUILD = os.path.join(lab.HERE, '..', '..', 'build')
URDSPEER = os.environ.get('URDSPEER', os.path.join(BUILD, 'tests', 'interop', 'urdspeer'))
URDS = os.environ.get('URDS', os.path.join(BUILD, 'tools', 'urds'))
REENCODE = os.environ.get('PCAP_REENCODE', os.path.join(BUILD, 'tests', 'interop', 'pcap_reencode'))
VECTORS = os.path.join(lab.HERE, '..', 'vectors')

WHY = {
    'W2': 'sequence numbers begin at the time of day, so that a restart never meets old counters',
    'W4': 'congestion maps on path 0 only (kernels: on any path)',
    'W5': 'probes offer no more than 1 path (kernels: 8), said only as the lower address, and announce that source '
          'ports name the path (SPORT_IDX)',
    'W5 port': 'connections come from source ports whose value modulo 8 is the path',
    'W8': 'a connection that we make as the higher address carries nothing and is closed, and made again '
          'while something waits',
    'W9': 'on a connection that we make nothing but a probe goes out before the other end has spoken',
    'W9 uncertain': '... flagged, while messages may or may not have arrived',
    'W10': 'a connection that we end is shut down, read to its end, and then closed',
    '15': 'probes carry the urds extension',
}


class Frame:
    def __init__(self, line):
        w = line.split()
        kv = dict(x.split('=', 1) for x in w[5:] if '=' in x)
        self.time, self.src, self.dst, self.kind = float(w[0]), w[1], w[2], w[4]
        self.seq, self.ack, self.len = int(kv['seq']), int(kv['ack']), int(kv['len'])
        self.sport, self.dport = (int(x) for x in kv['ports'].split('>'))
        self.flags, self.ext = int(kv['flags'], 16), kv['ext']
        self.odd = [k for k in ('credit', 'csum', 'pad') if k in kv]

    def shape(self, ext=None):
        """What a frame looks like, apart from its numbers.  Any message may be sent again."""
        def port(p):
            return p if p < 2 else 'P'
        sequenced = self.kind != 'map'
        return (self.kind, self.seq > 0, self.ack > 0, port(self.sport), port(self.dport),
                'map' if self.len == 8192 and not sequenced else self.len > 0,
                self.flags & ~4 if sequenced else self.flags, self.ext if ext is None else ext)


def frames(path):
    p = subprocess.run([REENCODE, '--dump', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode != 0:
        raise lab.LabError(f'{os.path.basename(path)} does not encode to what it was: {p.stderr.strip()}')
    return [Frame(x) for x in p.stdout.splitlines()], p.stderr.strip()


class Segments:
    """Beginnings and ends of connections in a capture: time, source, destination, flags."""

    def __init__(self, path):
        out = subprocess.run(['tcpdump', '-nn', '-tt', '-r', path, 'port 16385'], check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        self.all, zero = [], None
        for line in out.splitlines():
            m = re.match(r'(\S+) IP6? (\S+)\.(\d+) > (\S+)\.(\d+): Flags \[(\S+)\].* length (\d+)', line)
            if not m:
                continue
            zero = float(m.group(1)) if zero is None else zero
            self.all.append((float(m.group(1)) - zero, self.addr(m.group(2), m.group(3)),
                             self.addr(m.group(4), m.group(5)), m.group(6), int(m.group(7))))

    @staticmethod
    def addr(host, port):
        return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def kernel_shapes():
    shapes = set()
    for path in sorted(glob.glob(f'{VECTORS}/tcp-*.pcap.gz')):
        shapes |= {f.shape() for f in frames(path)[0]}
    assert len(shapes) >= 6, 'where are the captures of kernels?'
    return shapes


NPATHS_8, NPATHS_1, SPORT_IDX = '050008', '050001', '0800'


def differences(path, me, with_ext):
    """{rule: how often}; raises LabError for what no rule explains."""
    all_frames, said = frames(path)
    found, bad = {}, []

    def rule(name):
        found[name] = found.get(name, 0) + 1

    def is_me(endpoint):
        return endpoint.startswith((me + ':', f'[{me}]:'))

    ours = [f for f in all_frames if is_me(f.src)]
    theirs = [f for f in all_frames if not is_me(f.src)]
    if not ours or not theirs:
        raise lab.LabError(f'{said}: nothing of one side')
    shapes = kernel_shapes() | {f.shape() for f in theirs}
    other = (theirs[0].src.rsplit(':', 1)[0]).strip('[]')
    is_higher = ipaddress.ip_address(me) > ipaddress.ip_address(other)

    # 1. Frame by frame.
    for f in ours:
        if f.odd or f.len > 1 << 20:
            bad.append(f'a frame with {f.odd or f.len}: {vars(f)}')
        if f.shape() in shapes:
            continue
        ext = f.ext
        if f.kind in ('probe', 'answer') and not is_higher:
            if not ext.startswith(NPATHS_1):
                bad.append(f'as the lower address we did not say that we have one path: {vars(f)}')
            ext = ext.removeprefix(NPATHS_1)
        if with_ext and re.fullmatch(SPORT_IDX + '2000' + '01' + '[0-9a-f]{0,16}', ext):
            rule('15')
            ext = SPORT_IDX
        if ext in (SPORT_IDX, SPORT_IDX[:2]) and f.kind in ('probe', 'answer'):
            rule('W5')
            ext = NPATHS_8
        if f.shape(ext) not in shapes:
            bad.append(f'no kernel sends this: {vars(f)}')

    # 2. Connection by connection.
    seg = Segments(path)
    conns = {}
    for t, src, dst, flags, length in seg.all:
        key = (src, dst) if 'S' in flags and '.' not in flags else None
        if key and key not in conns:
            conns[key] = {'at': t, 'made_by_us': is_me(src), 'ours': [], 'theirs': [], 'segs': []}
        c = conns.get((src, dst)) or conns.get((dst, src))
        if c:
            c['segs'].append((t, is_me(src), flags, length))
    for f in all_frames:
        c = conns.get((f.src, f.dst)) or conns.get((f.dst, f.src))
        if c:
            c['ours' if is_me(f.src) else 'theirs'].append(f)

    we_dial = [c for c in conns.values() if c['made_by_us'] and c['ours']]
    first_seqs = [f.seq for f in ours if f.seq and not f.flags & 4]
    if first_seqs and first_seqs[0] > 1 << 56:
        rule('W2')
    used = [c for c in conns.values() if c['ours']]
    if any(f.kind == 'map' for f in ours):
        rule('W4')
    last_seq = 0
    for (src, _), c in conns.items():
        if not any('S.' in flags for _, _, flags, _ in c['segs']):
            continue  # refused: nobody listens
        if c['made_by_us'] and not c['ours']:
            if any(us and length for _, us, _, length in c['segs']):
                bad.append(f'{src}: bytes on a connection that was a knock')
            if is_higher:
                rule('W8')
            continue
        if c['made_by_us']:
            if int(src.rsplit(':', 1)[1]) % 8 != 0:
                bad.append(f'{src}: source port is not that of path 0')
            rule('W5 port')
            # Their first bytes, not the end of their first frame: it is a map of several packets.
            heard = min([t for t, us, _, length in c['segs'] if not us and length], default=float('inf'))
            before = [f.kind for f in c['ours'] if f.time < heard]
            if before not in ([], ['probe']):
                bad.append(f'{src}: {before} before the other end had spoken')
            if before:
                rule('W9 uncertain' if c['ours'][0].flags & 4 else 'W9')
        # Ends: our FIN, then theirs, then nothing; a RST of ours would throw bytes away.
        fin_us = [t for t, us, flags, _ in c['segs'] if us and 'F' in flags]
        fin_they = [t for t, us, flags, _ in c['segs'] if not us and ('F' in flags or 'R' in flags)]
        rst_us = [t for t, us, flags, _ in c['segs'] if us and 'R' in flags]
        if rst_us and not fin_they:
            bad.append(f'{src}: we reset it before the other end had ended')
        if fin_us and (not fin_they or fin_us[0] < fin_they[0]):
            rule('W10')
        # New messages go up, replayed ones repeat numbers.
        for f in c['ours']:
            if f.kind == 'map' or f.flags & 4:
                continue
            if f.kind == 'probe' and f is c['ours'][0]:
                continue  # its number is that of the last message the peer has
            if f.seq <= last_seq:
                bad.append(f'{src}: sequence {f.seq} after {last_seq} without RETRANSMITTED')
            last_seq = max(last_seq, f.seq)
    if not used:
        bad.append('no connection from its beginning')
    text = '\n'.join(bad[:10])
    if bad:
        raise lab.LabError(f'{len(bad)} unexplained differences, {said}:\n{text}')
    return found, said, len(ours), sum(f.flags & 4 > 0 for f in ours), len(we_dial)


def report(name, result):
    found, said, ours, again, _ = result
    print(f'# {name}: {said}; {ours} frames of ours, {again} RETRANSMITTED')
    for k in WHY:
        if k in found:
            print(f'#   {k}: {WHY[k]} ({found[k]})')
    sys.stdout.flush()


def captures():
    with lab.Lab(share=[lab.rdspeer_dir()], mem=384) as net:
        for port, (order, ext) in enumerate([('below', True), ('above', True), ('below', False),
                                             ('above', False)], 4000):
            me, kernel = net.host_addr(above=order == 'above'), net.addr(high=order == 'below')
            path = os.path.join(os.environ.get('LAB_KEEP', lab.temp_dir()), f'{order}-{ext}.pcap')
            cap = net.capture(path, 'tcp port 16385')
            args = ['--send', 5000, '--recv', 5000, '--big', 20, '--empty', 40, '--pairs', 2,
                    '--timeout', 60, '--seed', random.randrange(1 << 32)]
            mine, theirs = f'{me}:{4000 + 10 * port}', f'{kernel}:{4000 + 10 * port}'
            a = net.host([URDSPEER, 'exchange', '--local', mine, '--peer', theirs, *map(str, args),
                          *([] if ext else ['--no-ext'])])
            a.wait_line('ready', 10)
            b = net.peer('exchange', '--local', theirs, '--peer', mine, *map(str, args))
            b.wait_line('ready', 20)
            net.delay(3)
            for i in range(4):
                time.sleep(random.uniform(0.05, 0.2))
                if 'complete' in a.output:
                    break
                a.signal(signal.SIGUSR1) if i % 2 else net.kill_guest_connections()
            a.check(70)
            b.check(70)
            net.delay(0)
            net.end_capture(cap)
            result = differences(path, me, ext)
            report(f'urds {order}, extension {"on" if ext else "off"}', result)
            must = {'W2', 'W4', 'W5', 'W10'} | ({'15'} if ext else set())
            must |= {'W9', 'W5 port'} if order == 'below' else {'W8'}
            missing = must - set(result[0])
            assert not missing, f'not seen in this capture: {missing}'
            assert order == 'below' or result[4] == 0, 'as the higher address we sent on a connection of ours'


if __name__ == '__main__':
    if len(sys.argv) == 3 and os.path.exists(sys.argv[1]):
        report(sys.argv[1], differences(sys.argv[1], sys.argv[2], True))
    else:
        lab.main(captures)
