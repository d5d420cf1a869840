# SPDX-License-Identifier: MIT
#
# A thin front for meson and ninja.
#
#   make                                build into build/: bin/verbena, bin/verbenad, lib/libibverbs.so.1, lib/librdmacm.so.1
#   make demo                           install what is missing, build, and see RDMA between two processes
#   make test                           install what is missing, and run every test
#   make campaign HOURS=1               worlds by seed, fuzzing and faults of the system, by the hour (docs/testing.md)
#   make connections                    a hundred thousand of rdma_cm, made, used and ended; nothing may be left
#   make soak MINUTES=10                verbs, rdma_cm and rsockets in bad networks, verified, with a report (docs/testing.md)
#   make applications                   UCX, MPI and others, contents verified, beside the same over TCP (docs/applications.md)
#   make experiments                    congestion experiments in full, with pictures (docs/congestion.md)
#   make browser                        the page of `verbena web` in Chromium, without a window
#   make interop                        Verbena against the Linux kernel's rxe and siw, both ways, in a virtual machine (docs/interop.md)
#   make interop-iwarp                  its second part alone: iWARP, against siw
#   make interop-same-guest             WRITEs by siw and by Verbena in one guest, and bare TCP beside them (ROUNDS=3)
#   make interop-kernels                what depends on how a kernel numbers datagrams, on the guest's kernels (KERNELS="6.12 6.1")
#   make interop-rules                  what its runner does when a guest panics and when it is interrupted itself
#   make examples                       the programs of examples/, into build/examples (examples/README.md)
#   make bench                          measure against iperf3, in the same run
#   make bench-applications             measure UCX, MPI, redis, Ceph and others beside themselves over TCP (docs/applications.md)
#   make starved                        do connections live on beside programs that want all processors (bench/starved)
#   make install DESTDIR= PREFIX=/usr/local
#   make uninstall DESTDIR= PREFIX=/usr/local
#   make deb                            Debian packages into build/deb, looked at by lintian
#   make rpm                            RPM packages into build/rpm
#   make clean

BUILD := build
PREFIX ?= /usr/local
DESTDIR ?=
# The tests need cmocka, which the demo does not: without it they are left out of the build.
TESTS := $(shell pkg-config --exists cmocka 2>/dev/null && echo true || echo false)

.PHONY: all build demo test applications experiments interop interop-iwarp interop-rules examples bench install clean starved
.PHONY: uninstall deb rpm locks browser campaign soak connections bench-applications interop-same-guest interop-kernels

all: build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) $(NINJA_FLAGS)

$(BUILD)/build.ninja:
	@command -v meson >/dev/null && command -v ninja >/dev/null || \
		{ echo "meson and ninja are missing: run scripts/install-packages build" >&2; exit 1; }
	meson setup $(BUILD) -Dtests=$(TESTS)

demo:
	@scripts/install-packages demo
	@echo "Building (a minute the first time)"
	@$(MAKE) --no-print-directory build NINJA_FLAGS=--quiet
	@scripts/demo $(BUILD)

test:
	@scripts/install-packages test
	@tests/run

HOURS ?= 1
campaign:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@tests/campaign --hours $(HOURS) --build $(BUILD)

MINUTES ?= 1
soak:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@tests/soak/run --minutes $(MINUTES) --build $(BUILD)

# Each made, used and ended, one after the other.
CONNECTIONS ?= 100000
connections:
	@$(MAKE) --no-print-directory build
	@CONNECTIONS=$(CONNECTIONS) VERBENA_DAEMON=$(abspath $(BUILD))/bin/verbenad $(BUILD)/tests/unit/rdmacm/test_rdmacm_cycles

experiments: build
	@scripts/experiments $(BUILD)/bin/verbena

applications:
	@scripts/install-packages test applications
	@tests/run --only applications --verbose

locks:
	@scripts/install-packages test
	@tests/run --only every-lock

browser:
	@scripts/install-packages test browser
	@tests/run --only browser --verbose

interop:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@tests/interop/run --build $(BUILD) $(INTEROP_ARGUMENTS); roce=$$?; \
	tests/interop/run --transport iwarp --build $(BUILD) $(INTEROP_ARGUMENTS) && exit $$roce

interop-iwarp:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@tests/interop/run --transport iwarp --build $(BUILD) $(INTEROP_ARGUMENTS)

ROUNDS ?= 3
interop-same-guest:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@tests/interop/same-guest $(BUILD) $(ROUNDS)

KERNELS ?= 6.12 6.1
interop-kernels:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@meson configure $(BUILD) -Dtests=true && ninja -C $(BUILD) > /dev/null
	@failed=0; for kernel in $(KERNELS); do RIG_KERNEL=$$kernel tests/interop/other-kernel $(BUILD) || failed=1; done; exit $$failed

interop-rules:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@tests/interop/test_rules --build $(BUILD)

examples:
	@scripts/install-packages examples
	@$(MAKE) --no-print-directory -C examples OUT=$(abspath $(BUILD))/examples

bench:
	@scripts/install-packages bench
	@$(MAKE) --no-print-directory build
	@bench/run $(BENCH_ARGUMENTS)

bench-applications:
	@scripts/install-packages bench applications
	@$(MAKE) --no-print-directory build
	@bench/run --only applications $(BENCH_ARGUMENTS)

starved:
	@scripts/install-packages test
	@$(MAKE) --no-print-directory build
	@bench/starved --build $(BUILD) $(STARVED_ARGUMENTS)

install: build
	@scripts/install-files "$(BUILD)" "$(PREFIX)" "$(DESTDIR)"

uninstall:
	@scripts/uninstall-files "$(PREFIX)" "$(DESTDIR)"

deb:
	@scripts/install-packages packages
	@scripts/make-deb "$(BUILD)/deb"
	@lintian --fail-on error,warning --tag-display-limit 0 "$(BUILD)"/deb/*.changes
	@echo "scripts/try-deb $(BUILD)/deb installs them into a clean root and uses them (as root, with the network)"

rpm:
	@scripts/install-packages rpm
	@scripts/make-rpm "$(BUILD)/rpm"

clean:
	rm -rf $(BUILD) build-*
