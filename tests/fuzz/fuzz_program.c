/* SPDX-License-Identifier: MIT
 *
 * Programs of any bytes that `verbena run` is to start: whether the loader will give them our libraries is read from their ELF
 * headers. Only what has such a header, and no segment that names a loader, is said to be linked statically.
 *
 * Input: one byte that is not used, then the file.
 */
#include <elf.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/loader.h"
#include "target.h"

static bool names_loader(const uint8_t *bytes, size_t length)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_phnum; i++) {
		uint64_t at = header.e_phoff + i * sizeof(segment);

		FUZZ_CHECK(at <= length && sizeof(segment) <= length - at); /* else nothing is said */
		memcpy(&segment, bytes + at, sizeof(segment));
		if (segment.p_type == PT_INTERP)
			return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
	int fd = length < 1 ? -1 : memfd_create("program", MFD_CLOEXEC);

	if (fd < 0)
		return 0;
	FUZZ_CHECK(write(fd, input + 1, length - 1) == (ssize_t)length - 1);
	if (vb_cli_loader_is_absent(fd)) {
		FUZZ_CHECK(length - 1 >= sizeof(Elf64_Ehdr) && memcmp(input + 1, ELFMAG, SELFMAG) == 0);
		FUZZ_CHECK(!names_loader(input + 1, length - 1));
	}
	close(fd);
	return 0;
}
