// A ring of camera images in shared memory, as a camera driver fills it: one writer, any number of readers, nobody waits.
//
// The writer fills the slots in turn and says which image is the newest. A reader copies that image straight into the
// engine's memory and looks at the slot's stamp before and after: if the writer came round meanwhile, it takes the newer
// one. With four slots that happens only to a reader that is three images late.
#ifndef RING_HPP
#define RING_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ring {

constexpr uint32_t MAGIC = 0x50524e47; // "PRNG"
constexpr uint32_t SLOTS = 4;
constexpr size_t ALIGN = 64;

// What an image is like; the same for all images of a ring.
struct Shape {
    uint32_t width, height, stride, format;

    size_t bytes() const { return static_cast<size_t>(stride) * height; }
};

// Stands before each image. The stamp is 2n+1 while image n is being written, and 2n+2 once it is whole.
struct alignas(ALIGN) Slot {
    std::atomic<uint64_t> stamp;
    uint64_t taken_ns;
};

// Stands at the ring's beginning; the slots follow.
struct alignas(ALIGN) Head {
    std::atomic<uint32_t> magic; // written last
    Shape shape;
    std::atomic<uint64_t> images; // how many were written
    std::atomic<uint32_t> ended;  // the camera gives no more
};

static_assert(std::atomic<uint64_t>::is_always_lock_free, "the stamps are shared between processes");

inline uint64_t now_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// The shared memory; unmapped at its end.
class Memory {
public:
    Memory(const std::string &path, int flags, size_t bytes) : file_(open(path.c_str(), flags, 0600)) {
        if (file_ < 0) throw std::runtime_error(path + ": cannot be opened");
        struct stat facts = {};
        if ((flags & O_CREAT) != 0 && ftruncate(file_, static_cast<off_t>(bytes)) != 0) fail(path + ": cannot be made that large");
        if (fstat(file_, &facts) != 0) fail(path + ": has no size");
        bytes_ = static_cast<size_t>(facts.st_size);
        if (bytes_ < sizeof(Head)) fail(path + ": is no ring yet");
        at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
        if (at_ == MAP_FAILED) fail(path + ": cannot be mapped");
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory() {
        munmap(at_, bytes_);
        close(file_);
    }

    Head &head() const { return *static_cast<Head *>(at_); }
    size_t bytes() const { return bytes_; }

    // Slot `index` for images of `shape`, and the image behind it.
    Slot &slot(const Shape &shape, uint64_t index) const {
        return *reinterpret_cast<Slot *>(static_cast<char *>(at_) + sizeof(Head) + index % SLOTS * pitch(shape));
    }
    static uint8_t *pixels(Slot &slot) { return reinterpret_cast<uint8_t *>(&slot + 1); }

    // Bytes of a ring for such images.
    static size_t needed(const Shape &shape) { return sizeof(Head) + SLOTS * pitch(shape); }

private:
    int file_;
    size_t bytes_ = 0;
    void *at_ = MAP_FAILED;

    static size_t pitch(const Shape &shape) { return sizeof(Slot) + (shape.bytes() + ALIGN - 1) / ALIGN * ALIGN; }

    [[noreturn]] void fail(const std::string &why) {
        close(file_);
        throw std::runtime_error(why);
    }
};

// The camera driver's end.
class Writer {
public:
    Writer(const std::string &path, Shape shape) : memory_(path, O_RDWR | O_CREAT | O_TRUNC, Memory::needed(shape)), shape_(shape) {
        memory_.head().shape = shape;
        memory_.head().magic.store(MAGIC, std::memory_order_release);
    }
    ~Writer() { memory_.head().ended.store(1, std::memory_order_release); }

    // Lets `paint` write the next image.
    template <class Paint>
    void write(Paint paint) {
        Slot &slot = memory_.slot(shape_, next_);
        slot.stamp.store(2 * next_ + 1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_release);
        paint(Memory::pixels(slot));
        slot.taken_ns = now_ns();
        slot.stamp.store(2 * next_ + 2, std::memory_order_release);
        memory_.head().images.store(++next_, std::memory_order_release);
    }

private:
    Memory memory_;
    Shape shape_;
    uint64_t next_ = 0;
};

// The perception node's end.
class Reader {
public:
    explicit Reader(const std::string &path) : memory_(path, O_RDWR, 0), shape_(memory_.head().shape) {
        // What another process writes is checked before it is believed.
        if (memory_.head().magic.load(std::memory_order_acquire) != MAGIC) throw std::runtime_error(path + ": is no ring yet");
        if (memory_.bytes() < Memory::needed(shape_)) throw std::runtime_error(path + ": is shorter than its images");
    }

    const Shape &shape() const { return shape_; }
    bool has_news() const { return images() > seen_; }
    bool ended() const { return memory_.head().ended.load(std::memory_order_acquire) != 0 && !has_news(); }

    // Copies the newest image to `room`, which holds `bytes`; when it was taken, or 0 if there is no new one.
    uint64_t copy_newest(uint8_t *room, uint64_t bytes) {
        for (uint64_t newest = images(); newest > seen_ && shape_.bytes() <= bytes; newest = images()) {
            Slot &slot = memory_.slot(shape_, newest - 1);
            const uint64_t before = slot.stamp.load(std::memory_order_acquire);
            std::memcpy(room, Memory::pixels(slot), shape_.bytes());
            const uint64_t taken = slot.taken_ns;
            std::atomic_thread_fence(std::memory_order_acquire);
            if (before == 2 * newest && slot.stamp.load(std::memory_order_relaxed) == before) {
                seen_ = newest;
                return taken;
            }
        }
        return 0;
    }

private:
    Memory memory_;
    Shape shape_;
    uint64_t seen_ = 0;

    uint64_t images() const { return memory_.head().images.load(std::memory_order_acquire); }
};

} // namespace ring

#endif
