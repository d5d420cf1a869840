# SPDX-License-Identifier: MIT
#
# Settings shared by the rig's scripts; each may be given in the environment.   (sourced, not run)
RIG_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${RIG_HOME:=${XDG_CACHE_HOME:-$HOME/.cache}/verbena-rig}"
: "${RIG_CACHE:=$RIG_HOME/cache}"     # downloaded .debs and what is made from them; safe to delete
: "${RIG_RUN:=$RIG_HOME/run}"         # pids, console logs, of the rig now up
: "${RIG_SHARE:=$RIG_HOME/share}"     # host folder the guests see as /share (9p, writable)
: "${RIG_KERNEL:=6.12}"               # 6.12 (bookworm-security) or 6.1 (bookworm)
: "${RIG_GUESTS:=1}"                  # 1 or 2
: "${RIG_MEM:=512}"                   # MiB a guest
: "${RIG_SMP:=2}"                     # virtual CPUs a guest
: "${RIG_CPU:=cortex-a72}"            # QEMU CPU model; plain "max" is 2-3 times slower (pointer authentication)
: "${RIG_MTU:=1500}"                  # of the RoCE and iWARP NICs, host and guest side
: "${RIG_OFFLOAD:=off}"               # virtio checksum/segmentation offloads: off gives true wire packets
: "${RIG_NETNS:=verbena-rig}"           # network namespace that holds the taps and bridges
: "${RIG_SIW:=no}"                    # yes: the kernel's soft-iWARP too (built from source, 0.7 GiB more)
: "${RIG_EXTRA_MODULES:=}"            # more kernel modules to carry and load
: "${RIG_EXTRA_PKGS:=}"               # more Debian packages to unpack into the guest
: "${RIG_BOOT_LIMIT:=180}"            # seconds a guest may take to answer

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
say() { printf 'rig: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
rig_ip() { echo "192.0.2.1$1"; }
innet() { ip netns exec "$RIG_NETNS" "$@"; }
# alive PIDFILE: that pid still runs the program it was recorded with
alive() {
	local pid start
	[ -s "$1" ] || return 1
	read -r pid start < "$1"
	[ "$(cut -d' ' -f22 "/proc/$pid/stat" 2>/dev/null)" = "$start" ]
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
