/* SPDX-License-Identifier: BSD-2-Clause */
#include "source/cpu/clusters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_BYTES 4096
#define MAX_KHZ    100000000u /* 100 GHz */
#define FULL       1024       /* SCHED_CAPACITY_SCALE */

/* The whole of a small file. A pipe in its place is opened without a wait and refused. Length, or a
 * negative errno; -EFBIG: no such file of the kernel is so long. */
static ssize_t read_file(int folder, const char *name, char text[TEXT_BYTES])
{
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat status;
	ssize_t n;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	n = read(fd, text, TEXT_BYTES);
	n = n < 0 ? -errno : n == TEXT_BYTES ? -EFBIG : n;
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n;
}

/* The next number of a list that is divided by blanks. False: there is none, or something else
 * stands there (then *bad is set). */
static bool next_number(const char **text, uint32_t highest, uint32_t *number, bool *bad)
{
	unsigned long long value = 0;
	const char *p = *text;

	while (*p == ' ' || *p == '\n' || *p == '\t')
		p++;
	if (!*p)
		return false;
	*bad = *p < '0' || *p > '9';
	while (*p >= '0' && *p <= '9' && value <= highest)
		value = value * 10 + (unsigned)(*p++ - '0');
	*bad |= value > highest || (*p && *p != ' ' && *p != '\n' && *p != '\t');
	*number = (uint32_t)value;
	*text = p;
	return !*bad;
}

/* A file of one number. 0: it has none, or one out of range. */
static uint32_t read_number(int folder, const char *name, uint32_t highest)
{
	char text[TEXT_BYTES];
	const char *at = text;
	uint32_t number, more;
	bool bad = false;

	if (read_file(folder, name, text) <= 0 || !next_number(&at, highest, &number, &bad) ||
	    next_number(&at, highest, &more, &bad) || bad)
		return 0;
	return number;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Add the frequencies of a file. False: it is not as the kernel writes it, or has too many. */
static bool add_frequencies(struct cpu_cluster *cluster, int folder, const char *name)
{
	char text[TEXT_BYTES];
	const char *at = text;
	bool bad = false;
	uint32_t khz;

	if (read_file(folder, name, text) <= 0)
		return true;
	while (next_number(&at, MAX_KHZ, &khz, &bad)) {
		bool known = false;

		for (size_t i = 0; i < cluster->count; i++)
			known |= cluster->khz[i] == khz;
		if (known || !khz)
			continue;
		if (cluster->count == TIME_MAX_STEPS - 1)
			return false;
		cluster->khz[cluster->count++] = khz;
	}
	return !bad;
}

static void add_range(char *text, size_t size, unsigned first, unsigned last)
{
	size_t n = strlen(text);

	if (first == last)
		snprintf(text + n, size - n, "%s%u", n ? "," : "", first);
	else
		snprintf(text + n, size - n, "%s%u-%u", n ? "," : "", first, last);
}

/* related_cpus are those that may belong to it, also while they are offline. False: a CPU is not
 * there, or another cluster's. */
static bool take_cpus(struct cpu_clusters *clusters, struct cpu_cluster *cluster, uint8_t mark,
		      int folder)
{
	unsigned cpus = clusters->layout.cpu_count, first = 0, count = 0;
	char text[TEXT_BYTES];
	const char *at = text;
	bool bad = false;
	uint32_t cpu;

	if (read_file(folder, "related_cpus", text) <= 0)
		return false;
	while (next_number(&at, SCHED_MAX_CPUS, &cpu, &bad)) {
		if (cpu >= cpus || (clusters->cluster_of[cpu] && clusters->cluster_of[cpu] != mark))
			return false;
		clusters->cluster_of[cpu] = mark;
		count++;
	}
	for (cpu = 0; cpu <= cpus && !bad; cpu++) {
		bool ours = cpu < cpus && clusters->cluster_of[cpu] == mark;

		if (!ours && first < cpu)
			add_range(cluster->cpus, sizeof(cluster->cpus), first, cpu - 1);
		if (!ours)
			first = cpu + 1;
	}
	return count && !bad;
}

static bool read_cluster(struct cpu_clusters *clusters, struct cpu_cluster *cluster, uint8_t mark,
			 int folder)
{
	uint32_t now_khz = read_number(folder, "scaling_cur_freq", MAX_KHZ);

	if (!take_cpus(clusters, cluster, mark, folder))
		return false;
	if (!add_frequencies(cluster, folder, "scaling_available_frequencies") ||
	    !add_frequencies(cluster, folder, "scaling_boost_frequencies"))
		cluster->count = 0;
	qsort(cluster->khz, cluster->count, sizeof(*cluster->khz), by_number);
	cluster->max_khz = read_number(folder, "cpuinfo_max_freq", MAX_KHZ);
	if (cluster->count && cluster->khz[cluster->count - 1] > cluster->max_khz)
		cluster->max_khz = cluster->khz[cluster->count - 1];
	for (size_t i = 0; i < cluster->count; i++)
		if (cluster->khz[i] == now_khz)
			cluster->current_step = (uint32_t)i + 1;
	return true;
}

static int by_policy(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return x < y ? -1 : x > y;
}

/* The numbers of the policies' folders, ascending. */
static size_t list_policies(int folder, unsigned numbers[CLUSTERS_MAX])
{
	DIR *dir = fdopendir(dup(folder));
	struct dirent *entry;
	size_t count = 0;
	int end;

	while (dir && count < CLUSTERS_MAX && (entry = readdir(dir))) {
		end = 0;
		if (sscanf(entry->d_name, "policy%4u%n", &numbers[count], &end) == 1 &&
		    !entry->d_name[end])
			count++;
	}
	if (dir)
		closedir(dir);
	qsort(numbers, count, sizeof(*numbers), by_policy);
	return count;
}

static void forget_cpus(struct cpu_clusters *clusters, uint8_t mark)
{
	for (unsigned cpu = 0; cpu < clusters->layout.cpu_count; cpu++)
		if (clusters->cluster_of[cpu] == mark)
			clusters->cluster_of[cpu] = 0;
}

static void read_clusters(struct cpu_clusters *clusters, int cpus)
{
	int folder = openat(cpus, "cpufreq", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned numbers[CLUSTERS_MAX];
	size_t count = folder < 0 ? 0 : list_policies(folder, numbers);

	for (size_t i = 0; i < count; i++) {
		struct cpu_cluster *cluster = &clusters->items[clusters->count];
		char name[32];
		int policy;

		*cluster = (struct cpu_cluster){.policy = numbers[i]};
		snprintf(name, sizeof(name), "policy%u", numbers[i]);
		policy = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (policy >= 0 &&
		    read_cluster(clusters, cluster, (uint8_t)(clusters->count + 1), policy)) {
			clusters->count++;
		} else {
			forget_cpus(clusters, (uint8_t)(clusters->count + 1));
			snprintf(clusters->no_frequencies, sizeof(clusters->no_frequencies),
				 "cpufreq/%s: its files tell no CPUs", name);
		}
		if (policy >= 0)
			close(policy);
	}
	if (folder >= 0)
		close(folder);
}

static void read_capacities(struct cpu_clusters *clusters, int cpus)
{
	char name[32];

	for (unsigned cpu = 0; cpu < clusters->layout.cpu_count; cpu++) {
		snprintf(name, sizeof(name), "cpu%u/cpu_capacity", cpu);
		clusters->capacities[cpu] = read_number(cpus, name, FULL);
		if (!clusters->capacities[cpu] && !clusters->no_capacity[0])
			snprintf(clusters->no_capacity, sizeof(clusters->no_capacity),
				 "/sys/devices/system/cpu/%s does not tell it", name);
	}
	for (size_t i = 0; i < clusters->count; i++) {
		struct cpu_cluster *cluster = &clusters->items[i];
		bool first = true;

		for (unsigned cpu = 0; cpu < clusters->layout.cpu_count; cpu++) {
			uint32_t capacity = clusters->capacities[cpu];

			if (clusters->cluster_of[cpu] != i + 1)
				continue;
			if (!first && cluster->capacity != capacity)
				capacity = 0;
			cluster->capacity = capacity;
			first = false;
			if (!capacity)
				break;
		}
	}
}

static int lay_out(struct cpu_clusters *clusters)
{
	struct sched_time_layout *layout = &clusters->layout;
	size_t steps = 0;

	layout->words = layout->cpu_count;
	for (size_t i = 0; i < clusters->count; i++) {
		struct cpu_cluster *cluster = &clusters->items[i];

		cluster->base = layout->words;
		layout->words += (uint32_t)cluster->count + 1;
		steps += cluster->count;
	}
	layout->steps = calloc(steps + 1, sizeof(*layout->steps));
	if (!layout->steps)
		return -ENOMEM;
	for (size_t i = 0; i < clusters->count; i++)
		for (size_t k = 0; k < clusters->items[i].count; k++)
			layout->steps[layout->step_count++] = (struct sched_step){
				{clusters->items[i].base, clusters->items[i].khz[k]},
				(uint32_t)k + 1,
			};
	for (unsigned cpu = 0; cpu < layout->cpu_count; cpu++)
		layout->base[cpu] = clusters->cluster_of[cpu]
					    ? clusters->items[clusters->cluster_of[cpu] - 1].base
					    : TIME_NO_STEPS;
	return 0;
}

static void explain(struct cpu_clusters *clusters)
{
	char *reason = clusters->no_frequencies;
	size_t size = sizeof(clusters->no_frequencies);

	if (reason[0])
		return;
	if (!clusters->count)
		snprintf(reason, size, "no cpufreq: the kernel does not tell frequencies here");
	for (size_t i = 0; i < clusters->count && !reason[0]; i++)
		if (!clusters->items[i].count)
			snprintf(reason, size,
				 "cpufreq/policy%u: its driver lists no frequencies, or more than "
				 "%d",
				 clusters->items[i].policy, TIME_MAX_STEPS - 1);
	for (unsigned cpu = 0; cpu < clusters->layout.cpu_count && !reason[0]; cpu++)
		if (!clusters->cluster_of[cpu])
			snprintf(reason, size, "cpu%u has no cpufreq policy", cpu);
}

int cpu_clusters_read(struct cpu_clusters *clusters, const char *root, unsigned cpu_count)
{
	char path[512];
	int cpus;

	*clusters = (struct cpu_clusters){
		.layout.cpu_count = cpu_count < SCHED_MAX_CPUS ? cpu_count : SCHED_MAX_CPUS};
	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu", root);
	cpus = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cpus >= 0)
		read_clusters(clusters, cpus);
	read_capacities(clusters, cpus);
	if (cpus >= 0)
		close(cpus);
	explain(clusters);
	return lay_out(clusters);
}

void cpu_clusters_free(struct cpu_clusters *clusters)
{
	free(clusters->layout.steps);
	clusters->layout.steps = NULL;
}

uint32_t cpu_cluster_khz(const struct cpu_cluster *cluster, uint32_t step)
{
	return step && step <= cluster->count ? cluster->khz[step - 1] : 0;
}
