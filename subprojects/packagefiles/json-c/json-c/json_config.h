/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Another header of json-c's own build.
 */
#define JSON_C_HAVE_INTTYPES_H 1
