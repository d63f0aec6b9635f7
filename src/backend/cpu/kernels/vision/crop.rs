//! Crops of detections: the best boxes of a picture, each resampled to one size. See [`primitive::Crop`] for every rule.

use super::operand::Place;
use super::pixels::{Picture, Pixels};
use super::topk::falling;
use crate::backend::cpu::arena::{Memory, Span};
use crate::backend::cpu::kernel::Kernel;
use crate::ids::CameraId;
use crate::limits::MAX_IMAGE_SIDE;
use crate::plan::format::Space;
use crate::primitive::{self, ColorOrder, Region};
use crate::task::PixelFormat;
use crate::tensor::DType;
use bytemuck::Pod;
use half::f16;
use std::ops::Range;

/// The row of a crop that shows nothing.
const EMPTY: i32 = -1;
/// Box edges are clamped to this range, so that whatever is computed from them is finite.
const EDGES: [f32; 2] = [-(MAX_IMAGE_SIDE as f32), 2.0 * MAX_IMAGE_SIDE as f32];

/// Fills a batch of crops: detections `[R, 6]` and their count to crops `[N, 3, H, W]` and rows `[N]`. A tile is one crop.
pub(super) struct Crops {
    camera: CameraId,
    classes: u64,
    margin: f32,
    order: ColorOrder,
    mean: [f32; 3],
    std: [f32; 3],
    detections: Place,
    count: Place,
    crops: Place,
    rows: Place,
}

impl Crops {
    pub(super) fn new(c: primitive::Crop, [detections, count]: [Place; 2], [crops, rows]: [Place; 2]) -> Crops {
        Crops {
            camera: c.camera,
            classes: c.classes,
            margin: c.margin.0,
            order: c.order,
            mean: c.mean.map(|m| m.0),
            std: c.std.map(|s| s.0),
            detections,
            count,
            crops,
            rows,
        }
    }

    /// Width and height of a crop.
    fn size(&self) -> (u32, u32) {
        (self.crops.shape().dim(3), self.crops.shape().dim(2))
    }

    /// Writes the keys of the candidates to the front of `keys`, best first, and gives their number.
    ///
    /// A key holds the falling score above the row, so keys are unique and their ascending order is that of the candidates.
    fn candidates(&self, memory: &Memory<'_>, keys: &mut [u64]) -> usize {
        let detections = self.detections.read(memory);
        let count: i32 = self.count.read(memory).read(self.count.at(&[0]));
        let count = u32::try_from(count).unwrap_or(0).min(self.detections.shape().dim(0));
        let mut found = 0;
        for row in 0..count {
            let values: [f32; 6] = std::array::from_fn(|i| detections.read(self.detections.at(&[row, i as u32])));
            if values.iter().all(|v| v.is_finite()) && self.takes(values[5]) {
                keys[found] = u64::from(falling(values[4])) << 32 | u64::from(row);
                found += 1;
            }
        }
        keys[..found].sort_unstable();
        found
    }

    /// True for the number of a class that is cut out.
    fn takes(&self, class: f32) -> bool {
        (0.0..64.0).contains(&class) && class.fract() == 0.0 && self.classes >> class as u32 & 1 != 0
    }

    fn bounds(&self, memory: &Memory<'_>, row: u32) -> [f32; 4] {
        let detections = self.detections.read(memory);
        std::array::from_fn(|i| {
            detections
                .read::<f32>(self.detections.at(&[row, i as u32]))
                .clamp(EDGES[0], EDGES[1])
        })
    }

    /// Fills crops `crops` with elements of `T`, which `round` makes of f32.
    fn fill<T: Pod>(&self, memory: &Memory<'_>, crops: Range<u32>, scratch: &mut [u8], round: impl Fn(f32) -> T + Copy) {
        let (keys, scratch) = scratch.split_at_mut(self.detections.shape().dim(0) as usize * size_of::<u64>());
        let keys: &mut [u64] = bytemuck::cast_slice_mut(keys);
        let params = memory.params.get(self.camera.index()).copied().unwrap_or_default();
        let picture = Picture::of(&params, memory.buffer(Space::Camera(self.camera), 0));
        let found = if picture.is_some() { self.candidates(memory, keys) } else { 0 };
        let rows = self.rows.write(memory);
        for crop in crops {
            let out = Output {
                span: self.crops.write(memory),
                place: &self.crops,
                crop,
                mean: self.mean,
                std: self.std,
                round,
            };
            let key = keys[..found].get(crop as usize);
            rows.write(self.rows.at(&[crop]), key.map_or(EMPTY, |&key| key as u32 as i32));
            match (key, &picture) {
                (Some(&key), Some(picture)) => self.cut(picture, self.bounds(memory, key as u32), scratch, &out),
                _ => out.clear(),
            }
        }
    }

    /// Cuts one box out of the picture.
    fn cut<T: Pod, R: Fn(f32) -> T>(&self, picture: &Picture<'_>, bounds: [f32; 4], scratch: &mut [u8], out: &Output<'_, R>) {
        let (straight, swapped) = ([0, 1, 2], [2, 1, 0]);
        let (from_rgb, from_bgr) = match self.order {
            ColorOrder::Rgb => (straight, swapped),
            ColorOrder::Bgr => (swapped, straight),
        };
        match picture.format {
            PixelFormat::Rgb8 => self.resample::<3, _, _, _>(picture, |y| picture.packed(y), bounds, scratch, out, from_rgb),
            PixelFormat::Bgr8 => self.resample::<3, _, _, _>(picture, |y| picture.packed(y), bounds, scratch, out, from_bgr),
            PixelFormat::Nv12 => self.resample::<3, _, _, _>(picture, |y| picture.nv12(y), bounds, scratch, out, from_rgb),
            PixelFormat::Gray8 => self.resample::<1, _, _, _>(picture, |y| picture.grey(y), bounds, scratch, out, [0; 3]),
        }
    }

    /// Resamples the box to the crop; `row` gives the picture's rows, `from` the value of a pixel that each channel takes.
    fn resample<const N: usize, P: Pixels<N>, T: Pod, R: Fn(f32) -> T>(
        &self,
        picture: &Picture<'_>,
        row: impl Fn(u32) -> P,
        [x0, y0, x1, y1]: [f32; 4],
        scratch: &mut [u8],
        out: &Output<'_, R>,
        from: [usize; 3],
    ) {
        let (width, height) = self.size();
        let mut scratch = Scratch::split::<N>(scratch, width as usize);
        let columns = Axis::new(x0, x1, self.margin, width, picture.width);
        for (x, column) in scratch.columns.iter_mut().enumerate() {
            *column = columns.taps(x as u32);
        }
        let rows = Axis::new(y0, y1, self.margin, height, picture.height);
        let mut held = [None, None];
        for y in 0..height {
            let taps = rows.taps(y);
            let needed = taps.position;
            if held[1] == Some(needed[0]) && held[0] != Some(needed[0]) {
                std::mem::swap(&mut scratch.above, &mut scratch.below);
                held.swap(0, 1);
            }
            if held[0] != Some(needed[0]) {
                across(row(needed[0]), scratch.columns, scratch.above);
            }
            if held[1] != Some(needed[1]) {
                across(row(needed[1]), scratch.columns, scratch.below);
            }
            held = needed.map(Some);
            for ((blend, a), b) in scratch.blend.iter_mut().zip(&*scratch.above).zip(&*scratch.below) {
                *blend = a + (b - a) * taps.weight;
            }
            out.store(y, scratch.blend, from, N);
        }
    }
}

impl Kernel for Crops {
    fn tiles(&self, region: &Region) -> u32 {
        region.batch.len() as u32
    }

    fn run(&self, memory: &Memory<'_>, region: &Region, tiles: Range<u32>, scratch: &mut [u8]) {
        let crops = region.batch.start + tiles.start..region.batch.start + tiles.end;
        if crops.is_empty() {
            return;
        }
        match self.crops.dtype {
            DType::F16 => self.fill(memory, crops, scratch, f16::from_f32),
            _ => self.fill(memory, crops, scratch, |value| value),
        }
    }

    fn scratch_bytes(&self) -> usize {
        let width = self.size().0 as usize;
        let keys = self.detections.shape().dim(0) as usize * size_of::<u64>();
        keys + width * size_of::<Taps>() + 3 * 3 * width * size_of::<f32>()
    }
}

/// A worker's scratch.
struct Scratch<'a> {
    /// The source columns of each column of the crop.
    columns: &'a mut [Taps],
    /// The upper source row, blended along x.
    above: &'a mut [f32],
    /// The lower one.
    below: &'a mut [f32],
    /// Both, blended along y.
    blend: &'a mut [f32],
}

impl<'a> Scratch<'a> {
    /// For a crop `width` wide with `N` values a pixel.
    fn split<const N: usize>(scratch: &'a mut [u8], width: usize) -> Scratch<'a> {
        let (columns, rest) = scratch.split_at_mut(width * size_of::<Taps>());
        let rest: &mut [f32] = bytemuck::cast_slice_mut(rest);
        let (above, rest) = rest.split_at_mut(N * width);
        let (below, rest) = rest.split_at_mut(N * width);
        Scratch {
            columns: bytemuck::cast_slice_mut(columns),
            above,
            below,
            blend: &mut rest[..N * width],
        }
    }
}

/// Where the crop's columns, or rows, lie in the picture.
struct Axis {
    start: f32,
    step: f32,
    last: f32,
}

impl Axis {
    /// For a box from `low` to `high`, a crop of `extent` positions and a picture of `picture`.
    fn new(low: f32, high: f32, margin: f32, extent: u32, picture: u32) -> Axis {
        let size = (high - low).max(0.0);
        let beside = margin * size;
        Axis {
            start: low - beside,
            step: (size + 2.0 * beside) / extent as f32,
            last: (picture - 1) as f32,
        }
    }

    /// What position `i` of the crop is blended from.
    fn taps(&self, i: u32) -> Taps {
        let at = (self.start + (i as f32 + 0.5) * self.step) - 0.5;
        let first = at.floor();
        // A picture's sides are small enough for every position in it to be an f32.
        let inside = |position: f32| position.clamp(0.0, self.last) as u32;
        Taps {
            position: [inside(first), inside(first + 1.0)],
            weight: at - first,
        }
    }
}

/// Two source positions, and the weight of the second.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Taps {
    position: [u32; 2],
    weight: f32,
}

/// Blends a source row along x.
fn across<const N: usize, P: Pixels<N>>(row: P, columns: &[Taps], out: &mut [f32]) {
    for (column, out) in columns.iter().zip(out.as_chunks_mut::<N>().0) {
        let (left, right) = (row.at(column.position[0] as usize), row.at(column.position[1] as usize));
        for c in 0..N {
            let (a, b) = (left[c] as f32, right[c] as f32);
            out[c] = a + (b - a) * column.weight;
        }
    }
}

/// Where one crop goes.
struct Output<'a, R> {
    span: Span<'a>,
    place: &'a Place,
    crop: u32,
    mean: [f32; 3],
    std: [f32; 3],
    /// From f32 to the crop's type.
    round: R,
}

impl<T: Pod, R: Fn(f32) -> T> Output<'_, R> {
    /// Normalises row `y`, of `n` values a pixel; channel `c` takes value `from[c]` of each pixel.
    fn store(&self, y: u32, pixels: &[f32], from: [usize; 3], n: usize) {
        let normal = |c: usize, pixel: &[f32]| (self.round)((pixel[from[c]] - self.mean[c]) / self.std[c]);
        let strides = self.place.layout.strides();
        if strides[1] == 1 && strides[3] == 3 {
            let start = self.place.at(&[self.crop, 0, y, 0]);
            let row = self.span.slice_mut::<T>(start, pixels.len() / n * 3);
            for (out, pixel) in row.as_chunks_mut::<3>().0.iter_mut().zip(pixels.chunks_exact(n)) {
                *out = std::array::from_fn(|c| normal(c, pixel));
            }
            return;
        }
        for (x, pixel) in (0..).zip(pixels.chunks_exact(n)) {
            for c in 0..3 {
                self.span.write(self.place.at(&[self.crop, c, y, x]), normal(c as usize, pixel));
            }
        }
    }

    /// Makes the crop all zeros.
    fn clear(&self) {
        let shape = self.place.shape();
        for y in 0..shape.dim(2) {
            for x in 0..shape.dim(3) {
                for c in 0..3 {
                    self.span.write(self.place.at(&[self.crop, c, y, x]), (self.round)(0.0));
                }
            }
        }
    }
}
