#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Includes point one way: each layer names only the layers that it may know."""
import os
import re
import sys

import tap

# layer: what its files may include, itself aside. "urds" is the public API, include/urds/.
MAY_KNOW = {
    "wire": (),
    "core": ("wire",),
    "platform": ("wire",),
    "transport": ("wire", "platform"),
    "ipc": ("wire", "platform"),
    "runtime": ("wire", "core", "transport", "platform"),
    "lib": ("wire", "platform", "runtime", "ipc", "urds"),
    "daemon": ("wire", "platform", "runtime", "ipc", "urds"),
    "shim": ("urds",),
    "tools": ("urds",),
    "examples": ("urds",),
    "urds": (),
    "sim": ("wire", "core"),
}
# One list of errors, and of what happens to peers, serves inside and outside.
SHARED = {"include/urds/errno.h", "include/urds/peer.h"}
# wire/ and core/ compute; whatever else they name would be a door to the system.
PURE = ("wire", "core")
PURE_SYSTEM = {"assert.h", "inttypes.h", "limits.h", "stdalign.h", "stdatomic.h", "stdbool.h", "stddef.h",
               "stdint.h", "stdlib.h", "string.h"}

root = sys.argv[1]
names = [n for n in tap.tracked(root) if n.endswith((".c", ".h"))]
known = set(names)


def layer_of(name):
    parts = name.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ["include", "urds"]:
        return "urds"
    return parts[0] if len(parts) > 1 and parts[0] in ("daemon", "shim", "tools", "examples", "sim") else None


def resolve(name, target):
    """The file of the tree that #include "target" in name stands for, or None."""
    for base in (os.path.dirname(name), "src", "include"):
        path = os.path.normpath(os.path.join(base, target))
        if path in known:
            return path
    return None


complaints = {layer: [] for layer in MAY_KNOW}
strays = []
for name in names:
    layer = layer_of(name)
    if layer is None:
        continue
    if layer not in MAY_KNOW:
        strays.append(f"{name}: {layer}/ is not a layer that tests/lint/layers.py knows")
        continue
    for i, line in enumerate(tap.text(root, name).splitlines(), 1):
        m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not m:
            continue
        target = resolve(name, m.group(2)) if m.group(1) == '"' or m.group(2).startswith("urds/") else None
        if target is None:
            if layer in PURE and m.group(2) not in PURE_SYSTEM:
                complaints[layer].append(f"{name}:{i}: {m.group(2)}: {layer}/ includes nothing of the system")
            continue
        if target in SHARED:
            continue
        other = layer_of(target)
        if other != layer and other not in MAY_KNOW[layer]:
            complaints[layer].append(f"{name}:{i}: {layer}/ does not include {other or 'tests'}/ ({target})")

for layer in MAY_KNOW:
    if any(layer_of(n) == layer for n in names):
        tap.case(f"layers__{layer}_knows_only_what_is_below", complaints[layer])
tap.case("layers__every_folder_is_a_layer", strays)
tap.done()
