/* SPDX-License-Identifier: BSD-2-Clause */
/* The stack of a main thread by Android's libunwindstack (Debian has that of Android 10), one frame a
 * line: ADDRESS FUNCTION MAPPING+OFFSET. Where it is behind a call the address is the call's. It has
 * names of no byte code, and knows no compiled methods. usage: unwindstack PID */
#include <backtrace/Backtrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <memory>

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;

	if (!pid || ptrace(PTRACE_SEIZE, pid, 0, 0) || ptrace(PTRACE_INTERRUPT, pid, 0, 0) ||
	    waitpid(pid, NULL, __WALL) != pid) {
		perror("ptrace");
		return 1;
	}
	std::unique_ptr<Backtrace> stack(Backtrace::Create(pid, pid));

	if (!stack->Unwind(0))
		return 1;
	for (size_t i = 0; i < stack->NumFrames(); i++) {
		const backtrace_frame_data_t *frame = stack->GetFrame(i);

		printf("%llx %s %s+%llx\n", (unsigned long long)frame->pc,
		       frame->func_name.empty() ? "?" : frame->func_name.c_str(),
		       frame->map.name.c_str(), (unsigned long long)frame->rel_pc);
	}
	return 0;
}
