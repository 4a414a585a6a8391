/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines on stderr from a program that must not wait: a terminal under Ctrl-S and a pipe that nobody
 * reads would hold it for ever. */
#pragma once

/* Print "jankscope: " and the text, which ends in its newline; what stderr does not take at once is
 * left out. At most 500 bytes. */
void __attribute__((format(printf, 1, 2))) talk(const char *format, ...);
