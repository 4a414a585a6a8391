/* SPDX-License-Identifier: BSD-2-Clause */
/* bionic refuses an arm64 executable whose TLS segment is aligned to less than 64 bytes. Ours never
 * meets bionic's loader (it has no interpreter), but this costs nothing; the linker's -u keeps it.
 */
extern __thread char tls_alignment[64];
__thread char tls_alignment[64] __attribute__((aligned(64)));
