#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Dependencies between the rooms of src/ point one way. Fails when a room includes a header of a room it may not know,
# when the rooms that must build on any machine include a verbs header, when a sans-I/O room includes a
# header of the operating system, or when a header does not compile alone.
#
#   tests/check-layers.sh [ROOT]                 the sources; CC names the compiler
#   tests/check-layers.sh --objects LIBRARY...   compiled sans-I/O rooms: none may call the operating system
#   tests/check-layers.sh --objects --threads LIBRARY...   others: they may start threads and read settings, the rest is left to io
#   tests/check-layers.sh --circles LIBRARY...   compiled rooms: no files of one that call each other in a circle
#   tests/check-layers.sh --rooms                which room may know which others, as docs/architecture.md has it

if [ "$1" = --circles ]; then
	shift
	status=0
	for library; do
		# Who defines what, then who needs it: pairs of files, which tsort can order unless there is a circle.
		loops=$(${NM:-nm} -A "$library" | awk '
			{ n = split($1, part, ":"); file = part[n - 1]; sub(/.*\//, "", file); sub(/\.o$/, "", file) }
			$(NF - 1) ~ /^[TDBRCVW]$/ { home[$NF] = file }
			$(NF - 1) == "U" { needs[file, $NF] = file; name[file, $NF] = $NF }
			END { for (i in needs) if ((name[i] in home) && home[name[i]] != needs[i]) print needs[i], home[name[i]] }
			' | sort -u | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([^-: ]*\.c\)$/\1/p')
		[ -z "$loops" ] && continue
		echo "$library: files that call each other in a circle: $(echo "$loops" | tr "\n" " ")"
		status=1
	done
	echo "$# libraries checked"
	[ $# -gt 0 ] || status=1
	exit $status
fi

if [ "$1" = --objects ]; then
	shift
	calls='socket|bind|connect|accept4?|listen|send(to|msg|mmsg)?|recv(from|msg|mmsg)?|[gs]etsockopt'
	calls="$calls|readv?|writev?|pread(64)?|pwrite(64)?|open(at)?(64)?|close|mmap(64)?|munmap|ioctl|syscall"
	calls="$calls|p?poll|select|epoll_.*|eventfd|timerfd_.*|fork|exec.*|pthread_create|process_vm_.*"
	calls="$calls|clock_gettime|gettimeofday|time|(clock_)?nanosleep|u?sleep|getenv|random|rand|getrandom"
	calls="$calls|memfd_create|madvise|mincore|lseek(64)?|f?stat(64)?|sysconf|fcntl(64)?|socketpair|fopen(64)?|nanosleep"
	if [ "$1" = --threads ]; then
		shift
		calls=$(echo "$calls" | sed 's/|pthread_create|/|/; s/|getenv|/|/')
	fi
	status=0
	for library; do
		found=$(${NM:-nm} -u "$library" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' |
			grep -Ex "$calls" | sort -u)
		[ -z "$found" ] && continue
		echo "$library calls the operating system: $(echo "$found" | tr "\n" " ")"
		status=1
	done
	echo "$# libraries checked"
	[ $# -gt 0 ] || status=1
	exit $status
fi

root=${1:-$(cd "$(dirname "$0")/.." && pwd)}
cc=${CC:-cc}
faults=$(mktemp) || exit 1
trap 'rm -rf "$faults" "$faults.d"' EXIT
trap 'exit 1' HUP INT TERM

complain() {
	echo "$*" | tee -a "$faults"
}

allowed() { # rooms that ROOM may include. An engine is known to its own links only, a link to progress/links.c only
	case $1 in
	base) echo base ;;
	wire) echo base wire ;;
	profiles) echo base wire profiles ;;
	memory) echo base wire memory ;;
	queue) echo base wire profiles memory queue ;;
	roce) echo base wire profiles memory queue roce ;;
	local) echo base wire profiles memory queue local ;;
	iwarp) echo base wire profiles memory queue iwarp ;;
	raw) echo base wire profiles memory queue raw ;;
	connect) echo base wire profiles memory queue connect ;;
	explain) echo base wire profiles memory queue explain ;;
	fabric) echo base wire fabric ;;
	io) echo base wire io ;;
	capture) echo base wire io capture ;;
	schedule) echo base wire profiles memory queue io schedule ;;
	links) echo base wire profiles memory queue io schedule links ;;
	links/udp) echo base wire profiles memory queue io capture schedule links links/udp roce ;;
	links/ethernet) echo base wire profiles memory queue io schedule links links/ethernet raw ;;
	links/fabric) echo base wire profiles memory queue io capture schedule links links/fabric roce ;;
	links/tcp) echo base wire profiles memory queue io capture schedule links links/tcp iwarp ;;
	links/memory) echo base wire profiles memory queue io schedule links links/memory local ;;
	progress) echo base wire profiles memory queue connect io schedule links progress ;;
	verbs) echo base wire profiles memory queue connect explain io schedule progress verbs ;;
	preload) echo base wire io preload ;;
	umad) echo base wire io umad ;;
	preload/sockets) echo base io preload preload/sockets rdmacm/rsocket ;;
	rdmacm) echo base wire profiles memory queue connect explain io capture links progress rdmacm ;;
	rdmacm/rsocket) echo base wire io rdmacm rdmacm/rsocket ;;
	*) echo ;;
	esac
}

if [ "$1" = --rooms ]; then
	root=$(cd "$(dirname "$0")/.." && pwd)
	for folder in $(find "$root/src" -mindepth 1 -type d | LC_ALL=C sort); do
		room=${folder#"$root"/src/}
		printf '%-16s%s\n' "$room" "$(allowed "$room" | tr ' ' '\n' | grep -vx "$room" | tr '\n' ' ' | sed 's/ $//')" | sed 's/ *$//'
	done
	exit 0
fi

# Single files that may know more than their room: the table of links.
excused() { # FILE ROOM
	case $1:$2 in
	src/progress/links.c:links/udp|src/progress/links.c:links/ethernet|src/progress/links.c:links/tcp|src/progress/links.c:links/memory|src/progress/links.c:links/fabric) return 0 ;;
	esac
	return 1
}

# Headers whose use means a call to the operating system.
system='sys/(socket|epoll|eventfd|timerfd|mman|ioctl|stat|time|syscall|wait)'
system="$system|netinet/.*|arpa/.*|net/.*|linux/.*|poll|fcntl|unistd|time|signal|dirent"

includes() { # FILE: what it includes, quotes and brackets kept
	sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\([<"][^>"]*[>"]\).*/\1/p' "$1"
}

check_file() { # ROOM FILE
	room=$1 file=$2 name=${2#"$root"/}
	for header in $(includes "$file"); do
		case $header in
		\"*/*)
			of=${header#\"}
			of=${of%/*}
			case " $(allowed "$room") " in
			*" $of "*) ;;
			*) excused "$name" "$of" || complain "$name: room $room may not include $header" ;;
			esac
			;;
		\"*) complain "$name: write $header as room/file.h" ;;
		\<infiniband/*|\<rdma/*)
			case $room in
			base|wire) complain "$name: room $room may not include $header" ;;
			esac
			;;
		\<*)
			case $room in
			base|wire|profiles|memory|queue|roce|raw|local|connect|explain|fabric)
				echo "$header" | grep -Eq "^<($system)\.h>$" || continue
				case $name:$header in
				src/base/log.c:*) ;; # a log has nowhere else to go
				src/base/lock.c:* | src/base/favourite.c:*) ;; # a thread that waits for a lock sleeps
				src/connect/*:\<sys/socket.h\>|src/connect/*:\<netinet/in.h\>) ;; # address families
				*) complain "$name: room $room is sans-I/O and may not include $header" ;;
				esac
				;;
			esac
			;;
		esac
	done
}

check_alone() { # FILE
	if ! echo "#include \"${1#"$root"/src/}\"" |
	     "$cc" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-function -I"$root/src" -fsyntax-only \
		-xc - 2>"$faults.d"; then
		complain "${1#"$root"/}: does not compile alone"
		cat "$faults.d"
	fi
}

files=0
for folder in $(find "$root/src" -mindepth 1 -type d | sort); do
	room=${folder#"$root"/src/}
	[ -n "$(allowed "$room")" ] || complain "src/$room: not a room known to tests/check-layers.sh"
	for file in "$folder"/*.c "$folder"/*.h; do
		[ -f "$file" ] || continue
		check_file "$room" "$file"
		case $file in *.h) check_alone "$file" ;; esac
		files=$((files + 1))
	done
done
[ "$files" -gt 0 ] || complain "no files under $root/src"

# The check itself must be able to fail: each of these is a violation.
if [ $# -eq 0 ]; then
	bad=$(mktemp -d) || exit 1
	trap 'rm -rf "$faults" "$faults.d" "$bad"' EXIT
	attempt() { # WHAT ROOM TEXT
		rm -rf "$bad/src"
		mkdir -p "$bad/src/$2"
		printf '%s\n' "$3" > "$bad/src/$2/bad.h"
		if "$0" "$bad" >/dev/null 2>&1; then complain "the check overlooks $1"; fi
	}
	attempt "an include of a higher room" wire '#include "queue/qp.h"'
	attempt "verbs.h in the wire room" wire '#include <infiniband/verbs.h>'
	attempt "a system call's header in an engine" roce '#include <sys/socket.h>'
	attempt "a header that needs another first" base 'static inline uint32_t f(void) { return 0; }'
	attempt "a room nobody knows" attic 'int x;'
	attempt "a room within a room that nobody knows" links/attic 'int x;'
	attempt "a link that knows another" links/udp '#include "links/memory/memory_link.h"'
	attempt "an engine known outside of its links" progress '#include "roce/roce.h"'
	echo 'int there(void); int here(void); int here(void) { return there(); }' > "$bad/here.c"
	echo 'int there(void); int here(void); int there(void) { return here(); }' > "$bad/there.c"
	(cd "$bad" && "$cc" -c here.c -o here.c.o && "$cc" -c there.c -o there.c.o && ${AR:-ar} rc circle.a here.c.o there.c.o) ||
		complain "no archive to try --circles with"
	if "$0" --circles "$bad/circle.a" >/dev/null 2>&1; then complain "the check overlooks a circle of files"; fi
fi
echo "$files files, $(wc -l < "$faults") faults"
[ ! -s "$faults" ]
