/* One engine from several threads, and two engines side by side. argv[1]: the hand-built plans. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

enum { ROUNDS = 400 };

static platoon_engine engine;
static atomic_uint done, busy;

/* Submits, waits, reads and releases on the engine that the other threads use too. */
static void *frames(void *argument) {
    uint32_t mine = (uint32_t)(uintptr_t)argument;
    uint8_t a[PIXELS], b[PIXELS];
    for (uint32_t round = 0; round < ROUNDS;) {
        paint(a, 0, mine * ROUNDS + round);
        paint(b, 1, mine * ROUNDS + round);
        platoon_image images[2] = {gray(a), gray(b)};
        platoon_ticket ticket;
        platoon_status status = platoon_submit(engine, images, 2, &ticket);
        if (status == PLATOON_BUSY) {
            atomic_fetch_add(&busy, 1);
            continue;
        }
        OK(status);
        uint32_t currency;
        OK(platoon_wait_tenant(engine, ticket, round % 2, PLATOON_FOREVER, &currency));
        PLATOON_SIZED(platoon_report, report);
        OK(platoon_wait(engine, ticket, PLATOON_FOREVER, &report));
        PLATOON_SIZED(platoon_result, result);
        OK(platoon_result_of(engine, ticket, 0, &result));
        CHECK(result.tensor_count >= 1 && result.tensors[0].bytes > 0);
        OK(platoon_release(engine, ticket));
        EXPECT(PLATOON_TICKET, platoon_release(engine, ticket));
        round++;
    }
    atomic_fetch_add(&done, 1);
    return NULL;
}

/* Asks how things are, and changes the task set, until the others are done. */
static void *look(void *argument) {
    (void)argument;
    uint64_t seen = 0;
    for (unsigned turn = 0; atomic_load(&done) < 2; turn++) {
        PLATOON_SIZED(platoon_health, health);
        OK(platoon_health_of(engine, &health));
        CHECK(health.next_frame >= seen && health.state != PLATOON_STATE_FAULTED);
        seen = health.next_frame;
        PLATOON_SIZED(platoon_stats, stats);
        OK(platoon_stats_of(engine, 0, &stats));
        if (turn % 16 == 0) OK(platoon_select(engine, turn % 32 ? "a" : "b"));
        /* Each thread has its own last failure. */
        EXPECT(PLATOON_UNKNOWN, platoon_select(engine, "nowhere"));
        PLATOON_SIZED(platoon_error, error);
        OK(platoon_last_error(&error));
        CHECK(error.status == PLATOON_UNKNOWN);
    }
    return NULL;
}

static platoon_draft draft;

/* Writes one camera's image of the open draft in place. */
static void *fill(void *argument) {
    uint32_t camera = (uint32_t)(uintptr_t)argument;
    uint8_t *data;
    uint64_t bytes;
    OK(platoon_draft_image(engine, draft, camera, &data, &bytes));
    CHECK(bytes == PIXELS);
    paint(data, camera, 7);
    OK(platoon_draft_set_image(engine, draft, camera, WIDTH, HEIGHT, WIDTH, PLATOON_GRAY8));
    return NULL;
}

/* Two threads fill one frame, which gives what the same images copied give. */
static void together(void) {
    pthread_t threads[2];
    platoon_ticket filled, copied;
    OK(platoon_begin(engine, &draft));
    for (uintptr_t camera = 0; camera < 2; camera++) CHECK(pthread_create(&threads[camera], NULL, fill, (void *)camera) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    OK(platoon_draft_submit(engine, draft, &filled));
    uint8_t a[PIXELS], b[PIXELS];
    paint(a, 0, 7);
    paint(b, 1, 7);
    platoon_image images[2] = {gray(a), gray(b)};
    OK(platoon_submit(engine, images, 2, &copied));
    PLATOON_SIZED(platoon_report, report);
    PLATOON_SIZED(platoon_result, first);
    PLATOON_SIZED(platoon_result, second);
    OK(platoon_wait(engine, copied, PLATOON_FOREVER, &report));
    OK(platoon_result_of(engine, filled, 1, &first));
    OK(platoon_result_of(engine, copied, 1, &second));
    CHECK(first.currency == PLATOON_FRESH && second.currency == PLATOON_FRESH && first.tensors[0].device == 0);
    CHECK(memcmp(first.tensors[0].data, second.tensors[0].data, first.tensors[0].bytes) == 0);
    OK(platoon_release(engine, filled));
    OK(platoon_release(engine, copied));
}

static platoon_ticket never;

/* Waits for a frame that does not end before the engine is closed. */
static void *wait_for_ever(void *argument) {
    (void)argument;
    PLATOON_SIZED(platoon_report, report);
    platoon_status status;
    do status = platoon_wait(engine, never, PLATOON_FOREVER, &report);
    while (status == PLATOON_OK);
    EXPECT(PLATOON_HANDLE, status);
    return NULL;
}

static _Atomic uint64_t raced;
static atomic_bool over;

/* Reads and releases until the engine is gone: a call that was on its way when it was closed says so like a later one. */
static void *read_on(void *argument) {
    PLATOON_SIZED(platoon_result, result);
    const platoon_ticket none = {0};
    while (!atomic_load(&over)) {
        platoon_ticket ticket = {atomic_load(&raced)};
        platoon_status status = platoon_result_of(engine, ticket, 0, &result);
        CHECK(status == PLATOON_OK || status == PLATOON_HANDLE);
        status = argument ? platoon_release(engine, none) : platoon_draft_drop(engine, (platoon_draft){0});
        CHECK(status == PLATOON_TICKET || status == PLATOON_HANDLE);
    }
    return NULL;
}

/* Engines that are closed while others are within their calls. */
static void closings(const platoon_options *options) {
    for (int round = 0; round < 60; round++) {
        uint8_t a[PIXELS], b[PIXELS];
        paint(a, 0, 1);
        paint(b, 1, 1);
        platoon_image images[2] = {gray(a), gray(b)};
        platoon_ticket ticket;
        PLATOON_SIZED(platoon_report, report);
        OK(platoon_open(options, &engine));
        OK(platoon_submit(engine, images, 2, &ticket));
        OK(platoon_wait(engine, ticket, PLATOON_FOREVER, &report));
        atomic_store(&raced, ticket.id);
        atomic_store(&over, false);
        pthread_t threads[2];
        for (uintptr_t i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, read_on, (void *)i) == 0);
        const struct timespec pause = {0, 300000 + 10000 * round};
        (void)nanosleep(&pause, NULL);
        OK(platoon_close(engine, NULL));
        atomic_store(&over, true);
        for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    platoon_options options = options_for(argv[1]);
    platoon_engine other;
    OK(platoon_open(&options, &engine));
    OK(platoon_open(&options, &other));
    pthread_t threads[3];
    CHECK(pthread_create(&threads[0], NULL, frames, (void *)0) == 0);
    CHECK(pthread_create(&threads[1], NULL, frames, (void *)1) == 0);
    CHECK(pthread_create(&threads[2], NULL, look, NULL) == 0);

    uint8_t a[PIXELS], b[PIXELS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        paint(a, 0, round);
        paint(b, 1, round);
        platoon_image images[2] = {gray(a), gray(b)};
        platoon_ticket ticket;
        OK(platoon_submit(other, images, 2, &ticket));
        EXPECT(PLATOON_TICKET, platoon_release(engine, ticket));
        PLATOON_SIZED(platoon_report, report);
        OK(platoon_wait(other, ticket, PLATOON_FOREVER, &report));
        CHECK(report.frame == round);
        OK(platoon_release(other, ticket));
    }
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);

    PLATOON_SIZED(platoon_health, health);
    OK(platoon_health_of(engine, &health));
    CHECK(health.next_frame == 2 * ROUNDS && health.tickets == 0);

    OK(platoon_select(engine, "a"));
    together();
    platoon_image images[2] = {gray(a), gray(b)};
    OK(platoon_submit(engine, images, 2, &never));
    CHECK(pthread_create(&threads[0], NULL, wait_for_ever, NULL) == 0);
    OK(platoon_close(engine, NULL));
    CHECK(pthread_join(threads[0], NULL) == 0);
    OK(platoon_close(other, NULL));
    closings(&options);
    printf("threads: %d frames of three threads, %u times busy\n", 3 * ROUNDS, atomic_load(&busy));
    return 0;
}
