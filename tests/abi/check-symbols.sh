#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Does a library export exactly the names and versions it must?
#
#   tests/abi/check-symbols.sh LIBRARY LIST [PRIVATE_NUMBER]
#
# LIST has one line per name, as nm writes them: name@@VERSION where it is the default, name@VERSION where not. PRIVATE_NUMBER is
# what the build put in place of 34.

library=$1
list=$2
private=${3:-34}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

grep -v '^#' "$list" | sed "s/_PRIVATE_34/_PRIVATE_$private/; s/verbs_register_driver_34/verbs_register_driver_$private/" |
	LC_ALL=C sort >"$work/expected"
# Version nodes themselves are absolute symbols.
nm -D --defined-only --with-symbol-versions "$library" | awk 'NF == 3 && $2 != "A" { print $3 }' | LC_ALL=C sort >"$work/exported"

if [ ! -s "$work/exported" ]; then
	echo "$library exports nothing"
	exit 1
fi
if ! diff -u "$work/expected" "$work/exported"; then
	echo "$library differs from $list (- missing, + too many)"
	exit 1
fi
echo "$(wc -l <"$work/exported") symbol versions"

# Providers read one byte there.
case $(basename "$list") in
libibverbs.*)
	readelf -Ws --dyn-syms "$library" |
		awk '/verbs_allow_disassociate_destroy/ && $3 == 1 && $4 == "OBJECT" { found = 1 } END { exit !found }' ||
		{ echo "verbs_allow_disassociate_destroy is not an object of one byte"; exit 1; }
	;;
esac
