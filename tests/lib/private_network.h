/* SPDX-License-Identifier: MIT
 *
 * A network of one's own for a test: its own network namespace with loopback up, and its own process namespace, so
 * that the daemon it starts ends with it.
 */
#ifndef TESTS_LIB_PRIVATE_NETWORK_H
#define TESTS_LIB_PRIVATE_NETWORK_H

/* Call first in main. Returns only in the process that shall run the tests; the caller's original process waits
 * for it and exits with its status. Exits with 77 (skipped) where namespaces are not to be had. */
void private_network_enter(void);

/* Inside: add a dummy interface, up, with an IPv4 address (and remove it). 0 or -errno; -EOPNOTSUPP: no such kind
 * here. */
int private_network_add_interface(const char *name, const char *ipv4, unsigned prefix);
int private_network_remove_interface(const char *name);
int private_network_add_address(const char *name, const char *ipv4, unsigned prefix);
int private_network_remove_address(const char *name, const char *ipv4, unsigned prefix);
int private_network_set_up(const char *name, int up);

/* UDP datagrams, of IPv4 and IPv6, sent in it so far. */
unsigned long private_network_datagrams(void);
/* An ordinary user has no rights over what ptrace(2) forbids. */
void private_network_give_up_ptrace(void);

#endif
