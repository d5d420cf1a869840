#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Is the dynamic loader content with the libraries in DIRECTORY for every program of the distribution that uses them? First all
# relocations of each are resolved without running it, then some are started with every symbol bound at once.
#
#   tests/abi/check-loader.sh DIRECTORY

directory=$1
programs=
for package in ibverbs-utils perftest rdmacm-utils; do
	for program in $(dpkg -L $package 2>/dev/null | grep '^/usr/bin/.'); do
		case $(file -b "$program" 2>/dev/null || head -c 4 "$program") in
		*ELF*) programs="$programs $program" ;;
		esac
	done
done
if [ -z "$programs" ]; then
	echo "no client programs are installed"
	exit 77
fi

status=0
count=0
for program in $programs; do
	count=$((count + 1))
	missing=$(LD_LIBRARY_PATH=$directory ldd -r "$program" 2>&1 | grep -E 'undefined symbol|not found')
	if [ -n "$missing" ]; then
		echo "$program: $missing"
		status=1
	fi
	LD_LIBRARY_PATH=$directory ldd "$program" | grep -q "libibverbs.so.1 => $directory/" ||
		{ echo "$program does not take libibverbs from $directory"; status=1; }
done
echo "$count programs resolve"

for program in ibv_devices ibv_devinfo ibv_rc_pingpong ib_write_bw ib_send_lat rping; do
	command -v $program >/dev/null || continue
	answer=$(LD_BIND_NOW=1 LD_LIBRARY_PATH=$directory timeout 60 $program --help 2>&1 </dev/null)
	case $answer in
	*"symbol lookup error"* | *"version "*" not found"* | *"cannot open shared object"*)
		echo "$program: $answer"
		status=1
		;;
	esac
done
exit $status
