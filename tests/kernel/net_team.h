/* SPDX-License-Identifier: BSD-2-Clause */
/* The mode of a team device, by generic netlink (linux/if_team.h). */
#pragma once
#include <linux/if_team.h>
#include "kernel/net_wireguard.h"

#define TEAM_STRING 5 /* NLA_STRING of the kernel's */

static inline int team_mode(uint32_t index, const char *mode)
{
	struct rig_message msg = wireguard_message(GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	struct wireguard_answer answer;
	struct rtattr *list, *option;
	uint8_t type = TEAM_STRING;
	const void *id;
	uint16_t family;
	int err;

	rig_attr(&msg, CTRL_ATTR_FAMILY_NAME, TEAM_GENL_NAME, sizeof(TEAM_GENL_NAME));
	err = wireguard_ask(&msg, &answer);
	if (err)
		return err;
	id = wireguard_attr(&answer, CTRL_ATTR_FAMILY_ID, sizeof(family));
	if (!id)
		return -ENOENT;
	memcpy(&family, id, sizeof(family));
	msg = wireguard_message(family, TEAM_CMD_OPTIONS_SET);
	msg.nlh.nlmsg_flags = NLM_F_ACK;
	rig_attr(&msg, TEAM_ATTR_TEAM_IFINDEX, &index, sizeof(index));
	list = rig_attr(&msg, TEAM_ATTR_LIST_OPTION | NLA_F_NESTED, NULL, 0);
	option = rig_attr(&msg, TEAM_ATTR_ITEM_OPTION | NLA_F_NESTED, NULL, 0);
	rig_attr(&msg, TEAM_ATTR_OPTION_NAME, "mode", 5);
	rig_attr(&msg, TEAM_ATTR_OPTION_TYPE, &type, sizeof(type));
	rig_attr(&msg, TEAM_ATTR_OPTION_DATA, mode, strlen(mode) + 1);
	rig_end(&msg, option);
	rig_end(&msg, list);
	err = wireguard_ask(&msg, &answer);
	return err == -ESRCH ? 0 : err; /* it is set, and nobody listens for that */
}
