//! Memory that the team shares: aligned blocks, and spans into them.
//!
//! # Why handing out references from a shared span is sound
//! Workers read and write one arena at the same time. What keeps them apart is the plan: a `CheckedPlan` orders every
//! write of a byte before every read of it (P4), never lets two live buffers overlap (P5), and chunks and tiles of one
//! operator write disjoint elements (P2). A kernel asks for exactly the elements it reads or its tile writes, so no two
//! live references, one of them exclusive, ever name the same byte. Bounds and alignment are checked here, in every build.
#![allow(unsafe_code)]

use crate::plan::format::Space;
use crate::task::PixelFormat;
use bytemuck::Pod;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;

/// Alignment of every block, and of every buffer offset inside it.
pub const ALIGN: usize = 64;

/// A zeroed heap block, aligned to [`ALIGN`], freed on drop. Taken at prepare, never after.
pub struct Block {
    pointer: *mut u8,
    bytes: usize,
}

// SAFETY: a block owns plain bytes; access to them goes through spans, whose argument is the module's.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// A block of `bytes` zeros; `None` if the system has not that much.
    pub fn new(bytes: usize) -> Option<Block> {
        let layout = Layout::from_size_align(bytes.max(ALIGN), ALIGN).ok()?;
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { alloc_zeroed(layout) };
        (!pointer.is_null()).then_some(Block { pointer, bytes })
    }

    /// The whole block as a span that must not outlive it.
    pub fn span(&self) -> Span<'_> {
        Span {
            pointer: self.pointer,
            bytes: self.bytes,
            block: PhantomData,
        }
    }

    /// The bytes, while nobody else has a span: between frames, or before the slot is submitted.
    pub fn bytes(&self) -> &[u8] {
        self.span().slice(0, self.bytes)
    }

    /// The bytes for writing, while nobody else has a span.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.span().slice_mut(0, self.bytes)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Ok(layout) = Layout::from_size_align(self.bytes.max(ALIGN), ALIGN) {
            // SAFETY: allocated in `new` with this very layout.
            unsafe { dealloc(self.pointer, layout) };
        }
    }
}

/// A stretch of shared memory. Copies name the same bytes; see the module for why that is sound.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    pointer: *mut u8,
    bytes: usize,
    block: PhantomData<&'a [u8]>,
}

// SAFETY: see the module: the plan keeps concurrent accesses apart.
unsafe impl Send for Span<'_> {}
// SAFETY: as above.
unsafe impl Sync for Span<'_> {}

impl<'a> Span<'a> {
    /// A span over exclusive bytes (a worker's scratch, a tensor's storage).
    pub fn of(bytes: &'a mut [u8]) -> Span<'a> {
        Span {
            pointer: bytes.as_mut_ptr(),
            bytes: bytes.len(),
            block: PhantomData,
        }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.bytes
    }

    /// True if the span has no bytes.
    pub fn is_empty(self) -> bool {
        self.bytes == 0
    }

    /// The part that starts at byte `offset` and has `bytes` bytes. Panics if it is not inside.
    pub fn part(self, offset: usize, bytes: usize) -> Span<'a> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a part outside its span");
        // SAFETY: the offset is inside the block by the check above.
        let pointer = unsafe { self.pointer.add(offset) };
        Span {
            pointer,
            bytes,
            block: PhantomData,
        }
    }

    fn locate<T: Pod>(self, element: usize, count: usize) -> *mut T {
        let size = size_of::<T>();
        let end = element.checked_add(count).and_then(|e| e.checked_mul(size));
        assert!(end.is_some_and(|e| e <= self.bytes), "elements outside their span");
        // SAFETY: `element * size` is at most `bytes` by the check above.
        let pointer = unsafe { self.pointer.add(element * size) };
        assert!(pointer.align_offset(align_of::<T>()) == 0, "a misaligned span");
        pointer.cast()
    }

    /// The address of element `element`, valid for `count` elements: for vector kernels, which touch only what the module's
    /// argument allows them.
    #[inline]
    pub fn pointer<T: Pod>(self, element: usize, count: usize) -> *mut T {
        self.locate(element, count)
    }

    /// Element `element` of type `T`.
    #[inline]
    pub fn read<T: Pod>(self, element: usize) -> T {
        // SAFETY: `locate` checked bounds and alignment; every bit pattern is a `T`.
        unsafe { self.locate::<T>(element, 1).read() }
    }

    /// Writes element `element`, which belongs to the caller's tile.
    #[inline]
    pub fn write<T: Pod>(self, element: usize, value: T) {
        // SAFETY: as in `read`; the element belongs to the caller's tile (P2), so nobody else touches it now.
        unsafe { self.locate::<T>(element, 1).write(value) }
    }

    /// `count` consecutive elements that are complete (P4).
    #[inline]
    pub fn slice<T: Pod>(self, element: usize, count: usize) -> &'a [T] {
        let pointer = self.locate::<T>(element, count);
        // SAFETY: bounds and alignment are checked; nobody writes these bytes while the frame reads them (P4, P5).
        unsafe { std::slice::from_raw_parts(pointer, count) }
    }

    /// `count` consecutive elements that the caller's tile alone writes.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub fn slice_mut<T: Pod>(self, element: usize, count: usize) -> &'a mut [T] {
        let pointer = self.locate::<T>(element, count);
        // SAFETY: bounds and alignment are checked; only this tile touches these bytes now (P2, P4, P5).
        unsafe { std::slice::from_raw_parts_mut(pointer, count) }
    }
}

/// A stretch of memory that is only read.
#[derive(Clone, Copy)]
pub struct ReadSpan<'a> {
    bytes: &'a [u8],
}

impl<'a> ReadSpan<'a> {
    /// A span over bytes that nobody writes.
    pub fn new(bytes: &'a [u8]) -> ReadSpan<'a> {
        ReadSpan { bytes }
    }

    /// The bytes.
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

/// What a frame knows of a camera's newest image: the slot's parameter block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageParams {
    /// The frame the image was submitted with; older than the running frame if the camera missed it.
    pub frame: u64,
    /// Width in pixels, 0 before the first image.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Bytes from row to row.
    pub stride: u32,
    /// Pixel format; `None` before the first image.
    pub format: Option<PixelFormat>,
}

/// The memory one frame runs on: the shared arena and the slot's own parts.
#[derive(Clone, Copy)]
pub struct Memory<'a> {
    /// The arena.
    pub arena: Span<'a>,
    /// The plan's persistent region.
    pub persistent: Span<'a>,
    /// The slot's tensor inputs.
    pub input: Span<'a>,
    /// The slot's results.
    pub output: Span<'a>,
    /// The slot's camera images.
    pub images: &'a [Span<'a>],
    /// The slot's parameter block, one entry a camera.
    pub params: &'a [ImageParams],
    /// The plan's weight sections.
    pub weights: &'a [ReadSpan<'a>],
}

/// A buffer's bytes for reading, and for writing unless they are weights or images.
#[derive(Clone, Copy)]
pub enum Bytes<'a> {
    /// Memory of the frame.
    Shared(Span<'a>),
    /// Weights.
    Constant(ReadSpan<'a>),
}

impl<'a> Bytes<'a> {
    /// `count` elements from element `element`, for reading.
    #[inline]
    pub fn slice<T: Pod>(self, element: usize, count: usize) -> &'a [T] {
        match self {
            Bytes::Shared(s) => s.slice(element, count),
            Bytes::Constant(c) => {
                let size = size_of::<T>();
                bytemuck::cast_slice(&c.bytes[element * size..(element + count) * size])
            }
        }
    }

    /// Element `element`.
    #[inline]
    pub fn read<T: Pod>(self, element: usize) -> T {
        match self {
            Bytes::Shared(s) => s.read(element),
            Bytes::Constant(_) => self.slice::<T>(element, 1)[0],
        }
    }

    /// The address of element `element`, valid for `count` elements, for reading; for writing too unless these are weights.
    #[inline]
    pub fn pointer<T: Pod>(self, element: usize, count: usize) -> *mut T {
        match self {
            Bytes::Shared(s) => s.pointer(element, count),
            Bytes::Constant(_) => self.slice::<T>(element, count).as_ptr().cast_mut(),
        }
    }

    /// The span for writing. Panics for weights: a checked plan has none as an output (P6).
    pub fn writable(self) -> Span<'a> {
        match self {
            Bytes::Shared(s) => s,
            Bytes::Constant(_) => panic!("weights are read only"),
        }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        match self {
            Bytes::Shared(s) => s.len(),
            Bytes::Constant(c) => c.bytes.len(),
        }
    }

    /// True if there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl<'a> Memory<'a> {
    /// The bytes of a buffer of `bytes` bytes in `space`. Panics where a checked plan cannot point (P5).
    #[inline]
    pub fn buffer(&self, space: Space, bytes: u64) -> Bytes<'a> {
        let part = |span: Span<'a>, offset: u64| Bytes::Shared(span.part(offset as usize, bytes as usize));
        match space {
            Space::Arena { offset } => part(self.arena, offset),
            Space::Persistent { offset } => part(self.persistent, offset),
            Space::Input { offset } => part(self.input, offset),
            Space::Output { offset } => part(self.output, offset),
            Space::Camera(camera) => Bytes::Shared(self.images[camera.index()]),
            Space::Weights(section) => Bytes::Constant(self.weights[section.index()]),
        }
    }
}
