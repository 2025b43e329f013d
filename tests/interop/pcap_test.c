/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The reader of captures: whatever order segments were captured in, a stream comes out once and in
 * order. The kernel's captures hardly contain a segment sent twice, so these are made here.
 */
#include "pcap.h"

#include <unistd.h>

#include "tap.h"
#include "wire/be.h"

#define STREAM_LEN 20000u

static uint8_t file_bytes[4 << 20], stream[STREAM_LEN], got[2][STREAM_LEN];
static size_t file_len, got_len[2];
static unsigned flows_ended;

static void file_start(void)
{
	memset(file_bytes, 0, 24);
	urds_be32_store(file_bytes, 0xa1b2c3d4);
	urds_be32_store(file_bytes + 20, 1);
	file_len = 24;
	for (unsigned i = 0; i < STREAM_LEN; i++)
		stream[i] = (uint8_t)(i * 2654435761u >> 13);
}

/* @cut: bytes at the end that were not captured. */
static void packet(uint16_t sport, uint16_t dport, uint32_t seq, uint8_t flags, const uint8_t *p,
		   size_t len, size_t cut)
{
	uint8_t *rec = file_bytes + file_len, *eth = rec + 16, *ip = eth + 14, *tcp = ip + 20;
	size_t whole = 14 + 20 + 20 + len;

	memset(rec, 0, 16 + 54);
	urds_be32_store(rec + 8, (uint32_t)(whole - cut));
	urds_be32_store(rec + 12, (uint32_t)whole);
	urds_be16_store(eth + 12, 0x0800);
	ip[0] = 0x45;
	urds_be16_store(ip + 2, (uint16_t)(40 + len));
	ip[9] = 6;
	ip[15] = sport == 16385 ? 1 : 2;
	ip[19] = dport == 16385 ? 1 : 2;
	urds_be16_store(tcp, sport);
	urds_be16_store(tcp + 2, dport);
	urds_be32_store(tcp + 4, seq);
	tcp[12] = 5 << 4;
	tcp[13] = flags;
	if (len > 0)
		memcpy(tcp + 20, p, len);
	file_len += 16 + whole - cut;
}

static void on_data(struct pcap *c, struct pcap_flow *f, uint64_t now_ns, const uint8_t *p,
		    size_t len)
{
	unsigned i = f->sport == 16385;

	if (got_len[i] + len > STREAM_LEN)
		T_FAIL("more bytes than were sent");
	memcpy(got[i] + got_len[i], p, len);
	got_len[i] += len;
}

static void on_end(struct pcap *c, struct pcap_flow *f)
{
	flows_ended++;
}

static struct pcap_stats read_back(void)
{
	struct pcap c = {.port = 16385, .on_data = on_data, .on_end = on_end};
	char name[] = "pcap_test.XXXXXX";
	int fd = mkstemp(name), rc;
	bool is_written = write(fd, file_bytes, file_len) == (ssize_t)file_len;

	got_len[0] = got_len[1] = 0;
	flows_ended = 0;
	close(fd);
	rc = pcap_read(&c, name);
	unlink(name);
	CHECK(is_written);
	CHECK_EQ(rc, 0);
	return c.stats;
}

static void pcap__any_order_of_overlapping_segments(void)
{
	for (unsigned run = 0; run < 200; run++) {
		uint32_t isn = run & 1 ? 0xffffff00u : run; /* wraps around within the stream */
		size_t done = 0;

		srand(run);
		file_start();
		packet(5000, 16385, isn - 1, 0x02, NULL, 0, 0);
		packet(5000, 16385, isn - 1, 0x02, NULL, 0, 0);
		/* Anywhere in a window around what has surely been sent, as the network might. */
		while (done < STREAM_LEN) {
			size_t back = (size_t)rand() % 3000, ahead = (size_t)rand() % 3000;
			size_t at = done > back ? done - back : 0, len = 1 + (size_t)rand() % 1400;

			if (at + ahead < STREAM_LEN && rand() % 2)
				at += ahead;
			if (len > STREAM_LEN - at)
				len = STREAM_LEN - at;
			packet(5000, 16385, isn + (uint32_t)at, 0x10, stream + at, len, 0);
			if (at <= done && at + len > done)
				done = at + len;
		}
		CHECK_EQ(read_back().waiting, 0);
		CHECK_EQ(got_len[0], STREAM_LEN);
		CHECK_MEM(got[0], stream, STREAM_LEN);
		CHECK_EQ(flows_ended, 1);
	}
}

static void pcap__directions_and_lives_are_apart(void)
{
	file_start();
	packet(5000, 16385, 99, 0x02, NULL, 0, 0);
	packet(16385, 5000, 499, 0x12, NULL, 0, 0);
	packet(16385, 5000, 500, 0x10, stream, 10, 0);
	packet(5000, 16385, 100, 0x10, stream, 20, 0);
	packet(5000, 80, 100, 0x10, stream, 20, 0);
	packet(5000, 16385, 120, 0x04, NULL, 0, 0);
	packet(5000, 16385, 7000, 0x02, NULL, 0, 0); /* the port again */
	packet(5000, 16385, 7001, 0x10, stream + 20, 30, 0);
	read_back();
	CHECK_EQ(flows_ended, 3);
	CHECK_EQ(got_len[0], 50);
	CHECK_EQ(got_len[1], 10);
	CHECK_MEM(got[0], stream, 50);
}

static void pcap__keepalive_byte_is_not_data(void)
{
	file_start();
	packet(5000, 16385, 99, 0x02, NULL, 0, 0);
	packet(5000, 16385, 99, 0x10, stream + 7, 1, 0);
	packet(5000, 16385, 100, 0x10, stream, 20, 0);
	packet(5000, 16385, 119, 0x10, stream + 7, 1, 0);
	read_back();
	CHECK_EQ(got_len[0], 20);
	CHECK_MEM(got[0], stream, 20);
}

static void pcap__what_is_missing_is_counted(void)
{
	struct pcap_stats s;

	file_start();
	packet(6000, 16385, 1, 0x10, stream, 5, 0);
	packet(5000, 16385, 99, 0x02, NULL, 0, 0);
	packet(5000, 16385, 100, 0x10, stream, 20, 4);
	packet(5000, 16385, 120, 0x10, stream + 20, 20, 0);
	s = read_back();
	CHECK_EQ(s.unsynced, 1);
	CHECK_EQ(s.cut, 1);
	CHECK_EQ(s.waiting, 1);
	CHECK_EQ(got_len[0], 16);
	file_len -= 3; /* the capture was stopped while it wrote */
	CHECK_EQ(read_back().waiting, 0);
	CHECK_EQ(got_len[0], 16);
}

int main(int argc, char **argv)
{
	T_INIT(argc, argv);
	T_RUN(pcap__any_order_of_overlapping_segments);
	T_RUN(pcap__directions_and_lives_are_apart);
	T_RUN(pcap__keepalive_byte_is_not_data);
	T_RUN(pcap__what_is_missing_is_counted);
	return t_done();
}
