/* SPDX-License-Identifier: BSD-2-Clause */
/* As tests/apps/loop_kinds.c, on Qt's event loop.  usage: loop_qt MODE GO_FILE
 * MODE: qt (its own dispatcher, with QT_NO_GLIB=1)  qt_glib */
#include <QCoreApplication>
#include <QFile>
#include <QThread>
#include <QTimer>
#include <cstdio>
#include <ctime>

static int blocks;

static unsigned long long now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static void tick(const char *go_file)
{
	if (!QFile::exists(go_file)) {
		QTimer::singleShot(100, [=] { tick(go_file); });
		return;
	}
	if (++blocks > 5)
		return;
	unsigned long long boot = now_ns(CLOCK_BOOTTIME), since = now_ns(CLOCK_MONOTONIC);

	QThread::msleep(300);
	printf("block %llu %llu\n", boot, now_ns(CLOCK_MONOTONIC) - since);
	fflush(stdout);
	QTimer::singleShot(500, [=] { tick(go_file); });
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *go_file = argv[2];
	QCoreApplication app(argc, argv);

	QTimer::singleShot(100, [=] { tick(go_file); });
	printf("ready\n");
	fflush(stdout);
	return app.exec();
}
