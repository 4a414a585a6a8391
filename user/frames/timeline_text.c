/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of trace_processor's frame timeline tables (v55.3), checked against its answers. */
#include "frames/timeline.h"
#include <stdio.h>
#include <string.h>

const char *timeline_present_text(uint32_t present_type)
{
	static const char *const texts[] = {
		"Unspecified Present", "On-time Present", "Late Present",
		"Early Present",       "Dropped Frame",   "Unknown Present",
	};

	return texts[present_type < 6 ? present_type : 0];
}

const char *timeline_prediction_text(uint32_t prediction_type)
{
	static const char *const texts[] = {"Unspecified Prediction", "Valid Prediction",
					    "Expired Prediction", "Unknown Prediction"};

	return texts[prediction_type < 4 ? prediction_type : 0];
}

const char *timeline_severity_text(bool has_severity, uint32_t severity, uint32_t jank)
{
	static const char *const texts[] = {"Unknown", "None", "Partial", "Full"};

	if (!has_severity)
		return texts[jank == JANK_NONE];
	return texts[severity < 4 ? severity : 0];
}

const char *timeline_jank_text(uint32_t jank, char *buffer, size_t size)
{
	/* in the order in which trace_processor joins them, which is not that of the bits */
	static const struct {
		uint32_t bit;
		const char *text;
	} names[] = {
		{JANK_SF_SCHEDULING, "SurfaceFlinger Scheduling"},
		{JANK_PREDICTION_ERROR, "Prediction Error"},
		{JANK_DISPLAY_HAL, "Display HAL"},
		{JANK_SF_CPU, "SurfaceFlinger CPU Deadline Missed"},
		{JANK_SF_GPU, "SurfaceFlinger GPU Deadline Missed"},
		{JANK_APP_DEADLINE, "App Deadline Missed"},
		{JANK_APP_RESYNC, "App Resynced Jitter"},
		{JANK_BUFFER_STUFFING, "Buffer Stuffing"},
		{JANK_UNKNOWN, "Unknown Jank"},
		{JANK_SF_STUFFING, "SurfaceFlinger Stuffing"},
		{JANK_DROPPED, "Dropped Frame"},
		{JANK_NON_ANIMATING, "Non Animating"},
		{JANK_DISPLAY_OFF, "Display not ON"},
		{JANK_MODE_CHANGE, "ModeChange in progress"},
		{JANK_POWER_MODE, "PowerModeChange in progress"},
	};
	size_t used = 0;

	if (jank == 0)
		return "Unspecified";
	if (jank == JANK_NONE)
		return "None";
	buffer[0] = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int n;

		if (!(jank & names[i].bit))
			continue;
		n = snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", names[i].text);
		if (n < 0 || (size_t)n >= size - used)
			break;
		used += (size_t)n;
	}
	return buffer;
}

const char *timeline_tag_text(uint32_t jank, uint32_t present_type, bool surface)
{
	const uint32_t self = JANK_APP_DEADLINE | JANK_APP_RESYNC | JANK_UNKNOWN;
	const uint32_t display = JANK_SF_SCHEDULING | JANK_PREDICTION_ERROR | JANK_DISPLAY_HAL |
				 JANK_SF_CPU | JANK_SF_GPU;

	if (jank == 0)
		return "Unspecified";
	if (surface && jank & self)
		return "Self Jank";
	if (jank & display)
		return surface ? "Other Jank" : "Self Jank";
	if (surface && jank == JANK_BUFFER_STUFFING)
		return "Buffer Stuffing";
	if (jank == JANK_SF_STUFFING)
		return "SurfaceFlinger Stuffing";
	if (surface ? present_type == PRESENT_DROPPED : jank == JANK_DROPPED)
		return "Dropped Frame";
	if (jank == JANK_NON_ANIMATING || jank == JANK_DISPLAY_OFF || jank == JANK_POWER_MODE)
		return "Non-perceivable Jank";
	return "No Jank";
}
