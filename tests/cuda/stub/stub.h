// A driver without a GPU: enough of libcuda for the backend's loop and its errors. Device memory is host memory, kernels are
// functions of this library, and work runs on a few threads in any order that the streams, events and graphs allow, chosen
// at random: an order that the program does not ask for is one that it does not get.
//
// The environment says what GPU there is and what fails:
//   STUB_CAPABILITY, STUB_SMS, STUB_DRIVER, STUB_DEVICES, STUB_INTEGRATED   what the driver says
//   STUB_FAIL=function:n:code      the n-th call of a function (from 1) fails
//   STUB_SEED                      of the order of work
//   STUB_REPORT=file               at exit: objects that were not given back, and calls made after an error was told
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_IMAGE = 200, INVALID_HANDLE = 400, NOT_FOUND = 500,
       NOT_READY = 600, ILLEGAL_ADDRESS = 700, CAPTURE_UNSUPPORTED = 900, CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905 };

#define MAX_ARGUMENT 256

typedef struct node node;

// What a stream, an event or a graph ends with: everything in it comes before these.
typedef struct { node** nodes; int count; } tails;

typedef struct { tails at, before_capture; int capturing; } stream;
typedef struct { tails at; int captured; } event;
typedef struct { node** nodes; int count; tails end; } graph;

typedef void (*kernel)(const void* argument);

struct node {
    kernel run;                      // a launch, or null for a copy
    unsigned char argument[MAX_ARGUMENT];
    void *to; const void* from; size_t bytes;   // a copy, or a fill where `from` is null
    int fill;
    tails before;
    int index;                       // in its graph
    int started, done;
};

// queue.c
void queue_start(unsigned seed);
uint32_t queue_add(stream* s, node* n);
uint32_t queue_record(event* e, stream* s);
uint32_t queue_wait(stream* s, event* e);
int queue_idle(stream* s);
uint32_t queue_begin(stream* s);
uint32_t queue_end(stream* s, graph** made);
void queue_launch(graph* g, stream* s);
uint32_t queue_sticky(void);
void queue_break(uint32_t code);

// kernels.c
kernel kernel_named(const char* name, size_t* argument);
uint64_t device_nanoseconds(void);
