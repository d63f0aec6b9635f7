/* What a vehicle's process may meet: plans that are no plans, signals, a fork, another locale, threads that poll, and engines that
 * come and go. argv: the hand-built plans, an empty folder of the program's own. */
#include "check.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200, POLLERS = 16 };

static uint8_t pixels[PIXELS];

static void path_of(char *path, const char *folder, const char *file) { CHECK(snprintf(path, 4096, "%s/%s", folder, file) < 4096); }

static size_t content(const char *folder, const char *name, char *bytes, size_t most) {
    char path[4096];
    path_of(path, folder, name);
    FILE *file = fopen(path, "rb");
    CHECK(file);
    size_t count = fread(bytes, 1, most, file);
    CHECK(count > 0 && count < most);
    fclose(file);
    return count;
}

static void put(const char *folder, const char *name, const char *bytes, size_t count) {
    char path[4096];
    path_of(path, folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, count, file) == count);
    CHECK(fclose(file) == 0);
}

/* A folder that does not load gives PLATOON_LOAD, at once, and a message with the file's name. */
static void refused(const char *folder, const char *named) {
    platoon_options options = options_for(folder);
    platoon_engine engine = {5};
    EXPECT(PLATOON_LOAD, platoon_open(&options, &engine));
    PLATOON_SIZED(platoon_error, error);
    OK(platoon_last_error(&error));
    CHECK(strstr(error.message, named) && engine.id == 5);
}

static void folders(const char *plans, const char *scratch) {
    static char table[1 << 20], plan[1 << 20];
    char path[4096], name[4096] = "";
    DIR *dir = opendir(plans);
    CHECK(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strstr(entry->d_name, ".plan")) CHECK(snprintf(name, sizeof name, "%s", entry->d_name) > 0);
    closedir(dir);
    CHECK(name[0]);
    size_t table_bytes = content(plans, "table", table, sizeof table), plan_bytes = content(plans, name, plan, sizeof plan);

    refused(scratch, "table");
    for (size_t length = 0; length < table_bytes; length += 1 + table_bytes / 16) {
        put(scratch, "table", table, length);
        refused(scratch, "table");
    }
    /* The table is whole, its plans are missing, cut, or of one wrong byte. */
    put(scratch, "table", table, table_bytes);
    refused(scratch, ".plan");
    for (size_t length = 0; length < plan_bytes; length += 1 + plan_bytes / 16) {
        put(scratch, name, plan, length);
        refused(scratch, ".plan");
    }
    plan[plan_bytes / 2] ^= 1;
    put(scratch, name, plan, plan_bytes);
    refused(scratch, ".plan");

    path_of(path, scratch, "table");
    CHECK(truncate(path, (off_t)1 << 40) == 0); /* a terabyte of nothing */
    refused(scratch, "table");
    CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0);
    refused(scratch, "table");
    CHECK(rmdir(path) == 0 && symlink("table", path) == 0); /* leads to itself */
    refused(scratch, "table");
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0); /* nobody writes into it */
    refused(scratch, "table");
    CHECK(unlink(path) == 0 && symlink("/dev/zero", path) == 0);
    refused(scratch, "table");
    CHECK(unlink(path) == 0);
    char inside[4096];
    path_of(inside, scratch, "loop");
    CHECK(symlink(".", inside) == 0);
    refused(inside, "table");
    CHECK(unlink(inside) == 0);

    /* A folder's name that is longer than any. */
    static char long_name[70000];
    memset(long_name, 'x', sizeof long_name - 1);
    platoon_options options = options_for(long_name);
    platoon_engine engine;
    platoon_status status = platoon_open(&options, &engine);
    CHECK(status == PLATOON_LOAD || status == PLATOON_ARGUMENT);
}

static void frame(platoon_engine engine, uint64_t number) {
    platoon_image images[2] = {gray(pixels), gray(pixels)};
    platoon_ticket ticket;
    PLATOON_SIZED(platoon_report, report);
    OK(platoon_submit(engine, images, 2, &ticket));
    OK(platoon_wait(engine, ticket, PLATOON_FOREVER, &report));
    CHECK(report.frame == number);
    OK(platoon_release(engine, ticket));
}

static atomic_bool over;
static atomic_uint interrupted;

static void count(int signal) {
    (void)signal;
    atomic_fetch_add(&interrupted, 1);
}

static void *interrupt(void *thread) {
    const struct timespec pause = {0, 100000};
    while (!atomic_load(&over)) {
        CHECK(pthread_kill(*(pthread_t *)thread, SIGUSR1) == 0);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Signals arrive at the waiting thread all the time, and system calls are not started again. */
static void signals(const char *plans) {
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    CHECK(sigaction(SIGUSR1, &action, &before) == 0);
    pthread_t self = pthread_self(), other;
    atomic_store(&over, false);
    CHECK(pthread_create(&other, NULL, interrupt, &self) == 0);
    platoon_options options = options_for(plans);
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    uint64_t number = 0;
    for (; number < ROUNDS || atomic_load(&interrupted) < 20; number++) frame(engine, number);
    OK(platoon_close(engine, NULL));
    atomic_store(&over, true);
    CHECK(pthread_join(other, NULL) == 0);
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, &before, &now) == 0 && now.sa_handler == count);
}

/* A child has the engine's memory and none of its threads: nothing crashes or waits for ever, and the parent's goes on. */
static void forks(const char *plans) {
    platoon_options options = options_for(plans);
    options.close_limit_ns = 50 * 1000000ull;
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    frame(engine, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        platoon_image images[2] = {gray(pixels), gray(pixels)};
        platoon_ticket ticket;
        PLATOON_SIZED(platoon_report, report);
        OK(platoon_submit(engine, images, 2, &ticket));
        EXPECT(PLATOON_TIMEOUT, platoon_wait(engine, ticket, 20 * 1000000ull, &report));
        uint32_t leaked = 0;
        OK(platoon_close(engine, &leaked));
        CHECK(leaked == 2);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (uint64_t number = 1; number < 20; number++) frame(engine, number);
    uint32_t leaked = 7;
    OK(platoon_close(engine, &leaked));
    CHECK(leaked == 0);
}

/* Messages and figures do not depend on the locale, and the locale is left as it is. */
static void locales(const char *plans) {
    const char *known[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8", "C"};
    const char *set = NULL;
    for (size_t i = 0; !set && i < sizeof known / sizeof *known; i++) set = setlocale(LC_ALL, known[i]);
    CHECK(set);
    char kept[256];
    CHECK(snprintf(kept, sizeof kept, "%s", set) > 0);
    platoon_options options = options_for(plans);
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    frame(engine, 0);
    OK(platoon_close(engine, NULL));
    CHECK(strcmp(setlocale(LC_ALL, NULL), kept) == 0);
    setlocale(LC_ALL, "C");
}

static platoon_engine polled;
static _Atomic uint64_t current;
static atomic_uint looks;

static void *poll_it(void *none) {
    (void)none;
    PLATOON_SIZED(platoon_report, report);
    PLATOON_SIZED(platoon_result, result);
    while (!atomic_load(&over)) {
        platoon_ticket ticket = {atomic_load(&current)};
        platoon_status status = platoon_wait(polled, ticket, 0, &report);
        CHECK(status == PLATOON_OK || status == PLATOON_TIMEOUT || status == PLATOON_TICKET);
        status = platoon_result_of(polled, ticket, 1, &result);
        CHECK(status == PLATOON_OK || status == PLATOON_TICKET);
        atomic_fetch_add(&looks, 1);
    }
    return NULL;
}

/* Many threads look at whatever ticket there is while one runs frames. */
static void pollers(const char *plans) {
    platoon_options options = options_for(plans);
    OK(platoon_open(&options, &polled));
    atomic_store(&over, false);
    pthread_t threads[POLLERS];
    for (int i = 0; i < POLLERS; i++) CHECK(pthread_create(&threads[i], NULL, poll_it, NULL) == 0);
    platoon_image images[2] = {gray(pixels), gray(pixels)};
    PLATOON_SIZED(platoon_report, report);
    for (int round = 0; round < ROUNDS || atomic_load(&looks) < ROUNDS; round++) {
        platoon_ticket ticket;
        OK(platoon_submit(polled, images, 2, &ticket));
        atomic_store(&current, ticket.id);
        OK(platoon_wait(polled, ticket, PLATOON_FOREVER, &report));
        OK(platoon_release(polled, ticket));
    }
    atomic_store(&over, true);
    for (int i = 0; i < POLLERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(platoon_close(polled, NULL));
}

/* Entries of a folder of this process's own description. */
static int entries(const char *folder) {
    int count = 0;
    DIR *dir = opendir(folder);
    CHECK(dir);
    while (readdir(dir)) count++;
    closedir(dir);
    return count;
}

/* The fewest threads that are seen within some milliseconds, or `enough`: one that was joined is listed until the system has let go of it. */
static int threads_down_to(int enough, int milliseconds) {
    int fewest = entries("/proc/self/task");
    for (int i = 0; i < milliseconds && fewest > enough; ++i) {
        CHECK(nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL) == 0);
        const int now = entries("/proc/self/task");
        fewest = now < fewest ? now : fewest;
    }
    return fewest;
}

/* Bytes that the allocator has given out, to the byte where it keeps no caches of threads (GLIBC_TUNABLES). Under a sanitizer its
 * own leak check tells instead. */
static size_t in_use(void) {
#ifdef __SANITIZE_ADDRESS__
    return 0;
#else
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}

/* Engines come and go, some of them with a frame in flight and an open draft; and some do not open. */
static void coming_and_going(const char *plans, const char *scratch) {
    int files = 0, threads = 0;
    size_t bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        platoon_options options = options_for(round % 5 == 4 ? scratch : plans);
        platoon_engine engine;
        if (round % 5 == 4) {
            EXPECT(PLATOON_LOAD, platoon_open(&options, &engine));
            continue;
        }
        OK(platoon_open(&options, &engine));
        frame(engine, 0);
        if (round % 5 == 3) {
            platoon_image images[2] = {gray(pixels), gray(pixels)};
            platoon_ticket ticket;
            platoon_draft draft;
            OK(platoon_submit(engine, images, 2, &ticket));
            OK(platoon_begin(engine, &draft));
        }
        uint32_t leaked = 1;
        OK(platoon_close(engine, &leaked));
        CHECK(leaked == 0);
        if (round == ROUNDS / 10) {
            files = entries("/proc/self/fd");
            threads = threads_down_to(0, 100);
            bytes = in_use();
        }
    }
    CHECK(entries("/proc/self/fd") == files);
    CHECK(threads_down_to(threads, 10000) == threads);
    CHECK(in_use() == bytes);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    paint(pixels, 0, 0);
    folders(argv[1], argv[2]);
    forks(argv[1]);
    locales(argv[1]);
    signals(argv[1]);
    pollers(argv[1]);
    coming_and_going(argv[1], argv[2]);
    puts("endure: nothing was lost");
    return 0;
}
