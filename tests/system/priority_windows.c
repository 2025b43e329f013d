/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The priority class of the process with the number that is given, as Windows says it to another one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

int main(int argc, char **argv)
{
	DWORD pid = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, class;
	HANDLE p = OpenProcess(PROCESS_QUERY_INFORMATION, FALSE, pid);

	class = p ? GetPriorityClass(p) : 0;
	if (!class) {
		fprintf(stderr, "process %lu: error %lu\n", pid, GetLastError());
		return 1;
	}
	puts(class == REALTIME_PRIORITY_CLASS ? "real time" : "less than real time");
	return 0;
}
