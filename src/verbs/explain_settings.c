/* SPDX-License-Identifier: MIT */
#include "verbs/explain_settings.h"

#include "io/explain_output.h"

bool vb_explains, vb_watches;

void vb_explain_settings_read(void)
{
	vb_explains = vb_explain_output_is_on();
	vb_watches = vb_explain_output_watches();
}
