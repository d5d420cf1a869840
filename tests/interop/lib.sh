# SPDX-License-Identifier: MIT
#
# Settings shared by the rig's scripts; each may be given in the environment.   (sourced, not run)
RIG_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${RIG_HOME:=${XDG_CACHE_HOME:-$HOME/.cache}/verbena-rig}"
: "${RIG_CACHE:=$RIG_HOME/cache}"     # downloaded .debs and what is made from them; safe to delete
: "${RIG_RUN:=$RIG_HOME/run}"         # pids, console logs, of the rig now up
: "${RIG_SHARE:=$RIG_HOME/share}"     # host folder the guests see as /share (9p, writable)
: "${RIG_KERNEL:=6.12}"               # 6.12 (bookworm-security), 6.1 (bookworm), or that of a release of Debian: bullseye, sid
: "${RIG_GUESTS:=1}"                  # 1 or 2
: "${RIG_MEM:=512}"                   # MiB a guest
: "${RIG_SMP:=2}"                     # virtual CPUs a guest
# As the host unless told: the guests' packages come from the host's archive, and their programs from its compiler.
: "${RIG_ARCH:=$(dpkg --print-architecture 2>/dev/null)}"
: "${RIG_CC:=gcc}"                    # makes programs for RIG_ARCH
: "${RIG_MTU:=1500}"                  # of the RoCE and iWARP NICs, host and guest side
: "${RIG_OFFLOAD:=off}"               # virtio checksum/segmentation offloads: off gives true wire packets
: "${RIG_NETNS:=verbena-rig}"           # network namespace that holds the taps and bridges
: "${RIG_SIW:=no}"                    # yes: the kernel's soft-iWARP too (built from source, 0.7 GiB more)
: "${RIG_APPEND:=}"                   # more words for the guests' kernel, such as kpti=off
: "${RIG_EXTRA_MODULES:=}"            # more kernel modules to carry and load
: "${RIG_EXTRA_PKGS:=}"               # more Debian packages to unpack into the guest
: "${RIG_BOOT_LIMIT:=180}"            # seconds a guest may take to answer

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
case $RIG_ARCH in
arm64)
	RIG_QEMU=qemu-system-aarch64 RIG_QEMU_PACKAGE=qemu-system-arm RIG_MACHINE=virt,gic-version=3 RIG_CONSOLE=ttyAMA0
	RIG_LOADER=/lib/ld-linux-aarch64.so.1 RIG_MACHINE_NAME=aarch64
	: "${RIG_CPU:=cortex-a72}"    # plain "max" is 2-3 times slower (pointer authentication)
	;;
amd64)
	RIG_QEMU=qemu-system-x86_64 RIG_QEMU_PACKAGE=qemu-system-x86 RIG_MACHINE=q35 RIG_CONSOLE=ttyS0
	RIG_LOADER=/lib64/ld-linux-x86-64.so.2 RIG_MACHINE_NAME=x86_64
	: "${RIG_CPU:=Nehalem}"
	;;
*) printf 'rig: guests are arm64 or amd64, not "%s"\n' "$RIG_ARCH" >&2; exit 1 ;;
esac
# tcg runs anywhere. kvm is much faster where it works; a /dev/kvm that is there may still be unable to boot a guest.
: "${RIG_ACCEL:=tcg}"
case $RIG_ACCEL in
kvm) RIG_CPU=host ;;
tcg) RIG_ACCEL=tcg,thread=multi,tb-size=128 ;;
esac
say() { printf 'rig: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
rig_ip() { echo "192.0.2.1$1"; }
innet() { ip netns exec "$RIG_NETNS" "$@"; }
# alive PIDFILE: that pid still runs the program it was recorded with; one that has ended but was not waited for does not
alive() {
	local pid start state now
	[ -s "$1" ] || return 1
	read -r pid start < "$1"
	read -r state now < <(cut -d' ' -f3,22 "/proc/$pid/stat" 2>/dev/null)
	[ "$now" = "$start" ] && [ "$state" != Z ]
}
record() { echo "$1 $(cut -d' ' -f22 "/proc/$1/stat")" > "$2"; }
# stop PIDFILE: TERM, up to 5 s, then KILL; only the process recorded
stop() {
	local pid _
	alive "$1" || { rm -f "$1"; return 0; }
	read -r pid _ < "$1"
	kill "$pid" 2>/dev/null
	for _ in $(seq 50); do alive "$1" || break; sleep 0.1; done
	alive "$1" && kill -9 "$pid" 2>/dev/null
	rm -f "$1"
}
