#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The manual pages: every public name has one, their references lead somewhere, mandoc has nothing to say, and what they
show of the interface, prototypes and examples, is what the headers say."""
import os
import re
import shlex
import shutil
import subprocess
import sys

import tap

source = sys.argv[1]
cc = sys.argv[2:]
FOLDER = "docs/man/"
HEADERS = ("urds.h", "owner.h", "peer.h", "errno.h", "log.h")
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# Of layout, in the pages of section 1 only.
LAYOUT = ("input text line longer than 80 bytes", "new sentence, new line")

names = [n[len(FOLDER):] for n in tap.tracked(source) if n.startswith(FOLDER) and re.search(r"\.\d$", n)]
pages = {n: tap.text(source, FOLDER + n) for n in names}
library = {n: t for n, t in pages.items() if n.endswith(".3")}


def section(text, title):
    m = re.search(rf"^\.Sh {title}\n(.*?)(?=^\.Sh |\Z)", text, re.M | re.S)
    return m.group(1) if m else ""


def unquote(roff):
    """A line of a literal block as it is printed."""
    return roff.replace(r"\e", "\\").replace(r"\-", "-").replace(r"\&", "")


def examples(text):
    """C sources shown under EXAMPLES; what begins with a prompt is for a shell."""
    for block in re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed$", section(text, "EXAMPLES"), re.M | re.S):
        if not block.startswith("$ "):
            yield unquote(block)


def prototypes(text):
    """(name, declaration in C) of each function in SYNOPSIS."""
    for kind, name, rest in re.findall(r"^\.Ft (.+)\n\.Fn (\w+) (.*)$", section(text, "SYNOPSIS"), re.M):
        yield name, f"{kind} {name}({', '.join(shlex.split(rest))});\n"


def included(text):
    return "".join(f"#include <{h}>\n" for h in re.findall(r"^\.In (\S+)$", section(text, "SYNOPSIS"), re.M))


def compiled(what, c):
    """Complaints of the compiler."""
    p = subprocess.run([*cc, *STRICT, "-I", os.path.join(source, "include"), "-x", "c", "-"], input=c, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return [f"{what}: {line}" for line in p.stdout.splitlines()] or ([what] if p.returncode else [])


def missing(name, program):
    if shutil.which(program):
        return False
    tap.skip(name, f"{program} is missing: scripts/setup check installs it")
    return True


exported = re.findall(r"^\t(urds_\w+);$", tap.text(source, "src/lib/urds.map"), re.M)
build = tap.text(source, FOLDER + "meson.build") + tap.text(source, "tools/meson.build")
links = dict(re.findall(r"'([\w-]+\.\d)': '([\w-]+\.\d)'", build))
installed = {os.path.basename(n) for call in re.findall(r"install_man\((.*?)\)", build, re.S)
             for n in re.findall(r"'([^']+)'", call)}
found = installed | set(links)
shown = [name for text in library.values() for name, _ in prototypes(text)]

tap.case("functions__each_has_a_prototype_on_one_page",
         [f"no page of section 3 shows {n}()" for n in sorted(set(exported) - set(shown))] +
         [f"{n}() is shown, and not exported" for n in sorted(set(shown) - set(exported))] +
         [f"{n}() is shown twice" for n in sorted(set(shown)) if shown.count(n) > 1])
tap.case("functions__each_is_found_by_its_name",
         [f"{n}.3 is neither a page nor a link" for n in exported if f"{n}.3" not in found])
tap.case("pages__all_are_installed", [f"{n}: no install_man() names it" for n in sorted(set(pages) - installed)])
tap.case("links__are_names_of_their_page",
         [f"{link} leads to {page}, which is not there" for link, page in links.items() if page not in pages] +
         [f"{page} does not give {link[:-2]} as a name" for link, page in links.items() if page in pages and
          not re.search(rf"^\.Nm {re.escape(link[:-2])}\b", section(pages[page], "NAME"), re.M)] +
         [f"{page} shows {name}(), and no link of that name leads there" for page, text in library.items()
          for name, _ in prototypes(text) if page != f"{name}.3" and links.get(f"{name}.3") != page])

headers = re.sub(r"/\*.*?\*/", "", "".join(tap.text(source, f"include/urds/{h}") for h in HEADERS), flags=re.S)
public = set(re.findall(r"\bURDS_\w+", headers))
public -= {"URDS_API"} | {n for n in public if n.endswith("_H")}
everything = "".join(library.values())
tap.case("constants__each_is_on_a_page", [] if len(public) > 60 else [f"only {sorted(public)}"])
tap.case("constants__all_are_described",
         [f"no page of section 3 has {n}" for n in sorted(public) if not re.search(rf"\b{n}\b", everything)])
tap.case("constants__none_is_made_up",
         [f"{page}: no header has a name like {n}" for page, text in library.items()
          for n in sorted(set(re.findall(r"^\.(?:It )?Dv .*?\b(URDS_\w+)", text, re.M)))
          if not any(p.startswith(n) for p in public)])

structs = dict(re.findall(r"^struct (\w+) \{(.*?)^\};$", headers, re.M | re.S))
members = {(s, m) for s, body in structs.items() for m in re.findall(r"(\w+)(?:\[\w+\])?[,;]", body) if m != "reserved"}
tap.case("structs__there_are_some", [] if len(members) > 30 else [f"only {sorted(members)}"])
tap.case("structs__all_members_are_described",
         [f"no page that names struct {s} has its {m}" for s, m in sorted(members)
          if not any(re.search(rf"^(?:\.It |\t).*\b{m}\b", text, re.M) for text in library.values() if s in text)])
tap.case("structs__shown_are_those_of_the_headers",
         [f"{page}: struct {s} is not as in its header" for page, text in library.items()
          for s, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};$", text, re.M | re.S)
          if body.split() != structs.get(s, "").split()])

tap.case("references__lead_to_a_page",
         [f"{page}: .Xr {name} {number} is not there" for page, text in pages.items()
          for name, number in re.findall(r"^\.Xr (\S+) (\d)", text, re.M)
          if re.match(r"urds|rds", name) and f"{name}.{number}" not in found])
tap.case("references__to_sections_of_other_pages_exist",
         [f"{page}: {other} {number} has no section {title!r}" for page, text in pages.items()
          for title, other, number in re.findall(r"^\.Sx (.+)\nin\n\.Xr (\S+) (\d)", text, re.M)
          if not re.search(rf"^\.S[hs] {re.escape(title)}$", pages.get(f"{other}.{number}", ""), re.M)])

tap.case("sections__are_there",
         [f"{page}: no {title}" for page, text in library.items()
          for title in ("NAME", "LIBRARY", "SYNOPSIS", "DESCRIPTION", "SEE ALSO") if not section(text, title)])
# urds_reason() and its like cannot fail.
tap.case("sections__of_functions_are_there",
         [f"{page}: no {title}" for page, text in library.items() if list(prototypes(text))
          for title in ("RETURN VALUES", "ERRORS") if not section(text, title)
          and not (title == "ERRORS" and page in ("urds_info.3", "urds_reason.3", "urds_version.3"))])

if not missing("mandoc__is_content", "mandoc"):
    complaints = []
    for page in pages:
        out = subprocess.run(["mandoc", "-Tlint", "-Wall", os.path.join(source, FOLDER, page)], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        # Which other pages this machine has is none of our business; ours were looked at above.
        complaints += [f"{page}: {line}" for line in out.splitlines() if "referenced manual not found" not in line
                       and not (page not in library and any(l in line for l in LAYOUT))]
    tap.case("mandoc__is_content", complaints)

tap.case("prototypes__are_those_of_the_headers",
         [line for page, text in library.items() if list(prototypes(text))
          for line in compiled(page, included(text) + "".join(c for _, c in prototypes(text)))])
sources = [(page, c) for page, text in library.items() for c in examples(text)]
tap.case("examples__there_are_some", [] if len(sources) >= 10 else [f"only {len(sources)}"])
tap.case("examples__compile", [line for page, c in sources for line in compiled(page, c)])
tap.done()
