// platoon.hpp: ownership, exceptions, views, the log. argv[1]: the hand-built plans.
#include "platoon.hpp"

#include "check.h"

#include <cstring>
#include <string>
#include <vector>

namespace {

struct Heard {
    std::vector<std::string> lines;
    int worst = PLATOON_LOG_INFO;
};

void listen(void *context, int32_t level, const char *message) {
    auto *heard = static_cast<Heard *>(context);
    heard->lines.emplace_back(message);
    if (level < heard->worst) heard->worst = level;
}

platoon::Options quiet(const char *plans) {
    platoon::Options options(plans);
    options.workers = 2;
    options.flags = PLATOON_OPEN_UNPINNED;
    return options;
}

void errors_are_thrown_with_their_detail(const char *plans) {
    Heard heard;
    platoon::Options options = quiet("nowhere at all");
    options.log = listen;
    options.log_context = &heard;
    try {
        platoon::Engine engine(options);
        CHECK(!"there is nothing to open");
    } catch (const platoon::Error &error) {
        CHECK(error.status() == PLATOON_LOAD && std::string(error.what()).find("nowhere at all") != std::string::npos);
    }
    CHECK(heard.lines.size() == 1 && heard.worst == PLATOON_LOG_ERROR);
    platoon::Engine engine(quiet(plans));
    try {
        engine.select("nowhere");
        CHECK(!"there is no such task set");
    } catch (const platoon::Error &error) {
        CHECK(error.status() == PLATOON_UNKNOWN && error.detail().tenant == -1);
    }
}

std::vector<uint8_t> contents(const platoon::Result &result) {
    std::vector<uint8_t> bytes;
    for (const platoon_tensor &tensor : result.tensors()) bytes.insert(bytes.end(), tensor.data, tensor.data + tensor.bytes);
    return bytes;
}

// What was handed out before a tenant had finished stays as it was when its own result is there.
void results_hold_still(const char *plans) {
    const platoon::Engine engine(quiet(plans));
    std::vector<uint8_t> a(PIXELS), b(PIXELS);
    paint(a.data(), 0, 3);
    paint(b.data(), 1, 3);
    const platoon_image images[2] = {gray(a.data()), gray(b.data())};
    for (int round = 0; round < 50; round++) {
        const std::optional<platoon::Ticket> before = engine.submit(images, 2);
        CHECK(before);
        const uint64_t last = before->wait().frame;
        const std::optional<platoon::Ticket> ticket = engine.submit(images, 2);
        CHECK(ticket);
        const platoon::Result early = ticket->result(1);
        CHECK(early.fresh() || (early.currency() == PLATOON_STALE && early.of_frame() == last));
        const std::vector<uint8_t> bytes = contents(early);
        ticket->wait();
        const platoon::Result late = ticket->result(1);
        CHECK(late.fresh() && late.of_frame() == last + 1);
        CHECK(early.fresh() || early.tensors().begin() != late.tensors().begin());
        CHECK(!bytes.empty() && bytes == contents(early) && bytes == contents(late));
    }
}

void frames_own_their_slots(const char *plans) {
    Heard heard;
    platoon::Options options = quiet(plans);
    options.log = listen;
    options.log_context = &heard;
    {
        platoon::Engine first(options);
        CHECK(heard.lines.size() == 1 && heard.lines[0].find("sealed") != std::string::npos);
        platoon::Engine engine(std::move(first));
        CHECK(engine.info().cameras == 2 && std::string(engine.camera(0).name) == "camera0");
        std::vector<uint8_t> a(PIXELS), b(PIXELS);
        paint(a.data(), 0, 3);
        paint(b.data(), 1, 3);
        const platoon_image images[2] = {gray(a.data()), gray(b.data())};
        std::vector<uint8_t> bytes;
        {
            std::optional<platoon::Ticket> one = engine.submit(images, 2), two = engine.submit(images, 2);
            CHECK(one && two && !engine.submit(images, 2));
            CHECK(one->wait().frame == 0 && two->wait().frame == 1);
            CHECK(one->wait(std::chrono::seconds(0)));
            CHECK(one->wait_tenant(1, std::chrono::seconds(9)) == PLATOON_FRESH);
            const platoon::Result result = one->result(1);
            CHECK(result.fresh() && result.of_frame() == 0 && result.kind() == PLATOON_TENSORS);
            CHECK(result.tensors().size() >= 1 && result.detections().empty() && result.maps().empty());
            bytes = contents(result);
            *one = std::move(*two);
            CHECK(one->wait().frame == 1);
        }
        CHECK(engine.health().tickets == 0);
        {
            // A draft that is not submitted leaves no trace.
            std::optional<platoon::Draft> dropped = engine.begin();
            std::memset(dropped->image(0).data, 99, PIXELS);
        }
        std::optional<platoon::Draft> draft = engine.begin();
        const platoon::Room room = draft->image(1);
        CHECK(room.bytes == PIXELS);
        std::memcpy(room.data, b.data(), PIXELS);
        draft->set_image(1, WIDTH, HEIGHT, WIDTH, PLATOON_GRAY8);
        draft->copy_image(0, images[0]);
        const platoon::Ticket ticket = draft->submit();
        const platoon_report report = ticket.wait();
        CHECK(report.frame == 2 && report.tenants[1].currency == PLATOON_FRESH && report.tenants[1].finish_ns <= report.total_ns);
        CHECK(!bytes.empty() && bytes == contents(ticket.result(1)));
        CHECK(engine.stats(0).frames == 3 && engine.stats(0, 1).fresh == 3 && engine.stats(0).max_ns >= engine.stats(0).p50_ns);
        CHECK(engine.health().state == PLATOON_STATE_RUNNING && engine.tenant(0, 1).kind == PLATOON_TENSORS);
    }
    CHECK(heard.lines.back() == "closed" && heard.worst == PLATOON_LOG_INFO);
}

} // namespace

int main(int argc, char **argv) {
    CHECK(argc == 2);
    errors_are_thrown_with_their_detail(argv[1]);
    frames_own_their_slots(argv[1]);
    results_hold_still(argv[1]);
    std::puts("wrapper: handles were owned");
    return 0;
}
