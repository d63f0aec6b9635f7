/* How long an engine takes to open, and what memory the process then has: the figures of docs/c-abi.md.
 * argv: plans folder, board, and the task set if not the default. */
#include "check.h"

#include <inttypes.h>
#include <unistd.h>

/* Resident memory of the process, in KiB. */
static uint64_t resident(void) {
    unsigned long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu %lu", &pages, &resident) == 2);
    fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

int main(int argc, char **argv) {
    CHECK(argc == 3 || argc == 4);
    PLATOON_SIZED(platoon_options, options);
    options.abi = PLATOON_ABI;
    options.plans = argv[1];
    options.board = argv[2];
    options.task_set = argc == 4 ? argv[3] : NULL;
    uint64_t before = resident();
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    uint64_t after = resident();
    PLATOON_SIZED(platoon_info, info);
    OK(platoon_describe(engine, &info));
    printf("open to sealed %.1f ms, %u threads, resident %" PRIu64 " KiB, %" PRIu64 " KiB more than before\n",
           (double)info.open_ns / 1e6, info.threads, after, after - before);
    OK(platoon_close(engine, NULL));
    return 0;
}
