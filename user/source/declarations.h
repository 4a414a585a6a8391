/* SPDX-License-Identifier: BSD-2-Clause */
/* What each source declares in its folder; declarations.c has the list. */
#pragma once
#include "jankscope/source.h"

/* One a source: in its declaration.c. */
extern const struct source_declaration cpu_declaration, blocks_declaration, net_declaration,
	tcp_declaration, frames_declaration, power_declaration, memory_declaration,
	context_declaration, disk_declaration, startup_declaration, flight_declaration;
/* Their counters, for who has records and no sources. */
extern const struct loss_table cpu_losses, blocks_losses, net_losses, frames_losses, power_losses,
	memory_losses, tcp_losses, disk_losses, startup_losses, flight_losses;
/* Their rows of struct record_interval: in fields.c. */
extern const struct field cpu_part, net_part, tcp_part, frames_part, power_part, memory_part,
	context_part, disk_part;
