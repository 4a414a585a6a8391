/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines: the state machine of dex-format, "debug_info_item". */
#include <stdbool.h>

#include "stack/code/dex_file.h"
#include "stack/code/byte_window.h"

#define MAX_PARAMETERS 255          /* of a method */
#define MAX_BYTES      (256u << 10) /* of one debug_info_item that are looked at */

enum {
	DBG_END_SEQUENCE = 0,
	DBG_ADVANCE_PC = 1,
	DBG_ADVANCE_LINE = 2,
	DBG_START_LOCAL = 3,
	DBG_START_LOCAL_EXTENDED = 4,
	DBG_END_LOCAL = 5,
	DBG_RESTART_LOCAL = 6,
	DBG_SET_PROLOGUE_END = 7,
	DBG_SET_EPILOGUE_BEGIN = 8,
	DBG_SET_FILE = 9,
	DBG_FIRST_SPECIAL = 10,
	DBG_LINE_BASE = -4,
	DBG_LINE_RANGE = 15,
};

static int skip(struct byte_window *window, unsigned numbers)
{
	uint32_t ignored;
	int err = 0;

	while (numbers-- && !err)
		err = byte_window_uleb(window, &ignored);
	return err;
}

/* How many numbers follow an opcode that says nothing of addresses and lines. */
static unsigned operands(uint8_t opcode)
{
	switch (opcode) {
	case DBG_START_LOCAL:
		return 3;
	case DBG_START_LOCAL_EXTENDED:
		return 4;
	case DBG_END_LOCAL:
	case DBG_RESTART_LOCAL:
	case DBG_SET_FILE:
		return 1;
	default:
		return 0;
	}
}

int dex_line(const struct dex_file *dex, const struct dex_place *place, uint32_t *line)
{
	uint32_t now, parameters, advance;
	uint64_t address = 0;
	struct byte_window window;
	bool found = false;
	int err;

	if (!place->debug_info)
		return -ENODATA;
	byte_window_open(&window, &dex->source,
			 dex->end - place->debug_info > MAX_BYTES && place->debug_info < dex->end
				 ? place->debug_info + MAX_BYTES
				 : dex->end);
	window.at = place->debug_info;
	err = byte_window_uleb(&window, &now);
	if (!err)
		err = byte_window_uleb(&window, &parameters);
	if (!err)
		err = parameters > MAX_PARAMETERS ? -EBADMSG : skip(&window, parameters);
	while (!err) {
		uint8_t opcode;
		int32_t by;

		err = byte_window_byte(&window, &opcode);
		if (err || opcode == DBG_END_SEQUENCE)
			break;
		if (opcode == DBG_ADVANCE_PC) {
			err = byte_window_uleb(&window, &advance);
			address += err ? 0 : advance;
		} else if (opcode == DBG_ADVANCE_LINE) {
			err = byte_window_sleb(&window, &by);
			now += err ? 0 : (uint32_t)by;
		} else if (opcode < DBG_FIRST_SPECIAL) {
			err = skip(&window, operands(opcode));
		} else {
			opcode -= DBG_FIRST_SPECIAL;
			address += opcode / DBG_LINE_RANGE;
			now += (uint32_t)(DBG_LINE_BASE + opcode % DBG_LINE_RANGE);
			if (address > place->pc)
				break;
			*line = now;
			found = true;
		}
	}
	return err ? err : found ? 0 : -ENODATA;
}
