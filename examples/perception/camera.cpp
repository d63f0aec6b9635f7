// A small camera driver: paints a road with something on it and writes it into a ring at a steady rate.
//
//     camera RING WIDTH HEIGHT HZ IMAGES
#include "ring.hpp"

#include "platoon.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

// A grey road under a bright sky, and a dark block that comes nearer.
void paint(uint8_t *pixels, const ring::Shape &shape, uint32_t number) {
    const uint32_t size = shape.height / 8 + number % (shape.height / 4);
    const uint32_t left = (shape.width - size) / 2, top = shape.height / 2;
    for (uint32_t y = 0; y < shape.height; y++) {
        for (uint32_t x = 0; x < shape.width; x++) {
            const bool block = x >= left && x < left + size && y >= top && y < top + size;
            const uint8_t level = block ? 25 : y < shape.height / 2 ? 210 : 110;
            std::memset(pixels + static_cast<size_t>(y) * shape.stride + x * 3, level, 3);
        }
    }
}

} // namespace

int main(int argc, char **argv) try {
    if (argc != 6) {
        std::fprintf(stderr, "usage: camera RING WIDTH HEIGHT HZ IMAGES\n");
        return 2;
    }
    const auto number = [&](int i) { return static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)); };
    const uint32_t width = number(2), height = number(3), hz = number(4), images = number(5);
    if (width < 16 || height < 16 || width > 8192 || height > 8192 || hz == 0) {
        std::fprintf(stderr, "camera: 16 to 8192 pixels a side, at least one image a second\n");
        return 2;
    }
    const ring::Shape shape = {width, height, width * 3, PLATOON_RGB8};
    ring::Writer writer(argv[1], shape);
    auto due = std::chrono::steady_clock::now();
    for (uint32_t n = 0; n < images; n++) {
        writer.write([&](uint8_t *pixels) { paint(pixels, shape, n); });
        due += std::chrono::nanoseconds(1000000000 / hz);
        std::this_thread::sleep_until(due);
    }
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "camera: %s\n", error.what());
    return 1;
}
