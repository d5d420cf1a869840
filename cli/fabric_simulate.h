/* SPDX-License-Identifier: MIT
 *
 * `verbena fabric simulate`: experiments with networks in virtual time.
 */
#ifndef VB_CLI_FABRIC_SIMULATE_H
#define VB_CLI_FABRIC_SIMULATE_H

/* Those that the program carries; a name of NULL ends the list. */
struct vb_cli_experiment_file {
	const char *name, *text;
};
extern const struct vb_cli_experiment_file vb_cli_experiment_files[];

int vb_cli_fabric_simulate(int argc, char **argv);

#endif
