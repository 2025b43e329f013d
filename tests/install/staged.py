# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `meson install` leaves, in a folder of its own, and how programs are built against it."""
import os
import subprocess


def run(*args, **kw):
    p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                       timeout=120, **kw)
    return p.returncode, p.stdout


class Staged:
    """problem: what meson said if it failed. pc: the pkg-config files found; with exactly one, env is what pkg-config needs."""

    def __init__(self, build, into):
        self.into = into
        rc, out = run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", into)
        self.problem = out if rc else ""
        self.pc = self.folders_of("urds.pc")
        if len(self.pc) != 1:
            return
        self.env = dict(os.environ, PKG_CONFIG_PATH=self.pc[0])
        with open(os.path.join(self.pc[0], "urds.pc")) as f:
            if "prefix=${pcfiledir}" not in f.read().replace(" ", ""):
                self.env["PKG_CONFIG_SYSROOT_DIR"] = into

    def folders_of(self, name):
        return [d for d, _, files in os.walk(self.into) if name in files]

    def pkg_config(self, *args):
        return run("pkg-config", *args, "urds", env=self.env)

    def run_env(self):
        """The environment of a program that was built against it."""
        return dict(self.env, LD_LIBRARY_PATH=self.folders_of("liburds.so")[0])
