/*
 * Platoon for vehicle software: several neural networks side by side, once per camera frame.
 *
 * An engine is opened on plans that were made ahead of time (`platoon plan`). When platoon_open returns, everything is
 * loaded, checked, allocated and warmed up; from then on no call takes memory. A frame is submitted, which gives a
 * ticket; waited for; read, tenant by tenant; and its ticket released. docs/c-abi.md is the guide, platoon.hpp a wrapper
 * for C++.
 *
 * Errors. Every function that can fail returns a platoon_status, and writes its results only when that is PLATOON_OK.
 * platoon_last_error tells a thread more of its last failure. Nothing ends the process, prints, or handles signals.
 *
 * Pointers. Where nothing else is said, a pointer must not be null (PLATOON_NULL) and must point to what its type says;
 * the library keeps no pointer of the caller's after a call, except for the log callback and its context.
 *
 * Structs. Those that begin with `size` may grow at their end in later versions: set `size` to sizeof the struct before
 * every call, most easily with PLATOON_SIZED. A program and a library of different ages then work together, or one
 * refuses the other with PLATOON_SIZE or PLATOON_VERSION. All other structs are never changed.
 *
 * Threads. "Threads: any" on a function means: any thread may call it at any time, on the same engine too. Calls on one
 * engine are put in order by a lock that is held briefly: not while a call waits, but while it copies an image. What a
 * pointer in a result points to is read without the lock, so a ticket must not be released, and its engine not closed,
 * while another thread still reads results through it.
 */
#ifndef PLATOON_H
#define PLATOON_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; platoon_options carries it into the library. */
#define PLATOON_ABI 1u

/* No limit on a wait. */
#define PLATOON_FOREVER UINT64_MAX
/* Most tenants of a task set. */
#define PLATOON_MAX_TENANTS 32
/* Most cameras of a board's plans. */
#define PLATOON_MAX_CAMERAS 16
/* Most extents of a tensor. */
#define PLATOON_MAX_RANK 6
/* Bytes of an error's message, its closing zero included. */
#define PLATOON_MESSAGE_BYTES 256
/* Most engines that are open at once in a process. */
#define PLATOON_MAX_ENGINES 16

/* Declares `variable`, a struct that begins with `size`: all zero but for its size. */
#ifdef __cplusplus
#define PLATOON_SIZED(type, variable) \
    type variable = type();           \
    variable.size = static_cast<uint32_t>(sizeof(type))
#else
#define PLATOON_SIZED(type, variable) type variable = {.size = (uint32_t)sizeof(type)}
#endif

/* What a call returns. The numbers never change their meaning; later versions may add some. */
typedef int32_t platoon_status;
enum {
    PLATOON_OK = 0,        /* done */
    PLATOON_BUSY = 1,      /* all slots are in flight or unreleased: release a ticket */
    PLATOON_STATE = 2,     /* not legal now, such as a second draft */
    PLATOON_FAULTED = 3,   /* the engine is faulted (platoon_health): start a new process */
    PLATOON_TICKET = 4,    /* no ticket or draft of this engine, or one that is spent */
    PLATOON_UNKNOWN = 5,   /* no such tenant, camera, task set or port */
    PLATOON_IMAGE = 6,     /* an image does not fit its camera, or has too few bytes */
    PLATOON_INPUT = 7,     /* a tensor input has the wrong length */
    PLATOON_TIMEOUT = 8,   /* not finished within the given time; the frame goes on */
    PLATOON_SLOT = 9,      /* a slot that is not at hand */
    PLATOON_NULL = 10,     /* a pointer is null */
    PLATOON_SIZE = 11,     /* a struct's `size` is none it ever had, or a field is set that the library does not know */
    PLATOON_VERSION = 12,  /* the library does not run programs of this header's version */
    PLATOON_HANDLE = 13,   /* no open engine has this handle */
    PLATOON_ARGUMENT = 14, /* a value is out of its range, or a pointer misaligned */
    PLATOON_LOAD = 15,     /* the plans are missing or not in order */
    PLATOON_PREPARE = 16,  /* this machine cannot run the plans */
    PLATOON_LIMIT = 17,    /* PLATOON_MAX_ENGINES are open */
    PLATOON_INTERNAL = 18  /* a bug of the library, contained: the engine can only be closed */
};

/* platoon_options.backend: what runs the plans. */
enum {
    PLATOON_BACKEND_OF_TABLE = 0, /* what the plans say */
    PLATOON_BACKEND_CPU = 1,      /* the processor; runs a GPU's plans too, as their reference */
    PLATOON_BACKEND_CUDA = 2      /* an NVIDIA GPU */
};

/* platoon_options.flags */
enum {
    PLATOON_OPEN_SEGMENTS = 1,    /* submit segment by segment instead of whole frames; the results are the same */
    PLATOON_OPEN_UNPINNED = 2,    /* do not pin workers to cores */
    PLATOON_OPEN_LOCK_MEMORY = 4, /* lock all memory of the process (mlockall) */
    PLATOON_OPEN_SPIN = 8,        /* a waiting thread keeps its core busy, and notices results sooner */
    PLATOON_OPEN_PREFAULT = 16,   /* touch the stacks of the workers and of the calling thread */
    PLATOON_OPEN_MAPPED = 32,     /* GPU: works on images, inputs and results in the host's memory, as it does by itself
                                   * where it shares that memory; nothing is copied */
    PLATOON_OPEN_COPIED = 64      /* GPU: works on copies in its own memory, as it does by itself where it has its own */
};

/* Levels of log messages. */
enum {
    PLATOON_LOG_ERROR = 1,   /* something failed; the call says so too */
    PLATOON_LOG_WARNING = 2, /* something was not granted, such as real-time scheduling, and is done without */
    PLATOON_LOG_INFO = 3     /* something was done */
};

/* How current a result is. */
enum {
    PLATOON_NONE = 0,  /* there has been no result yet */
    PLATOON_FRESH = 1, /* computed from this frame */
    PLATOON_HELD = 2,  /* not due in this frame: the last result, of an earlier frame */
    PLATOON_STALE = 3  /* due, but late, without its input, from an old image, or hit by a fault */
};

/* Kinds of results. */
enum { PLATOON_DETECTION = 1, PLATOON_SEGMENTATION = 2, PLATOON_CLASSIFICATION = 3, PLATOON_TENSORS = 4 };

/* Element types of tensors. */
enum { PLATOON_F32 = 1, PLATOON_F16 = 2, PLATOON_I32 = 3, PLATOON_U8 = 4, PLATOON_BOOL = 5 };

/* Pixel formats of images. */
enum {
    PLATOON_RGB8 = 1,  /* three bytes a pixel, red first */
    PLATOON_BGR8 = 2,  /* three bytes a pixel, blue first */
    PLATOON_GRAY8 = 3, /* one byte a pixel */
    PLATOON_NV12 = 4   /* a plane of luma, then a half-size plane of Cb and Cr by turns; BT.601 limited range */
};

/* States of an engine. */
enum {
    PLATOON_STATE_PREPARED = 2,
    PLATOON_STATE_RUNNING = 3,
    PLATOON_STATE_FAULTED = 4,
    /* Names that programs of earlier versions have. */
    PLATOON_PREPARED = PLATOON_STATE_PREPARED,
    PLATOON_RUNNING = PLATOON_STATE_RUNNING
};

/* Kinds of faults. */
enum {
    PLATOON_FAULT_NONE = 0,
    PLATOON_FAULT_HANG = 1,   /* a segment did not finish within the watchdog's time */
    PLATOON_FAULT_DEVICE = 2, /* a segment failed on the device */
    PLATOON_FAULT_PANIC = 3   /* a bug in a kernel of the CPU backend */
};

/* An engine. A number in a struct: copy it freely. The handle of a closed engine fits no later one. 0 is no engine. */
typedef struct platoon_engine {
    uint64_t id;
} platoon_engine;

/* The right to a frame's results, until platoon_release. No two tickets of a process have the same number. */
typedef struct platoon_ticket {
    uint64_t id;
} platoon_ticket;

/* A frame that is being filled in place. */
typedef struct platoon_draft {
    uint64_t id;
} platoon_draft;

/* Gets one line of text, only from within platoon_open and platoon_close, on the calling thread. Must not throw. */
typedef void (*platoon_log_callback)(void *context, int32_t level, const char *message);

/* How an engine is opened. Fields that are zero or null have the value said. */
typedef struct platoon_options {
    uint32_t size;            /* sizeof(platoon_options) */
    uint32_t abi;             /* PLATOON_ABI */
    const char *plans;        /* folder of plans; not null. Paths and names are UTF-8 */
    const char *board;        /* the board's folder in it; null if `plans` is that folder itself */
    const char *task_set;     /* first task set; null: the plans' default */
    const char *kernels;      /* GPU: folder of kernel archives; null: `kernels` beside the board's folder, or in it */
    int32_t backend;          /* PLATOON_BACKEND_... */
    uint32_t flags;           /* PLATOON_OPEN_..., combined */
    uint32_t workers;         /* CPU workers; 0: one a core */
    uint32_t slots;           /* frames in flight or unreleased, up to 8; 0: what the plans say */
    uint32_t fifo;            /* SCHED_FIFO priority of the workers, 1 to 99; 0: the ordinary class */
    uint32_t sms;             /* GPU: confines the work to that many SMs; 0: all */
    platoon_log_callback log; /* null: messages go nowhere. Must be callable as long as the engine is open */
    void *log_context;        /* handed to the callback */
    uint64_t watchdog_ns;     /* a frame that takes longer is a hang; 0: 30 s, PLATOON_FOREVER: none is */
    uint64_t close_limit_ns;  /* how long closing waits for workers that do not stop; 0: 2 s */
    uint64_t worker_cores;    /* bit set of the cores for workers, pinned to them by turns; 0: all that are at hand */
    uint64_t loop_cores;      /* bit set of the cores that the calling thread is confined to; 0: it stays as it is */
    uint32_t loop_fifo;       /* SCHED_FIFO priority of the calling thread, 1 to 99; 0: it stays as it is */
    uint32_t reserved;        /* 0 */
} platoon_options;

/* What is known of a failure. */
typedef struct platoon_error {
    uint32_t size;        /* sizeof(platoon_error) */
    platoon_status status; /* what the failed call returned; PLATOON_OK if none failed */
    int32_t tenant;       /* the tenant it is about, or -1 */
    int32_t segment;      /* the segment it is about, or -1 */
    int32_t camera;       /* the camera it is about, or -1 */
    uint32_t fault;       /* PLATOON_FAULT_... */
    uint64_t frame;       /* the fault's frame */
    uint32_t device_code; /* the device's number of a PLATOON_FAULT_DEVICE */
    uint32_t suspects;    /* segments that may be to blame for the fault; with 1 it is certain */
    char message[PLATOON_MESSAGE_BYTES]; /* one line for people: what is wrong and what to do */
} platoon_error;

/* A camera image in the caller's memory. */
typedef struct platoon_image {
    const uint8_t *data; /* the first row; null: the camera has no new image */
    uint64_t bytes;      /* bytes that may be read at `data` */
    uint32_t width;      /* pixels in a row */
    uint32_t height;     /* rows */
    uint32_t stride;     /* bytes from row to row, of both planes for NV12, whose chroma follows its luma at once */
    uint32_t format;     /* PLATOON_RGB8 ... */
} platoon_image;

/* A camera image in the memory of the GPU that runs the plans. */
typedef struct platoon_device_image {
    uint64_t address; /* of the first row, for the GPU */
    uint64_t bytes;   /* bytes that may be read there */
    uint32_t width;   /* as in platoon_image */
    uint32_t height;
    uint32_t stride;
    uint32_t format;
    void *event; /* a CUevent or cudaEvent_t of the same GPU after which the image is complete; null if it is complete. Must
                  * live until the frame was submitted */
} platoon_device_image;

/* A tensor in the memory of the GPU that runs the plans. */
typedef struct platoon_device_tensor {
    uint64_t address; /* of its first byte, for the GPU */
    uint64_t bytes;   /* bytes that may be read there: as many as the input has, or more */
    void *event;      /* as in platoon_device_image */
} platoon_device_tensor;

/* What became of a tenant in a frame. */
typedef struct platoon_tenant_report {
    uint32_t currency;       /* PLATOON_NONE ... */
    uint8_t missed_deadline; /* 1: it computed, but after its deadline */
    uint8_t old_image;       /* 1: it computed from an image of an earlier frame */
    uint16_t reserved;
    uint64_t of_frame;  /* the frame its result is of; no meaning for PLATOON_NONE */
    uint64_t finish_ns; /* from the start of the frame's work to its result; 0 if it did not compute */
} platoon_tenant_report;

/* What became of a frame. */
typedef struct platoon_report {
    uint32_t size;         /* sizeof(platoon_report) */
    uint32_t task_set;     /* index of the task set it ran under */
    uint64_t frame;        /* its number, from 0 */
    uint64_t total_ns;     /* from the start of its work (submitted, and the frame before ended) to its end */
    uint32_t tenant_count; /* entries in use below */
    uint32_t reserved;
    platoon_tenant_report tenants[PLATOON_MAX_TENANTS];
} platoon_report;

/* A detected object. */
typedef struct platoon_detection {
    uint32_t class_index;  /* into the tenant's labels */
    float score;           /* 0 to 1 */
    float x0, y0, x1, y1;  /* left, upper, right, lower edge in pixels of the camera's image */
    uint32_t image;        /* which picture of the tenant's batch */
    uint32_t row;          /* its row in that picture; for a crop, the row of the source's detection that it shows */
} platoon_detection;

/* A class with its score. */
typedef struct platoon_class_score {
    uint32_t image;       /* which picture of the tenant's batch */
    uint32_t class_index; /* into the tenant's labels */
    float score;
} platoon_class_score;

/* One class a pixel of a network's output. */
typedef struct platoon_label_map {
    const char *name;          /* of the network's head */
    const uint8_t *data;       /* width * height bytes, row by row */
    const char *const *labels; /* names of the classes */
    uint32_t label_count;      /* may be smaller than the number of classes */
    uint32_t image;            /* which picture of the tenant's batch */
    uint32_t width;
    uint32_t height;
} platoon_label_map;

/* An output as it is. */
typedef struct platoon_tensor {
    const char *name;
    const uint8_t *data; /* elements in C order, native endian, aligned to 4 bytes at least */
    uint64_t bytes;      /* bytes at `data` */
    uint64_t device;     /* CUDA: address of the same bytes in the GPU's memory, in the device's primary context, if the
                          * tenant computed in this frame; else 0. Complete when the tenant's result is there */
    uint32_t dtype;      /* PLATOON_F32 ... */
    uint32_t rank;       /* extents in use */
    uint32_t dims[PLATOON_MAX_RANK];
} platoon_tensor;

/* A tenant's result. Arrays without entries are null; PLATOON_NONE has none at all. What the pointers lead to stays as it
 * is until the ticket is released, also when a later call finds a newer result. */
typedef struct platoon_result {
    uint32_t size;     /* sizeof(platoon_result) */
    uint32_t currency; /* PLATOON_NONE ... */
    uint64_t of_frame; /* the frame it is of: that of the oldest image it was computed from */
    uint32_t kind;     /* PLATOON_DETECTION ... */
    uint32_t images;   /* pictures in the tenant's batch */
    const platoon_detection *detections; /* objects, best first in each picture */
    const platoon_detection *crops;      /* of a tenant that looks at crops: what each crop shows, best first */
    const platoon_class_score *scores;   /* best classes, best first in each picture */
    const platoon_label_map *maps;
    const platoon_tensor *tensors;       /* all outputs, also those that the arrays above are read from */
    uint32_t detection_count;
    uint32_t crop_count;
    uint32_t score_count;
    uint32_t map_count;
    uint32_t tensor_count;
    uint32_t reserved;
} platoon_result;

/* What an engine was opened on. Texts are the engine's: valid until it is closed. */
typedef struct platoon_info {
    uint32_t size;      /* sizeof(platoon_info) */
    uint32_t backend;   /* the one in use: PLATOON_BACKEND_CPU or PLATOON_BACKEND_CUDA */
    uint32_t cameras;   /* cameras; platoon_submit takes an image for each */
    uint32_t task_sets; /* task sets */
    uint32_t slots;     /* frames that may be in flight or unreleased */
    uint32_t threads;   /* threads that the engine started */
    uint32_t refused;   /* wishes (pinning, memory lock, scheduling class) that the system refused; the log names them */
    uint32_t reserved;
    uint64_t open_ns; /* how long platoon_open took */
    const char *board;
    const char *version; /* of the library */
} platoon_info;

/* A camera. */
typedef struct platoon_camera_info {
    uint32_t size; /* sizeof(platoon_camera_info) */
    uint32_t max_width;
    uint32_t max_height;
    uint32_t reserved;
    const char *name;
    uint64_t bytes; /* of its image memory */
} platoon_camera_info;

/* A task set. */
typedef struct platoon_task_set_info {
    uint32_t size; /* sizeof(platoon_task_set_info) */
    uint32_t tenants;
    const char *name;
} platoon_task_set_info;

/* A tenant of a task set. */
typedef struct platoon_tenant_info {
    uint32_t size;        /* sizeof(platoon_tenant_info) */
    uint32_t kind;        /* PLATOON_DETECTION ... */
    uint32_t divisor;     /* it runs in the frames whose number modulo `divisor` ... */
    uint32_t phase;       /* ... is `phase` */
    uint32_t priority;    /* higher goes first */
    uint32_t images;      /* pictures in its batch */
    uint32_t cameras;     /* bit set of the cameras it looks through */
    uint32_t sources;     /* bit set of the tenants whose results it reads in the same frame */
    uint32_t inputs;      /* tensor inputs */
    uint32_t outputs;     /* outputs */
    uint32_t label_count; /* entries at `labels` */
    uint32_t reserved;
    uint64_t deadline_ns; /* from the start of a frame's work to its result; 0: none */
    const char *name;
    const char *model;
    const char *const *labels; /* names of its classes; null if it has none */
} platoon_tenant_info;

/* A tensor input or an output of a tenant. */
typedef struct platoon_port_info {
    uint32_t size;  /* sizeof(platoon_port_info) */
    uint32_t dtype; /* PLATOON_F32 ... */
    uint32_t rank;  /* extents in use */
    uint32_t dims[PLATOON_MAX_RANK];
    uint32_t reserved;
    const char *name;
    uint64_t bytes; /* of all its elements */
} platoon_port_info;

/* Figures of a task set's frames since the engine was opened. Shares are rounded up by at most 1/16. */
typedef struct platoon_stats {
    uint32_t size; /* sizeof(platoon_stats) */
    uint32_t reserved;
    uint64_t frames; /* frames that ended, as far as a call has noticed */
    uint64_t p50_ns; /* the time that half of them did not exceed */
    uint64_t p99_ns; /* the time that 99 % of them did not exceed */
    uint64_t max_ns;
} platoon_stats;

/* Figures of a tenant's results since the engine was opened. */
typedef struct platoon_tenant_stats {
    uint32_t size; /* sizeof(platoon_tenant_stats) */
    uint32_t reserved;
    uint64_t fresh;  /* frames with a fresh result */
    uint64_t held;   /* frames in which it was not due */
    uint64_t stale;  /* frames in which it was due and had no fresh result */
    uint64_t none;   /* frames without any result yet */
    uint64_t missed; /* results after the deadline */
    uint64_t p50_ns; /* from the start of a frame's work to its fresh result, as above */
    uint64_t p99_ns;
    uint64_t max_ns;
} platoon_tenant_stats;

/* How an engine is. */
typedef struct platoon_health {
    uint32_t size;  /* sizeof(platoon_health) */
    uint32_t state; /* PLATOON_STATE_PREPARED ... */
    uint32_t fault; /* PLATOON_FAULT_... */
    int32_t tenant; /* the fault's tenant, or -1 */
    int32_t segment; /* the fault's segment, or -1 */
    uint32_t device_code; /* the device's number of the fault */
    uint32_t suspects;    /* segments that may be to blame */
    uint32_t task_set;    /* index of the task set of the next frame */
    uint64_t frame;       /* the fault's frame */
    uint64_t next_frame;  /* number of the next frame */
    uint32_t tickets;     /* tickets that were not released */
    uint32_t drafting;    /* 1 while a draft is open */
} platoon_health;

/* The library's PLATOON_ABI. Threads: any. */
uint32_t platoon_abi(void);

/* The library's version, such as "0.1.0". Threads: any. */
const char *platoon_version(void);

/* A status' name, such as "PLATOON_BUSY"; "unknown status" for a number that is none. Threads: any. */
const char *platoon_status_name(platoon_status status);

/* Copies what is known of the calling thread's last failure. Successful calls leave it as it is. Threads: any, each of
 * its own failures. */
platoon_status platoon_last_error(platoon_error *error);

/* Opens the plans of a board: loads and checks them, takes all memory, uploads weights, warms up. Writes the engine's
 * handle. PLATOON_VERSION, PLATOON_ARGUMENT, PLATOON_LOAD, PLATOON_PREPARE, PLATOON_UNKNOWN (task set), PLATOON_LIMIT.
 * Threads: any; takes as long as the plans need. */
platoon_status platoon_open(const platoon_options *options, platoon_engine *engine);

/* Stops the engine and frees everything, within the options' close limit. Frames in flight are given up; calls of other
 * threads that wait return PLATOON_HANDLE. All pointers the engine gave are invalid afterwards. `leaked`, which may be
 * null, gets the number of workers or devices that were stuck and are leaked. Threads: any; results must no longer be
 * read by others. */
platoon_status platoon_close(platoon_engine engine, uint32_t *leaked);

/* What the engine was opened on. Threads: any. */
platoon_status platoon_describe(platoon_engine engine, platoon_info *info);

/* Camera number `camera`. Threads: any. */
platoon_status platoon_describe_camera(platoon_engine engine, uint32_t camera, platoon_camera_info *info);

/* Task set number `task_set`. Threads: any. */
platoon_status platoon_describe_task_set(platoon_engine engine, uint32_t task_set, platoon_task_set_info *info);

/* Tenant number `tenant` of a task set. Threads: any. */
platoon_status platoon_describe_tenant(platoon_engine engine, uint32_t task_set, uint32_t tenant, platoon_tenant_info *info);

/* Tensor input number `input` of a tenant. Threads: any. */
platoon_status platoon_describe_input(platoon_engine engine, uint32_t task_set, uint32_t tenant, uint32_t input,
                                      platoon_port_info *info);

/* Output number `output` of a tenant. Threads: any. */
platoon_status platoon_describe_output(platoon_engine engine, uint32_t task_set, uint32_t tenant, uint32_t output,
                                       platoon_port_info *info);

/* Selects the task set of the next frame, by name. That frame's submission waits for the frames in flight; held results
 * are discarded. PLATOON_UNKNOWN; PLATOON_STATE while a draft is open. Threads: any. */
platoon_status platoon_select(platoon_engine engine, const char *task_set);

/* Copies an image of each camera and submits the frame. `images` has `count` entries, one per camera. A camera without a
 * new image contributes its newest earlier one, and its tenants are marked stale. Waits only after platoon_select.
 * PLATOON_BUSY without a free slot, PLATOON_IMAGE, PLATOON_STATE while a draft is open; then nothing has changed.
 * Threads: any. */
platoon_status platoon_submit(platoon_engine engine, const platoon_image *images, uint32_t count, platoon_ticket *ticket);

/* Begins a frame that is filled in place. One draft may be open at a time (PLATOON_STATE); PLATOON_BUSY without a free
 * slot. Waits only after platoon_select. Threads: any. */
platoon_status platoon_begin(platoon_engine engine, platoon_draft *draft);

/* The memory that camera number `camera` writes its image into, and its bytes: pinned or mapped where the backend needs
 * that. Valid until the draft is submitted or dropped. Threads: any; cameras may be written by different threads. */
platoon_status platoon_draft_image(platoon_engine engine, platoon_draft draft, uint32_t camera, uint8_t **data,
                                   uint64_t *bytes);

/* Says that the camera's image is in place. PLATOON_IMAGE if it does not fit. Threads: any, after the image was
 * written. */
platoon_status platoon_draft_set_image(platoon_engine engine, platoon_draft draft, uint32_t camera, uint32_t width,
                                       uint32_t height, uint32_t stride, uint32_t format);

/* Copies the camera's image from the caller's memory. Threads: any. */
platoon_status platoon_draft_copy_image(platoon_engine engine, platoon_draft draft, uint32_t camera,
                                        const platoon_image *picture);

/* Gives the camera's image in the GPU's memory, with its event. The GPU copies it when the frame begins; it must stay as it is
 * until the frame has ended. PLATOON_IMAGE if it does not fit, or is not in one allocation of the GPU's; PLATOON_ARGUMENT where
 * the backend is not CUDA. An event that cannot be waited for gives PLATOON_IMAGE from platoon_draft_submit; an address that
 * is no event may end the process. Threads: any. */
platoon_status platoon_draft_device_image(platoon_engine engine, platoon_draft draft, uint32_t camera,
                                          const platoon_device_image *picture);

/* The memory of a tensor input of a tenant of the frame's task set, C order, native endian. It must be written anew in
 * every frame; a tenant of which this was not called for every input has no input. Valid until the draft is submitted
 * or dropped. Threads: any. */
platoon_status platoon_draft_input(platoon_engine engine, platoon_draft draft, uint32_t tenant, uint32_t input,
                                   uint8_t **data, uint64_t *bytes);

/* Gives a tensor input of a tenant in the GPU's memory, C order, native endian, with its event. The GPU copies it when the
 * frame begins; it must stay as it is until the frame has ended. Other inputs of the tenant may be written by
 * platoon_draft_input. PLATOON_INPUT if it is too short, or is not in one allocation of the GPU's; PLATOON_ARGUMENT where the
 * backend is not CUDA. An event that cannot be waited for gives PLATOON_INPUT from platoon_draft_submit; an address that is no
 * event may end the process. Threads: any. */
platoon_status platoon_draft_device_input(platoon_engine engine, platoon_draft draft, uint32_t tenant, uint32_t input,
                                          const platoon_device_tensor *tensor);

/* Submits the draft's frame; the draft is spent, also on failure, be it for a null `ticket`. Threads: any, after everything was
 * written. */
platoon_status platoon_draft_submit(platoon_engine engine, platoon_draft draft, platoon_ticket *ticket);

/* Drops the draft: everything is as it was before it. Threads: any. */
platoon_status platoon_draft_drop(platoon_engine engine, platoon_draft draft);

/* Waits for the frame's end, at most `timeout_ns`, 0 to look only; its report. PLATOON_TIMEOUT: it goes on and may be
 * waited for again. PLATOON_FAULTED: it does not end. May be called again after the end. Threads: any. */
platoon_status platoon_wait(platoon_engine engine, platoon_ticket ticket, uint64_t timeout_ns, platoon_report *report);

/* Waits for one tenant's result, which may be there before the frame ends; how current it is. Threads: any. */
platoon_status platoon_wait_tenant(platoon_engine engine, platoon_ticket ticket, uint32_t tenant, uint64_t timeout_ns,
                                   uint32_t *currency);

/* A tenant's result in the ticket's frame. Before the tenant has finished, and for good if a fault keeps it from
 * finishing, this is its latest earlier result as PLATOON_STALE or PLATOON_HELD: what to act on when the deadline comes
 * first. Never waits. Threads: any. */
platoon_status platoon_result_of(platoon_engine engine, platoon_ticket ticket, uint32_t tenant, platoon_result *result);

/* Gives the ticket back: its slot is free for a new frame, once its own has ended. Threads: any; nobody must read the
 * ticket's results any more. */
platoon_status platoon_release(platoon_engine engine, platoon_ticket ticket);

/* Figures of task set number `task_set`. Threads: any. */
platoon_status platoon_stats_of(platoon_engine engine, uint32_t task_set, platoon_stats *stats);

/* Figures of a tenant of a task set. Threads: any. */
platoon_status platoon_tenant_stats_of(platoon_engine engine, uint32_t task_set, uint32_t tenant,
                                       platoon_tenant_stats *stats);

/* How the engine is. Threads: any. */
platoon_status platoon_health_of(platoon_engine engine, platoon_health *health);

#ifdef __cplusplus
}
#endif

#endif
