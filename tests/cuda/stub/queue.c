// Work in flight: nodes with what comes before each, taken by a few threads in a random order that keeps to it.
#include <stdlib.h>
#include <string.h>
#include "stub.h"

enum { WORKERS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static node** pending;
static int pending_count, pending_room;
static uint64_t state;
static uint32_t sticky;
static graph* open_graph;

static uint32_t next_random(void) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(state >> 33);
}

static tails copy_of(tails from) {
    tails to = {malloc(sizeof(node*) * (from.count + 1)), from.count};
    memcpy(to.nodes, from.nodes, sizeof(node*) * from.count);
    return to;
}

static void set(tails* at, tails value) {
    free(at->nodes);
    *at = value;
}

static tails single(node* n) {
    tails one = {malloc(sizeof(node*)), 1};
    one.nodes[0] = n;
    return one;
}

static void push(node*** list, int* count, int* room, node* n) {
    if (*count == *room) *list = realloc(*list, sizeof(node*) * (*room = *room ? 2 * *room : 64));
    (*list)[(*count)++] = n;
}

static int ready(const node* n) {
    for (int i = 0; i < n->before.count; i++)
        if (!n->before.nodes[i]->done) return 0;
    return 1;
}

static void run(node* n) {
    if (n->run) n->run(n->argument);
    else if (n->from) memcpy(n->to, n->from, n->bytes);
    else if (n->to) memset(n->to, n->fill, n->bytes);
}

static void* work(void* unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        int found = -1;
        int first = pending_count ? (int)(next_random() % (uint32_t)pending_count) : 0;
        for (int i = 0; i < pending_count && found < 0 && !sticky; i++)
            if (ready(pending[(first + i) % pending_count])) found = (first + i) % pending_count;
        if (found < 0) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        node* n = pending[found];
        memmove(pending + found, pending + found + 1, sizeof(node*) * (pending_count - found - 1));
        pending_count--;
        pthread_mutex_unlock(&lock);
        run(n);
        pthread_mutex_lock(&lock);
        if (!sticky) n->done = 1;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

void queue_start(unsigned seed) {
    static int started;
    if (started++) return;
    state = seed * 2654435761ull + 1;
    for (int i = 0; i < WORKERS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_detach(thread);
    }
}

uint32_t queue_sticky(void) {
    pthread_mutex_lock(&lock);
    uint32_t code = sticky;
    pthread_mutex_unlock(&lock);
    return code;
}

void queue_break(uint32_t code) {
    pthread_mutex_lock(&lock);
    sticky = code;
    pthread_mutex_unlock(&lock);
}

static int append_pending(node* n) {
    push(&pending, &pending_count, &pending_room, n);
    pthread_cond_broadcast(&changed);
    return OK;
}

uint32_t queue_add(stream* s, node* n) {
    pthread_mutex_lock(&lock);
    uint32_t code = OK;
    n->before = copy_of(s->at);
    set(&s->at, single(n));
    if (s->capturing) {
        static int room;
        if (!open_graph->nodes) room = 0;
        n->index = open_graph->count;
        push(&open_graph->nodes, &open_graph->count, &room, n);
    } else if (open_graph) {
        code = CAPTURE_UNSUPPORTED;   // what is not part of the capture must wait until it is over
    } else {
        append_pending(n);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

uint32_t queue_record(event* e, stream* s) {
    pthread_mutex_lock(&lock);
    set(&e->at, copy_of(s->at));
    e->captured = s->capturing;
    pthread_mutex_unlock(&lock);
    return OK;
}

uint32_t queue_wait(stream* s, event* e) {
    pthread_mutex_lock(&lock);
    uint32_t code = OK;
    if (e->captured && !s->capturing) {
        s->capturing = 1;   // the stream becomes part of the capture, from here on
        s->before_capture = s->at;
        s->at = copy_of(e->at);
    } else if (s->capturing && !e->captured) {
        code = CAPTURE_ISOLATION;
    } else {
        tails both = {malloc(sizeof(node*) * (s->at.count + e->at.count + 1)), 0};
        for (int i = 0; i < s->at.count; i++) both.nodes[both.count++] = s->at.nodes[i];
        for (int i = 0; i < e->at.count; i++) both.nodes[both.count++] = e->at.nodes[i];
        // Ended work need not be waited for; without this the list of an idle stream would grow.
        int kept = 0;
        for (int i = 0; i < both.count; i++)
            if (s->capturing || !both.nodes[i]->done) both.nodes[kept++] = both.nodes[i];
        both.count = kept;
        set(&s->at, both);
    }
    pthread_mutex_unlock(&lock);
    return code;
}

int queue_idle(stream* s) {
    pthread_mutex_lock(&lock);
    int idle = 1;
    for (int i = 0; i < s->at.count; i++) idle &= s->at.nodes[i]->done;
    pthread_mutex_unlock(&lock);
    return idle;
}

uint32_t queue_begin(stream* s) {
    pthread_mutex_lock(&lock);
    uint32_t code = open_graph ? INVALID_VALUE : OK;
    if (code == OK) {
        open_graph = calloc(1, sizeof(graph));
        s->capturing = 1;
        s->before_capture = s->at;
        tails none = {malloc(sizeof(node*)), 0};
        s->at = none;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static void reach(node* n, unsigned char* reached) {
    if (reached[n->index]) return;
    reached[n->index] = 1;
    for (int i = 0; i < n->before.count; i++) reach(n->before.nodes[i], reached);
}

// Streams that took part in a capture go on where they were before it; the stub knows all of them.
extern stream* all_streams[];
extern int all_streams_count;

uint32_t queue_end(stream* s, graph** made) {
    pthread_mutex_lock(&lock);
    graph* g = open_graph;
    uint32_t code = g ? OK : INVALID_VALUE;
    if (g) {
        unsigned char* reached = calloc(1, g->count + 1);
        for (int i = 0; i < s->at.count; i++) reach(s->at.nodes[i], reached);
        for (int i = 0; i < g->count; i++)
            if (!reached[i]) code = CAPTURE_UNJOINED;
        free(reached);
        g->end = copy_of(s->at);
        open_graph = NULL;
        for (int i = 0; i < all_streams_count; i++)
            if (all_streams[i] && all_streams[i]->capturing) {
                all_streams[i]->capturing = 0;
                set(&all_streams[i]->at, all_streams[i]->before_capture);
            }
        *made = code == OK ? g : NULL;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

void queue_launch(graph* g, stream* s) {
    pthread_mutex_lock(&lock);
    node** clones = malloc(sizeof(node*) * (g->count + 1));
    for (int i = 0; i < g->count; i++) {
        node* n = clones[i] = malloc(sizeof(node));
        *n = *g->nodes[i];
        n->done = 0;
        n->before = copy_of(n->before.count ? n->before : s->at);
        if (g->nodes[i]->before.count)
            for (int k = 0; k < n->before.count; k++) n->before.nodes[k] = clones[n->before.nodes[k]->index];
    }
    for (int i = 0; i < g->count; i++) append_pending(clones[i]);
    tails end = copy_of(g->end);
    for (int k = 0; k < end.count; k++) end.nodes[k] = clones[end.nodes[k]->index];
    set(&s->at, end);
    free(clones);
    pthread_mutex_unlock(&lock);
}
