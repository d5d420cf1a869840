/* SPDX-License-Identifier: MIT
 *
 * Topology files, and what is said of those that are wrong: the line and the word.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lab.h"
#include "fabric/topology.h"

/* As ibnetdiscover writes it. */
static const char discovered[] =
	"#\n# Topology file: generated on Mon Nov 16 00:28:01 2026\n#\n\n"
	"vendid=0x8f1\ndevid=0x5a06\nsysimgguid=0x8f1040041254b\nswitchguid=0x8f1040041254a(8f1040041254a)\n"
	"Switch\t24 \"S-0008f1040041254a\"\t\t# \"ISR9024D Voltaire\" enhanced port 0 lid 6 lmc 0\n"
	"[23]\t\"H-0008f10403960558\"[1](8f10403960559) \t\t# \"MT23108 InfiniHost\" lid 4 4xSDR\n"
	"[24]\t\"S-0008f10400410015\"[1]\t\t# \"SW-6IB4 Voltaire\" lid 3 4xEDR\n\n"
	"Switch\t8 \"S-0008f10400410015\"\t\t# \"SW-6IB4 Voltaire\" base port 0 lid 3 lmc 0\n"
	"[1]\t\"S-0008f1040041254a\"[24]\n\n"
	"vendid=0x8f1\ndevid=0x5a44\nsysimgguid=0x8f10403960984\ncaguid=0x8f10403960984\n"
	"Ca\t2 \"H-0008f10403960558\"\t\t# \"MT23108 InfiniHost\"\n"
	"[1](8f10403960559) \t\"S-0008f1040041254a\"[23]\t\t# lid 4 lmc 0 \"ISR9024D Voltaire\" lid 6 4xSDR\n";

static void what_ibnetdiscover_writes(void **state)
{
	struct lab lab;
	struct vb_fabric_node *first, *second, *adapter;

	(void)state;
	lab_begin(&lab, discovered);
	assert_int_equal(lab.fabric.nodes, 3);
	first = vb_fabric_find(&lab.fabric, "S-0008f1040041254a");
	second = vb_fabric_find(&lab.fabric, "S-0008f10400410015");
	adapter = vb_fabric_find(&lab.fabric, "H-0008f10403960558");
	assert_int_equal(first->guid, 0x8f1040041254a);
	assert_int_equal(first->system_guid, 0x8f1040041254b);
	assert_int_equal(first->vendor, 0x8f1);
	assert_int_equal(first->device, 0x5a06);
	assert_string_equal(first->description, "ISR9024D Voltaire");
	assert_int_equal(first->switch_info.flags & 0x08, 0x08);
	assert_int_equal(second->switch_info.flags & 0x08, 0);
	/* No line says so: from its name. */
	assert_int_equal(second->guid, 0x0008f10400410015);
	assert_ptr_equal(first->port[24].peer, &second->port[1]);
	assert_ptr_equal(adapter->port[1].peer, &first->port[23]);
	assert_int_equal(adapter->port[1].guids[0], 0x8f10403960559);
	assert_null(adapter->port[2].peer);
	assert_string_equal(vb_topology_rate_name(&first->port[23].rate), "4xSDR");
	assert_string_equal(vb_topology_rate_name(&second->port[1].rate), "4xEDR");
	assert_true(be32_get(second->port[0].info.capabilities) & VB_PORT_CAP_EXTENDED_SPEEDS);
	assert_int_equal(vb_fabric_port_state(&adapter->port[1]), VB_PORT_INIT);
	assert_int_equal(vb_fabric_port_state(&adapter->port[2]), VB_PORT_DOWN);
	lab_end(&lab);
}

/* Of each that ibnetdiscover has a name for. */
static void every_rate(void **state)
{
	static const char *const widths[] = {"1x", "2x", "4x", "8x", "12x"};
	static const char *const speeds[] = {"SDR", "DDR", "QDR", "FDR", "EDR", "HDR", "NDR"};

	(void)state;
	for (unsigned i = 0; i < 5 * 7; i++) {
		char name[16], text[128];
		struct lab lab;

		snprintf(name, sizeof(name), "%s%s", widths[i % 5], speeds[i / 5]);
		snprintf(text, sizeof(text), "Switch 2 \"S\"\n[1] \"T\"[1] # lid 3 %s\nCa 1 \"T\"\n", name);
		lab_begin(&lab, text);
		assert_string_equal(vb_topology_rate_name(&vb_fabric_find(&lab.fabric, "T")->port[1].rate), name);
		lab_end(&lab);
	}
}

static void errors_name_line_and_word(void **state)
{
	static const struct { const char *text; unsigned line; const char *word, *what; } rows[] = {
		{"", 0, "", "there is no node in this file"},
		{"# only words\n", 1, "", "there is no node in this file"},
		{"\n\nRouter 2 \"R\"\n", 3, "Router", "neither a node"},
		{"Switch \"S\"\n", 1, "\"S\"", "not a number of ports"},
		{"Switch 0 \"S\"\n", 1, "0", "not a number of ports"},
		{"Switch 255 \"S\"\n", 1, "255", "not a number of ports"},
		{"Switch 8 S\n", 1, "S", "a name in quotation marks"},
		{"Switch 8 \"S\n", 1, "\"S", "a name in quotation marks"},
		{"Switch 8 \"S\"\nCa 1 \"S\"\n", 2, "S", "a node of this name"},
		{"[1] \"S\"[2]\n", 1, "[1]", "a port without a node"},
		{"Switch 8 \"S\"\n[9] \"T\"[1]\n", 2, "S", "no such port"},
		{"Switch 8 \"S\"\n[x] \"T\"[1]\n", 2, "[x]", "not a port number"},
		{"Switch 8 \"S\"\n[1] T[1]\n", 2, "T[1]", "the other end's name"},
		{"Switch 8 \"S\"\n[1] \"T\"\n", 2, "", "the other end's port"},
		{"Switch 8 \"S\"\n[1] \"T\"[1]\n", 2, "T", "no node of this name"},
		{"Switch 8 \"S\"\n[1] \"T\"[3]\nCa 2 \"T\"\n", 2, "T", "no such port"},
		{"Switch 8 \"S\"\n[1] \"S\"[1]\n", 2, "S", "joined to itself"},
		{"Switch 8 \"S\"\n[1] \"T\"[1]\n[2] \"T\"[1]\nCa 2 \"T\"\n", 3, "T", "another cable"},
		{"Switch 8 \"S\"\n[1] \"T\"[1] what\nCa 2 \"T\"\n", 2, "what", "what is this"},
		{"devid=zz\n", 1, "devid=zz", "not a hexadecimal number"},
		{"switchguid=0x11111111111111111\n", 1, "switchguid=0x11111111111111111", "not a hexadecimal number"},
		{"switchguid=0x5\nSwitch 8 \"S\"\ncaguid=0x5\nCa 1 \"T\"\n", 4, "T", "another node has its GUID"},
		{"Ca 1 \"T\"\n[1](xyz) \"S\"[1]\n", 2, "(xyz)", "not a GUID"},
		{"\033[2J 1 2\n", 1, "?[2J", "neither a node"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		static const struct vb_fabric_host host;
		struct vb_topology_error error;
		struct vb_fabric fabric;

		vb_fabric_init(&fabric, &host, NULL);
		assert_int_equal(vb_topology_read(&fabric, rows[i].text, strlen(rows[i].text), 0, &error), -EINVAL);
		if (error.line != rows[i].line || strcmp(error.word, rows[i].word) != 0 || !strstr(error.what, rows[i].what))
			fail_msg("row %zu: line %u, word `%s', %s", i, error.line, error.word, error.what);
		vb_fabric_fini(&fabric);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_ibnetdiscover_writes),
		cmocka_unit_test(every_rate),
		cmocka_unit_test(errors_name_line_and_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
