// The kernels: those that frame a frame (mirrors of marks.cu), and rows of pictures for the hand-built networks.
#include <math.h>
#include <string.h>
#include <time.h>
#include "stub.h"

// The GPU's clock: another one than the host's.
uint64_t device_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (1ull << 60) + (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void tell(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

typedef struct { uint64_t frame; uint32_t width, height, stride, format; uint64_t padding; } camera;
typedef struct { uint64_t frame; uint32_t skip, sent; camera cameras[16]; } slot_block;

typedef struct { const slot_block* source; slot_block* target; uint64_t* stamp; uint64_t padding; } begin_params;

static void begin(const void* argument) {
    const begin_params* p = argument;
    *p->target = *p->source;
    tell(p->stamp, device_nanoseconds());
}

typedef struct { const slot_block* slot; uint32_t count, padding; struct { uint64_t *word, *time; } marks[4]; } mark_params;

static void mark(const void* argument) {
    const mark_params* p = argument;
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->marks[i].time) tell(p->marks[i].time, device_nanoseconds());
        if (p->marks[i].word) tell(p->marks[i].word, p->slot->frame + 1);
    }
}

typedef struct { const slot_block* slot; const uint8_t* source; uint8_t* target; uint64_t capacity; uint32_t camera, padding; } upload_params;

static void upload(const void* argument) {
    const upload_params* p = argument;
    const camera* c = &p->slot->cameras[p->camera];
    if (c->format != 3 || c->height == 0 || c->padding) return;   // the tests' cameras are gray
    uint64_t bytes = (uint64_t)(c->height - 1) * c->stride + c->width;
    memcpy(p->target, p->source, bytes < p->capacity ? bytes : p->capacity);
}

typedef struct { const uint8_t* source; uint8_t* target; uint64_t bytes; const slot_block* slot; uint32_t tenant, padding; } transfer_params;

static void transfer(const void* argument) {
    const transfer_params* p = argument;
    if (p->slot && p->slot->sent >> p->tenant & 1) return;
    memcpy(p->target, p->source, p->bytes);
}

typedef struct { const slot_block* slot; uint64_t frame, nanoseconds; uint64_t* release; uint32_t kind, padding; } fault_params;

static void fault(const void* argument) {
    const fault_params* p = argument;
    if (p->slot->frame != p->frame) return;
    uint64_t end = device_nanoseconds() + p->nanoseconds;
    const struct timespec nap = {0, 100000};
    while (device_nanoseconds() < end) {
        if (p->kind == 1 && __atomic_load_n(p->release, __ATOMIC_ACQUIRE)) return;
        nanosleep(&nap, NULL);
    }
    if (p->kind == 2) queue_break(ILLEGAL_ADDRESS);
}

// One operator of a hand-built network on some rows of a picture; mirrored in rows.rs.
typedef struct {
    uint32_t kind, from, to, width, height, padding;
    const void *x, *y;
    float* out;
    float a, b;
} rows_params;

static void rows(const void* argument) {
    const rows_params* p = argument;
    const float *x = p->x, *y = p->y;
    for (uint32_t r = p->from; r < p->to; r++)
        for (uint32_t c = 0; c < p->width; c++) {
            size_t i = (size_t)r * p->width + c;
            float value = 0;
            switch (p->kind) {
                case 0: value = ((const uint8_t*)p->x)[i]; break;
                case 1: value = x[i]; break;
                case 2:
                    value = -INFINITY;
                    for (uint32_t n = r ? r - 1 : 0; n <= r + 1 && n < p->height; n++)
                        if (x[(size_t)n * p->width + c] > value) value = x[(size_t)n * p->width + c];
                    break;
                case 3:
                    value = x[i] < 0 ? p->a * x[i] : x[i];
                    value = value < -p->b ? -p->b : value > p->b ? p->b : value;
                    break;
                case 4: value = x[i] - y[i]; break;
                case 5: {
                    float half = fmaf(p->a, x[i], p->b);
                    value = (half < 0 ? 0 : half > 1 ? 1 : half) + y[i];
                } break;
            }
            p->out[i] = value;
        }
}

kernel kernel_named(const char* name, size_t* argument) {
    static const struct { const char* name; kernel run; size_t argument; } known[] = {
        {"begin", begin, sizeof(begin_params)}, {"mark", mark, sizeof(mark_params)},    {"upload", upload, sizeof(upload_params)},
        {"fault", fault, sizeof(fault_params)}, {"rows", rows, sizeof(rows_params)},
        {"transfer", transfer, sizeof(transfer_params)},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            *argument = known[i].argument;
            return known[i].run;
        }
    return NULL;
}
