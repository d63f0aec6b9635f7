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

// A task set, as the node uses it.
struct Mode {
    const char *name;
    platoon_tenant_info behind; // the rear camera's tenant: the last of both task sets
    uint32_t last;

    Mode(const platoon::Engine &engine, const char *wanted) : name(nullptr), behind(), last(0) {
        for (uint32_t set = 0; set < engine.info().task_sets; set++) {
            const platoon_task_set_info info = engine.task_set(set);
            if (std::strcmp(info.name, wanted) != 0 || info.tenants == 0) continue;
            name = info.name;
            last = info.tenants - 1;
            behind = engine.tenant(set, last);
        }
        if (name == nullptr) throw std::runtime_error(std::string("the plans have no task set ") + wanted);
    }

    bool looks_behind_in(uint64_t frame) const { return frame % behind.divisor == behind.phase; }
};

// Two cameras, one engine. The front camera sets the pace: every new image of it makes a frame.
class Perception {
public:
    // Places in examples/perception/tasks.toml; the urgent tenant is the first of both task sets.
    static constexpr uint32_t FRONT = 0, REAR = 1, WATCH = 0;

    Perception(const platoon_options &options, ring::Reader &front, ring::Reader &rear, std::chrono::nanoseconds deadline)
        : engine_(options), front_(front), rear_(rear), deadline_(deadline), city_(engine_, "city"),
          reduced_(engine_, "reduced"), wanted_(&city_), watch_(engine_) {}

    // The vehicle leaves the city, or comes back: how much is looked at while deadlines are met.
    void leave_city(bool left) { wanted_ = left ? &reduced_ : &city_; }

    bool healthy() const { return watch_.healthy(); }
    const platoon::Engine &engine() const { return engine_; }
    const DeadlineMonitor &monitor() const { return monitor_; }

    // Makes a frame of the front camera's new image; call it when there is one.
    Percept step() {
        const Mode &mode = overloaded_ ? reduced_ : *wanted_;
        engine_.select(mode.name); // nothing happens unless it is another one
        // All tickets are released at the end of a step, so a slot is free.
        std::optional<platoon::Draft> draft = engine_.begin();
        if (!draft) throw std::logic_error("a ticket was kept");
        const uint64_t taken = give(*draft, FRONT, front_);
        // The rear image waits in its ring for a frame that uses it. A camera without a new image is left out: its tenants
        // run on the old one and say so.
        if (mode.looks_behind_in(next_)) give(*draft, REAR, rear_);
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
        const platoon::Result behind = ticket.result(mode.last);
        percept.frame = report.frame;
        percept.task_set = report.task_set;
        percept.behind = behind.currency();
        percept.objects_behind = behind.detections().size();
        next_ = report.frame + 1;
        overloaded_ = monitor_.note(in_time);
        return percept;
    }

private:
    platoon::Engine engine_;
    ring::Reader &front_;
    ring::Reader &rear_;
    std::chrono::nanoseconds deadline_;
    Mode city_, reduced_;
    const Mode *wanted_;
    DeadlineMonitor monitor_;
    bool overloaded_ = false;
    uint64_t next_ = 0; // the next frame's number
    Watch watch_;       // last: it uses the engine

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
