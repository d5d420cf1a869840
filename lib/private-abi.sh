#!/bin/sh
# SPDX-License-Identifier: MIT
#
#   lib/private-abi.sh COMPILER...
#
# The number of the IBVERBS_PRIVATE_ node that this system's programs were linked with: that of the libibverbs.so which the compiler would link.
# 34 up to rdma-core 56, other ones since. Programs such as perftest load provider libraries (libmlx5), which bind to the names of that node.
library=$("$@" -print-file-name=libibverbs.so)
number=$(grep -a -o 'IBVERBS_PRIVATE_[0-9]*' "$library" 2>/dev/null | sort -u | tail -n 1)
echo "${number##*_}" | grep -x '[0-9][0-9]*' || echo 34
