/* Runs recorded frames through the C ABI and writes every result as text, floats by their bits; the driving test compares
 * that with what the Rust path gives. argv: plans folder, board, frames file, output file.
 *
 * The frames file holds 32-bit words (count, width, height), then per frame a byte that says whether there is a picture,
 * and if so its RGB pixels. Half-way the task set changes to `highway`. */
#include "check.h"

#include <inttypes.h>

static uint32_t bits(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    return word;
}

/* FNV-1a. */
static uint64_t hash(const uint8_t *data, uint64_t bytes) {
    uint64_t h = 14695981039346656037u;
    for (uint64_t i = 0; i < bytes; i++) h = (h ^ data[i]) * 1099511628211u;
    return h;
}

static void detection(FILE *out, char what, const platoon_detection *d, const platoon_tenant_info *tenant) {
    const char *label = d->class_index < tenant->label_count ? tenant->labels[d->class_index] : "";
    fprintf(out, "%c %u %s %08x %08x %08x %08x %08x %u %u\n", what, d->class_index, label, bits(d->score), bits(d->x0),
            bits(d->y0), bits(d->x1), bits(d->y1), d->image, d->row);
}

static void tell(FILE *out, platoon_engine engine, platoon_ticket ticket) {
    PLATOON_SIZED(platoon_report, report);
    OK(platoon_wait(engine, ticket, PLATOON_FOREVER, &report));
    PLATOON_SIZED(platoon_task_set_info, set);
    OK(platoon_describe_task_set(engine, report.task_set, &set));
    fprintf(out, "frame %" PRIu64 " %s\n", report.frame, set.name);
    for (uint32_t t = 0; t < report.tenant_count; t++) {
        PLATOON_SIZED(platoon_tenant_info, tenant);
        OK(platoon_describe_tenant(engine, report.task_set, t, &tenant));
        PLATOON_SIZED(platoon_result, result);
        OK(platoon_result_of(engine, ticket, t, &result));
        CHECK(result.currency == report.tenants[t].currency && result.kind == tenant.kind);
        CHECK(result.currency == PLATOON_NONE || result.of_frame == report.tenants[t].of_frame);
        fprintf(out, "tenant %s %u %u %" PRIu64 " %u\n", tenant.name, result.kind, result.currency,
                result.currency == PLATOON_NONE ? 0 : result.of_frame, result.images);
        for (uint32_t i = 0; i < result.detection_count; i++) detection(out, 'd', &result.detections[i], &tenant);
        for (uint32_t i = 0; i < result.crop_count; i++) detection(out, 'c', &result.crops[i], &tenant);
        for (uint32_t i = 0; i < result.score_count; i++) {
            const platoon_class_score *s = &result.scores[i];
            fprintf(out, "s %u %u %08x\n", s->image, s->class_index, bits(s->score));
        }
        for (uint32_t i = 0; i < result.map_count; i++) {
            const platoon_label_map *m = &result.maps[i];
            fprintf(out, "m %s %u %u %u %s %016" PRIx64 "\n", m->name, m->image, m->width, m->height,
                    m->label_count ? m->labels[m->label_count - 1] : "", hash(m->data, (uint64_t)m->width * m->height));
        }
        for (uint32_t i = 0; i < result.tensor_count; i++) {
            const platoon_tensor *x = &result.tensors[i];
            fprintf(out, "t %s %u", x->name, x->dtype);
            for (uint32_t a = 0; a < x->rank; a++) fprintf(out, " %u", x->dims[a]);
            fprintf(out, " %" PRIu64 " %016" PRIx64 "\n", x->bytes, hash(x->data, x->bytes));
        }
    }
    OK(platoon_release(engine, ticket));
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    PLATOON_SIZED(platoon_options, options);
    options.abi = PLATOON_ABI;
    options.plans = argv[1];
    options.board = argv[2];
    options.watchdog_ns = PLATOON_FOREVER; /* an emulated processor is slow */
    platoon_engine engine;
    OK(platoon_open(&options, &engine));

    FILE *in = fopen(argv[3], "rb"), *out = fopen(argv[4], "w");
    CHECK(in && out);
    uint32_t head[3];
    CHECK(fread(head, sizeof head, 1, in) == 1);
    uint32_t count = head[0], width = head[1], height = head[2];
    size_t bytes = (size_t)width * height * 3;
    uint8_t *pixels = malloc(bytes);
    CHECK(pixels);
    platoon_ticket ahead = {0};
    for (uint32_t frame = 0; frame < count; frame++) {
        if (frame == count / 2) OK(platoon_select(engine, "highway"));
        int present = fgetc(in);
        platoon_ticket ticket;
        if (frame % 2 == 0) {
            platoon_image image = {NULL, bytes, width, height, width * 3, PLATOON_RGB8};
            if (present) {
                CHECK(fread(pixels, bytes, 1, in) == 1);
                image.data = pixels;
            }
            OK(platoon_submit(engine, &image, 1, &ticket));
        } else {
            platoon_draft draft;
            OK(platoon_begin(engine, &draft));
            if (present) {
                uint8_t *room;
                uint64_t room_bytes;
                OK(platoon_draft_image(engine, draft, 0, &room, &room_bytes));
                CHECK(room_bytes >= bytes && fread(room, bytes, 1, in) == 1);
                OK(platoon_draft_set_image(engine, draft, 0, width, height, width * 3, PLATOON_RGB8));
            }
            OK(platoon_draft_submit(engine, draft, &ticket));
        }
        /* One frame stays in flight while the one before is read. */
        if (ahead.id) tell(out, engine, ahead);
        ahead = ticket;
    }
    tell(out, engine, ahead);
    free(pixels);
    CHECK(fclose(in) == 0 && fclose(out) == 0);
    uint32_t leaked = 9;
    OK(platoon_close(engine, &leaked));
    CHECK(leaked == 0);
    printf("replay: %u frames\n", count);
    return 0;
}
