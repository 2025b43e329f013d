/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each row of the table (rows.txt) performed on urds, and the answer compared with what the kernel said, or with what
 * the table says of ours and why.
 *
 *	rows_test rows.txt [WORD]	WORD selects cases by name
 */
#include "world.h"

#include <netinet/ip.h>

#define LINE 1024
#define TIME_SPARE_S 5

struct row {
	char title[LINE], kernel[2][LINE], ours[2][LINE], how[LINE], why[LINE], not_here[LINE];
};

enum { LOOP, TCP };

/* ---------------------------------------------------------------- the table */

static bool take(const char *line, const char *key, char *to)
{
	size_t n = strlen(key);

	if (strncmp(line, key, n) != 0 || line[n] != ' ')
		return false;
	snprintf(to, LINE, "%s", line + n + 1);
	return true;
}

/* The next row: a line that begins with its number, and the lines up to an empty one. */
static bool next_row(FILE *f, struct row *r)
{
	char line[LINE];

	memset(r, 0, sizeof *r);
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] == '#')
			continue;
		if (line[0] == 0) {
			if (r->title[0])
				return true;
			continue;
		}
		if (!r->title[0]) {
			snprintf(r->title, sizeof r->title, "%s", line);
			continue;
		}
		if (!take(line, "kernel", r->kernel[LOOP]) &&
		    !take(line, "kernel-tcp", r->kernel[TCP]) &&
		    !take(line, "ours", r->ours[LOOP]) && !take(line, "ours-tcp", r->ours[TCP]) &&
		    !take(line, "do", r->how) && !take(line, "why", r->why) &&
		    !take(line, "not", r->not_here)) {
			fprintf(stderr, "rows_test: %s: what is this: %s\n", r->title, line);
			exit(2);
		}
	}
	return r->title[0] != 0;
}

/* A missing line for TCP says "the same". */
static const char *of_column(char line[2][LINE], int column)
{
	return column == TCP && line[TCP][0] ? line[TCP] : line[LOOP];
}

/* ---------------------------------------------------------------- comparing */

/* What this host lets SO_SNDBUF or SO_RCVBUF be, read back; urds takes 4 MiB at most. */
static unsigned long doubled_max(const char *file)
{
	unsigned long v = 4ul << 20;
	FILE *f = fopen(file, "re");

	if (f) {
		if (fscanf(f, "%lu", &v) != 1 || v > 4ul << 20)
			v = 4ul << 20;
		fclose(f);
	}
	return 2 * v;
}

/* A number in @got is matched, if it is the one. */
static bool match_number(const char **got, bool *known, unsigned long *n)
{
	char *end;
	unsigned long v = strtoul(*got, &end, 10);

	if (end == *got || (*known && v != *n))
		return false;
	*known = true;
	*n = v;
	*got = end;
	return true;
}

/* " after 0.5 s": not earlier, and later only as far as a busy machine explains. */
static bool match_time(const char **want, const char **got)
{
	char *we, *ge;
	double w = strtod(*want, &we), g = strtod(*got, &ge);

	if (we == *want || ge == *got)
		return false;
	*want = we;
	*got = ge;
	return (w <= 0.2 || g >= w - 0.05) && g <= w + TIME_SPARE_S * (double)slow();
}

/* In @want <n> is some number, the same throughout, and <2*wmem_max> and <2*rmem_max> are of this host. */
static bool is_answer(const char *want, const char *got)
{
	static const char n_token[] = "<n>", w_token[] = "<2*wmem_max>", r_token[] = "<2*rmem_max>",
			  after[] = " after ";
	unsigned long n = 0, v;
	bool known = false, yes = true;

	while (*want) {
		if (strncmp(want, n_token, sizeof n_token - 1) == 0) {
			if (!match_number(&got, &known, &n))
				return false;
			want += sizeof n_token - 1;
		} else if (strncmp(want, w_token, sizeof w_token - 1) == 0 ||
			   strncmp(want, r_token, sizeof r_token - 1) == 0) {
			v = doubled_max(want[3] == 'w' ? "/proc/sys/net/core/wmem_max"
						       : "/proc/sys/net/core/rmem_max");
			if (!match_number(&got, &yes, &v))
				return false;
			want += sizeof w_token - 1;
		} else if (strncmp(want, after, sizeof after - 1) == 0 &&
			   strncmp(got, after, sizeof after - 1) == 0) {
			want += sizeof after - 1;
			got += sizeof after - 1;
			if (!match_time(&want, &got))
				return false;
		} else if (*want++ != *got++) {
			return false;
		}
	}
	return *got == 0;
}

/* ---------------------------------------------------------------- performing */

static const char blocks[] = "blocks (killed after 4 s)";

struct job {
	pthread_t id;
	struct world *w;
	char op[LINE], answer[LINE];
};

static void *perform(void *arg)
{
	struct job *j = arg;

	rows_op(j->w, j->op, j->answer, sizeof j->answer);
	return NULL;
}

static int join_within(pthread_t id, double s)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	s += (double)ts.tv_nsec / 1e9;
	ts.tv_sec += (time_t)s;
	ts.tv_nsec = (long)((s - (double)(time_t)s) * 1e9);
	return pthread_timedjoin_np(id, NULL, &ts);
}

/* Return: did it return? */
static bool run(struct job *j, struct world *w, const char *op, size_t len, double patience_s)
{
	j->w = w;
	j->answer[0] = 0;
	snprintf(j->op, sizeof j->op, "%.*s", (int)len, op);
	CHECK_EQ(pthread_create(&j->id, NULL, perform, j), 0);
	if (join_within(j->id, patience_s) == 0)
		return true;
	/* No wait without a way out: closing ends it. */
	world_close_socks(w);
	if (join_within(j->id, 20.0 * slow()) != 0) {
		printf("# %s: blocks although its socket was closed\n", j->op);
		say_where(getpid());
		exit(1);
	}
	return false;
}

/* @how is the answer, with operations in braces in the place of what they say. Those that begin with "!" only have to
 * work. What blocks is the answer as a whole, for the probe had to be killed. */
static void answer_of(struct world *w, const char *how, bool may_block, char *out)
{
	/* A negative claim takes time: how long it is watched. */
	double patience_s = may_block ? 0.3 * slow() : 20.0 * slow();
	static struct job j;
	size_t used = 0;

	out[0] = 0;
	while (*how) {
		const char *end = *how == '{' ? strchr(how, '}') : NULL;

		if (!end) {
			out[used++] = *how++;
			out[used] = 0;
			if (used == LINE - 1)
				T_FAIL("the answer is too long");
			continue;
		}
		how++;
		if (*how == '!') {
			if (!run(&j, w, how + 1, (size_t)(end - how - 1), 20.0 * slow()))
				T_FAIL("does not return: %s", how);
			if (strncmp(j.answer, "-1", 2) == 0 || strstr(j.answer, ROWS_BAD))
				T_FAIL("%.*s: %s", (int)(end - how), how, j.answer);
		} else if (!run(&j, w, how, (size_t)(end - how), patience_s)) {
			snprintf(out, LINE, "%s", blocks);
			return;
		} else {
			used += (size_t)snprintf(out + used, LINE - used, "%s", j.answer);
			if (used >= LINE)
				T_FAIL("the answer is too long");
		}
		how = end + 1;
	}
}

static void perform_row(struct row *r, int column)
{
	static struct world w; /* a case is left by a jump */
	const char *kernel = of_column(r->kernel, column);
	bool differs = r->ours[LOOP][0] != 0;
	const char *want = differs ? of_column(r->ours, column) : kernel;
	char got[LINE];

	if (differs && !r->why[0])
		T_FAIL("an answer of ours, and no reason for it");
	/* What a row that failed left open. */
	CHECK_EQ(world_close(&w), 0);
	if (world_open(&w, column == TCP) < 0)
		T_FAIL("no contexts at " ADDR_A " and " ADDR_B);
	answer_of(&w, r->how, strcmp(want, blocks) == 0, got);
	if (!is_answer(want, got)) {
		printf("# kernel: %s\n", kernel);
		if (differs)
			printf("# ours should be: %s\n", want);
		T_FAIL("ours: %s", got);
	}
	CHECK_EQ(world_close(&w), 0);
}

/* ---------------------------------------------------------------- the record's addresses */

static int add_v4(int fd, const char *name, const char *ip)
{
	struct sockaddr_in a = in4(ip, 0), mask = in4("255.255.255.255", 0);
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
	memcpy(&ifr.ifr_addr, &a, sizeof a);
	if (ioctl(fd, SIOCSIFADDR, &ifr) < 0)
		return -1;
	memcpy(&ifr.ifr_netmask, &mask, sizeof mask);
	return ioctl(fd, SIOCSIFNETMASK, &ifr);
}

/* As <linux/ipv6.h>, which does not go together with <netinet/in.h>. */
struct in6_request {
	struct in6_addr addr;
	uint32_t prefix;
	int ifindex;
};

static int add_v6(const char *ip)
{
	struct in6_request r = {.prefix = 128, .ifindex = (int)if_nametoindex("lo")};
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0 || inet_pton(AF_INET6, ip, &r.addr) != 1)
		return -1;
	rc = ioctl(fd, SIOCSIFADDR, &r);
	close(fd);
	return rc;
}

static bool have_v6;

static bool add_addresses(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && add_v4(fd, "lo:1", ADDR_A) == 0 && add_v4(fd, "lo:2", ADDR_B) == 0;

	if (fd >= 0)
		close(fd);
	have_v6 = ok && add_v6("2001:db8::1") == 0;
	return ok;
}

/* ---------------------------------------------------------------- main */

static void run_row(struct row *r, int column)
{
	bool asks_v6 = strstr(r->how, "bind a [2001:db8::1]") || strstr(r->how, "bind a [::1]");

	if (asks_v6 && !have_v6)
		T_SKIP("this host has no IPv6");
	perform_row(r, column);
}

int main(int argc, char **argv)
{
	/* Kept when a case is left by a jump. */
	static struct row r;
	static unsigned performed, listed;
	static int column;
	static FILE *f;

	if (argc < 2 || !(f = fopen(argv[1], "re"))) {
		fprintf(stderr, "usage: rows_test rows.txt [WORD]\n");
		return 2;
	}
	T_INIT(argc - 1, argv + 1);
	if (!own_network() || !add_addresses()) {
		printf("1..0 # SKIP needs a network namespace of its own, with " ADDR_A " in it\n");
		return 77;
	}
	while (next_row(f, &r)) {
		if (r.not_here[0]) {
			printf("# %s: not here: %s\n", r.title, r.not_here);
			listed++;
			continue;
		}
		for (column = LOOP; column <= TCP; column++) {
			static char name[LINE + 8];

			snprintf(name, sizeof name, "%s %s", column == TCP ? "tcp" : "loop",
				 r.title);
			T_RUN_AS(name, run_row(&r, column));
		}
		performed++;
	}
	fclose(f);
	printf("# %u rows performed, %u listed with the reason why not\n", performed, listed);
	if (performed < 60) {
		printf("# fewer rows than there were\n");
		return 1;
	}
	return t_done();
}
