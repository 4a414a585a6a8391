/* SPDX-License-Identifier: BSD-2-Clause */
/* Clusters from made-up folders of /sys, whole and hostile, and how parts are made to fit. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/cpu/clusters.h"
#include "source/cpu/split.h"

static char root[64];

static void make_root(void)
{
	strcpy(root, "/tmp/cpu-split-XXXXXX");
	cr_assert(mkdtemp(root));
}

static void remove_root(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(cpu_split, .init = make_root, .fini = remove_root);

static void put_bytes(const char *name, const char *bytes, size_t length)
{
	char path[256], *slash;
	FILE *file;

	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/%s", root, name);
	for (slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	cr_assert(file, "%s", path);
	cr_assert_eq(fwrite(bytes, 1, length, file), length);
	fclose(file);
}

static void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

/* Four CPUs, as tests/vm's phone.dtb. */
static void put_phone(void)
{
	put("cpufreq/policy0/related_cpus", "0 1 2\n");
	put("cpufreq/policy0/scaling_available_frequencies", "1804800 576000 1017600 \n");
	put("cpufreq/policy0/cpuinfo_max_freq", "1804800\n");
	put("cpufreq/policy0/scaling_cur_freq", "576000\n");
	put("cpufreq/policy3/related_cpus", "3\n");
	put("cpufreq/policy3/scaling_available_frequencies", "844800 1766400\n");
	put("cpufreq/policy3/scaling_boost_frequencies", "2841600\n");
	put("cpufreq/policy3/cpuinfo_max_freq", "1766400\n");
	put("cpufreq/policy3/scaling_cur_freq", "1000\n");
	put("cpu0/cpu_capacity", "266\n");
	put("cpu1/cpu_capacity", "266\n");
	put("cpu2/cpu_capacity", "266\n");
	put("cpu3/cpu_capacity", "1024\n");
}

Test(cpu_split, a_phone)
{
	static struct cpu_clusters clusters;
	const struct cpu_cluster *little = &clusters.items[0], *big = &clusters.items[1];

	put_phone();
	cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
	cr_assert_eq(clusters.count, 2);
	cr_expect_str_eq(little->cpus, "0-2");
	cr_expect_str_eq(big->cpus, "3");
	cr_expect_eq(big->policy, 3);
	cr_expect_eq(little->count, 3);
	cr_expect_eq(cpu_cluster_khz(little, 1), 576000);
	cr_expect_eq(cpu_cluster_khz(little, 3), 1804800);
	cr_expect_eq(cpu_cluster_khz(little, 0), 0);
	cr_expect_eq(cpu_cluster_khz(little, 4), 0);
	cr_expect_eq(little->current_step, 1);
	cr_expect_eq(big->current_step, 0, "a frequency that the list does not have");
	cr_expect_eq(big->max_khz, 2841600, "a boost is above cpuinfo_max_freq");
	cr_expect_eq(little->capacity, 266);
	cr_expect_eq(big->capacity, 1024);
	cr_expect_eq(little->base, 4);
	cr_expect_eq(big->base, 8);
	cr_expect_eq(clusters.layout.words, 12);
	cr_expect_eq(clusters.layout.base[2], 4);
	cr_expect_eq(clusters.layout.base[3], 8);
	cr_expect_eq(clusters.layout.step_count, 6);
	cr_expect_str_empty(clusters.no_frequencies);
	cr_expect_str_empty(clusters.no_capacity);
	cpu_clusters_free(&clusters);
}

Test(cpu_split, nothing_there)
{
	static struct cpu_clusters clusters;

	cr_assert_eq(cpu_clusters_read(&clusters, root, 2), 0);
	cr_expect_eq(clusters.count, 0);
	cr_expect_eq(clusters.layout.words, 2);
	cr_expect_eq(clusters.layout.base[1], TIME_NO_STEPS);
	cr_expect(strstr(clusters.no_frequencies, "no cpufreq"));
	cr_expect(strstr(clusters.no_capacity, "cpu0/cpu_capacity"));
	cpu_clusters_free(&clusters);
}

/* Whatever one file has, its own value is absent, and nothing else. */
Test(cpu_split, hostile_files)
{
	static const char *const odd[] = {
		"",
		"\n",
		"-1\n",
		"0\n",
		"18446744073709551616\n",
		"1804800x\n",
		") R 1 2\n",
		"0x10\n",
		"1 2 3 4 -5\n",
		"99999999999999999999999999999\n",
		"\xff\xfe\n",
		"1.5\n",
	};
	static const char *const files[] = {"scaling_available_frequencies", "cpuinfo_max_freq",
					    "scaling_cur_freq", "related_cpus",
					    "scaling_boost_frequencies"};
	static struct cpu_clusters clusters;
	char *much = malloc(1 << 20), path[128];

	memset(much, '1', 1 << 20);
	for (size_t f = 0; f < sizeof(files) / sizeof(*files); f++) {
		for (size_t i = 0; i <= sizeof(odd) / sizeof(*odd); i++) {
			put_phone();
			snprintf(path, sizeof(path), "cpufreq/policy0/%s", files[f]);
			if (i == sizeof(odd) / sizeof(*odd))
				put_bytes(path, much, 1 << 20);
			else
				put(path, odd[i]);
			cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
			/* "0" is a CPU. */
			if (f == 3 && (i != 3))
				cr_expect_eq(clusters.count, 1, "%s %zu", files[f], i);
			if (f == 0 && i > 1)
				cr_expect(!clusters.items[0].count && clusters.no_frequencies[0],
					  "%s %zu", files[f], i);
			if (f == 2)
				cr_expect_eq(clusters.items[0].current_step, 0);
			cr_expect_eq(clusters.items[clusters.count - 1].policy, 3);
			cr_expect_eq(clusters.items[clusters.count - 1].count, 3);
			cpu_clusters_free(&clusters);
		}
	}
	put_phone();
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		put("cpu1/cpu_capacity", odd[i]);
		cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
		cr_expect_eq(clusters.items[0].capacity, 0, "%zu", i);
		cr_expect_eq(clusters.items[1].capacity, 1024);
		cr_expect(strstr(clusters.no_capacity, "cpu1"));
		cpu_clusters_free(&clusters);
	}
	put("cpu1/cpu_capacity", "1025\n");
	cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
	cr_expect_eq(clusters.items[0].capacity, 0, "above SCHED_CAPACITY_SCALE");
	cpu_clusters_free(&clusters);
	free(much);
}

Test(cpu_split, hostile_folders, .timeout = 10)
{
	static struct cpu_clusters clusters;
	char path[256];

	/* Two policies of one CPU; one that names a CPU that is not there. */
	put_phone();
	put("cpufreq/policy1/related_cpus", "1 3\n");
	put("cpufreq/policy2/related_cpus", "4\n");
	put("cpufreq/policy99999/related_cpus", "3\n");
	put("cpufreq/policy3x/related_cpus", "3\n");
	cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
	cr_assert_eq(clusters.count, 2);
	cr_expect_eq(clusters.items[0].policy, 0);
	cr_expect_eq(clusters.items[1].policy, 3);
	cr_expect_eq(clusters.cluster_of[3], 2);
	cpu_clusters_free(&clusters);
	/* A pipe that nobody writes to. */
	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq",
		 root);
	unlink(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
	cr_expect_eq(clusters.count, 2);
	cr_expect_eq(clusters.items[0].current_step, 0);
	cpu_clusters_free(&clusters);
}

Test(cpu_split, too_many_frequencies)
{
	static struct cpu_clusters clusters;
	char text[2048] = "";

	put_phone();
	for (unsigned i = 1; i <= TIME_MAX_STEPS - 1; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%u ", i * 1000);
	put("cpufreq/policy0/scaling_available_frequencies", text);
	cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
	cr_expect_eq(clusters.items[0].count, TIME_MAX_STEPS - 1);
	cpu_clusters_free(&clusters);
	strcat(text, "77");
	put("cpufreq/policy0/scaling_available_frequencies", text);
	cr_assert_eq(cpu_clusters_read(&clusters, root, 4), 0);
	cr_expect_eq(clusters.items[0].count, 0);
	cr_expect(strstr(clusters.no_frequencies, "policy0"));
	cpu_clusters_free(&clusters);
}

Test(cpu_split, parts_fit)
{
	uint64_t parts[] = {10, 500, 0, 30};

	cr_expect_eq(cpu_split_fit(parts, 4, 600), 60, "they are short of the rest");
	cr_expect_eq(cpu_split_fit(parts, 4, 540), 0);
	cr_expect_eq(cpu_split_fit(parts, 4, 500), 0);
	cr_expect_eq(parts[1], 460, "what is too much is the longest's");
	cr_expect_eq(parts[3], 30);
	cr_expect_eq(cpu_split_fit(parts, 4, 3), 0);
	cr_expect_eq(parts[0] + parts[1] + parts[2] + parts[3], 3);
	cr_expect_eq(cpu_split_fit(parts, 4, 0), 0);
	cr_expect_eq(parts[0] + parts[1] + parts[2] + parts[3], 0);
}
