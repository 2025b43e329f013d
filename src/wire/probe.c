/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Probe and answer.
 */
#include "wire/probe.h"

int urds_probe_put(uint8_t hdr[URDS_HDR_LEN], bool answer, uint64_t seq, const struct urds_probe *p)
{
	struct urds_exts e = {
		.have = (p->has_npaths ? URDS_EXT_HAVE_NPATHS : 0) |
			(p->has_gen_num ? URDS_EXT_HAVE_GEN_NUM : 0) |
			(p->has_sport_idx ? URDS_EXT_HAVE_SPORT_IDX : 0) |
			(p->has_urds ? URDS_EXT_HAVE_URDS : 0),
		.npaths = p->npaths,
		.gen_num = p->gen_num,
		.urds = {p->urds_version, p->caps, p->incarnation},
	};
	uint8_t ext[URDS_HDR_EXT_LEN];
	int rc = urds_exts_put(ext, &e);

	if (rc < 0)
		return rc;
	urds_hdr_put_data(hdr, seq, 0, answer ? 0 : URDS_PROBE_PORT, answer ? URDS_PROBE_PORT : 0);
	memcpy(hdr + URDS_HDR_OFF_EXT, ext, sizeof(ext));
	return URDS_HDR_LEN;
}

int urds_probe_get(struct urds_probe *out, const struct urds_hdr *h)
{
	enum urds_frame_kind kind = urds_hdr_kind(h, false);
	struct urds_exts e;

	if (kind != URDS_FRAME_PROBE && kind != URDS_FRAME_PROBE_ANSWER)
		return -URDS_EPROTO;
	urds_exts_get(&e, h->ext);
	*out = (struct urds_probe){
		.has_npaths = e.have & URDS_EXT_HAVE_NPATHS,
		.has_gen_num = e.have & URDS_EXT_HAVE_GEN_NUM,
		.has_sport_idx = e.have & URDS_EXT_HAVE_SPORT_IDX,
		.npaths = e.npaths,
		.gen_num = e.gen_num,
	};
	if ((e.have & URDS_EXT_HAVE_URDS) && e.urds.version != 0 && e.urds.incarnation != 0) {
		out->has_urds = true;
		out->urds_version = e.urds.version;
		out->caps = e.urds.caps;
		out->incarnation = e.urds.incarnation;
	}
	return 0;
}
