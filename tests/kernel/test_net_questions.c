/* SPDX-License-Identifier: BSD-2-Clause */
/* What only a dump can tell is asked for in each read-out in which no answer is due, and once more
 * at the end of a run. */
/* Runs beside others (4 s) */
#include "kernel/net_measure.h"

#define TRIES 4

/* A socket that is bound to no address takes what comes for an address that is new: whether that
 * is the host's own is a question. It lives no longer than its traffic. */
static bool receive_at_new_address(const struct bench *bench, uid_t uid)
{
	static unsigned last = 100;
	char address[32];
	struct traffic traffic = {.family = AF_INET, .address = address, .up = 486, .count = 100};
	int err;

	snprintf(address, sizeof(address), "10.77.1.%u", last++);
	setns(bench->rig.ns[RIG_DEVICE], CLONE_NEWNET);
	err = rig_address("wl0", address, 24);
	setns(bench->rig.home, CLONE_NEWNET);
	return !err && !traffic_pair(&bench->rig, RIG_DEVICE, uid, udp_receiver, RIG_PEER, PEER_UID,
				     udp_sender, traffic);
}

static bool has_all(struct bench *bench, uid_t uid)
{
	struct truth_bytes truth = truth_of(bench, uid, false, false);

	return truth.rx_bytes && truth.rx_bytes == measured_uid(&bench->measured, uid)->rx_bytes;
}

static void sample_with_answer(struct bench *bench)
{
	usleep(bench->slow ? 3000000 : 200000);
	sample(bench);
}

/* Opened, and nothing is asked for any more. */
static bool open_settled(struct bench *bench)
{
	const struct net_options options = {0};

	clear_truth(bench);
	bench->final = false;
	if (start(bench, &options))
		return false;
	for (int i = 0; i < 20; i++) {
		usleep(SAMPLE_US);
		sample(bench);
	}
	return true;
}

/* Traffic of somebody else's on this machine may have the question of a read-out: then the next
 * try tells. */
static void test_next_question(struct bench *bench)
{
	bool moved = true, asked = false;

	if (!tap_ok(open_settled(bench), "next question: opens")) {
		stop(bench);
		return;
	}
	for (uid_t i = 0; i < TRIES && moved && !asked; i++) {
		uid_t first = DEVICE_UID + 2 * i, second = first + 1;

		moved = receive_at_new_address(bench, first);
		sample(bench);
		moved &= receive_at_new_address(bench, second);
		sample_with_answer(bench);
		asked = has_all(bench, first);
		sample_with_answer(bench);
		asked &= has_all(bench, second);
		drain(bench);
	}
	tap_ok(moved && asked, "the read-out that hears an answer asks the next question");
	stop(bench);
}

static void test_last_question(struct bench *bench)
{
	uint64_t unresolved = 1;
	bool moved = true, told = false;

	/* What others on this machine sent last is unresolved as well: then the next try tells. */
	for (uid_t i = 0; i < 2 * TRIES && moved && !(told && !unresolved); i++) {
		uid_t first = DEVICE_UID + 20 + 2 * i, second = first + 1;

		moved = open_settled(bench) && receive_at_new_address(bench, first);
		sample(bench);
		moved &= receive_at_new_address(bench, second);
		bench->final = true;
		sample_with_answer(bench);
		told = has_all(bench, first) && has_all(bench, second);
		unresolved = counter_list_get(&bench->measured.lost, "net_unresolved_bytes");
		stop(bench);
	}
	tap_ok(moved && told && !unresolved,
	       "the last read-out that hears an answer asks once more (%lu B unresolved)",
	       unresolved);
}

int main(int argc, char **argv)
{
	struct bench bench = {0};

	if (bench_up(&bench, "net questions")) {
		test_next_question(&bench);
		test_last_question(&bench);
	}
	bench_down(&bench);
	return tap_done();
}
