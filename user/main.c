/* SPDX-License-Identifier: BSD-2-Clause */
#include "verb/verb.h"

int main(int argc, char **argv)
{
	return verb_main(argc, argv);
}
