/* After platoon_open nothing takes or frees memory, on any thread: the C library's allocator is replaced by one that
 * counts. argv[1]: the hand-built plans. */
#include "check.h"

#include <errno.h>
#include <stdatomic.h>

enum { FRAMES = 2000 };

static atomic_int counting;
static atomic_uint calls;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static void count(void) {
    if (atomic_load(&counting)) atomic_fetch_add(&calls, 1);
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    count();
    return __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) {
    count();
    return __libc_realloc(old, bytes);
}

void *memalign(size_t align, size_t bytes) {
    count();
    return __libc_memalign(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes) {
    return memalign(align, bytes);
}

int posix_memalign(void **to, size_t align, size_t bytes) {
    *to = memalign(align, bytes);
    return *to ? 0 : ENOMEM;
}

void free(void *old) {
    count();
    __libc_free(old);
}

/* Every call that may be made in the loop. */
static void frame(platoon_engine engine, uint64_t number) {
    static uint8_t a[PIXELS], b[PIXELS];
    paint(a, 0, number);
    paint(b, 1, number);
    platoon_ticket ticket;
    if (number % 100 == 99) OK(platoon_select(engine, number % 200 == 99 ? "b" : "a"));
    if (number % 2) {
        platoon_image images[2] = {gray(a), gray(b)};
        if (number % 7 == 0) images[1].data = NULL;
        OK(platoon_submit(engine, images, 2, &ticket));
    } else {
        platoon_draft draft;
        uint8_t *data;
        uint64_t bytes;
        OK(platoon_begin(engine, &draft));
        OK(platoon_draft_image(engine, draft, 0, &data, &bytes));
        memcpy(data, a, PIXELS);
        OK(platoon_draft_set_image(engine, draft, 0, WIDTH, HEIGHT, WIDTH, PLATOON_GRAY8));
        platoon_image image = gray(b);
        OK(platoon_draft_copy_image(engine, draft, 1, &image));
        if (number % 50 == 0) {
            OK(platoon_draft_drop(engine, draft));
            return;
        }
        OK(platoon_draft_submit(engine, draft, &ticket));
    }
    PLATOON_SIZED(platoon_result, early);
    OK(platoon_result_of(engine, ticket, 1, &early));
    uint32_t currency;
    OK(platoon_wait_tenant(engine, ticket, 0, PLATOON_FOREVER, &currency));
    PLATOON_SIZED(platoon_report, report);
    while (platoon_wait(engine, ticket, 1000, &report) == PLATOON_TIMEOUT) continue;
    for (uint32_t t = 0; t < report.tenant_count; t++) {
        PLATOON_SIZED(platoon_result, result);
        OK(platoon_result_of(engine, ticket, t, &result));
        CHECK(result.tensor_count > 0 && (result.currency == PLATOON_NONE || result.tensors[0].data));
    }
    OK(platoon_release(engine, ticket));
    EXPECT(PLATOON_TICKET, platoon_release(engine, ticket));
    PLATOON_SIZED(platoon_error, error);
    OK(platoon_last_error(&error));
    PLATOON_SIZED(platoon_stats, stats);
    OK(platoon_stats_of(engine, 0, &stats));
    PLATOON_SIZED(platoon_health, health);
    OK(platoon_health_of(engine, &health));
    PLATOON_SIZED(platoon_tenant_info, tenant);
    OK(platoon_describe_tenant(engine, 0, 0, &tenant));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    platoon_options options = options_for(argv[1]);
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    atomic_store(&counting, 1);
    for (uint64_t number = 0; number < FRAMES; number++) frame(engine, number);
    atomic_store(&counting, 0);
    unsigned in_loop = atomic_load(&calls);
    CHECK(in_loop == 0);
    atomic_store(&counting, 1);
    OK(platoon_close(engine, NULL));
    atomic_store(&counting, 0);
    /* The counter counts: closing frees. */
    CHECK(atomic_load(&calls) > 0);
    printf("quiet: %d frames, %u calls of the allocator\n", FRAMES, in_loop);
    return 0;
}
