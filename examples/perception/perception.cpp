// The node in surroundings of its own: reads two rings, prints what a node would publish.
//
//     perception PLANS BOARD FRONT_RING REAR_RING DEADLINE_MS FRAMES
#include "node.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

volatile std::sig_atomic_t stop = 0;

void log(void *, int32_t level, const char *message) {
    static const char *const names[] = {"?", "error", "warning", "info"};
    std::fprintf(stderr, "platoon %s: %s\n", names[level >= 1 && level <= 3 ? level : 0], message);
}

// The camera's ring, as soon as the camera has made it.
std::unique_ptr<ring::Reader> attach(const char *path) {
    for (int attempt = 0;; attempt++) {
        try {
            return std::make_unique<ring::Reader>(path);
        } catch (const std::runtime_error &) {
            if (attempt == 500 || stop) throw;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
}

const char *name(uint32_t currency) {
    static const char *const names[] = {"none", "fresh", "held", "stale"};
    return currency < 4 ? names[currency] : "?";
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 7) {
        std::fprintf(stderr, "usage: perception PLANS BOARD FRONT_RING REAR_RING DEADLINE_MS FRAMES\n");
        return 2;
    }
    std::signal(SIGINT, [](int) { stop = 1; });
    const auto front = attach(argv[3]), rear = attach(argv[4]);
    platoon::Options options(argv[1]);
    options.board = argv[2];
    options.log = log;
    const std::chrono::milliseconds deadline(std::strtoul(argv[5], nullptr, 10));
    const uint64_t frames = std::strtoull(argv[6], nullptr, 10);
    Perception node(options, *front, *rear, deadline);

    uint64_t done = 0, fresh_ahead = 0, fresh_behind = 0, switches = 0;
    uint32_t mode = UINT32_MAX;
    while (done < frames && !stop && node.healthy() && !front->ended()) {
        if (!front->has_news()) {
            std::this_thread::sleep_for(std::chrono::microseconds(200));
            continue;
        }
        // Half-way the vehicle leaves the city.
        if (done == frames / 2) node.want("reduced");
        const Percept p = node.step();
        switches += mode != UINT32_MAX && p.task_set != mode ? 1 : 0;
        mode = p.task_set;
        fresh_ahead += p.watch == PLATOON_FRESH ? 1 : 0;
        fresh_behind += p.behind == PLATOON_FRESH ? 1 : 0;
        std::printf("frame %llu %s: ahead %s, %u objects, %.1f ms after exposure%s; behind %s, %u objects\n",
                    static_cast<unsigned long long>(p.frame), node.engine().task_set(p.task_set).name, name(p.watch),
                    p.objects_ahead, static_cast<double>(p.age_ns) / 1e6, p.in_time ? "" : " (late)", name(p.behind),
                    p.objects_behind);
        done++;
    }
    const platoon_stats stats = node.engine().stats(mode == UINT32_MAX ? 0 : mode);
    std::printf("%llu frames, fresh ahead %llu, fresh behind %llu, late %llu, switches %llu, p99 %.1f ms\n",
                static_cast<unsigned long long>(done), static_cast<unsigned long long>(fresh_ahead),
                static_cast<unsigned long long>(fresh_behind), static_cast<unsigned long long>(node.monitor().misses()),
                static_cast<unsigned long long>(switches), static_cast<double>(stats.p99_ns) / 1e6);
    return node.healthy() ? 0 : 1;
} catch (const std::exception &error) {
    std::fprintf(stderr, "perception: %s\n", error.what());
    return 1;
}
