// SPDX-License-Identifier: BSD-2-Clause
// As tests/apps/loop_kinds.c, in Go.  usage: loop_go MODE GO_FILE
// go_server: the runtime's own poller, an HTTP server that works now and then: no main loop
// go_locked: main is locked to the main thread and waits by its own system calls
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

func now(clock uintptr) int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func init() { runtime.LockOSThread() }

func locked(goFile string) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		os.Exit(1)
	}
	events := make([]syscall.EpollEvent, 1)
	wait, blocks := 100, 0
	for {
		syscall.EpollWait(epoll, events, wait)
		if _, err := os.Stat(goFile); err != nil {
			continue
		}
		if blocks++; blocks > 5 {
			wait = -1
			continue
		}
		boot, since := now(7), now(1)
		ts := syscall.Timespec{Nsec: 300000000}
		for syscall.Nanosleep(&ts, &ts) == syscall.EINTR {
		}
		fmt.Printf("block %d %d\n", boot, now(1)-since)
		wait = 500
	}
}

func main() {
	goFile := os.Args[2]
	if os.Args[1] == "go_locked" {
		fmt.Println("ready")
		locked(goFile)
	}
	runtime.UnlockOSThread()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end := time.Now().Add(20 * time.Millisecond)
		for time.Now().Before(end) {
		}
		fmt.Fprint(w, "ok")
	}))
	fmt.Println("ready")
	for {
		if answer, err := http.Get(server.URL); err == nil {
			answer.Body.Close()
		}
		time.Sleep(1500 * time.Millisecond)
	}
}
