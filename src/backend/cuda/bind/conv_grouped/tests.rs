//! Patches, packed weights and offsets of taps, multiplied on the host as the kernels do, against convolutions as they are
//! defined.

use super::*;
use crate::backend::cuda::bind::tests::bench::{Bench, Form as Lies, in_groups};
use crate::plan::tactic::Target;
use crate::plan::tactic::conv_3x3::PIXEL_BYTES;
use crate::primitive::Window;
use std::mem::{offset_of, size_of};

/// Small whole numbers, so that halves and sums are exact.
fn number(seed: u32, at: &[u32]) -> i64 {
    let mixed = at
        .iter()
        .fold(seed, |mixed, &i| (mixed ^ i).wrapping_mul(0x9e37_79b1).rotate_left(13));
    i64::from(mixed % 13) - 6
}

/// A convolution of a picture: channels, rows and columns, channels of a group, pixels of a step, padding.
struct Case {
    channels: u32,
    size: [u32; 2],
    group: u32,
    stride: u32,
    pad: [u32; 2],
}

impl Case {
    fn sides(&self) -> [u32; 2] {
        self.size.map(|n| n / self.stride)
    }

    fn operator(&self) -> (Bench, Operator) {
        let mut bench = Bench::new(3);
        let mut window = Window::new(&[3, 3]);
        window.stride[..2].fill(self.stride);
        for a in 0..2 {
            window.pad_begin[a] = self.pad[a];
            window.pad_end[a] = (self.sides()[a] - 1) * self.stride + 3 - self.size[a] - self.pad[a];
        }
        let target = Target::Cuda { wgmma: true };
        let operator = in_groups(
            &mut bench,
            [1, self.channels, self.size[0], self.size[1]],
            self.group,
            window,
            Lies::Pixels,
            target,
        );
        (bench, operator)
    }

    fn pixel(&self, channel: u32, row: i64, column: i64) -> i64 {
        let inside =
            channel < self.channels && (0..i64::from(self.size[0])).contains(&row) && (0..i64::from(self.size[1])).contains(&column);
        if inside {
            number(1, &[channel, row as u32, column as u32])
        } else {
            0
        }
    }

    /// An output as the definition has it.
    fn defined(&self, output: u32, at: [u32; 2]) -> i64 {
        let along = |a: usize, tap: u32| i64::from(at[a] * self.stride + tap) - i64::from(self.pad[a]);
        let taps = (0..TAPS).flat_map(|i| (0..TAPS).map(move |j| (i, j)));
        let products = taps.flat_map(|(i, j)| (0..self.group).map(move |c| (i, j, c))).map(|(i, j, c)| {
            let input = output / self.group * self.group + c;
            number(7, &[output, c, i, j]) * self.pixel(input, along(0, i), along(1, j))
        });
        products.sum()
    }

    /// Every output that products of patches in shared memory make is the defined one.
    fn check(&self) {
        let (bench, operator) = self.operator();
        let grouped = product(&bench.plan, &operator).unwrap();
        let form = grouped.form;
        let weights = pack_weights(&form, grouped.channel_tiles(), self.channels, &|at| number(7, at) as f32);
        assert_eq!(weights.len() as u32, grouped.channel_tiles() * form.weight_bytes());
        let image = image(&grouped, 0);
        let [rows, columns] = self.sides();
        let mut seen = 0;
        for block in 0..grouped.channel_tiles() {
            for (row, column) in tiles_of(rows, columns) {
                let patch = self.patch(&form, &image, block * form.channels(), [row, column]);
                for (slab, m, n) in (0..form.slabs()).flat_map(|s| (0..64).flat_map(move |m| (0..form.slab).map(move |n| (s, m, n)))) {
                    let (at, output) = ([row + m / SIDE, column + m % SIDE], block * form.channels() + slab * form.slab + n);
                    if at[0] >= rows || at[1] >= columns || output >= self.channels {
                        continue;
                    }
                    let sum = summed(&form, &patch, &weights[(block * form.weight_bytes()) as usize..], [slab, m, n]);
                    assert_eq!(sum, self.defined(output, at), "{form:?} {output} {at:?}");
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, rows * columns * self.channels);
    }

    /// A patch as the copy engine leaves it in shared memory, by halves.
    fn patch(&self, form: &Form, image: &TiledMap, channel: u32, [row, column]: [u32; 2]) -> Vec<i64> {
        let mut halves = vec![i64::MAX; (form.stride * form.plane_bytes() / 2) as usize];
        for plane in 0..form.stride {
            let origin = |at: u32, a: usize| i64::from(at * form.stride) - i64::from(self.pad[a]);
            let first = [origin(row, 0), origin(column, 1) + i64::from(plane)];
            let mut place = 0;
            for y in (0..image.tile[2]).step_by(image.steps[2] as usize) {
                for x in (0..image.tile[1]).step_by(image.steps[1] as usize) {
                    for c in 0..image.tile[0] {
                        let value = self.pixel(channel + c, first[0] + i64::from(y), first[1] + i64::from(x));
                        halves[(swizzled(plane * form.plane_bytes() + place) / 2) as usize] = value;
                        place += 2;
                    }
                }
            }
        }
        halves
    }
}

/// First rows and columns of the tiles.
fn tiles_of(rows: u32, columns: u32) -> impl Iterator<Item = (u32, u32)> {
    let side = SIDE as usize;
    (0..rows)
        .step_by(side)
        .flat_map(move |row| (0..columns).step_by(side).map(move |column| (row, column)))
}

/// Where the 128-byte swizzle puts a byte: bits 4 to 6 of an address are changed by bits 7 to 9.
fn swizzled(address: u32) -> u32 {
    address ^ (address >> 7 & 7) << 4
}

/// One sum of a slab, with the offsets and descriptors of `conv_grouped.cu`.
fn summed(form: &Form, patch: &[i64], weights: &[u8], [slab, m, n]: [u32; 3]) -> i64 {
    let row_bytes = form.plane()[1] * PIXEL_BYTES;
    let half = |at: u32| f16::from_le_bytes([0, 1].map(|i| weights[at as usize + i])).to_f32() as i64;
    let mut sum = 0;
    for (tap, step) in (0..TAPS * TAPS).flat_map(|t| (0..form.steps()).map(move |s| (t, s))) {
        let (row, column, k) = (tap / TAPS, tap % TAPS, slab * form.steps() + step);
        let pixels = column % form.stride * form.plane_bytes() + row * row_bytes + column / form.stride * PIXEL_BYTES + k * STEP_K * 2;
        let matrix = (tap * form.slabs() * form.steps() + k) * form.matrix_bytes();
        for i in 0..STEP_K {
            let a = pixels + m / 8 * form.stride * row_bytes + m % 8 * PIXEL_BYTES + i * 2;
            // Core matrices: along K, along the channels, then rows of 16 bytes.
            let b = matrix + i / CORE * form.slab * 16 + n / CORE * 128 + n % CORE * 16 + i % CORE * 2;
            let pixel = patch[(swizzled(a) / 2) as usize];
            assert_ne!(pixel, i64::MAX, "a pixel that no copy brings");
            sum += pixel * half(b);
        }
    }
    sum
}

#[test]
fn params_have_the_sources_bytes() {
    assert_eq!(size_of::<Params>(), 184 + size_of::<Epilogue>() + 56);
    assert_eq!((offset_of!(Params, weights), offset_of!(Params, pad)), (128, 144));
    assert_eq!((offset_of!(Params, stages), offset_of!(Params, epilogue)), (180, 184));
}

#[test]
fn products_of_patches_are_the_convolution() {
    for (channels, group) in [
        (128, 4),
        (104, 8),
        (64, 16),
        (96, 24),
        (64, 32),
        (80, 40),
        (96, 48),
        (112, 56),
        (128, 64),
    ] {
        for stride in [1, 2] {
            let case = |size, pad| Case {
                channels,
                size,
                group,
                stride,
                pad,
            };
            case([9 * stride, 7 * stride], [1, 1]).check();
        }
    }
    for (stride, pad) in [(1, [0, 1]), (2, [0, 1]), (2, [1, 0])] {
        Case {
            channels: 48,
            size: [10, 18],
            group: 8,
            stride,
            pad,
        }
        .check();
    }
}

#[test]
fn boxes_keep_the_engines_bounds() {
    for (channels, group) in [(128, 4), (96, 24), (128, 64)] {
        for stride in [1, 2] {
            let case = Case {
                channels,
                size: [14, 14],
                group,
                stride,
                pad: [1, 1],
            };
            let (bench, operator) = case.operator();
            let grouped = product(&bench.plan, &operator).unwrap();
            let image = image(&grouped, 0);
            assert!(image.tile.iter().all(|&n| n <= 256) && image.steps.iter().all(|&n| (1..=8).contains(&n)));
            assert_eq!(image.tile[0] * 2, PIXEL_BYTES, "a pixel is a row of the swizzle");
            let brought: u32 = image.tile.iter().zip(&image.steps).map(|(n, step)| n.div_ceil(*step)).product();
            assert_eq!(brought * 2, grouped.form.plane().iter().product::<u32>() * PIXEL_BYTES);
            assert!(image.strides.iter().all(|s| s % 16 == 0));
        }
    }
}
