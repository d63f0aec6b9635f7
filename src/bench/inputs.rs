//! Pictures and tensors to run on: noise from a fixed seed, so that every run does the same work.

use super::noise::Noise;
use crate::plan::format::{Camera, Plan, Port};
use crate::planner::card::CardInput;
use crate::runtime::Image;
use crate::task::PixelFormat;
use crate::tensor::DType;
use half::f16;

/// A picture of its own.
pub struct Picture {
    data: Vec<u8>,
    width: u32,
    height: u32,
}

impl Picture {
    /// RGB noise, as large as the camera's largest picture.
    pub fn of(camera: &Camera) -> Picture {
        let mut noise = Noise::new(u64::from(camera.max_width) << 32 | u64::from(camera.max_height));
        let bytes = camera.max_width as usize * camera.max_height as usize * 3;
        Picture {
            data: (0..bytes).map(|_| noise.bits() as u8).collect(),
            width: camera.max_width,
            height: camera.max_height,
        }
    }

    /// The picture as an engine takes it.
    pub fn image(&self) -> Image<'_> {
        Image {
            data: &self.data,
            width: self.width,
            height: self.height,
            stride: self.width * 3,
            format: PixelFormat::Rgb8,
        }
    }
}

/// The range of a network's input that pixels of 0 and 255 lie in, over all channels.
pub fn range(input: &CardInput) -> (f32, f32) {
    let ends = input.mean.iter().zip(&input.std).flat_map(|(m, s)| [-m / s, (255.0 - m) / s]);
    ends.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
}

/// Data for every tensor input of a plan: tenant, port, bytes. Floats are uniform in the tenant's range (one a tenant);
/// integers are 0, which is a valid index anywhere.
pub fn tensors(plan: &Plan, ranges: &[(f32, f32)]) -> Vec<(usize, usize, Vec<u8>)> {
    let mut noise = Noise::new(plan.tenants.len() as u64);
    let mut all = Vec::new();
    for (tenant, (record, &range)) in plan.tenants.iter().zip(ranges).enumerate() {
        for (index, port) in record.inputs.iter().enumerate() {
            all.push((tenant, index, tensor(port, &mut noise, range)));
        }
    }
    all
}

/// Data for one input: floats are uniform in the range, integers are 0.
pub fn tensor(port: &Port, noise: &mut Noise, (low, high): (f32, f32)) -> Vec<u8> {
    let elements = port.view.layout.shape.elements() as usize;
    let mut float = || noise.between(low, high);
    match port.view.dtype {
        DType::F32 => (0..elements).flat_map(|_| float().to_ne_bytes()).collect(),
        DType::F16 => (0..elements).flat_map(|_| f16::from_f32(float()).to_ne_bytes()).collect(),
        dtype => vec![0; elements * dtype.bytes() as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitive::{ColorOrder, Fit};

    #[test]
    fn a_range_spans_what_preparation_gives_for_black_and_white() {
        let input = CardInput {
            tensor: None,
            fit: Fit::Stretch,
            fill: 0,
            order: ColorOrder::Rgb,
            mean: [127.5, 0.0, 100.0],
            std: [127.5, 255.0, 50.0],
            crops: None,
        };
        assert_eq!(range(&input), (-2.0, 3.1));
    }

    #[test]
    fn pictures_are_the_same_on_every_run_and_as_large_as_said() {
        let camera = Camera {
            name: "front".into(),
            max_width: 5,
            max_height: 3,
            bytes: 60,
        };
        let (a, b) = (Picture::of(&camera), Picture::of(&camera));
        assert_eq!((a.data.len(), a.image().stride), (45, 15));
        assert_eq!(a.data, b.data);
        assert!(a.data.iter().any(|&x| x != a.data[0]), "noise has more than one value");
    }
}
