//! What several test binaries share.
#![allow(dead_code)] // each binary uses a part

pub mod build;
pub mod kernels;

use build::{HEIGHT, PIXELS, WIDTH};
use platoon::backend::cpu::CpuBackend;
use platoon::plan::deployment::Deployment;
use platoon::runtime::{Engine, Image, Options};
use platoon::task::PixelFormat;

/// An engine on the plain test kernels.
pub fn engine(deployment: Deployment, options: &Options) -> Engine {
    Engine::over(deployment, &CpuBackend::with_kernels(|| kernels::Rows), options).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Pixels of camera `camera` in frame `frame`; never the kernels' poison.
pub fn pixels(camera: u64, frame: u64) -> Vec<u8> {
    let mut state = camera.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ frame.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 57) as u8
    };
    let mut pixels: Vec<u8> = (0..PIXELS).map(|_| next()).collect();
    pixels[0] = 7;
    pixels
}

/// A gray image of the hand-built plans' size.
pub fn gray(data: &[u8]) -> Image<'_> {
    Image {
        data,
        width: WIDTH,
        height: HEIGHT,
        stride: WIDTH,
        format: PixelFormat::Gray8,
    }
}
