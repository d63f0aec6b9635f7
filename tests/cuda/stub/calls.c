// The driver's functions.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "stub.h"

static atomic_int live;          // objects that were made and not given back
static atomic_int told;          // an error of the work itself has been told to the caller
static atomic_int calls_after;   // calls made after that

static long number(const char* name, long otherwise) {
    const char* text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

__attribute__((destructor)) static void report(void) {
    const char* path = getenv("STUB_REPORT");
    FILE* file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "live %d calls_after_error %d\n", live, calls_after);
        fclose(file);
    }
}

// What the call returns before it does anything: an error of the work in flight, or one that is asked for.
static uint32_t enter(const char* name, atomic_int* calls) {
    int n = atomic_fetch_add(calls, 1) + 1;
    if (told) atomic_fetch_add(&calls_after, 1);
    uint32_t code = queue_sticky();
    if (code) {
        told = 1;
        return code;
    }
    const char* fail = getenv("STUB_FAIL");
    size_t length = strlen(name);
    int nth, wanted;
    if (fail && !strncmp(fail, name, length) && sscanf(fail + length, ":%d:%d", &nth, &wanted) == 2 && nth == n) return (uint32_t)wanted;
    return OK;
}

#define CALL(name, ...)                                   \
    uint32_t name(__VA_ARGS__) {                          \
        static atomic_int calls;                          \
        uint32_t code = enter(#name, &calls);             \
        if (code) return code;
#define END return OK; }

stream* all_streams[4096];
int all_streams_count;

CALL(cuInit, uint32_t flags) (void)flags; queue_start((unsigned)number("STUB_SEED", 1)); END
CALL(cuDriverGetVersion, int* version) *version = (int)number("STUB_DRIVER", 13000); END
CALL(cuDeviceGetCount, int* count) *count = (int)number("STUB_DEVICES", 1); END
CALL(cuDeviceGet, int* device, int ordinal) *device = 7 + ordinal; END
CALL(cuDeviceGetName, char* name, int length, int device) (void)device; snprintf(name, (size_t)length, "Stub GPU"); END
CALL(cuDeviceGetAttribute, int* value, uint32_t attribute, int device)
    (void)device;
    long capability = number("STUB_CAPABILITY", 90);
    switch (attribute) {
        case 75: *value = (int)(capability / 10); break;
        case 76: *value = (int)(capability % 10); break;
        case 16: *value = (int)number("STUB_SMS", 132); break;
        case 18: *value = (int)number("STUB_INTEGRATED", 0); break;
        default: return INVALID_VALUE;
    }
END
CALL(cuDevicePrimaryCtxRetain, void** context, int device) (void)device; live++; *context = &live; END
CALL(cuDevicePrimaryCtxRelease_v2, int device) (void)device; live--; END
CALL(cuCtxSetCurrent, void* context) if (context != (void*)&live) return INVALID_HANDLE; END
CALL(cuCtxGetStreamPriorityRange, int* least, int* greatest) *least = 0; *greatest = -5; END
CALL(cuMemGetInfo_v2, size_t* free, size_t* total) *free = 1ull << 36; *total = 1ull << 37; END

// Memory comes filled with something: nobody may rely on zeros that were not asked for.
static void* poisoned(size_t bytes) {
    void* memory = bytes && bytes < 1ull << 40 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
    if (memory) memset(memory, 0xa5, bytes);
    return memory;
}

// The latest allocation answers for its range: the tests' own image.
static uint64_t latest, latest_bytes;
CALL(cuMemAlloc_v2, uint64_t* address, size_t bytes)
    void* memory = poisoned(bytes);
    if (!memory) return OUT_OF_MEMORY;
    live++;
    *address = latest = (uint64_t)(uintptr_t)memory;
    latest_bytes = bytes;
END
CALL(cuMemFree_v2, uint64_t address) live--; free((void*)(uintptr_t)address); END
CALL(cuPointerGetAttribute, void* value, uint32_t attribute, uint64_t address)
    if (address - latest >= latest_bytes) return INVALID_VALUE;
    if (attribute == 11) *(uint64_t*)value = latest;
    else if (attribute == 12) *(size_t*)value = latest_bytes;
    else return INVALID_VALUE;
END
CALL(cuMemHostAlloc, void** pointer, size_t bytes, uint32_t flags)
    (void)flags;
    *pointer = poisoned(bytes);
    if (!*pointer) return OUT_OF_MEMORY;
    live++;
END
CALL(cuMemFreeHost, void* pointer) live--; free(pointer); END
CALL(cuMemHostGetDevicePointer_v2, uint64_t* address, void* pointer, uint32_t flags) (void)flags; *address = (uint64_t)(uintptr_t)pointer; END

static uint32_t add_copy(uint64_t to, uint64_t from, size_t bytes, int fill, stream* s) {
    node* n = calloc(1, sizeof(node));
    n->to = (void*)(uintptr_t)to;
    n->from = (const void*)(uintptr_t)from;
    n->bytes = bytes;
    n->fill = fill;
    return queue_add(s, n);
}
CALL(cuMemcpyHtoDAsync_v2, uint64_t to, const void* from, size_t bytes, stream* s) return add_copy(to, (uint64_t)(uintptr_t)from, bytes, 0, s); END
CALL(cuMemcpyDtoHAsync_v2, void* to, uint64_t from, size_t bytes, stream* s) return add_copy((uint64_t)(uintptr_t)to, from, bytes, 0, s); END
CALL(cuMemcpyAsync, uint64_t to, uint64_t from, size_t bytes, stream* s) return add_copy(to, from, bytes, 0, s); END
CALL(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, stream* s) return add_copy(to, from, bytes, 0, s); END
CALL(cuMemsetD8Async, uint64_t to, uint8_t value, size_t bytes, stream* s) return add_copy(to, 0, bytes, value, s); END

static stream* new_stream(void) {
    stream* s = calloc(1, sizeof(stream));
    s->at.nodes = malloc(sizeof(node*));
    all_streams[all_streams_count++] = s;
    live++;
    return s;
}
CALL(cuStreamCreateWithPriority, stream** made, uint32_t flags, int priority)
    if (flags != 1 || priority > 0 || priority < -5) return INVALID_VALUE;
    *made = new_stream();
END
CALL(cuStreamDestroy_v2, stream* s)
    for (int i = 0; i < all_streams_count; i++)
        if (all_streams[i] == s) all_streams[i] = NULL;
    live--;
END
CALL(cuStreamQuery, stream* s) return queue_idle(s) ? OK : NOT_READY; END
CALL(cuStreamWaitEvent, stream* s, event* e, uint32_t flags) (void)flags; return queue_wait(s, e); END
CALL(cuStreamBeginCapture_v2, stream* s, uint32_t mode) (void)mode; return queue_begin(s); END
CALL(cuStreamEndCapture, stream* s, graph** made) return queue_end(s, made); END
CALL(cuEventCreate, event** made, uint32_t flags)
    if (flags != 2) return INVALID_VALUE;
    *made = calloc(1, sizeof(event));
    live++;
END
CALL(cuEventRecord, event* e, stream* s) return queue_record(e, s); END
CALL(cuEventDestroy_v2, event* e) (void)e; live--; END

CALL(cuModuleLoadData, void** module, const void* image)
    if (memcmp(image, "\x7f" "ELF", 4)) return INVALID_IMAGE;
    live++;
    *module = malloc(1);
END
CALL(cuModuleUnload, void* module) live--; free(module); END
typedef struct { kernel run; size_t argument; int shared; } function;
CALL(cuModuleGetFunction, function** found, void* module, const char* name)
    (void)module;
    function* f = calloc(1, sizeof(function));
    f->run = kernel_named(name, &f->argument);
    f->shared = 48 << 10;
    *found = f;
    return f->run ? OK : NOT_FOUND;
END
CALL(cuFuncSetAttribute, function* f, uint32_t attribute, int value)
    if (attribute != 8 || value > 227 << 10) return INVALID_VALUE;
    f->shared = value;
END
CALL(cuLaunchKernel, function* f, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared,
     stream* s, void** params, void** extra)
    if (!gx || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || extra || (int)shared > f->shared) return INVALID_VALUE;
    node* n = calloc(1, sizeof(node));
    n->run = f->run;
    memcpy(n->argument, params[0], f->argument);
    return queue_add(s, n);
END
typedef struct { uint32_t id; char pad[4]; uint32_t x, y, z; char rest[52]; } attribute;
typedef struct { uint32_t gx, gy, gz, bx, by, bz, shared; stream* s; attribute* attributes; uint32_t count; } config;
CALL(cuLaunchKernelEx, const config* c, function* f, void** params, void** extra)
    if (!c->count) return INVALID_VALUE;
    for (uint32_t i = 0; i < c->count; ++i) {
        const attribute* a = &c->attributes[i];
        int cluster = a->id == 4 && a->x >= 2 && c->gx % a->x == 0;
        int early = a->id == 6 && a->x == 1;
        if (!cluster && !early) return INVALID_VALUE;
    }
    return cuLaunchKernel(f, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->s, params, extra);
END

CALL(cuGraphInstantiateWithFlags, graph** made, graph* from, uint64_t flags)
    if (flags != 8) return INVALID_VALUE;
    *made = from;
    live++;
END
CALL(cuGraphUpload, graph* g, stream* s) (void)g; (void)s; END
CALL(cuGraphLaunch, graph* g, stream* s) queue_launch(g, s); END
CALL(cuGraphExecDestroy, graph* g) (void)g; live--; END
CALL(cuGraphDestroy, graph* g) (void)g; END

#ifndef WITHOUT_OPTIONAL
typedef struct { uint32_t type; char padding[92]; uint32_t sms; char rest[44]; } resource;
CALL(cuDeviceGetDevResource, int device, resource* r, uint32_t type)
    (void)device;
    r->type = type;
    r->sms = (uint32_t)number("STUB_SMS", 132);
END
// By eights, of which 132 SMs have one less than would go into them: so it is on a real GPU.
CALL(cuDevSmResourceSplitByCount, resource* groups, uint32_t* count, const resource* all, resource* rest, uint32_t flags, uint32_t least)
    (void)flags;
    uint32_t each = (least + 7) / 8 * 8;
    if (!each || each > all->sms) return INVALID_VALUE;
    uint32_t most = all->sms / each;
    if (all->sms == 132 && each == 8) most--;
    if (!groups) {
        *count = most;
        return OK;
    }
    if (!*count) return INVALID_VALUE;
    if (*count > most) *count = most;
    for (uint32_t i = 0; i < *count; i++) {
        groups[i] = *all;
        groups[i].sms = each;
    }
    *rest = *all;
    rest->sms = all->sms - *count * each;
END
CALL(cuDevResourceGenerateDesc, void** desc, resource* parts, uint32_t count)
    static _Thread_local resource all;
    if (count < 1) return INVALID_VALUE;
    all = parts[0];
    for (uint32_t i = 1; i < count; i++) all.sms += parts[i].sms;
    *desc = &all;
END
CALL(cuGreenCtxCreate, void** green, void* desc, int device, uint32_t flags)
    (void)device;
    if (flags != 1) return INVALID_VALUE;
    live++;
    *green = malloc(sizeof(resource));
    memcpy(*green, desc, sizeof(resource));
END
CALL(cuGreenCtxGetDevResource, void* green, resource* r, uint32_t type)
    memcpy(r, green, sizeof(resource));
    r->type = type;
END
CALL(cuGreenCtxStreamCreate, stream** made, void* green, uint32_t flags, int priority)
    (void)green; (void)flags; (void)priority;
    *made = new_stream();
END
CALL(cuGreenCtxDestroy, void* green) live--; free(green); END
#endif
