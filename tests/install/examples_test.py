#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The examples, as installed: their Makefile builds them by what pkg-config says, and every client knows every server."""
import os
import shutil

from stagedtest import ROOT, STRICT, run, staged, t

SERVER, CLIENT, PORT = "127.13.0.1", "127.13.0.2", 4000
SERVERS = "echo_server", "echo_server_poll"
CLIENTS = "echo_client", "echo_client_poll"
check = t.check


def program(name):
    """Its path; the first call builds them all."""
    folder = os.path.join(t.tempdir(), "examples")
    if not os.path.exists(folder):
        installed = staged().folders_of("echo_server.c")
        check(len(installed) == 1, "not installed once:", installed)
        shutil.copytree(installed[0], folder)
        rc, out = run("make", "-C", folder, "CFLAGS=" + " ".join(["-std=c99", "-O2", *STRICT]), env=staged().env)
        check(rc == 0, out)
    return os.path.join(folder, name)


def start(name, *args):
    return t.Proc(*args, name=program(name), env=staged().run_env())


def serve(name):
    s = start(name, SERVER)
    s.expect("^ready$")
    return s


def talk(client, count):
    c = start(client, CLIENT, SERVER, count)
    check(c.end() == 0 and c.out == f"{count} messages and their echoes" and not c.err, c)


def pairs(f):
    for server in SERVERS:
        for client in CLIENTS:
            try:
                f(server, client)
            except t.Failed as e:
                raise t.Failed(f"{client} to {server}:\n{e}") from None
            finally:
                for p in t.procs:
                    p.stop()


def test_every_client_with_every_server():
    def one(server, client):
        s = serve(server)
        talk(client, 1000)
        talk(client, 1)  # the server goes on, and its new client is another process at the old address
        check(s.p.poll() is None and not s.err, s)
    pairs(one)


def test_more_messages_than_any_buffer_holds():
    """20000 are more than a congested port and a full send buffer take, so the event loops have to wait for both."""
    def one(server, client):
        serve(server)
        talk(client, 20000)
    pairs(one)


def test_servers_bear_a_client_that_does_not_read():
    hoarder = program("hoarder")
    rc, flags = staged().pkg_config("--cflags", "--libs")
    check(rc == 0, flags)
    rc, out = run("cc", *STRICT, "-I", os.path.dirname(hoarder), os.path.join(ROOT, "tests/install/hoarder.c"),
                  "-o", hoarder, *flags.split())
    check(rc == 0, out)
    for server in SERVERS:
        s = serve(server)
        c = start("hoarder", CLIENT, SERVER)
        c.expect("^stuck$")
        check(c.end() == 0, c)
        c.expect("^all [0-9]+$")
        talk("echo_client", 10)
        s.stop()


def test_a_client_waits_for_its_server():
    def one(server, client):
        c = start(client, CLIENT, SERVER, 10)
        # Its first message lies in its queue: the address has no owner.
        t.until(lambda: f" {SERVER} {PORT} " in " ".join(t.run("info", "-s").out.split()), f"{c} queues nothing")
        check(c.p.poll() is None, c)
        serve(server)
        check(c.end() == 0 and c.out == "10 messages and their echoes", c)
    pairs(one)


def test_a_second_server_is_told_who_has_the_address():
    first = serve("echo_server")
    for name in SERVERS:
        s = start(name, SERVER)
        check(s.end() == 1 and SERVER in s.err and str(first.pid) in s.err, s)


def test_usage():
    for name, words in [(n, ()) for n in SERVERS + CLIENTS] + [("echo_client", (CLIENT, "nowhere", 1)),
                                                               ("echo_client_poll", (CLIENT, SERVER, 0))]:
        p = start(name, *words)
        check(p.end() == 2 and p.err.startswith("usage: "), p)


def test_each_is_short():
    for name in SERVERS + CLIENTS:
        with open(os.path.join(ROOT, "examples", name + ".c")) as f:
            check(len(f.readlines()) <= 60, f"{name}.c is longer than 60 lines")


t.main(globals())
