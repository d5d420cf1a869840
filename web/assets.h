/* SPDX-License-Identifier: MIT
 *
 * The page itself, carried inside the program (embed.py).
 */
#ifndef VB_WEB_ASSETS_H
#define VB_WEB_ASSETS_H

#include <stddef.h>

struct vb_web_asset {
	const char *path, *type;
	const unsigned char *bytes;
	size_t length;
};

/* Ends with a row whose path is NULL. */
extern const struct vb_web_asset vb_web_assets[];

#endif
