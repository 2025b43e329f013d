#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Does rows.txt say what was recorded?

Its rows are those of kernel.md, one by one and word for word; where our answer is another one there is a reason, and what
the reason names is in docs/protocol. With URDS_KERNEL_BEHAVIOUR=FILE kernel.md itself is compared with the table that
the probe printed. Nothing is performed here: rows_test does that.
"""
import os
import re
import sys

root = sys.argv[1]
sys.path.insert(0, os.path.join(root, "tests", "lint"))
sys.dont_write_bytecode = True
import tap  # noqa: E402

KEYS = ("kernel", "kernel-tcp", "do", "ours", "ours-tcp", "why", "not")
PERFORMED_MIN = 60


def read(name):
    with open(os.path.join(root, name), encoding="utf-8") as f:
        return f.read()


def table(text, columns):
    """The cells of the rows of a Markdown table with so many columns, without its head."""
    cells = [re.split(r" \| ", line[2:-2]) for line in text.splitlines() if line.startswith("| ") and line.endswith(" |")]
    return [[c.strip() for c in row] for row in cells if len(row) == columns and row[0] not in ("call", "row")]


def rows():
    """[(number, title, {key: value})] of rows.txt, and what does not belong there."""
    found, wrong, now = [], [], None
    for i, line in enumerate(read("tests/rows/rows.txt").splitlines(), 1):
        if line.startswith("#"):
            continue
        if not line:
            now = None
        elif now is None:
            number, _, title = line.partition(" ")
            now = (number, title, {})
            found.append(now)
        else:
            key, _, value = line.partition(" ")
            if key not in KEYS or key in now[2] or not value:
                wrong.append(f"rows.txt:{i}: {line}")
            now[2][key] = value
    return found, wrong


def references():
    """What a reason may name."""
    known = set(re.findall(r"^\| ([A-E]\d+) \|", read("docs/protocol/pitfalls.md"), re.M))
    known |= set(re.findall(r"^## ([FG])\.", read("docs/protocol/pitfalls.md"), re.M))
    known |= set(re.findall(r"\*\*(W\d+)\.?\*\*", read("docs/protocol/wire.md")))
    known |= {"R" + n for n in re.findall(r"^\| (\d+) \|", read("docs/protocol/requirements.md"), re.M)}
    known |= {"S" + n for n in re.findall(r"^## (\d+)\.", read("docs/protocol/semantics.md"), re.M)}
    return known


def unlike_the_record(mine, recorded):
    for number, title, row in mine:
        if number not in recorded:
            yield f"{number}: no such row in kernel.md"
            continue
        call, loop, tcp = recorded[number]
        if title != call:
            yield f"{number}: \"{title}\" is \"{call}\" in kernel.md"
        if row.get("kernel") != loop:
            yield f"{number}: kernel: \"{row.get('kernel')}\" is \"{loop}\" in kernel.md"
        if row.get("kernel-tcp", "same") != tcp:
            yield f"{number}: kernel-tcp: \"{row.get('kernel-tcp', 'same')}\" is \"{tcp}\" in kernel.md"


def unjustified(mine, known):
    for number, _, row in mine:
        if ("do" in row) == ("not" in row):
            yield f"{number}: either do or not"
        if ("ours" in row) != ("why" in row) or ("ours-tcp" in row and "ours" not in row):
            yield f"{number}: an answer of ours without a reason, or a reason without one"
        if "ours" not in row:
            continue
        loop, tcp = row.get("kernel"), row.get("kernel-tcp", row.get("kernel"))
        if row["ours"] == loop and row.get("ours-tcp", row["ours"]) == tcp:
            yield f"{number}: our answer is the kernel's"
        name = re.match(r"([A-Z]\d*)\b", row.get("why", ""))
        if not name or name.group(1) not in known:
            yield f"{number}: \"{row.get('why')}\" does not begin with what docs/protocol names"


mine, wrong = rows()
copy = table(read("tests/rows/kernel.md"), 4)
recorded = {r[0]: r[1:] for r in copy}
performed = sum("do" in row for _, _, row in mine)

tap.case("table__can_be_read", wrong)
tap.case("table__has_each_row_of_the_record_once_and_in_its_order",
         [] if [n for n, _, _ in mine] == [r[0] for r in copy] == [f"K{i:03}" for i in range(1, len(copy) + 1)]
         else [f"rows.txt: {len(mine)} rows, kernel.md: {len(copy)}, or in another order"])
tap.case("table__kernel_column_is_the_record", unlike_the_record(mine, recorded))
tap.case("table__differences_are_justified", unjustified(mine, references()))
tap.case("table__enough_is_performed",
         [] if performed >= PERFORMED_MIN else [f"{performed} rows, {PERFORMED_MIN} are meant"])
original = os.environ.get("URDS_KERNEL_BEHAVIOUR")
if original:
    with open(original, encoding="utf-8") as f:
        printed = table(f.read(), 3)
    tap.case("record__is_what_the_probe_printed",
             [f"{a} and {b}" for a, b in zip(printed, [r[1:] for r in copy]) if a != b]
             + ([] if len(printed) == len(copy) else [f"{len(printed)} rows printed, {len(copy)} kept"]))
print(f"# {performed} rows performed, {sum('ours' in row for _, _, row in mine)} of them with another answer, "
      f"{sum('not' in row for _, _, row in mine)} listed with the reason why not")
tap.done()
