/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that hold compressed packets. */
#include "trace/perfetto_private.h"
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#define MAX_NESTING  3
#define MAX_INFLATED (256U << 20) /* of one packet of packets */
#define PIECE_BYTES  (64U << 10)

static int inflate_zlib(struct perfetto *p, struct framing *framing, unsigned depth,
			const struct wire_field *field, uint8_t *out)
{
	z_stream z = {.next_in = (uint8_t *)field->data, .avail_in = (unsigned)field->size};
	size_t total = 0;
	int rc, err = 0;

	if (inflateInit2(&z, 15 + 32) != Z_OK)
		return -ENOMEM;
	do {
		z.next_out = out;
		z.avail_out = PIECE_BYTES;
		rc = inflate(&z, Z_NO_FLUSH);
		if (rc != Z_OK && rc != Z_STREAM_END) {
			perfetto_unusable(p, "damaged_compressed_packets", "damaged inside",
					  p->packet_offset);
			break;
		}
		total += PIECE_BYTES - z.avail_out;
		if (total > MAX_INFLATED) {
			perfetto_unusable(p, "oversized_compressed_packets", "inflates to too much",
					  p->packet_offset);
			break;
		}
		err = perfetto_read_stream(p, framing, depth, out, PIECE_BYTES - z.avail_out);
	} while (!err && rc != Z_STREAM_END);
	inflateEnd(&z);
	return err;
}

static int inflate_zstd(struct perfetto *p, struct framing *framing, unsigned depth,
			const struct wire_field *field, uint8_t *out)
{
	ZSTD_DStream *stream = ZSTD_createDStream();
	ZSTD_inBuffer in = {field->data, field->size, 0};
	size_t total = 0;
	bool full = false;
	int err = 0;

	if (!stream)
		return -ENOMEM;
	ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, 25);
	while (!err && (in.pos < in.size || full)) {
		ZSTD_outBuffer piece = {out, PIECE_BYTES, 0};
		size_t rc = ZSTD_decompressStream(stream, &piece, &in);

		if (ZSTD_isError(rc)) {
			perfetto_unusable(p, "damaged_compressed_packets", "damaged inside",
					  p->packet_offset);
			break;
		}
		total += piece.pos;
		if (total > MAX_INFLATED) {
			perfetto_unusable(p, "oversized_compressed_packets", "inflates to too much",
					  p->packet_offset);
			break;
		}
		err = perfetto_read_stream(p, framing, depth, out, piece.pos);
		full = piece.pos == PIECE_BYTES;
	}
	ZSTD_freeDStream(stream);
	return err;
}

int perfetto_nested(struct perfetto *p, unsigned depth, const struct wire_field *field, bool zstd)
{
	struct framing framing = {.carry = NULL};
	uint8_t *out;
	int err;

	if (depth + 1 > MAX_NESTING) {
		perfetto_unusable(p, "packets_nested_too_deep", "nested too deep",
				  p->packet_offset);
		return 0;
	}
	out = malloc(PIECE_BYTES);
	if (!out)
		return -ENOMEM;
	err = zstd ? inflate_zstd(p, &framing, depth + 1, field, out)
		   : inflate_zlib(p, &framing, depth + 1, field, out);
	if (err == -EBADMSG) {
		perfetto_unusable(p, "damaged_compressed_packets", "damaged inside",
				  p->packet_offset);
		err = 0;
	} else if (framing.carry_size || framing.skip) {
		perfetto_unusable(p, "truncated_packets", "cut short inside", p->packet_offset);
	}
	free(framing.carry);
	free(out);
	return err;
}
