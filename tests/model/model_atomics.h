/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a header under test gets in place of <stdatomic.h>: the same names, the checker's meaning.
 * The memory of an atomic object is only its name here; the checker keeps the values.
 */
#ifndef URDS_TESTS_MODEL_ATOMICS_H
#define URDS_TESTS_MODEL_ATOMICS_H

#include <stdatomic.h>

#include "model.h"

#define URDS_MO(site, order)                           \
	__extension__({                                \
		static int mc_site_;                   \
		mc_mo(&mc_site_, #site, (int)(order)); \
	})

#undef atomic_init
#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_thread_fence
#undef atomic_signal_fence

#define atomic_init(p, v) mc_init((p), sizeof(*(p)), (v), #p)
#define atomic_load_explicit(p, mo) mc_load((p), (int)(mo))
#define atomic_store_explicit(p, v, mo) mc_store((p), (v), (int)(mo))
#define atomic_exchange_explicit(p, v, mo) mc_rmw((p), MC_XCHG, (v), (int)(mo))
#define atomic_fetch_add_explicit(p, v, mo) mc_rmw((p), MC_ADD, (v), (int)(mo))
#define atomic_fetch_sub_explicit(p, v, mo) mc_rmw((p), MC_SUB, (v), (int)(mo))
#define atomic_fetch_or_explicit(p, v, mo) mc_rmw((p), MC_OR, (v), (int)(mo))
#define atomic_fetch_and_explicit(p, v, mo) mc_rmw((p), MC_AND, (v), (int)(mo))
#define atomic_compare_exchange_strong_explicit(p, e, v, mo, fmo)              \
	__extension__({                                                        \
		uint64_t mc_e_ = *(e);                                         \
		bool mc_ok_ = mc_cas((p), &mc_e_, (v), (int)(mo), (int)(fmo)); \
		*(e) = (__typeof__(*(e)))mc_e_;                                \
		mc_ok_;                                                        \
	})
#define atomic_compare_exchange_weak_explicit atomic_compare_exchange_strong_explicit
#define atomic_thread_fence(mo) mc_fence((int)(mo))
#define atomic_signal_fence(mo) ((void)(mo))

#endif
