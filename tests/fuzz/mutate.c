/* SPDX-License-Identifier: MIT
 *
 * Runs a fuzz target without libFuzzer: every seed as it is, then mutations of them, the same ones each time. Seeds are
 * the packets of the golden captures, or, of a folder without an index, its files. An input is one byte for the target to
 * choose by, then the UDP payload of a packet, or the file.
 *
 *   mutate FOLDER [RUNS [SEED [FIRST-RUN]]]     FIRST-RUN: to come back to a run that failed
 *   mutate FOLDER --corpus FOLDER               write the seeds as inputs, for libFuzzer to begin with
 */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "capture.h"
#include "target.h"

enum { MAX_SEEDS = 8192, MAX_LENGTH = 16384, DEFAULT_RUNS = 200000, DEFAULT_SEED = 1, FEWEST_PACKETS = 2000, HEADERS = 44 };

struct seed {
	uint8_t *bytes;
	size_t length;
};

static struct seed seeds[MAX_SEEDS];
static unsigned seed_count;
static uint64_t random_state;
static unsigned long current_run;
static bool seeds_are_files;

static uint32_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16);
}

/* Each run has its own sequence, so that any run can be repeated alone. */
static void begin_run(uint64_t seed, unsigned long run)
{
	current_run = run;
	random_state = (seed * 0x9e3779b97f4a7c15u) ^ ((uint64_t)run + 1) * 0xbf58476d1ce4e5b9u;
	if (random_state == 0)
		random_state = 1;
	for (int i = 0; i < 4; i++)
		next_random();
}

static void add_seed(const uint8_t *bytes, size_t length)
{
	struct seed *seed = &seeds[seed_count];

	seed->bytes = malloc(length + 1);
	if (!seed->bytes || length + 1 > MAX_LENGTH)
		abort();
	seed->bytes[0] = (uint8_t)(seed_count & 1);
	memcpy(seed->bytes + 1, bytes, length);
	seed->length = length + 1;
	seed_count++;
}

static void load_capture(const char *folder, const char *name)
{
	char path[512];
	struct capture capture;
	struct captured_packet packet;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!capture_open(&capture, path)) {
		fprintf(stderr, "%s cannot be read\n", path);
		exit(1);
	}
	while (seed_count < MAX_SEEDS && capture_next(&capture, &packet))
		add_seed(packet.datagram, packet.length);
	capture_close(&capture);
}

static int no_dots(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* In the order of their names: the same everywhere. */
static void load_files(const char *folder)
{
	struct dirent **entry;
	int count = scandir(folder, &entry, no_dots, alphasort);

	seeds_are_files = true;
	for (int i = 0; i < count && seed_count < MAX_SEEDS; i++) {
		static uint8_t bytes[MAX_LENGTH];
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", folder, entry[i]->d_name);
		file = fopen(path, "rb");
		if (!file) {
			perror(path);
			exit(1);
		}
		add_seed(bytes, fread(bytes, 1, sizeof(bytes) - 1, file));
		fclose(file);
		free(entry[i]);
	}
	free(count < 0 ? NULL : entry);
}

static void load_seeds(const char *folder)
{
	char path[512], line[512], name[256];
	FILE *index;

	snprintf(path, sizeof(path), "%s/index.txt", folder);
	index = fopen(path, "r");
	if (!index) {
		load_files(folder);
		return;
	}
	while (fgets(line, sizeof(line), index))
		if (line[0] != '#' && sscanf(line, "%255s", name) == 1)
			load_capture(folder, name);
	fclose(index);
}

/* A whole number at its edges: times and lengths of files, in either byte order. */
static void mutate_number(uint8_t *bytes, size_t length)
{
	static const uint64_t edges[] = {0, 1, INT64_MAX, INT64_MAX - 1, (uint64_t)INT64_MIN, UINT64_MAX, UINT32_MAX, INT32_MAX};
	uint64_t number = edges[next_random() % 8];
	size_t size = next_random() & 1 ? 8 : 4, at;

	if (length < 9)
		return;
	at = 1 + next_random() % (length - 8) / 4 * 4;
	memcpy(bytes + at, &number, size);
}

/* One change. In packets headers are where decisions are made, so positions are mostly early ones. */
static size_t mutate_once(uint8_t *bytes, size_t length)
{
	static const uint8_t edges[] = {0x00, 0x01, 0x0f, 0x10, 0x1f, 0x20, 0x7f, 0x80, 0x81, 0xfe, 0xff};
	size_t reach = !seeds_are_files && next_random() % 4 && length > HEADERS ? HEADERS : length;
	size_t at = next_random() % reach;
	const struct seed *other;
	size_t cut;

	if (seeds_are_files && next_random() % 3 == 0) {
		mutate_number(bytes, length);
		return length;
	}
	switch (next_random() % 8) {
	case 0:
	case 1:
		bytes[at] ^= (uint8_t)(1 << next_random() % 8);
		return length;
	case 2:
		bytes[at] = edges[next_random() % sizeof(edges)];
		return length;
	case 3:
		bytes[at] = (uint8_t)next_random();
		return length;
	case 4: /* cut */
		return 1 + next_random() % length;
	case 5: /* lengthen */
		cut = 1 + next_random() % 16;
		if (length + cut > MAX_LENGTH)
			return length;
		memset(bytes + length, (int)next_random(), cut);
		return length + cut;
	case 6: /* another packet's opcode or tail */
		other = &seeds[next_random() % seed_count];
		if (next_random() & 1) {
			bytes[1 % length] = other->bytes[1];
			return length;
		}
		cut = at < other->length ? at : other->length;
		memcpy(bytes + cut, other->bytes + cut, other->length - cut);
		return other->length;
	default:
		bytes[0] = (uint8_t)next_random();
		return length;
	}
}

static void run_mutations(unsigned long first, unsigned long runs, uint64_t seed)
{
	static uint8_t bytes[MAX_LENGTH];

	for (unsigned long run = first; run < first + runs; run++) {
		const struct seed *from;
		size_t length;

		begin_run(seed, run);
		from = &seeds[next_random() % seed_count];
		length = from->length;
		memcpy(bytes, from->bytes, length);
		for (unsigned change = 1 + next_random() % 4; change; change--)
			length = mutate_once(bytes, length);
		LLVMFuzzerTestOneInput(bytes, length);
	}
}

static void write_corpus(const char *folder)
{
	for (unsigned i = 0; i < seed_count; i++) {
		char path[512];
		FILE *file;

		snprintf(path, sizeof(path), "%s/seed-%04u", folder, i);
		file = fopen(path, "wb");
		if (!file || fwrite(seeds[i].bytes, seeds[i].length, 1, file) != 1 || fclose(file)) {
			perror(path);
			exit(1);
		}
	}
}

/* Which run it was, when the target aborts or a sanitizer ends the program. */
static void tell_run(void)
{
	fprintf(stderr, "in run %lu\n", current_run);
}

static void tell_run_on_signal(int number)
{
	(void)number;
	tell_run();
	signal(SIGABRT, SIG_DFL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

int main(int argc, char **argv)
{
	unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 0) : DEFAULT_RUNS;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : DEFAULT_SEED;
	unsigned long first = argc > 4 ? strtoul(argv[4], NULL, 0) : 0;

	if (argc < 2) {
		fprintf(stderr, "usage: mutate FOLDER [RUNS [SEED [FIRST-RUN]]] | FOLDER --corpus FOLDER\n");
		return 2;
	}
	load_seeds(argv[1]);
	if (argc == 4 && strcmp(argv[2], "--corpus") == 0) {
		write_corpus(argv[3]);
		return 0;
	}
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	signal(SIGABRT, tell_run_on_signal);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(tell_run);
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("%u seeds, %lu mutations, seed %llu, from run %lu\n", seed_count, runs,
	       (unsigned long long)seed, first);
	for (unsigned i = 0; i < seed_count; i++)
		LLVMFuzzerTestOneInput(seeds[i].bytes, seeds[i].length);
	run_mutations(first, runs, seed);
	for (unsigned i = 0; i < seed_count; i++)
		free(seeds[i].bytes);
	return seed_count > (seeds_are_files ? 0 : FEWEST_PACKETS) ? 0 : 1;
}
