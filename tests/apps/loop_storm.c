/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes of 1 ms of CPU, one after the other, until it is killed.  usage: loop_storm PROCESSES
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;

	while (--count > 0 && fork() > 0)
		;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		pid_t pid = fork();

		if (!pid) {
			while (cpu_ns() < 1000000)
				;
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}
