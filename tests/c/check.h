/* What the programs of this folder share: a check that says where it failed, and the pictures of the hand-built plans. */
#ifndef CHECK_H
#define CHECK_H

#include "platoon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

/* Checks a call's status, and shows the message of the failure where it is another one. */
#define EXPECT(expected, call)                                                                               \
    do {                                                                                                     \
        platoon_status status_ = (call);                                                                     \
        if (status_ != (expected)) {                                                                         \
            PLATOON_SIZED(platoon_error, error_);                                                            \
            platoon_last_error(&error_);                                                                     \
            fprintf(stderr, "%s:%d: %s gave %s, not %s (%s)\n", __FILE__, __LINE__, #call,                   \
                    platoon_status_name(status_), platoon_status_name(expected), error_.message);            \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define OK(call) EXPECT(PLATOON_OK, call)

/* Both cameras of the hand-built plans give pictures of this size, one byte a pixel. */
enum { WIDTH = 10, HEIGHT = 24, PIXELS = WIDTH * HEIGHT };

static inline platoon_image gray(const uint8_t *pixels) {
    platoon_image image = {pixels, PIXELS, WIDTH, HEIGHT, WIDTH, PLATOON_GRAY8};
    return image;
}

/* Pixels of a camera in a frame, the same in every program. */
static inline void paint(uint8_t *pixels, uint32_t camera, uint64_t frame) {
    uint32_t state = (camera + 1) * 2654435761u ^ (uint32_t)frame * 2246822519u;
    for (int i = 0; i < PIXELS; i++) {
        state = state * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)(state >> 25);
    }
}

static inline platoon_options options_for(const char *plans) {
    PLATOON_SIZED(platoon_options, options);
    options.abi = PLATOON_ABI;
    options.plans = plans;
    options.workers = 2;
    options.flags = PLATOON_OPEN_UNPINNED;
    return options;
}

#endif
