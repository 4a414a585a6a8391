/* SPDX-License-Identifier: BSD-2-Clause */
/* Plays SurfaceFlinger for Perfetto's real tracing service: its data source of FrameTimeline, with
 * frames of known fate, at 60 Hz and for every session that asks. Writes what it did when it ends.
 *
 * usage: frame_producer TRUTH REFRESHES [-w N] [-d SECONDS] [-b] [-s SOCKET]
 *   -w N  draw from when N sessions want it (1)       -d SECONDS  the end in any case (60)
 *   -b    one burst: fill the shared memory, then hand all of it over at once
 *   -s SOCKET  of the service (/dev/socket/traced_producer)
 * It says "draws" when it begins, and ends when all was drawn and no session is left. TRUTH has one
 * JSON object a line: what was drawn, each session, and each refresh of each session with its rows
 * [layer, jank bits, present type, due, present or 0]. `accepted`: packets that the service said it
 * took.
 *
 * Two layers. The first is drawn each refresh: of thirty, one is two refreshes late and one is
 * dropped. The second is drawn each second refresh, with one jank of each other kind in sixty. The
 * packets are those of FrameTimeline.cpp (frameworks/native, Android 13 and later): a start and an
 * end for what was expected and what came, of the display's frame and of each layer's, told when
 * the frame is on the screen. */
#include "traced_producer.h"
#include <inttypes.h>
#include <signal.h>

#define PERIOD_NS    16666667LL
#define MAX_REFRESH  100000
#define BURST_PAGE   32768
#define BURST_MEMORY (32U << 20) /* the most that the service gives */

/* protos/perfetto/trace/android/frame_timeline_event.proto */
enum { EXPECTED_DISPLAY = 1, ACTUAL_DISPLAY, EXPECTED_SURFACE, ACTUAL_SURFACE, FRAME_END };
enum { ON_TIME = 1, LATE = 2, DROPPED = 4 };
enum {
	NONE = 1,
	SF_SCHEDULING = 2,
	PREDICTION_ERROR = 4,
	APP_DEADLINE = 64,
	STUFFING = 128,
	DROPPED_JANK = 1024,
	NON_ANIMATING = 2048,
};

static const char *const layers[2] = {"TX - org.example.first/org.example.first.Main#41",
				      "TX - org.example.second/org.example.second.Play#42"};

/* What a frame became. */
struct fate {
	unsigned jank, present_type, late; /* late: refreshes */
};

/* A row of a layer that is told at some refresh. */
struct row {
	int layer;
	struct fate fate;
	int64_t due_ns, present_ns; /* 0: never */
	uint64_t token;
};

/* A refresh as one session was told of it; session is -1 where no session wanted the refresh. */
struct told {
	int refresh, session;
	uint64_t first_packet, packets;
	struct row rows[4];
	unsigned row_count;
};

static struct producer producer;
static struct told *told;
static size_t told_count, told_room;
static int64_t first_ns;
static uint64_t cookie;
static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	ended = number;
}

static int64_t due_ns(int refresh)
{
	return first_ns + refresh * PERIOD_NS;
}

static int32_t layer_pid(int layer)
{
	/* the second one is init's: a process that is there, and another one */
	return layer ? 1 : (int32_t)getpid();
}

/* Whether the layer has a frame that is due at this refresh, and what becomes of it. */
static bool drawn(int layer, int refresh, struct fate *fate)
{
	int turn = refresh % 60;

	*fate = (struct fate){NONE, ON_TIME, 0};
	if (refresh < 0)
		return false;
	if (layer == 0) {
		turn %= 30;
		if (turn == 10)
			*fate = (struct fate){APP_DEADLINE, LATE, 2};
		else if (turn == 20)
			*fate = (struct fate){DROPPED_JANK, DROPPED, 0};
		return turn != 11 && turn != 12;
	}
	if (turn == 20)
		fate->jank = NON_ANIMATING;
	else if (turn == 30)
		*fate = (struct fate){STUFFING, LATE, 1};
	else if (turn == 40)
		fate->jank = SF_SCHEDULING;
	else if (turn == 50)
		fate->jank = PREDICTION_ERROR;
	return turn % 2 == 0;
}

/* ---- packets */
/* One packet for one session, as SurfaceFlinger writes it: clock BOOTTIME 58, timestamp 8,
 * event 76. */
static void send_event(struct session *session, int64_t ts_ns, unsigned kind,
		       const struct message *body)
{
	uint8_t rooms[2][256];
	struct message event = {rooms[0], 0, 256}, packet = {rooms[1], 0, 256};

	put_message(&event, kind, body);
	put_number(&packet, 58, 6);
	put_number(&packet, 8, (uint64_t)ts_ns);
	put_message(&packet, 76, &event);
	producer_packet(&producer, session, packet.bytes, packet.size);
}

/* A start and its end. body: what comes behind the cookie. */
static void send_span(struct session *session, unsigned kind, int64_t start_ns, int64_t end_ns,
		      const struct message *body)
{
	uint8_t room[192], end_room[16];
	struct message start = {room, 0, sizeof(room)}, end = {end_room, 0, sizeof(end_room)};

	put_number(&start, 1, ++cookie);
	memcpy(start.bytes + start.size, body->bytes, body->size);
	start.size += body->size;
	send_event(session, start_ns, kind, &start);
	put_number(&end, 1, cookie);
	send_event(session, end_ns, FRAME_END, &end);
}

static void send_display(struct session *session, int refresh)
{
	int64_t present_ns = due_ns(refresh);
	uint8_t room[64];
	struct message body = {room, 0, sizeof(room)};

	put_number(&body, 2, 1000000 + (uint64_t)refresh);
	put_number(&body, 3, (uint64_t)getppid());
	send_span(session, EXPECTED_DISPLAY, present_ns - PERIOD_NS, present_ns, &body);
	put_number(&body, 4, ON_TIME);
	put_number(&body, 5, 1);
	put_number(&body, 6, 0);
	put_number(&body, 7, NONE);
	put_number(&body, 8, 1);
	send_span(session, ACTUAL_DISPLAY, present_ns - PERIOD_NS, present_ns, &body);
}

static void send_row(struct session *session, int refresh, const struct row *row)
{
	int64_t wake_ns = row->due_ns - 2 * PERIOD_NS;
	int64_t shown_ns = row->present_ns ? row->present_ns : row->due_ns;
	uint8_t room[128];
	struct message body = {room, 0, sizeof(room)};

	put_number(&body, 2, row->token);
	put_number(&body, 3, 1000000 + (uint64_t)refresh);
	put_number(&body, 4, (uint64_t)layer_pid(row->layer));
	put_bytes(&body, 5, layers[row->layer], strlen(layers[row->layer]));
	send_span(session, EXPECTED_SURFACE, wake_ns, row->due_ns - PERIOD_NS, &body);
	put_number(&body, 6, row->fate.present_type);
	put_number(&body, 7, row->fate.present_type == ON_TIME);
	put_number(&body, 8, 0);
	put_number(&body, 9, row->fate.jank);
	put_number(&body, 10, 1);
	put_number(&body, 11, 1);
	send_span(session, ACTUAL_SURFACE, wake_ns + 1000, shown_ns - PERIOD_NS - 500000, &body);
}

/* A packet that only takes room: TracePacket.for_testing 900 {str 1}. */
static void send_padding(struct session *session, size_t size)
{
	static uint8_t room[BURST_PAGE], text[BURST_PAGE];
	static uint8_t inner_room[BURST_PAGE];
	struct message packet = {room, 0, sizeof(room)};
	struct message inner = {inner_room, 0, sizeof(inner_room)};

	if (size < 64)
		return;
	put_bytes(&inner, 1, text, size - 32);
	put_message(&packet, 900, &inner);
	producer_packet(&producer, session, packet.bytes, packet.size);
}

/* ---- refreshes */
/* The rows that are told when this refresh is on the screen: what was due then, and what is late.
 */
static unsigned rows_of(int refresh, struct row *rows)
{
	unsigned count = 0;

	for (int layer = 0; layer < 2; layer++) {
		for (unsigned late = 0; late <= 2; late++) {
			int drawn_at = refresh - (int)late;
			struct fate fate;

			if (!drawn(layer, drawn_at, &fate) || fate.late != late)
				continue;
			rows[count++] = (struct row){
				.layer = layer,
				.fate = fate,
				.due_ns = due_ns(drawn_at),
				.present_ns = fate.present_type == DROPPED ? 0 : due_ns(refresh),
				.token = (uint64_t)(layer + 1) * 10000000 + (uint64_t)drawn_at,
			};
		}
	}
	return count;
}

static void tell(int refresh, int number, bool burst)
{
	struct session *session = number < 0 ? NULL : &producer.sessions[number];
	struct told *one;

	if (told_count == told_room) {
		told_room = told_room ? told_room * 2 : 1024;
		told = realloc(told, told_room * sizeof(*told));
		if (!told)
			exit(3);
	}
	one = &told[told_count];
	*one = (struct told){.refresh = refresh, .session = number};
	one->row_count = rows_of(refresh, one->rows);
	if (!one->row_count)
		return; /* SurfaceFlinger does not tell of a display frame without frames */
	told_count++;
	if (!session)
		return;
	one->first_packet = session->written;
	send_display(session, refresh);
	for (unsigned i = 0; i < one->row_count; i++)
		send_row(session, refresh, &one->rows[i]);
	one->packets = session->written - one->first_packet;
	/* a page of its own, and one that is only full */
	for (unsigned page = 0; page < 2 && burst; page++) {
		send_padding(session,
			     page ? producer.page_bytes - 64 : chunk_room(&producer, session));
		end_chunk(&producer, session);
	}
}

static void draw(int refresh, bool burst)
{
	bool any = false;

	for (unsigned i = 0; i < producer.session_count; i++) {
		if (!producer.sessions[i].running)
			continue;
		tell(refresh, (int)i, burst);
		any = true;
	}
	if (!any)
		tell(refresh, -1, false);
}

static unsigned running(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < producer.session_count; i++)
		count += producer.sessions[i].running;
	return count;
}

/* ---- the truth */
static uint64_t accepted_of(const struct told *one)
{
	uint64_t accepted = producer.sessions[one->session].accepted;

	if (accepted <= one->first_packet)
		return 0;
	accepted -= one->first_packet;
	return accepted < one->packets ? accepted : one->packets;
}

static int write_truth(const char *path, int refreshes, int drawn_refreshes)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return 3;
	fprintf(out, "{\"layers\":[");
	for (int i = 0; i < 2; i++)
		fprintf(out, "%s{\"layer\":\"%s\",\"pid\":%d}", i ? "," : "", layers[i],
			layer_pid(i));
	fprintf(out, "],\"refreshes\":%d,\"drawn\":%d,\"period_ns\":%lld,\"connections\":%u}\n",
		refreshes, drawn_refreshes, PERIOD_NS, producer.connection);
	for (unsigned i = 0; i < producer.session_count; i++) {
		const struct session *s = &producer.sessions[i];

		fprintf(out,
			"{\"session\":%u,\"connection\":%u,\"from_ns\":%" PRId64
			",\"until_ns\":%" PRId64 ",\"ended\":\"%s\",\"written\":%" PRIu64
			",\"accepted\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"chunks\":%u}\n",
			i, s->connection, s->from_ns, s->until_ns, s->ended, s->written,
			s->accepted, s->dropped, s->chunk);
	}
	for (size_t i = 0; i < told_count; i++) {
		const struct told *one = &told[i];

		fprintf(out,
			"{\"refresh\":%d,\"told_to\":%d,\"shown_ns\":%" PRId64
			",\"packets\":%" PRIu64 ",\"accepted\":%" PRIu64 ",\"rows\":[",
			one->refresh, one->session, due_ns(one->refresh), one->packets,
			one->session < 0 ? 0 : accepted_of(one));
		for (unsigned r = 0; r < one->row_count; r++) {
			const struct row *row = &one->rows[r];

			fprintf(out, "%s[%d,%u,%u,%" PRId64 ",%" PRId64 "]", r ? "," : "",
				row->layer, row->fate.jank, row->fate.present_type, row->due_ns,
				row->present_ns);
		}
		fprintf(out, "]}\n");
	}
	return fclose(out) ? 3 : 0;
}

int main(int argc, char **argv)
{
	int refreshes, next = 0, option;
	unsigned wanted = 1;
	int64_t end_ns, try_ns = 0;
	bool burst = false;
	int seconds = 60;

	producer.path = "/dev/socket/traced_producer";
	while ((option = getopt(argc, argv, "w:d:bs:")) != -1) {
		if (option == 'w')
			wanted = (unsigned)atoi(optarg);
		else if (option == 'd')
			seconds = atoi(optarg);
		else if (option == 'b')
			burst = true;
		else if (option == 's')
			producer.path = optarg;
		else
			return 2;
	}
	if (argc - optind != 2)
		return 2;
	refreshes = atoi(argv[optind + 1]);
	if (refreshes < 1 || refreshes > MAX_REFRESH || (burst && refreshes > MAX_CHUNKS / 2))
		return 2;
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	producer.data_source = "android.surfaceflinger.frametimeline";
	producer.page_bytes = burst ? BURST_PAGE : 4096;
	producer.shm_bytes = burst ? BURST_MEMORY : 256 * 1024;
	producer.hold = burst;
	producer.fd = producer.shm_fd = -1;
	end_ns = boot_ns() + seconds * 1000000000LL;
	while (!ended && boot_ns() < end_ns && (next < refreshes || running())) {
		int64_t now_ns = boot_ns(), wait_ns = 100000000;

		if (producer.fd < 0 && now_ns >= try_ns) {
			producer_connect(&producer);
			try_ns = now_ns + 100000000;
		}
		if (!first_ns && running() >= wanted) {
			first_ns = now_ns + 4 * PERIOD_NS;
			puts("draws");
			fflush(stdout);
		}
		while (first_ns && next < refreshes && due_ns(next) <= boot_ns()) {
			draw(next++, burst);
			if (next == refreshes)
				producer_release(&producer, 0);
		}
		if (first_ns && next < refreshes)
			wait_ns = due_ns(next) - boot_ns();
		producer_poll(&producer, wait_ns <= 0 ? 0 : (int)(wait_ns / 1000000) + 1);
	}
	/* what the service still has to say */
	for (int64_t until_ns = boot_ns() + 200000000; boot_ns() < until_ns;)
		producer_poll(&producer, 20);
	return write_truth(argv[optind], refreshes, next);
}
