#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The base and wire rooms and their unit tests on other kinds of machine: compiled for TRIPLET, statically linked, run
# under qemu-user. s390x is big-endian, i686 has 32-bit pointers and 4-byte alignment of 64-bit numbers.
#
#   tests/wire-cross.sh TRIPLET QEMU        e.g. s390x-linux-gnu qemu-s390x
#
# Installs nothing: exit 77 (skipped) where compiler, its C library or qemu are missing. Debian packages:
#   qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross gcc-i686-linux-gnu libc6-dev-i386-cross

triplet=$1
qemu=$2
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

command -v "$triplet-gcc" >/dev/null || { echo "skipped: no $triplet-gcc"; exit 77; }
command -v "$qemu" >/dev/null || { echo "skipped: no $qemu"; exit 77; }
echo 'int main(void) { return 0; }' > "$work/try.c"
"$triplet-gcc" -static -o "$work/try" "$work/try.c" 2>/dev/null ||
	{ echo "skipped: $triplet-gcc cannot link"; exit 77; }
"$qemu" "$work/try" || { echo "skipped: $qemu does not run programs here"; exit 77; }

set -e
flags="-std=gnu11 -O1 -g -D_GNU_SOURCE -DVB_CRC_PORTABLE -DVB_CHECK_INVARIANTS -Wall -Wextra -Werror -Wshadow
	-Wmissing-prototypes -Wstrict-prototypes -Wvla -Wno-missing-field-initializers
	-I$root/src -I$root/tests/portable -I$root/tests/vectors"
compile() { # SOURCE OBJECT [FLAG...]
	source=$1 object=$2
	shift 2
	# shellcheck disable=SC2086 # the flags are words
	"$triplet-gcc" $flags "$@" -c -o "$work/$object" "$source"
}

# Only what is in the rooms by itself: no verbs.h here.
for source in "$root"/src/base/*.c "$root"/src/wire/*.c; do
	name=$(basename "$source" .c)
	compile "$source" "room-$name.o"
done
compile "$root/tests/vectors/capture.c" capture.o

# The tests become one program: each main is renamed, and a table calls them.
tests=
for source in "$root"/tests/unit/base/test_*.c "$root"/tests/unit/wire/test_*.c "$root"/tests/vectors/test_golden.c; do
	test=$(basename "$source" .c)
	compile "$source" "$test.o" -Dmain="${test}_main" -Wno-missing-prototypes
	tests="$tests $test"
done
{
	echo '#include <stdio.h>'
	for test in $tests; do echo "int ${test}_main(int argc, char **argv);"; done
	echo 'int main(int argc, char **argv) {'
	for test in $tests; do
		echo "	puts(\"== $test\"); fflush(stdout); if (${test}_main(argc, argv)) return 1;"
	done
	echo '	puts("all passed"); return 0; }'
} > "$work/all.c"
compile "$work/all.c" all.o
"$triplet-gcc" -static -pthread -o "$work/all" "$work"/room-*.o "$work"/test_*.o "$work/capture.o" "$work/all.o"
"$qemu" "$work/all" "$root/tests/vectors/pcap" > "$work/output" || { tail -n 20 "$work/output"; exit 1; }
grep -c . "$work/output" | sed 's/$/ lines of output; the last:/'
tail -n 1 "$work/output"
