/* SPDX-License-Identifier: BSD-2-Clause */
/* The table's rows of bytes by uid, and of frames by layer. */
#include <stdlib.h>

#include "sink/table_private.h"
#include "util/units.h"

static void put_bytes(struct line *line, const struct record_bytes *bytes)
{
	char text[32];

	line_put(line, " rx %10s %8llu", format_bytes(text, sizeof(text), bytes->rx_bytes),
		 (unsigned long long)bytes->rx_packets);
	line_put(line, "  tx %10s %8llu", format_bytes(text, sizeof(text), bytes->tx_bytes),
		 (unsigned long long)bytes->tx_packets);
}

static bool any_bytes(const struct record_bytes *bytes)
{
	return bytes->rx_packets || bytes->tx_packets;
}

static void print_bytes(struct table_sink *table, const char *who, const struct record_bytes *bytes,
			const char *package)
{
	struct line line = table_line(table);
	char name[TABLE_NAME];
	int room;

	if (!any_bytes(bytes))
		return;
	line_put(&line, "  net %-10s", who);
	put_bytes(&line, bytes);
	room = line.width - line.column - 1;
	if (package && room >= 8)
		line_put(&line, " %s", text_tail(name, sizeof(name), package, room));
	else if (package)
		line_put(&line, " %s", text_tail(name, sizeof(name), package, line.width - 4));
	line_end(&line);
}

static int more_bytes(const void *a, const void *b)
{
	const struct record_uid_net *const *x = a, *const *y = b;
	uint64_t x_bytes = (*x)->bytes.rx_bytes + (*x)->bytes.tx_bytes;
	uint64_t y_bytes = (*y)->bytes.rx_bytes + (*y)->bytes.tx_bytes;

	if (x_bytes != y_bytes)
		return x_bytes < y_bytes ? 1 : -1;
	return (*x)->uid < (*y)->uid ? -1 : (*x)->uid > (*y)->uid;
}

void table_print_net(struct table_sink *table, const struct record_net *net)
{
	const struct record_uid_net **uids = calloc(net->uid_count + 1, sizeof(*uids));
	struct record_bytes rest = {0};
	size_t top = table->options.top ? table->options.top : SIZE_MAX, more = 0;
	char who[32];

	for (size_t i = 0; uids && i < net->uid_count; i++)
		uids[i] = &net->uids[i];
	if (uids)
		qsort(uids, net->uid_count, sizeof(*uids), more_bytes);
	for (size_t i = 0; uids && i < net->uid_count; i++) {
		const struct record_bytes *bytes = &uids[i]->bytes;

		snprintf(who, sizeof(who), "uid %u", uids[i]->uid);
		if (i < top) {
			print_bytes(table, who, bytes, uids[i]->package);
			continue;
		}
		rest.rx_bytes += bytes->rx_bytes;
		rest.rx_packets += bytes->rx_packets;
		rest.tx_bytes += bytes->tx_bytes;
		rest.tx_packets += bytes->tx_packets;
		more += any_bytes(bytes);
	}
	free(uids);
	snprintf(who, sizeof(who), "%zu more", more);
	print_bytes(table, who, &rest, NULL);
	print_bytes(table, "loopback", &net->loopback, NULL);
	print_bytes(table, "no uid", &net->unattributed, NULL);
}

void table_print_frames(struct table_sink *table, const struct record_frames *frames)
{
	struct line line = table_line(table);
	char name[TABLE_NAME];
	int room;

	for (size_t i = 0; i < frames->layer_count; i++) {
		const struct record_layer *layer = &frames->layers[i];

		line_put(&line, "  frames %5llu shown", (unsigned long long)layer->shown);
		line_put(&line, " %4llu janky", (unsigned long long)layer->janky);
		line_put(&line, " %4llu dropped", (unsigned long long)layer->dropped);
		/* One frame has no rate. */
		if (layer->fps_active > 0)
			line_put(&line, " %6.1f fps_active", layer->fps_active);
		else
			line_put(&line, " %6s fps_active", "-");
		room = line.width - line.column - 1;
		line_put(&line, " %s",
			 text_tail(name, sizeof(name), layer->layer ? layer->layer : "-",
				   room < 8 ? line.width - 4 : room));
		line_end(&line);
	}
}
