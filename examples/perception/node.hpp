// The perception node, without its surroundings: what a ROS 2 or Autoware node would hold as a member.
#ifndef NODE_HPP
#define NODE_HPP

#include "ring.hpp"

#include "platoon.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

// Watches how often the urgent tenant is late, and says when to do less and when to do all again.
class DeadlineMonitor {
public:
    // Frames in a row that are late, or in time, before the mode changes.
    static constexpr unsigned LATE = 3, IN_TIME = 30;

    // Takes note of a frame; true if the mode should be the reduced one from here on.
    bool note(bool in_time) {
        run_ = in_time == in_time_ ? run_ + 1 : 1;
        in_time_ = in_time;
        misses_ += in_time ? 0 : 1;
        if (!in_time && run_ >= LATE) reduced_ = true;
        if (in_time && run_ >= IN_TIME) reduced_ = false;
        return reduced_;
    }
    uint64_t misses() const { return misses_; }

private:
    bool in_time_ = true, reduced_ = false;
    unsigned run_ = 0;
    uint64_t misses_ = 0;
};

// Asks from a thread of its own whether the engine goes on; the frame loop need not be alive for that.
class Watch {
public:
    explicit Watch(const platoon::Engine &engine) : thread_([this, &engine] { run(engine); }) {}
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;
    ~Watch() {
        stop_ = true;
        thread_.join();
    }

    // False once the engine is faulted: the supervisor must start a new process.
    bool healthy() const { return healthy_; }

private:
    std::atomic<bool> stop_{false}, healthy_{true};
    std::thread thread_; // last: it uses the others

    void run(const platoon::Engine &engine) {
        while (!stop_ && healthy_) {
            PLATOON_SIZED(platoon_health, health);
            const platoon_status status = platoon_health_of(engine.handle(), &health);
            healthy_ = status == PLATOON_OK && health.state != PLATOON_STATE_FAULTED;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
};

// What the vehicle is told after each frame.
struct Percept {
    uint64_t frame;
    uint32_t task_set;       // index of the mode it was computed in
    bool in_time;            // the urgent tenant's result was there before the deadline
    uint32_t watch;          // how current it is: PLATOON_FRESH ...
    uint32_t behind;         // how current the rear camera's result is
    uint32_t objects_ahead;  // detections, of whatever frame the result is of
    uint32_t objects_behind;
    uint64_t age_ns;         // from the front image's exposure to the urgent result
};

// Two cameras, one engine. The front camera sets the pace: every new image of it makes a frame.
class Perception {
public:
    // Tenants by their place in examples/perception/tasks.toml; the urgent one is the first of both task sets.
    static constexpr uint32_t FRONT = 0, REAR = 1, WATCH = 0;

    Perception(const platoon_options &options, ring::Reader &front, ring::Reader &rear, std::chrono::nanoseconds deadline)
        : engine_(options), front_(front), rear_(rear), deadline_(deadline), watch_(engine_) {}

    // The mode that the vehicle wants while deadlines are met.
    void want(const char *mode) { wanted_ = mode; }

    bool healthy() const { return watch_.healthy(); }
    const platoon::Engine &engine() const { return engine_; }
    const DeadlineMonitor &monitor() const { return monitor_; }

    // Makes a frame of the front camera's new image; call it when there is one.
    Percept step() {
        if (std::strcmp(mode_, target()) != 0) engine_.select(mode_ = target());
        // All tickets are released at the end of a step, so a slot is free.
        std::optional<platoon::Draft> draft = engine_.begin();
        if (!draft) throw std::logic_error("a ticket was kept");
        const uint64_t taken = give(*draft, FRONT, front_);
        // A camera without a new image is left out: its tenants run on the old one and say so.
        give(*draft, REAR, rear_);
        const platoon::Ticket ticket = draft->submit();

        // The urgent result as soon as it is there; at the deadline the vehicle acts on the one before.
        const bool in_time = ticket.wait_tenant(WATCH, deadline_).has_value();
        const platoon::Result watch = ticket.result(WATCH);
        Percept percept = {};
        percept.in_time = in_time;
        percept.watch = watch.currency();
        percept.objects_ahead = watch.detections().size();
        percept.age_ns = taken == 0 ? 0 : ring::now_ns() - taken;

        // The rest of the frame: the other tenants have until the next image comes.
        const platoon_report report = ticket.wait();
        const uint32_t last = report.tenant_count - 1; // `behind` is the last of both task sets
        percept.frame = report.frame;
        percept.task_set = report.task_set;
        const platoon::Result behind = ticket.result(last);
        percept.behind = behind.currency();
        percept.objects_behind = behind.detections().size();
        reduced_ = monitor_.note(in_time);
        return percept;
    }

private:
    platoon::Engine engine_;
    ring::Reader &front_;
    ring::Reader &rear_;
    std::chrono::nanoseconds deadline_;
    DeadlineMonitor monitor_;
    const char *wanted_ = "city";
    const char *mode_ = ""; // none yet: the first step selects one
    bool reduced_ = false;
    Watch watch_; // last: it uses the engine

    const char *target() const { return reduced_ ? "reduced" : wanted_; }

    // Moves a camera's new image, if there is one, from the ring into the engine's memory: the only copy there is.
    static uint64_t give(platoon::Draft &draft, uint32_t camera, ring::Reader &reader) {
        if (!reader.has_news()) return 0;
        const platoon::Room room = draft.image(camera);
        const uint64_t taken = reader.copy_newest(room.data, room.bytes);
        const ring::Shape &shape = reader.shape();
        if (taken != 0) draft.set_image(camera, shape.width, shape.height, shape.stride, shape.format);
        return taken;
    }
};

#endif
