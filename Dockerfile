# SPDX-License-Identifier: MIT
#
# Verbena, and the programs of the distribution to try it with, as an ordinary user.
#
#   docker build -t verbena .
#   docker run --rm verbena                                    the demo
#   docker run --rm verbena verbena run ibv_devinfo
#   docker run --rm --network host verbena verbena run ib_write_bw -d roce_eth0
#
# The same two stages serve your own image: build the packages once, install two of them (docs/ci.md).

FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential ca-certificates debhelper git libdeflate-dev \
	libibumad-dev libibverbs-dev libmicrohttpd-dev libncurses-dev libtomlplusplus-dev librdmacm-dev meson ninja-build pkg-config python3 && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN /source/scripts/make-deb /packages && rm -f /packages/*-dbgsym_*

FROM debian:bookworm-slim
COPY --from=build /packages/*.deb /packages/
RUN apt-get update && apt-get install -y --no-install-recommends /packages/libverbena_*.deb /packages/verbena_*.deb ibverbs-utils perftest \
	python3 rdmacm-utils && rm -rf /var/lib/apt/lists/* /packages && useradd --create-home verbs
USER verbs
WORKDIR /home/verbs
CMD ["verbena", "demo"]
