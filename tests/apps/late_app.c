/* SPDX-License-Identifier: BSD-2-Clause */
/* An app that draws as Android's do, each late frame of which is late by a cause that is planned:
 * vsyncs come from a timer, the main thread does its doFrame and hands over to a RenderThread,
 * which queues a buffer to SurfaceFlinger, a process of its own.
 *
 * usage: late_app FOLDER [OPTION...] HZ:FRAMES:WAY[,WAY...]...
 *   FRAMES of each WAY at HZ, in an order that is drawn by lot, with frames in time among them. A
 *   WAY is a name of late_rig.h, or two of them with a + between; "all" is each that works here.
 *   --marker FILE     write atrace's markers there, and no rows of FrameTimeline
 *   --rows 1          but with rows
 *   --package NAME    that the rows belong to (com.example.late)
 *   --seed N          of the lot
 *   --calm N          frames in time behind each late one (1 to 3, by lot)
 *   --share PERCENT   of the first of two ways (by lot: 38 to 62)
 *   --binder DEVICE   for the way "binder"
 *   --pipelined 1     a frame in time begins while the one before it is still drawn, so that it may
 * be late with it; else each late one is on the screen before the next begins Rows of FrameTimeline
 * go into FOLDER/trace while it runs, the truth into FOLDER/truth.json. It prints "ready PID" and a
 * line of the ways, begins when a line comes on its stdin, prints "done" and stays until stdin
 * ends. Called as "perfetto" it takes a configuration on stdin and writes $LATE_TRACE to stdout
 * while that grows, as the device's perfetto would, until SIGINT. */
#include "late_plan.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/timerfd.h>

#define MARGIN_NS (2 * MS_NS) /* before a vsync that is still waited for */

/* ---- threads */
static void *run_loader(void *arg)
{
	prctl(PR_SET_NAME, "loader");
	be_urgent(6);
	for (;;) {
		/* first it is asked to take the lock, then to give it back later */
		get_number(app.loader[1]);
		pthread_mutex_lock(&app.lock);
		send_number(app.loader[1], 0);
		nap_ns(get_number(app.loader[1]));
		pthread_mutex_unlock(&app.lock);
	}
	return arg;
}

static void *run_heap(void *arg)
{
	struct uffd_msg msg;

	prctl(PR_SET_NAME, "HeapTaskDaemon");
	be_urgent(6);
	while (read(app.fault_fd, &msg, sizeof(msg)) == sizeof(msg)) {
		struct uffdio_zeropage zero = {
			.range = {(uintptr_t)app.fault_page, 4096},
		};

		nap_ns(app.fault_ns);
		must(!ioctl(app.fault_fd, UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE");
	}
	return arg;
}

/* waited: before it was woken for this frame */
static void render_frame(struct frame *f, int64_t waited)
{
	int64_t ran = ran_ns();

	mark("B|%d|%s %d", "DrawFrames", f->token);
	for (int i = 0; i < CAUSES; i++) {
		int64_t began_ns = boot_ns();

		if (f->ways[i] == WAY_RENDER_SYNC) {
			draw_shadows(f->planned_ns[i]);
			f->took_ns[i] = boot_ns() - began_ns;
		}
	}
	pthread_mutex_lock(&app.sync_lock);
	app.synced = true;
	pthread_cond_signal(&app.synced_cond);
	pthread_mutex_unlock(&app.sync_lock);
	burn(MS_NS / 2);
	be_late_for(f, true);
	mark("B|%d|%s", "queueBuffer", 0);
	f->queued_ns = f->ready_ns = boot_ns();
	for (int i = 0; i < CAUSES; i++) {
		if (f->ways[i] == WAY_GPU) {
			f->ready_ns += f->planned_ns[i];
			f->took_ns[i] = f->planned_ns[i];
		}
	}
	f->render_ran_ns = ran_ns() - ran;
	f->render_waited_ns = waited_ns() - waited;
	send_number(app.display, f - shared->frames);
	mark("E|%d", "", 0);
	f->marked_ns = boot_ns();
	mark("E|%d", "", 0);
}

static void *run_render(void *arg)
{
	struct epoll_event event;
	uint64_t count;

	prctl(PR_SET_NAME, "RenderThread");
	pin(app.render_cpu);
	be_urgent(5);
	for (;;) {
		int64_t waited = waited_ns();

		must(epoll_wait(app.render_epoll, &event, 1, -1) == 1, "epoll_wait");
		must(read(app.render_event, &count, sizeof(count)) == sizeof(count), "eventfd");
		render_frame(app.drawing, waited);
		pthread_mutex_lock(&app.sync_lock);
		app.drawn = true;
		pthread_cond_signal(&app.drawn_cond);
		pthread_mutex_unlock(&app.sync_lock);
	}
	return arg;
}

/* ---- a frame */
static void wait_for_vsync(int64_t at_ns)
{
	struct itimerspec spec = {.it_value = {at_ns / 1000000000, at_ns % 1000000000}};
	struct epoll_event event;
	uint64_t count;

	timerfd_settime(app.timer, TFD_TIMER_ABSTIME, &spec, NULL);
	must(epoll_wait(app.timer_epoll, &event, 1, -1) == 1, "epoll_wait");
	must(read(app.timer, &count, sizeof(count)) == sizeof(count), "timer");
}

static bool has(const struct frame *f, enum way way)
{
	return f->ways[0] == way || f->ways[1] == way;
}

/* What happens before the vsync: a message that takes long, a process that comes. */
static void go_before(struct frame *f)
{
	if (has(f, WAY_LOCK_MAIN) || has(f, WAY_LOCK_RENDER)) {
		send_number(app.loader[0], 0);
		get_number(app.loader[0]);
	}
	for (int i = 0; i < CAUSES; i++) {
		if (f->ways[i] == WAY_MESSAGE) {
			wait_for_vsync(f->expected_start_ns - MS_NS);
			decode_bitmap(f->planned_ns[i] + MS_NS);
			f->took_ns[i] = boot_ns() - f->expected_start_ns;
		} else if (f->ways[i] == WAY_HOG_EARLY) {
			wait_for_vsync(f->expected_start_ns - MS_NS);
			send_number(app.hog_main, f->planned_ns[i] + MS_NS);
			f->took_ns[i] = f->planned_ns[i];
		}
	}
}

/* All frames before this one are done. It waits for that as a main thread waits that has nothing to
 * do: in its looper. */
static void wait_for_display(const struct frame *f)
{
	struct epoll_event event;

	while (app.shown < f - shared->frames) {
		must(epoll_wait(app.display_epoll, &event, 1, -1) == 1, "epoll_wait");
		app.shown = get_number(app.display) + 1;
	}
}

static void do_frame(struct frame *f)
{
	int64_t now_ns, ran, waited;
	uint64_t one = 1;

	/* The CPUs are free before a frame with causes of its own. */
	if (f->ways[0])
		wait_for_display(f);
	now_ns = boot_ns() + MARGIN_NS;
	f->expected_start_ns = shared->grid_ns;
	if (now_ns > shared->grid_ns)
		f->expected_start_ns +=
			((now_ns - shared->grid_ns) / f->period_ns + 1) * f->period_ns;
	f->expected_end_ns = f->expected_start_ns + f->period_ns;
	f->predicted_ns = f->expected_end_ns + f->period_ns;
	waited = waited_ns();
	go_before(f);
	wait_for_vsync(f->expected_start_ns);
	f->begin_ns = boot_ns();
	ran = ran_ns();
	if (has(f, WAY_MESSAGE))
		ran -= f->begin_ns - f->expected_start_ns;
	mark("B|%d|%s %d", "Choreographer#doFrame", f->token);
	burn(MS_NS / 2);
	be_late_for(f, false);
	app.synced = app.drawn = false;
	app.drawing = f;
	f->asked_ns = boot_ns();
	must(write(app.render_event, &one, sizeof(one)) == sizeof(one), "eventfd");
	pthread_mutex_lock(&app.sync_lock);
	while (!app.synced)
		pthread_cond_wait(&app.synced_cond, &app.sync_lock);
	pthread_mutex_unlock(&app.sync_lock);
	f->end_ns = boot_ns();
	mark("E|%d", "", 0);
	f->main_ran_ns = ran_ns() - ran;
	f->main_waited_ns = waited_ns() - waited;
	if (app.pipelined)
		return;
	pthread_mutex_lock(&app.sync_lock);
	while (!app.drawn)
		pthread_cond_wait(&app.drawn_cond, &app.sync_lock);
	pthread_mutex_unlock(&app.sync_lock);
	/* The next one has none of this one's causes. */
	if (f->ways[0])
		wait_for_display(f + 1);
}

/* ---- the whole */
static void nap_and_answer(int64_t ns)
{
	nap_ns(ns);
}

static void take_cpu(int64_t ns)
{
	burn(ns);
}

/* The HAL has a process whose name is its interface's: this program again. */
static int start_composer(void)
{
	char name[] = "android.hardware.graphics.composer3-service.late", fd[16];
	int fds[2];

	pair(fds);
	if (child("composer")) {
		close(fds[1]);
		return fds[0];
	}
	snprintf(fd, sizeof(fd), "%d", fcntl(fds[1], F_DUPFD, 3));
	execl("/proc/self/exe", name, "--composer", fd, NULL);
	_exit(1);
}

static __attribute__((noreturn)) void run_composer(int fd)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	be_urgent(7);
	for (;;) {
		burn(get_number(fd));
		send_number(fd, 0);
	}
}

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	ended = number;
}

/* Stands for the device's perfetto. */
static int play_trace(void)
{
	static char bytes[1 << 20];
	const char *path = getenv("LATE_TRACE");
	int fd = -1;
	bool last;
	ssize_t n;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	while (read(STDIN_FILENO, bytes, sizeof(bytes)) > 0)
		;
	do {
		last = ended;
		if (fd < 0)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0)
			if (write(STDOUT_FILENO, bytes, (size_t)n) != n)
				return 1;
		if (!last)
			poll(NULL, 0, 250);
	} while (!last);
	return 0;
}

static int open_timer(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	app.display_epoll = epoll_create1(EPOLL_CLOEXEC);
	must(!epoll_ctl(app.display_epoll, EPOLL_CTL_ADD, app.display, &event), "epoll");
	app.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	app.timer_epoll = epoll_create1(EPOLL_CLOEXEC);
	return epoll_ctl(app.timer_epoll, EPOLL_CTL_ADD, app.timer, &event);
}

static bool open_fault(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	app.fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	app.fault_page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uintptr_t)app.fault_page;
	range.range.len = 4096;
	return app.fault_fd >= 0 && !ioctl(app.fault_fd, UFFDIO_API, &api) &&
	       !ioctl(app.fault_fd, UFFDIO_REGISTER, &range);
}

static void start_threads(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	pthread_t thread;

	pair(app.loader);
	must(!pthread_create(&thread, NULL, run_loader, NULL), "thread");
	if (app.has_fault)
		must(!pthread_create(&thread, NULL, run_heap, NULL), "thread");
	app.render_event = eventfd(0, EFD_CLOEXEC);
	app.render_epoll = epoll_create1(EPOLL_CLOEXEC);
	must(!epoll_ctl(app.render_epoll, EPOLL_CTL_ADD, app.render_event, &event), "epoll");
	must(!pthread_create(&thread, NULL, run_render, NULL), "thread");
}

static void play(void)
{
	for (size_t i = 0; i < frame_count; i++) {
		struct frame *f = &shared->frames[i];

		if (shared->period_ns != f->period_ns) {
			wait_for_display(f);
			shared->grid_ns = boot_ns() + 10 * f->period_ns;
			shared->period_ns = f->period_ns;
			nap_ns(shared->grid_ns - boot_ns() - 2 * MARGIN_NS);
		}
		do_frame(f);
	}
}

int main(int argc, char **argv)
{
	const char *folder, *marker = NULL, *package = "com.example.late", *binder = NULL;
	char trace[512], line[64];
	cpu_set_t cpus;
	int at = 2, rows = 0;

	if (strlen(argv[0]) >= 8 && !strcmp(argv[0] + strlen(argv[0]) - 8, "perfetto"))
		return play_trace();
	if (argc == 3 && !strcmp(argv[1], "--composer"))
		run_composer(atoi(argv[2]));
	if (argc < 3)
		return 2;
	folder = argv[1];
	for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
		if (!strcmp(argv[at], "--marker"))
			marker = argv[at + 1];
		else if (!strcmp(argv[at], "--rows"))
			rows = atoi(argv[at + 1]);
		else if (!strcmp(argv[at], "--package"))
			package = argv[at + 1];
		else if (!strcmp(argv[at], "--seed"))
			seed = (unsigned)atoi(argv[at + 1]);
		else if (!strcmp(argv[at], "--calm"))
			app.calm = (unsigned)atoi(argv[at + 1]);
		else if (!strcmp(argv[at], "--share"))
			app.share = atoi(argv[at + 1]);
		else if (!strcmp(argv[at], "--pipelined"))
			app.pipelined = atoi(argv[at + 1]);
		else if (!strcmp(argv[at], "--binder"))
			binder = argv[at + 1];
		else
			return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "m.example.late");
	CPU_ZERO(&cpus);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			app.render_cpu = cpu;
	while (!CPU_ISSET(app.main_cpu, &cpus))
		app.main_cpu++;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	must(shared != MAP_FAILED, "mmap");
	app.marker = marker ? open(marker, O_WRONLY | O_CLOEXEC) : -1;
	must(!marker || app.marker >= 0, "marker");
	app.lock = app.sync_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	app.synced_cond = app.drawn_cond = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	snprintf(trace, sizeof(trace), "%s/trace", folder);
	app.has_disk = disk_open(&app.disk, folder);
	app.has_binder = binder && late_binder_start(&app.binder, binder);
	app.hog_main = serve("dex2oat64", app.main_cpu, 10, take_cpu, false);
	app.hog_render = serve("kcompactd0", app.render_cpu, 10, take_cpu, false);
	app.peer = serve("system_server", UINT32_MAX, 6, nap_and_answer, true);
	app.display = display_start(app.render_cpu, package, marker && !rows ? NULL : trace, marker,
				    start_composer());
	app.has_fault = open_fault();
	must(!open_timer(), "timer");
	for (; at < argc; at++)
		plan(argv[at]);
	pin(app.main_cpu);
	start_threads();
	be_urgent(5);
	printf("ready %d %zu\n", getpid(), frame_count);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	play();
	/* the last ones are on the screen */
	nap_ns(100 * MS_NS);
	send_number(app.display, -1);
	while (get_number(app.display) != -1)
		;
	tell_truth(folder);
	puts("done");
	fflush(stdout);
	if (fgets(line, sizeof(line), stdin))
		return 0;
	return 0;
}
