// Platoon for C++17: platoon.h with ownership and exceptions. Header only; every class is one handle of the C library.
//
//     platoon::Options options("plans");
//     options.board = "host";
//     platoon::Engine engine(options);
//     platoon_image front = {data, bytes, 1280, 720, 1280 * 3, PLATOON_RGB8};
//     if (std::optional<platoon::Ticket> frame = engine.submit(&front, 1)) {
//         frame->wait();
//         for (const platoon_detection &found : frame->result(0).detections()) { ... }
//     }   // the ticket is released here
//
// What is ordinary in operation (no free slot, a wait that ran out) is a value; everything else is a platoon::Error. The
// thread rules are those of platoon.h. An engine must outlive its tickets and drafts.
#ifndef PLATOON_HPP
#define PLATOON_HPP

#include "platoon.h"

#include <chrono>
#include <exception>
#include <optional>
#include <utility>

namespace platoon {

// A call that failed, with all that is known of it. Takes no memory.
class Error : public std::exception {
public:
    // The calling thread's last failure.
    Error() noexcept { (void)platoon_last_error(&detail_); }

    const char *what() const noexcept override { return detail_.message; }
    platoon_status status() const noexcept { return detail_.status; }
    const platoon_error &detail() const noexcept { return detail_; }

private:
    platoon_error detail_ = sized();

    static platoon_error sized() noexcept {
        PLATOON_SIZED(platoon_error, detail);
        return detail;
    }
};

// Throws unless the call was done.
inline void check(platoon_status status) {
    if (status != PLATOON_OK) throw Error();
}

// What a function of the library writes into a struct with its size.
template <class Struct, class Call>
Struct ask(Call call) {
    PLATOON_SIZED(Struct, answer);
    check(call(&answer));
    return answer;
}

// How an engine is opened; the fields are those of platoon_options.
struct Options : platoon_options {
    explicit Options(const char *folder) noexcept : platoon_options() {
        size = static_cast<uint32_t>(sizeof(platoon_options));
        abi = PLATOON_ABI;
        plans = folder;
    }
};

// An array of a result.
template <class T>
class View {
public:
    View(const T *first, uint32_t count) noexcept : first_(first), count_(count) {}

    const T *begin() const noexcept { return first_; }
    const T *end() const noexcept { return first_ + count_; }
    uint32_t size() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }
    const T &operator[](uint32_t index) const noexcept { return first_[index]; }

private:
    const T *first_;
    uint32_t count_;
};

// A tenant's result; valid as long as its ticket.
class Result {
public:
    explicit Result(const platoon_result &result) noexcept : result_(result) {}

    bool fresh() const noexcept { return result_.currency == PLATOON_FRESH; }
    uint32_t currency() const noexcept { return result_.currency; }
    uint64_t of_frame() const noexcept { return result_.of_frame; }
    uint32_t kind() const noexcept { return result_.kind; }
    View<platoon_detection> detections() const noexcept { return {result_.detections, result_.detection_count}; }
    View<platoon_detection> crops() const noexcept { return {result_.crops, result_.crop_count}; }
    View<platoon_class_score> scores() const noexcept { return {result_.scores, result_.score_count}; }
    View<platoon_label_map> maps() const noexcept { return {result_.maps, result_.map_count}; }
    View<platoon_tensor> tensors() const noexcept { return {result_.tensors, result_.tensor_count}; }

private:
    platoon_result result_;
};

// A frame that was submitted; releases its slot at its end.
class Ticket {
public:
    using Time = std::chrono::nanoseconds;

    Ticket(platoon_engine engine, platoon_ticket ticket) noexcept : engine_(engine), ticket_(ticket) {}
    Ticket(Ticket &&other) noexcept : engine_(other.engine_), ticket_(std::exchange(other.ticket_, platoon_ticket{0})) {}
    Ticket &operator=(Ticket &&other) noexcept {
        std::swap(engine_, other.engine_);
        std::swap(ticket_, other.ticket_);
        return *this;
    }
    ~Ticket() {
        if (ticket_.id != 0) (void)platoon_release(engine_, ticket_);
    }

    // The frame's report once it has ended.
    platoon_report wait() const { return *wait_ns(PLATOON_FOREVER); }
    // The same, or nothing if it has not ended within `limit`.
    std::optional<platoon_report> wait(Time limit) const { return wait_ns(nanos(limit)); }

    // How current the tenant's result is, once it is there; nothing if it is not within `limit`.
    std::optional<uint32_t> wait_tenant(uint32_t tenant, Time limit) const {
        uint32_t currency = PLATOON_NONE;
        const platoon_status status = platoon_wait_tenant(engine_, ticket_, tenant, nanos(limit), &currency);
        if (status == PLATOON_TIMEOUT) return std::nullopt;
        check(status);
        return currency;
    }

    // The tenant's result, or the one to act on while it is not there.
    Result result(uint32_t tenant) const {
        return Result(ask<platoon_result>([&](platoon_result *r) { return platoon_result_of(engine_, ticket_, tenant, r); }));
    }

    platoon_ticket handle() const noexcept { return ticket_; }

private:
    platoon_engine engine_;
    platoon_ticket ticket_;

    static uint64_t nanos(Time limit) noexcept { return limit.count() > 0 ? static_cast<uint64_t>(limit.count()) : 0; }

    std::optional<platoon_report> wait_ns(uint64_t limit) const {
        PLATOON_SIZED(platoon_report, report);
        const platoon_status status = platoon_wait(engine_, ticket_, limit, &report);
        if (status == PLATOON_TIMEOUT) return std::nullopt;
        check(status);
        return report;
    }
};

// Memory of a draft that is to be written.
struct Room {
    uint8_t *data;
    uint64_t bytes;
};

// A frame that is filled in place; dropped at its end unless it was submitted.
class Draft {
public:
    Draft(platoon_engine engine, platoon_draft draft) noexcept : engine_(engine), draft_(draft) {}
    Draft(Draft &&other) noexcept : engine_(other.engine_), draft_(std::exchange(other.draft_, platoon_draft{0})) {}
    Draft &operator=(Draft &&other) noexcept {
        std::swap(engine_, other.engine_);
        std::swap(draft_, other.draft_);
        return *this;
    }
    ~Draft() {
        if (draft_.id != 0) (void)platoon_draft_drop(engine_, draft_);
    }

    // The camera's image memory.
    Room image(uint32_t camera) const {
        Room room = {nullptr, 0};
        check(platoon_draft_image(engine_, draft_, camera, &room.data, &room.bytes));
        return room;
    }
    // Says that the camera's image is in place.
    void set_image(uint32_t camera, uint32_t width, uint32_t height, uint32_t stride, uint32_t format) const {
        check(platoon_draft_set_image(engine_, draft_, camera, width, height, stride, format));
    }
    // Copies the camera's image.
    void copy_image(uint32_t camera, const platoon_image &image) const {
        check(platoon_draft_copy_image(engine_, draft_, camera, &image));
    }

    // Gives an image in the GPU's memory, which must stay until the frame has ended.
    void device_image(uint32_t camera, const platoon_device_image &image) const {
        check(platoon_draft_device_image(engine_, draft_, camera, &image));
    }
    // The memory of a tensor input.
    Room input(uint32_t tenant, uint32_t input) const {
        Room room = {nullptr, 0};
        check(platoon_draft_input(engine_, draft_, tenant, input, &room.data, &room.bytes));
        return room;
    }
    // Gives a tensor input in the GPU's memory, which must stay until the frame has ended.
    void device_input(uint32_t tenant, uint32_t input, const platoon_device_tensor &tensor) const {
        check(platoon_draft_device_input(engine_, draft_, tenant, input, &tensor));
    }
    // Submits the frame; the draft is spent.
    Ticket submit() {
        platoon_ticket ticket = {0};
        check(platoon_draft_submit(engine_, std::exchange(draft_, platoon_draft{0}), &ticket));
        return Ticket(engine_, ticket);
    }

private:
    platoon_engine engine_;
    platoon_draft draft_;
};

// An engine; closed at its end.
class Engine {
public:
    explicit Engine(const platoon_options &options) { check(platoon_open(&options, &engine_)); }
    Engine(Engine &&other) noexcept : engine_(std::exchange(other.engine_, platoon_engine{0})) {}
    Engine &operator=(Engine &&other) noexcept {
        std::swap(engine_, other.engine_);
        return *this;
    }
    ~Engine() {
        if (engine_.id != 0) (void)platoon_close(engine_, nullptr);
    }

    // Copies an image of each camera and submits the frame; nothing if no slot is free.
    std::optional<Ticket> submit(const platoon_image *images, uint32_t count) const {
        platoon_ticket ticket = {0};
        const platoon_status status = platoon_submit(engine_, images, count, &ticket);
        if (status == PLATOON_BUSY) return std::nullopt;
        check(status);
        return Ticket(engine_, ticket);
    }
    // Begins a frame that is filled in place; nothing if no slot is free.
    std::optional<Draft> begin() const {
        platoon_draft draft = {0};
        const platoon_status status = platoon_begin(engine_, &draft);
        if (status == PLATOON_BUSY) return std::nullopt;
        check(status);
        return Draft(engine_, draft);
    }
    // Selects the task set of the next frame.
    void select(const char *task_set) const { check(platoon_select(engine_, task_set)); }

    platoon_info info() const {
        return ask<platoon_info>([&](platoon_info *i) { return platoon_describe(engine_, i); });
    }
    platoon_camera_info camera(uint32_t camera) const {
        return ask<platoon_camera_info>([&](platoon_camera_info *i) { return platoon_describe_camera(engine_, camera, i); });
    }
    platoon_task_set_info task_set(uint32_t set) const {
        return ask<platoon_task_set_info>([&](platoon_task_set_info *i) { return platoon_describe_task_set(engine_, set, i); });
    }
    platoon_tenant_info tenant(uint32_t set, uint32_t tenant) const {
        return ask<platoon_tenant_info>(
            [&](platoon_tenant_info *i) { return platoon_describe_tenant(engine_, set, tenant, i); });
    }
    platoon_stats stats(uint32_t set) const {
        return ask<platoon_stats>([&](platoon_stats *s) { return platoon_stats_of(engine_, set, s); });
    }
    platoon_tenant_stats stats(uint32_t set, uint32_t tenant) const {
        return ask<platoon_tenant_stats>(
            [&](platoon_tenant_stats *s) { return platoon_tenant_stats_of(engine_, set, tenant, s); });
    }
    platoon_health health() const {
        return ask<platoon_health>([&](platoon_health *h) { return platoon_health_of(engine_, h); });
    }

    platoon_engine handle() const noexcept { return engine_; }

private:
    platoon_engine engine_ = {0};
};

} // namespace platoon

#endif
