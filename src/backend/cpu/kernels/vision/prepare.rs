//! Image preparation: a picture of any size and format to a network's input.
//!
//! The resampling is OpenCV's `INTER_LINEAR` for 8-bit images, step for step, so that networks see what they were trained
//! and tuned on: weights in units of 1/2048, a horizontal pass into integers, a vertical pass with two truncating shifts
//! (`HResizeLinear` and `VResizeLinear` of `modules/imgproc/src/resize.cpp`). The result equals `cv2.resize` bit for
//! bit, exact halving included, where OpenCV averages four pixels.

use super::Bands;
use super::operand::Place;
use super::pixels::{Picture, Pixels};
use crate::backend::cpu::arena::{Memory, Span};
use crate::backend::cpu::kernel::Kernel;
use crate::ids::CameraId;
use crate::plan::format::Space;
use crate::primitive::{self, ColorOrder, Fit, Placement, Region};
use crate::task::PixelFormat;
use crate::tensor::DType;
use bytemuck::Pod;
use half::f16;
use std::ops::Range;

/// Rows of a tile where the tactic leaves the choice: small enough to share a 224-row input among many workers.
const ROWS: u32 = 8;
/// Weights are multiples of 1/2048.
const WEIGHT_ONE: f32 = 2048.0;

/// What each pixel value becomes, per tensor channel.
enum Table {
    F32(Box<[[f32; 256]; 3]>),
    F16(Box<[[f16; 256]; 3]>),
}

/// Prepares the newest image of a camera.
pub(super) struct Prepare {
    camera: CameraId,
    fit: Fit,
    fill: u8,
    order: ColorOrder,
    output: Place,
    /// Width and height of the output.
    target: (u32, u32),
    table: Table,
    bands: Bands,
}

impl Prepare {
    pub(super) fn new(p: primitive::Prepare, output: Place, tile: u32) -> Prepare {
        let value = |c: usize, v: usize| (v as f32 - p.mean[c].0) / p.std[c].0;
        let table = match output.dtype {
            DType::F16 => Table::F16(Box::new(std::array::from_fn(|c| {
                std::array::from_fn(|v| f16::from_f32(value(c, v)))
            }))),
            _ => Table::F32(Box::new(std::array::from_fn(|c| std::array::from_fn(|v| value(c, v))))),
        };
        Prepare {
            camera: p.camera,
            fit: p.fit,
            fill: p.fill,
            order: p.order,
            target: (output.shape().dim(3), output.shape().dim(2)),
            output,
            table,
            bands: Bands::new(tile, ROWS),
        }
    }

    /// Computes output rows `rows` with the values of `table`.
    fn fill_rows<T: Pod>(&self, memory: &Memory<'_>, rows: Range<u32>, scratch: &mut [u8], table: &[[T; 256]; 3]) {
        let params = memory.params.get(self.camera.index()).copied().unwrap_or_default();
        let out = Output {
            span: self.output.write(memory),
            place: &self.output,
            width: self.target.0 as usize,
            table,
        };
        let Some(picture) = Picture::of(&params, memory.buffer(Space::Camera(self.camera), 0)) else {
            let blank = &mut scratch[..self.target.0 as usize];
            blank.fill(self.fill);
            return rows.for_each(|y| out.store(y, blank, [0; 3], 1));
        };
        let swapped = [2, 1, 0];
        let straight = [0, 1, 2];
        let (from_rgb, from_bgr) = match self.order {
            ColorOrder::Rgb => (straight, swapped),
            ColorOrder::Bgr => (swapped, straight),
        };
        match picture.format {
            PixelFormat::Rgb8 => self.resample::<3, _, T>(&picture, |y| picture.packed(y), rows, scratch, &out, from_rgb),
            PixelFormat::Bgr8 => self.resample::<3, _, T>(&picture, |y| picture.packed(y), rows, scratch, &out, from_bgr),
            PixelFormat::Nv12 => self.resample::<3, _, T>(&picture, |y| picture.nv12(y), rows, scratch, &out, from_rgb),
            PixelFormat::Gray8 => self.resample::<1, _, T>(&picture, |y| picture.grey(y), rows, scratch, &out, [0; 3]),
        }
    }

    /// Resamples `rows`; `row` gives the picture's rows, `from` the value of a pixel that each tensor channel takes.
    fn resample<const N: usize, P: Pixels<N>, T: Pod>(
        &self,
        picture: &Picture<'_>,
        row: impl Fn(u32) -> P,
        rows: Range<u32>,
        scratch: &mut [u8],
        out: &Output<'_, T>,
        from: [usize; 3],
    ) {
        let placement = self.fit.place((picture.width, picture.height), self.target);
        let (width, inside) = (placement.width as usize, placed(&placement, N));
        let mut scratch = Scratch::split::<N>(scratch, self.target.0 as usize, width);
        for (x, column) in scratch.columns.iter_mut().enumerate() {
            *column = Column::new(x as u32, picture.width, placement.width);
        }
        scratch.pixels.fill(self.fill);
        let mut held = [None, None];
        for y in rows {
            let within = y.checked_sub(placement.y).filter(|&y| y < placement.height);
            let Some(y_inside) = within else {
                // Rows above and below the picture; they leave the fill beside it as it is.
                scratch.pixels[inside.clone()].fill(self.fill);
                out.store(y, scratch.pixels, from, N);
                continue;
            };
            let taps = Taps::new(y_inside, picture.height, placement.height);
            let needed = [taps.clamped(0), taps.clamped(1)];
            if held[1] == Some(needed[0]) && held[0] != Some(needed[0]) {
                std::mem::swap(&mut scratch.above, &mut scratch.below);
                held.swap(0, 1);
            }
            if held[0] != Some(needed[0]) {
                horizontal(row(needed[0]), scratch.columns, scratch.above);
            }
            if held[1] != Some(needed[1]) {
                horizontal(row(needed[1]), scratch.columns, scratch.below);
            }
            held = needed.map(Some);
            vertical(scratch.above, scratch.below, taps.weights, &mut scratch.pixels[inside.clone()]);
            out.store(y, scratch.pixels, from, N);
        }
    }
}

/// Where the picture stands in a row of `n` values a pixel.
fn placed(placement: &Placement, n: usize) -> Range<usize> {
    let start = placement.x as usize * n;
    start..start + placement.width as usize * n
}

impl Kernel for Prepare {
    fn tiles(&self, region: &Region) -> u32 {
        self.bands.count(region)
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        if tiles.is_empty() {
            return;
        }
        // The batch is 1, so consecutive tiles are consecutive rows: one pass over them keeps the resampled source rows.
        let (_, first) = self.bands.tile(region, tiles.start);
        let (_, last) = self.bands.tile(region, tiles.end - 1);
        match &self.table {
            Table::F32(table) => self.fill_rows(memory, first.start..last.end, scratch, table),
            Table::F16(table) => self.fill_rows(memory, first.start..last.end, scratch, table),
        }
    }

    fn scratch_bytes(&self) -> usize {
        let width = self.target.0 as usize;
        width * size_of::<Column>() + 2 * 3 * width * size_of::<i32>() + 3 * width
    }
}

/// A worker's scratch.
struct Scratch<'a> {
    /// The source columns of each output column.
    columns: &'a mut [Column],
    /// The upper source row, resampled horizontally, in units of 1/128.
    above: &'a mut [i32],
    /// The lower one.
    below: &'a mut [i32],
    /// One output row before normalisation, the fill beside the picture included.
    pixels: &'a mut [u8],
}

impl<'a> Scratch<'a> {
    /// For a picture `width` wide in a target `target` wide, with `N` values a pixel; `width <= target`.
    fn split<const N: usize>(scratch: &'a mut [u8], target: usize, width: usize) -> Scratch<'a> {
        let (columns, rest) = scratch.split_at_mut(width * size_of::<Column>());
        let (above, rest) = rest.split_at_mut(N * width * size_of::<i32>());
        let (below, rest) = rest.split_at_mut(N * width * size_of::<i32>());
        Scratch {
            columns: bytemuck::cast_slice_mut(columns),
            above: bytemuck::cast_slice_mut(above),
            below: bytemuck::cast_slice_mut(below),
            pixels: &mut rest[..N * target],
        }
    }
}

/// Two neighbouring source positions and their weights, which sum to 2048.
#[derive(Clone, Copy)]
struct Taps {
    /// The first position, -1 before the first pixel; the second is one more.
    first: i64,
    extent: u32,
    weights: [i32; 2],
}

impl Taps {
    /// For position `i` of `placed` that a source of `extent` is scaled to.
    fn new(i: u32, extent: u32, placed: u32) -> Taps {
        let scale = 1.0 / (f64::from(placed) / f64::from(extent));
        let position = ((f64::from(i) + 0.5) * scale - 0.5) as f32;
        let first = position.floor();
        let weight = position - first;
        Taps {
            first: first as i64,
            extent,
            weights: [1.0 - weight, weight].map(|w| (w * WEIGHT_ONE).round_ties_even() as i32),
        }
    }

    /// Source position of tap `tap`, the edge repeated.
    fn clamped(self, tap: i64) -> u32 {
        (self.first + tap).clamp(0, i64::from(self.extent) - 1) as u32
    }
}

/// The two source columns of one output column. Beyond an edge the edge's pixel has all the weight.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Column {
    position: [u32; 2],
    weight: [i32; 2],
}

impl Column {
    fn new(x: u32, extent: u32, placed: u32) -> Column {
        let taps = Taps::new(x, extent, placed);
        let between = taps.first >= 0 && taps.first < i64::from(extent) - 1;
        Column {
            position: [taps.clamped(0), taps.clamped(1)],
            weight: if between { taps.weights } else { [WEIGHT_ONE as i32, 0] },
        }
    }
}

/// Resamples a source row horizontally, into units of 1/128.
fn horizontal<const N: usize, P: Pixels<N>>(row: P, columns: &[Column], out: &mut [i32]) {
    for (column, out) in columns.iter().zip(out.as_chunks_mut::<N>().0) {
        let (left, right) = (row.at(column.position[0] as usize), row.at(column.position[1] as usize));
        for c in 0..N {
            // At most 255 * 2048, so nothing wraps; wrapping keeps the overflow check out of the loop.
            let sum = left[c]
                .wrapping_mul(column.weight[0])
                .wrapping_add(right[c].wrapping_mul(column.weight[1]));
            out[c] = sum >> 4;
        }
    }
}

/// Blends two resampled rows and rounds to pixel values.
fn vertical(above: &[i32], below: &[i32], weights: [i32; 2], out: &mut [u8]) {
    for ((out, a), b) in out.iter_mut().zip(above).zip(below) {
        // At most 255 * 128 * 2048, so nothing wraps; wrapping keeps the loop free of checks and vectorised.
        let sum = (a.wrapping_mul(weights[0]) >> 16).wrapping_add(b.wrapping_mul(weights[1]) >> 16);
        *out = (sum.wrapping_add(2) >> 2).min(255) as u8;
    }
}

/// Where rows of pixel values go.
struct Output<'a, T> {
    span: Span<'a>,
    place: &'a Place,
    width: usize,
    table: &'a [[T; 256]; 3],
}

impl<T: Pod> Output<'_, T> {
    /// Normalises a row of `n` values a pixel; tensor channel `c` takes value `from[c]` of each pixel.
    fn store(&self, y: u32, pixels: &[u8], from: [usize; 3], n: usize) {
        let strides = self.place.layout.strides();
        let start = |c: u32| self.place.at(&[0, c, y, 0]);
        if strides[1] == 1 && strides[3] == 3 {
            let row = self.span.slice_mut::<T>(start(0), 3 * self.width);
            for (out, pixel) in row.as_chunks_mut::<3>().0.iter_mut().zip(pixels.chunks_exact(n)) {
                for (c, out) in out.iter_mut().enumerate() {
                    *out = self.table[c][usize::from(pixel[from[c]])];
                }
            }
            return;
        }
        for (c, table) in self.table.iter().enumerate() {
            let values = pixels[from[c]..].iter().step_by(n).map(|&v| table[usize::from(v)]);
            if strides[3] == 1 {
                let row = self.span.slice_mut::<T>(start(c as u32), self.width);
                row.iter_mut().zip(values).for_each(|(out, v)| *out = v);
            } else {
                for (x, v) in values.enumerate() {
                    self.span.write(self.place.at(&[0, c as u32, y, x as u32]), v);
                }
            }
        }
    }
}
