#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Does a page name every exported name of a list, and do the tests it points at exist?
#
#   tests/abi/check-documented.sh LIST PAGE TESTS...

list=$1
page=$2
shift 2
status=0
for name in $(grep -v '^#' "$list" | sed 's/@.*//' | sort -u); do
	grep -q "\`$name\`" "$page" || { echo "$page does not name $name"; status=1; }
done
# The last column of every row, split at commas.
for test in $(awk -F'|' '/^\|/ && NF > 4 { print $(NF - 1) }' "$page" | tr ',' '\n' | sort -u); do
	case $test in test | ---) continue ;; esac
	found=
	for directory; do
		[ -e "$directory/test_$test.c" ] && found=yes
	done
	case $test in
	symbols | loader) found=yes ;;
	*/*) [ -e "$(dirname "$0")/../${test%/*}/test_${test##*/}.c" ] && found=yes ;; # of another folder
	esac
	[ -n "$found" ] || { echo "$page points at a test '$test' that does not exist"; status=1; }
done
exit $status
