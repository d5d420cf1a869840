/* SPDX-License-Identifier: MIT
 *
 * sigaction(2).
 */
#include "io/signals.h"

#include <signal.h>
#include <stddef.h>

struct handlers {
	unsigned restart, interrupt;
};

static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP || number == SIGSYS ||
	       number == SIGABRT;
}

static struct handlers count(void)
{
	struct handlers handlers = {0};
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (is_fault(number) || sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
		    action.sa_handler == SIG_IGN)
			continue;
		if ((action.sa_flags & SA_RESTART) != 0)
			handlers.restart++;
		else
			handlers.interrupt++;
	}
	return handlers;
}

bool vb_signals_restart_calls(void)
{
	return count().interrupt == 0;
}

bool vb_signals_agree(void)
{
	struct handlers handlers = count();

	return handlers.restart == 0 || handlers.interrupt == 0;
}
