// SPDX-License-Identifier: BSD-2-Clause
// As tests/apps/loop_kinds.c, in Go with C.  usage: loop_cgo MODE GO_FILE
// cgo_locked: main is locked to the main thread and waits in C, as with GTK or SDL, beside goroutines
// that use the runtime's own poller.
// cgo_server: no main loop; goroutines call C that works.
package main

/*
#cgo CFLAGS: -D_GNU_SOURCE
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static long long now(int clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void loop(const char *go)
{
	int epoll = epoll_create1(0), blocks = 0, wait = 100;
	struct epoll_event event;

	for (;;) {
		epoll_wait(epoll, &event, 1, wait);
		if (access(go, F_OK))
			continue;
		if (++blocks > 5) {
			wait = -1;
			continue;
		}
		long long boot = now(CLOCK_BOOTTIME), since = now(CLOCK_MONOTONIC);
		struct timespec ts = {0, 300000000};

		while (nanosleep(&ts, &ts))
			;
		printf("block %lld %lld\n", boot, now(CLOCK_MONOTONIC) - since);
		fflush(stdout);
		wait = 500;
	}
}

static void work(long us)
{
	long long end = now(CLOCK_MONOTONIC) + us * 1000;

	while (now(CLOCK_MONOTONIC) < end)
		;
}
*/
import "C"

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"time"
)

func init() { runtime.LockOSThread() }

// Traffic for the runtime's poller, with work in C.
func serve(pause time.Duration) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			C.work(20000)
			c.Write([]byte("ok"))
			c.Close()
		}
	}()
	for {
		if c, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			c.Read(make([]byte, 4))
			c.Close()
		}
		time.Sleep(pause)
	}
}

func main() {
	fmt.Println("ready")
	if os.Args[1] == "cgo_locked" {
		go serve(70 * time.Millisecond)
		C.loop(C.CString(os.Args[2]))
	}
	runtime.UnlockOSThread()
	serve(1500 * time.Millisecond)
}
