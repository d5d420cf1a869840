# SPDX-License-Identifier: MIT
#
# A thin front for meson and ninja.
#
#   make                                build into build/: bin/verbena, bin/verbenad, lib/libibverbs.so.1, lib/librdmacm.so.1
#   make demo                           install what is missing, build, and see RDMA between two processes
#   make test                           install what is missing, and run every test
#   make bench                          measure against iperf3, in the same run
#   make install DESTDIR= PREFIX=/usr/local
#   make clean

BUILD := build
PREFIX ?= /usr/local
DESTDIR ?=
# The tests need cmocka, which the demo does not: without it they are left out of the build.
TESTS := $(shell pkg-config --exists cmocka 2>/dev/null && echo true || echo false)

.PHONY: all build demo test bench install clean

all: build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@command -v meson >/dev/null && command -v ninja >/dev/null || \
		{ echo "meson and ninja are missing: run scripts/install-packages build" >&2; exit 1; }
	meson setup $(BUILD) -Dtests=$(TESTS)

demo:
	@scripts/install-packages demo
	@$(MAKE) --no-print-directory build
	@scripts/demo $(BUILD)

test:
	@scripts/install-packages test
	@tests/run

bench:
	@scripts/install-packages bench
	@$(MAKE) --no-print-directory build
	@bench/run $(BENCH_ARGUMENTS)

install: build
	@scripts/install-files "$(BUILD)" "$(PREFIX)" "$(DESTDIR)"

clean:
	rm -rf $(BUILD) build-*
