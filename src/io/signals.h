/* SPDX-License-Identifier: MIT
 *
 * What a program's signal handlers ask of calls that they interrupt. ppoll is never restarted after a handler has run; read, recv and send
 * are if the handler was installed with SA_RESTART (signal(7)). Which handler ran cannot be found out, so all of them are asked; but not
 * those of faults, which a call that sleeps does not make.
 */
#ifndef VB_IO_SIGNALS_H
#define VB_IO_SIGNALS_H

#include <stdbool.h>

/* All handlers ask for calls to be restarted. */
bool vb_signals_restart_calls(void);
/* All of them do, or none does. */
bool vb_signals_agree(void);

#endif
