/* Whatever a caller does wrong gives a status, changes nothing, and never ends the process. argv[1]: the hand-built plans. */
#include "check.h"

#include <stddef.h>

static uint8_t pixels[PIXELS];

static void opening(const char *plans) {
    platoon_options options = options_for(plans);
    platoon_engine engine = {77};
    EXPECT(PLATOON_NULL, platoon_open(NULL, &engine));
    EXPECT(PLATOON_NULL, platoon_open(&options, NULL));
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, (platoon_engine *)(void *)((char *)&engine + 1)));

    options.size = 0;
    EXPECT(PLATOON_SIZE, platoon_open(&options, &engine));
    options.size = sizeof options - 1;
    EXPECT(PLATOON_SIZE, platoon_open(&options, &engine));
    options.size = UINT32_MAX;
    EXPECT(PLATOON_SIZE, platoon_open(&options, &engine));

    options = options_for(plans);
    options.abi = 0;
    EXPECT(PLATOON_VERSION, platoon_open(&options, &engine));
    options.abi = PLATOON_ABI + 1;
    EXPECT(PLATOON_VERSION, platoon_open(&options, &engine));
    PLATOON_SIZED(platoon_error, error);
    OK(platoon_last_error(&error));
    CHECK(error.status == PLATOON_VERSION && error.tenant == -1 && strstr(error.message, "ABI is 2"));

    options = options_for(NULL);
    EXPECT(PLATOON_NULL, platoon_open(&options, &engine));
    options = options_for("\xff\xfe");
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for("there is no such folder");
    EXPECT(PLATOON_LOAD, platoon_open(&options, &engine));
    OK(platoon_last_error(&error));
    CHECK(strstr(error.message, "there is no such folder"));

    options = options_for(plans);
    options.backend = 9;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.flags = 1u << 31;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.slots = 9;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.fifo = 100;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.loop_fifo = 100;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.reserved = 1;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.flags = PLATOON_OPEN_MAPPED | PLATOON_OPEN_COPIED;
    EXPECT(PLATOON_ARGUMENT, platoon_open(&options, &engine));
    options = options_for(plans);
    options.backend = PLATOON_BACKEND_CUDA; /* the library under test is built without it */
    EXPECT(PLATOON_PREPARE, platoon_open(&options, &engine));
    options = options_for(plans);
    options.task_set = "no such set";
    EXPECT(PLATOON_UNKNOWN, platoon_open(&options, &engine));
    options = options_for("no\nfolder\x1b[31m");
    EXPECT(PLATOON_LOAD, platoon_open(&options, &engine));
    OK(platoon_last_error(&error));
    CHECK(strstr(error.message, "no folder [31m") && !strpbrk(error.message, "\n\x1b"));
    CHECK(engine.id == 77);
}

/* A program of another age: its struct is longer, and the rest is zero, or is not. */
static void ages(const char *plans) {
    struct {
        platoon_options options;
        uint64_t later[3];
    } newer = {options_for(plans), {0, 0, 0}};
    newer.options.size = sizeof newer;
    platoon_engine engine;
    OK(platoon_open(&newer.options, &engine));
    OK(platoon_close(engine, NULL));
    newer.later[1] = 5;
    EXPECT(PLATOON_SIZE, platoon_open(&newer.options, &engine));

    /* An older one: it ends where a field begins that came later, whose bytes are not looked at. */
    platoon_options older = options_for(plans);
    older.size = offsetof(platoon_options, worker_cores);
    older.loop_fifo = 1000;
    OK(platoon_open(&older, &engine));
    OK(platoon_close(engine, NULL));
    older.size = offsetof(platoon_options, worker_cores) + 4;
    EXPECT(PLATOON_SIZE, platoon_open(&older, &engine));
    older.size = offsetof(platoon_options, close_limit_ns);
    EXPECT(PLATOON_SIZE, platoon_open(&older, &engine));

    newer.options.size = sizeof newer.options;
    OK(platoon_open(&newer.options, &engine));
    struct {
        platoon_health health;
        uint32_t later[2];
        uint32_t behind;
    } health;
    memset(&health, 0xee, sizeof health);
    health.health.size = sizeof health.health + sizeof health.later;
    OK(platoon_health_of(engine, &health.health));
    CHECK(health.health.state == PLATOON_STATE_PREPARED && health.health.tenant == -1);
    CHECK(health.later[0] == 0 && health.later[1] == 0 && health.behind == 0xeeeeeeeeu);
    health.health.size = 4;
    EXPECT(PLATOON_SIZE, platoon_health_of(engine, &health.health));
    OK(platoon_close(engine, NULL));
}

static void handles(const char *plans) {
    platoon_options options = options_for(plans);
    platoon_engine none = {0}, engine, other;
    platoon_image images[2] = {gray(pixels), gray(pixels)};
    platoon_ticket ticket = {5};
    PLATOON_SIZED(platoon_report, report);
    EXPECT(PLATOON_HANDLE, platoon_submit(none, images, 2, &ticket));
    EXPECT(PLATOON_HANDLE, platoon_close(none, NULL));
    OK(platoon_open(&options, &engine));
    OK(platoon_close(engine, NULL));
    EXPECT(PLATOON_HANDLE, platoon_close(engine, NULL));
    OK(platoon_open(&options, &other));
    CHECK(other.id != engine.id);
    /* The closed engine's handle does not fit the one that took its place. */
    EXPECT(PLATOON_HANDLE, platoon_submit(engine, images, 2, &ticket));
    EXPECT(PLATOON_HANDLE, platoon_wait(engine, ticket, 0, &report));
    EXPECT(PLATOON_HANDLE, platoon_release(engine, ticket));
    CHECK(ticket.id == 5);
    OK(platoon_close(other, NULL));

    platoon_engine many[PLATOON_MAX_ENGINES];
    for (int i = 0; i < PLATOON_MAX_ENGINES; i++) OK(platoon_open(&options, &many[i]));
    EXPECT(PLATOON_LIMIT, platoon_open(&options, &engine));
    for (int i = 0; i < PLATOON_MAX_ENGINES; i++) OK(platoon_close(many[i], NULL));
}

static void frames(const char *plans) {
    platoon_options options = options_for(plans);
    platoon_engine engine, other;
    OK(platoon_open(&options, &engine));
    OK(platoon_open(&options, &other));
    platoon_image images[2] = {gray(pixels), gray(pixels)};
    platoon_ticket ticket = {5}, second;

    EXPECT(PLATOON_NULL, platoon_submit(engine, NULL, 2, &ticket));
    EXPECT(PLATOON_NULL, platoon_submit(engine, images, 2, NULL));
    EXPECT(PLATOON_UNKNOWN, platoon_submit(engine, images, 1, &ticket));
    EXPECT(PLATOON_UNKNOWN, platoon_submit(engine, NULL, 0, &ticket));
    EXPECT(PLATOON_ARGUMENT, platoon_submit(engine, images, UINT32_MAX, &ticket));
    images[1].bytes = PIXELS - 1;
    EXPECT(PLATOON_IMAGE, platoon_submit(engine, images, 2, &ticket));
    PLATOON_SIZED(platoon_error, error);
    OK(platoon_last_error(&error));
    CHECK(error.camera == 1);
    images[1] = gray(pixels);
    images[1].bytes = UINT64_MAX;
    EXPECT(PLATOON_ARGUMENT, platoon_submit(engine, images, 2, &ticket));
    images[1] = gray(pixels);
    images[1].format = 99;
    EXPECT(PLATOON_ARGUMENT, platoon_submit(engine, images, 2, &ticket));
    images[1] = gray(pixels);
    images[1].stride = UINT32_MAX;
    EXPECT(PLATOON_IMAGE, platoon_submit(engine, images, 2, &ticket));
    images[1] = gray(pixels);
    CHECK(ticket.id == 5);

    OK(platoon_submit(engine, images, 2, &ticket));
    PLATOON_SIZED(platoon_report, report);
    PLATOON_SIZED(platoon_result, result);
    uint32_t currency = 44;
    EXPECT(PLATOON_TICKET, platoon_wait(other, ticket, PLATOON_FOREVER, &report));
    EXPECT(PLATOON_TICKET, platoon_result_of(other, ticket, 0, &result));
    EXPECT(PLATOON_TICKET, platoon_release(other, ticket));
    EXPECT(PLATOON_UNKNOWN, platoon_wait_tenant(engine, ticket, 2, 0, &currency));
    EXPECT(PLATOON_UNKNOWN, platoon_wait_tenant(engine, ticket, UINT32_MAX, 0, &currency));
    EXPECT(PLATOON_UNKNOWN, platoon_result_of(engine, ticket, 31, &result));
    CHECK(currency == 44);
    EXPECT(PLATOON_NULL, platoon_wait(engine, ticket, 0, NULL));
    report.size = 8;
    EXPECT(PLATOON_SIZE, platoon_wait(engine, ticket, 0, &report));
    report.size = sizeof report;
    /* Waiting twice is no mistake. */
    OK(platoon_wait(engine, ticket, PLATOON_FOREVER, &report));
    CHECK(report.frame == 0 && report.tenant_count == 2);
    OK(platoon_wait(engine, ticket, 0, &report));

    OK(platoon_submit(engine, images, 2, &second));
    platoon_ticket third = {6};
    EXPECT(PLATOON_BUSY, platoon_submit(engine, images, 2, &third));
    platoon_draft draft;
    EXPECT(PLATOON_BUSY, platoon_begin(engine, &draft));
    OK(platoon_release(engine, ticket));
    EXPECT(PLATOON_TICKET, platoon_release(engine, ticket));
    EXPECT(PLATOON_TICKET, platoon_wait(engine, ticket, 0, &report));
    EXPECT(PLATOON_TICKET, platoon_result_of(engine, ticket, 0, &result));
    OK(platoon_wait(engine, second, PLATOON_FOREVER, &report));
    OK(platoon_release(engine, second));

    uint8_t *data = NULL;
    uint64_t bytes = 3;
    draft.id = 0;
    EXPECT(PLATOON_TICKET, platoon_draft_image(engine, draft, 0, &data, &bytes));
    OK(platoon_begin(engine, &draft));
    EXPECT(PLATOON_STATE, platoon_begin(engine, &draft));
    EXPECT(PLATOON_STATE, platoon_submit(engine, images, 2, &third));
    EXPECT(PLATOON_STATE, platoon_select(engine, "a"));
    EXPECT(PLATOON_TICKET, platoon_draft_image(other, draft, 0, &data, &bytes));
    EXPECT(PLATOON_UNKNOWN, platoon_draft_image(engine, draft, 2, &data, &bytes));
    EXPECT(PLATOON_UNKNOWN, platoon_draft_image(engine, draft, 1u << 16, &data, &bytes));
    EXPECT(PLATOON_NULL, platoon_draft_image(engine, draft, 0, NULL, &bytes));
    EXPECT(PLATOON_NULL, platoon_draft_image(engine, draft, 0, &data, NULL));
    CHECK(data == NULL && bytes == 3);
    EXPECT(PLATOON_UNKNOWN, platoon_draft_input(engine, draft, 0, 0, &data, &bytes));
    EXPECT(PLATOON_UNKNOWN, platoon_draft_input(engine, draft, 7, 0, &data, &bytes));
    EXPECT(PLATOON_IMAGE, platoon_draft_set_image(engine, draft, 0, WIDTH + 1, HEIGHT, WIDTH + 1, PLATOON_GRAY8));
    EXPECT(PLATOON_ARGUMENT, platoon_draft_set_image(engine, draft, 0, WIDTH, HEIGHT, WIDTH, 0));
    EXPECT(PLATOON_NULL, platoon_draft_copy_image(engine, draft, 0, NULL));
    platoon_device_image there = {(uint64_t)(uintptr_t)pixels, PIXELS, WIDTH, HEIGHT, WIDTH, PLATOON_GRAY8, NULL};
    EXPECT(PLATOON_NULL, platoon_draft_device_image(engine, draft, 0, NULL));
    EXPECT(PLATOON_ARGUMENT, platoon_draft_device_image(engine, draft, 0, &there)); /* the backend is the processor's */
    there.format = 77;
    EXPECT(PLATOON_ARGUMENT, platoon_draft_device_image(engine, draft, 0, &there));
    EXPECT(PLATOON_UNKNOWN, platoon_draft_device_image(engine, draft, 1u << 16, &(platoon_device_image){.format = PLATOON_GRAY8}));
    EXPECT(PLATOON_HANDLE, platoon_draft_device_image((platoon_engine){0}, draft, 0, &(platoon_device_image){.format = PLATOON_GRAY8}));
    platoon_device_tensor tensor = {(uint64_t)(uintptr_t)pixels, PIXELS, NULL};
    EXPECT(PLATOON_NULL, platoon_draft_device_input(engine, draft, 0, 0, NULL));
    EXPECT(PLATOON_ARGUMENT, platoon_draft_device_input(engine, draft, 0, 0, &tensor)); /* likewise */
    EXPECT(PLATOON_UNKNOWN, platoon_draft_device_input(engine, draft, 1u << 16, 0, &tensor));
    EXPECT(PLATOON_HANDLE, platoon_draft_device_input((platoon_engine){0}, draft, 0, 0, &tensor));
    OK(platoon_draft_image(engine, draft, 0, &data, &bytes));
    CHECK(data != NULL && bytes == PIXELS);
    OK(platoon_draft_drop(engine, draft));
    EXPECT(PLATOON_TICKET, platoon_draft_drop(engine, draft));
    EXPECT(PLATOON_TICKET, platoon_draft_submit(engine, draft, &third));
    CHECK(third.id == 6);
    OK(platoon_last_error(&error));
    CHECK(strstr(error.message, "draft"));
    /* A draft is spent by a submission that fails, too. */
    OK(platoon_begin(engine, &draft));
    EXPECT(PLATOON_NULL, platoon_draft_submit(engine, draft, NULL));
    EXPECT(PLATOON_TICKET, platoon_draft_drop(engine, draft));

    EXPECT(PLATOON_UNKNOWN, platoon_select(engine, "no such set"));
    EXPECT(PLATOON_NULL, platoon_select(engine, NULL));
    EXPECT(PLATOON_ARGUMENT, platoon_select(engine, "\xff"));

    OK(platoon_submit(engine, images, 2, &ticket));
    /* Closed with a frame in flight and a ticket unreleased. */
    OK(platoon_close(engine, NULL));
    EXPECT(PLATOON_HANDLE, platoon_wait(engine, ticket, 0, &report));
    OK(platoon_close(other, NULL));
}

static void descriptions(const char *plans) {
    platoon_options options = options_for(plans);
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    PLATOON_SIZED(platoon_info, info);
    OK(platoon_describe(engine, &info));
    CHECK(info.backend == PLATOON_BACKEND_CPU && info.cameras == 2 && info.task_sets == 2 && info.slots == 2);
    CHECK(info.threads == 2 && info.refused == 0 && info.open_ns > 0);
    CHECK(strcmp(info.board, "bench") == 0 && strcmp(info.version, platoon_version()) == 0);
    PLATOON_SIZED(platoon_camera_info, camera);
    OK(platoon_describe_camera(engine, 1, &camera));
    CHECK(camera.max_width == WIDTH && camera.max_height == HEIGHT && camera.bytes == PIXELS);
    CHECK(strcmp(camera.name, "camera1") == 0);
    EXPECT(PLATOON_UNKNOWN, platoon_describe_camera(engine, 2, &camera));
    PLATOON_SIZED(platoon_task_set_info, set);
    OK(platoon_describe_task_set(engine, 0, &set));
    CHECK(set.tenants == 2 && strcmp(set.name, "a") == 0);
    EXPECT(PLATOON_UNKNOWN, platoon_describe_task_set(engine, 2, &set));
    PLATOON_SIZED(platoon_tenant_info, tenant);
    OK(platoon_describe_tenant(engine, 0, 1, &tenant));
    CHECK(strcmp(tenant.name, "surface") == 0 && tenant.cameras == 2 && tenant.divisor == 1 && tenant.outputs >= 1);
    EXPECT(PLATOON_UNKNOWN, platoon_describe_tenant(engine, 0, 2, &tenant));
    EXPECT(PLATOON_UNKNOWN, platoon_describe_tenant(engine, 2, 0, &tenant));
    PLATOON_SIZED(platoon_port_info, port);
    OK(platoon_describe_output(engine, 0, 1, 0, &port));
    CHECK(port.rank >= 2 && port.bytes > 0 && port.name != NULL);
    EXPECT(PLATOON_UNKNOWN, platoon_describe_output(engine, 0, 1, 99, &port));
    EXPECT(PLATOON_UNKNOWN, platoon_describe_input(engine, 0, 0, 0, &port));
    PLATOON_SIZED(platoon_stats, stats);
    OK(platoon_stats_of(engine, 0, &stats));
    CHECK(stats.frames == 0 && stats.p99_ns == 0);
    EXPECT(PLATOON_UNKNOWN, platoon_stats_of(engine, 2, &stats));
    EXPECT(PLATOON_UNKNOWN, platoon_stats_of(engine, 1u << 16, &stats));
    PLATOON_SIZED(platoon_tenant_stats, tenant_stats);
    EXPECT(PLATOON_UNKNOWN, platoon_tenant_stats_of(engine, 0, 2, &tenant_stats));
    EXPECT(PLATOON_NULL, platoon_describe(engine, NULL));
    OK(platoon_close(engine, NULL));
}

/* A watchdog of a nanosecond makes the first frame that is looked at before its end a hang. */
static void faults(const char *plans) {
    platoon_options options = options_for(plans);
    options.watchdog_ns = 1;
    platoon_engine engine;
    OK(platoon_open(&options, &engine));
    platoon_image images[2] = {gray(pixels), gray(pixels)};
    platoon_ticket ticket;
    PLATOON_SIZED(platoon_report, report);
    PLATOON_SIZED(platoon_health, health);
    platoon_status status = PLATOON_OK;
    uint64_t frame = 0;
    for (; status == PLATOON_OK; frame++) {
        status = platoon_submit(engine, images, 2, &ticket);
        if (status == PLATOON_OK) status = platoon_wait(engine, ticket, PLATOON_FOREVER, &report);
        if (status == PLATOON_OK) OK(platoon_release(engine, ticket));
    }
    CHECK(status == PLATOON_FAULTED);
    PLATOON_SIZED(platoon_error, error);
    OK(platoon_last_error(&error));
    CHECK(error.fault == PLATOON_FAULT_HANG && error.frame == frame - 1 && error.tenant >= 0 && error.segment >= 0);
    CHECK(strstr(error.message, "hangs"));
    OK(platoon_health_of(engine, &health));
    CHECK(health.state == PLATOON_STATE_FAULTED && health.fault == PLATOON_FAULT_HANG && health.tenant == error.tenant);
    /* The first fault is kept, and what cannot go on says so; what is known can still be read. */
    EXPECT(PLATOON_FAULTED, platoon_submit(engine, images, 2, &ticket));
    platoon_draft draft;
    EXPECT(PLATOON_FAULTED, platoon_begin(engine, &draft));
    EXPECT(PLATOON_FAULTED, platoon_select(engine, "b"));
    PLATOON_SIZED(platoon_stats, stats);
    OK(platoon_stats_of(engine, 0, &stats));
    PLATOON_SIZED(platoon_result, result);
    if (ticket.id && platoon_result_of(engine, ticket, 0, &result) == PLATOON_OK) CHECK(result.currency <= PLATOON_STALE);
    OK(platoon_close(engine, NULL));
    EXPECT(PLATOON_HANDLE, platoon_health_of(engine, &health));
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    PLATOON_SIZED(platoon_error, error);
    OK(platoon_last_error(&error));
    CHECK(error.status == PLATOON_OK && error.message[0] == 0);
    CHECK(platoon_abi() == PLATOON_ABI);
    CHECK(strcmp(platoon_status_name(PLATOON_BUSY), "PLATOON_BUSY") == 0);
    CHECK(strcmp(platoon_status_name(-1), "unknown status") == 0);
    CHECK(strcmp(platoon_status_name(PLATOON_INTERNAL + 1), "unknown status") == 0);
    paint(pixels, 0, 0);
    opening(argv[1]);
    ages(argv[1]);
    handles(argv[1]);
    frames(argv[1]);
    descriptions(argv[1]);
    faults(argv[1]);
    puts("misuse: every mistake gave its status");
    return 0;
}
