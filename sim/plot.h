/* SPDX-License-Identifier: MIT
 *
 * An experiment as a picture (SVG): a column for each variant, a row for each kind of line; or bars, one for each variant.
 */
#ifndef VB_SIM_PLOT_H
#define VB_SIM_PLOT_H

#include <stdio.h>

#include "sim/record.h"

void sim_plot(FILE *out, const struct sim_experiment *experiment, struct sim_record *const *records);

#endif
