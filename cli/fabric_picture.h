/* SPDX-License-Identifier: MIT
 *
 * A fabric as `fabric up` lists it (the request "list", fabric_answer.h), for programs and as a picture.
 *
 *   node  NAME  switch|ghost|host  LID  PORTS  DESCRIPTION
 *   link  NAME  PORT  STATE  RATE  NAME  PORT
 *
 * One a line, words separated by tabs. A host stands where it has joined; a ghost is an adapter of the file that no host has.
 */
#ifndef VB_CLI_FABRIC_PICTURE_H
#define VB_CLI_FABRIC_PICTURE_H

#include <stdbool.h>
#include <stdio.h>

enum { VB_CLI_FABRIC_WORD = 80 };

struct vb_cli_fabric_node {
	char name[VB_CLI_FABRIC_WORD], type[8], description[VB_CLI_FABRIC_WORD];
	unsigned lid, ports;
	unsigned level;                    /* 0: adapters; 1: switches that have some; and so on */
	double order, x, y;                /* in the picture */
};

struct vb_cli_fabric_link {
	unsigned node[2], port[2];         /* numbers in `nodes` */
	char state[12], rate[12];
};

struct vb_cli_fabric_list {
	struct vb_cli_fabric_node *nodes;
	struct vb_cli_fabric_link *links;
	unsigned node_count, link_count;
};

/* 0 or -errno: -EPROTO, -ENOMEM. Free it in either case. */
int vb_cli_fabric_list_read(struct vb_cli_fabric_list *list, const char *text);
void vb_cli_fabric_list_free(struct vb_cli_fabric_list *list);

void vb_cli_fabric_list_json(const struct vb_cli_fabric_list *list, FILE *out);
/* Adapters at the bottom, switches above them by their distance from one. */
void vb_cli_fabric_list_svg(struct vb_cli_fabric_list *list, FILE *out);

#endif
