# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The short way in: installs what is missing, then calls Meson. All knowledge about the build is in
# meson.build; `make help` lists the targets.

BUILD = build
DIST = $(CURDIR)/dist
PREFIX = /usr/local
MESON_ARGS =
SETUP = scripts/setup

all: stage

help:
	@echo 'make                 build into $(BUILD)/, stage a runnable copy in dist/'
	@echo 'make demo            the same, then a two-node demo; FAULT=drop makes its network lose data'
	@echo 'make check           the same, then every test on every platform this machine can run'
	@echo 'make test            only the tests of $(BUILD)/: quick, for work in progress'
	@echo 'make bench-quick     urds beside raw TCP on this machine; ROUNDS=N, default 5'
	@echo 'make interop-full    the long form of the tests against the Linux kernel'
	@echo 'make install         copy dist/ to $$(DESTDIR)$$(PREFIX), by default $(PREFIX)'
	@echo 'make format          let clang-format lay out every C file'
	@echo 'make format-check    list the C files that it would change'
	@echo 'make clean           remove all of the above'
	@echo
	@echo 'MESON_ARGS=... is passed to the first meson setup. One stage of the check: scripts/check --list'

setup:
	@$(SETUP) build

# --prefix=/ with a destination: what is staged can be moved as it is (rpath and pkg-config files
# are relative), so installing is a copy.
$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix=/ --libdir=lib -Dpkgconfig.relocatable=true $(MESON_ARGS)

compile: setup
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@meson compile -C $(BUILD)

stage: compile
	@rm -rf '$(DIST)'
	@mkdir -p '$(DIST)'
	@meson install -C $(BUILD) --no-rebuild --quiet --destdir '$(DIST)'

demo: stage
	@'$(DIST)/bin/urds' demo $(if $(FAULT),--fault $(FAULT))

check: stage
	@$(SETUP) check
	@scripts/check

test: compile
	@meson test -C $(BUILD) --print-errorlogs --no-suite interop --no-suite perf

bench-quick: compile
	@$(BUILD)/tests/perf/bench --rounds $(or $(ROUNDS),5)

interop-full: compile
	@$(SETUP) check
	@scripts/check --stage mingw --build
	@URDS_INTEROP=full meson test -C $(BUILD) --num-processes 1 --verbose --suite interop

install:
	@test -d '$(DIST)' || { echo 'make install: dist/ is missing; run make first' >&2; exit 1; }
	mkdir -p '$(DESTDIR)$(PREFIX)'
	cp -R '$(DIST)'/. '$(DESTDIR)$(PREFIX)'/

format format-check:
	@scripts/format $(if $(filter format-check,$@),--check)

clean:
	rm -rf '$(BUILD)' '$(DIST)' build-check

.PHONY: all help setup compile stage demo check test bench-quick interop-full install format format-check clean
