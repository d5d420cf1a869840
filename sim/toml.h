/* SPDX-License-Identifier: MIT
 *
 * A TOML file as a list of what it says, in its order: "control.algorithm" is "dcqcn" in line 12. The parser is toml++; this is all
 * that the rest knows of it.
 */
#ifndef VB_SIM_TOML_H
#define VB_SIM_TOML_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sim_toml_type { SIM_TOML_STRING, SIM_TOML_NUMBER, SIM_TOML_BOOLEAN, SIM_TOML_OTHER };

struct sim_toml_entry {
	char *path;                      /* "flow[0].from" */
	enum sim_toml_type type;
	char *string;                    /* of any type: as one would write it */
	double number;                   /* a boolean: 0 or 1 */
	unsigned line;
};

struct sim_toml {
	struct sim_toml_entry *entry;
	unsigned count;
};

/* 0, or the line of the error, with what is wrong in `error`. */
unsigned sim_toml_parse(const char *text, struct sim_toml *toml, char *error, size_t room);
void sim_toml_free(struct sim_toml *toml);

#ifdef __cplusplus
}
#endif

#endif
