/* SPDX-License-Identifier: MIT
 *
 * Code that is included after this runs in the model (model.h) instead of on the processor. Include what the system
 * has before it.
 */
#ifndef TESTS_UNIT_LITMUS_MODEL_ATOMICS_H
#define TESTS_UNIT_LITMUS_MODEL_ATOMICS_H

#include "model.h"

#define __atomic_load_n(location, order) model_load(location, order)
#define __atomic_store_n(location, value, order) model_store(location, (uint64_t)(value), order)
#define __atomic_exchange_n(location, value, order) model_exchange(location, (uint64_t)(value), order)
#define __atomic_thread_fence(order) model_fence(order)

#endif
