/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * No test depends on a configuration file of the machine that it runs on. Started by Meson only, which says so to all tests.
 */
#include "tap.h"

#include "urds/urds.h"

#ifdef _WIN32
#include <direct.h>
#endif

static void tests__read_no_file_of_this_machine(void)
{
	const char *file = getenv("URDS_CONFIG");

	CHECK(file && !*file);
}

/* Where there would be one, it is not read. Elsewhere than on Windows that place cannot be another one. */
static void tests__open_the_default_context(void)
{
	struct urds_ctx *ctx;

#ifdef _WIN32
	FILE *f;

	_mkdir("settings_test.d"); /* they may be there already */
	_mkdir("settings_test.d\\urds");
	f = fopen("settings_test.d\\urds\\urds.conf", "w");
	CHECK(f && fputs("nothing = \"like that\";\n", f) >= 0 && fclose(f) == 0);
	CHECK_EQ(_putenv("ProgramData=settings_test.d"), 0);
#endif
	CHECK_EQ(urds_open(NULL, &ctx), 0);
	CHECK_EQ(urds_shutdown(ctx), 0);
#ifdef _WIN32
	CHECK(remove("settings_test.d\\urds\\urds.conf") == 0 &&
	      _rmdir("settings_test.d\\urds") == 0 && _rmdir("settings_test.d") == 0);
#endif
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(tests__read_no_file_of_this_machine);
	T_RUN(tests__open_the_default_context);
	return t_done();
}
