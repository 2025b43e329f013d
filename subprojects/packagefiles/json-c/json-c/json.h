/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The header that json-c's own build makes, with what the tools take from it.
 */
#ifndef URDS_SUBPROJECT_JSON_H
#define URDS_SUBPROJECT_JSON_H

#include "json_object.h"
#include "json_types.h"

#endif
