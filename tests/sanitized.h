/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which sanitizer this is built with, in the ways of both compilers.
 */
#ifndef URDS_TESTS_SANITIZED_H
#define URDS_TESTS_SANITIZED_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZED_ADDRESS 1
#else
#define SANITIZED_ADDRESS 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZED_THREAD 1
#else
#define SANITIZED_THREAD 0
#endif
#define SANITIZED (SANITIZED_ADDRESS || SANITIZED_THREAD)

#endif
