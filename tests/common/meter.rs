//! Counts heap allocations of the whole process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
/// True while the process's first thread is the harness's alone: it allocates to say that a test has been running for long.
static HARNESS_APART: AtomicBool = AtomicBool::new(false);

/// Calls of the allocator while `work` runs, on every thread but the harness's. Meaningful in a process that does nothing else.
pub fn allocations(work: impl FnOnce()) -> u64 {
    HARNESS_APART.store(!on_first_thread(), Ordering::SeqCst);
    let before = CALLS.load(Ordering::SeqCst);
    COUNTING.store(true, Ordering::SeqCst);
    work();
    COUNTING.store(false, Ordering::SeqCst);
    CALLS.load(Ordering::SeqCst) - before
}

#[allow(unsafe_code)]
fn on_first_thread() -> bool {
    // SAFETY: both only return numbers.
    unsafe { libc::gettid() == libc::getpid() }
}

fn note() {
    if COUNTING.load(Ordering::Relaxed) && !(HARNESS_APART.load(Ordering::Relaxed) && on_first_thread()) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
}

#[allow(unsafe_code)]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
