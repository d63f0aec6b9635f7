//! Regions and grids that a frame computes, as places of [`Primitive::Sample`]: AffineGrid, RoiAlign.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::{Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, between, with};
use super::matrix;
use super::reshape::extents;
use crate::primitive::{Binary, Outside, Places, PoolKind, Primitive, Sample, Sampling, Unary, Window};
use crate::tensor::Data;

/// AffineGrid: the places of a picture's or a volume's elements, between -1 and 1, times a matrix for each sample.
pub(super) fn affine_grid(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let theta = node.input(0)?;
    let size = node.int_input(1, "size")?.ok_or_else(|| malformed("missing").at("size"))?;
    let align_corners = node.flag("align_corners", false)?;
    let wrong = || malformed(format!("matrices {} for a size of {size:?}", theta.shape()));
    let axes = size.len().checked_sub(2).filter(|axes| (2..=3).contains(axes)).ok_or_else(wrong)?;
    let samples = size[0];
    if extents(theta.shape()) != [samples, axes as i64, axes as i64 + 1] || !theta.elem().is_float() {
        return Err(wrong());
    }
    let places = shape_of(&size[2..])?;
    let count = i64::try_from(places.elements()).map_err(|_| wrong())?;
    // The last axis first, and a 1 for what the matrix adds.
    let mut elements = Vec::with_capacity(places.elements() as usize * (axes + 1));
    for place in 0..places.elements() {
        let mut rest = place;
        for axis in (0..axes).rev() {
            let extent = u64::from(places.dim(axis));
            let (at, last) = ((rest % extent) as f64, extent as f64 - 1.0);
            rest /= extent;
            elements.push(match align_corners {
                true if extent == 1 => -1.0,
                true => 2.0 * at / last - 1.0,
                false => (2.0 * at + 1.0) / (last + 1.0) - 1.0,
            });
        }
        elements.push(1.0);
    }
    let base = Host::from_f64s(theta.elem(), shape_of(&[count, axes as i64 + 1])?, elements)?;
    let base = b.constant(base);
    let columns = b.transpose(theta, &[0, 2, 1])?;
    let grid = matrix::product(b, &base, &columns)?;
    let dims = [&[samples], &size[2..], &[axes as i64]].concat();
    b.reshape(&grid, shape_of(&dims)?)
}

/// How the points of a region are placed along an axis.
#[derive(Clone, Copy)]
struct Points {
    /// Cells that a region is cut into, and points of each.
    cells: i64,
    each: i64,
    /// Of coordinates to those of the map's elements.
    scale: f64,
    offset: f64,
    /// Whether a region has an extent of 1 at least.
    least: bool,
}

impl Points {
    /// Where the points between the edges `low` and `high`, `[regions, 1]`, are along an axis of `extent` elements: `[regions, points]`,
    /// from -1 to 1.
    fn places(self, b: &mut Builder, low: &Operand, high: &Operand, extent: u32) -> Fallible<Operand> {
        let low = with(b, Binary::Mul, low, self.scale)?;
        let high = with(b, Binary::Mul, high, self.scale)?;
        let mut length = b.binary(Binary::Sub, &high, &low)?;
        if self.least {
            length = between(b, &length, 1.0, f32::INFINITY)?;
        }
        let first = with(b, Binary::Add, &low, -self.offset)?;
        let points = self.cells * self.each;
        let parts = (0..points).map(|at| (at as f32 + 0.5) / points as f32).collect();
        let parts = b.constant(Host::tensor(shape_of(&[1, points])?, Data::F32(parts))?.cast(low.elem())?);
        let inside = b.binary(Binary::Mul, &length, &parts)?;
        let at = b.binary(Binary::Add, &first, &inside)?;
        // Up to one element outside the edge counts; what is farther off is brought so far away that nothing of the map is near.
        let extent = extent as f32;
        let kept = between(b, &at, 0.0, extent - 1.0)?;
        let beyond = with(b, Binary::Add, &at, f64::from(-extent))?;
        let beyond = apply(b, Unary::Relu, &beyond)?;
        let before = with(b, Binary::Add, &at, 1.0)?;
        let before = between(b, &before, f32::NEG_INFINITY, 0.0)?;
        let off = b.binary(Binary::Add, &beyond, &before)?;
        let far = with(b, Binary::Mul, &off, FAR)?;
        let far = between(b, &far, -FARTHEST, FARTHEST)?;
        let at = b.binary(Binary::Add, &kept, &far)?;
        // Places of elements between the edges of the first and of the last.
        let scaled = with(b, Binary::Mul, &at, 2.0 / f64::from(extent))?;
        with(b, Binary::Add, &scaled, 1.0 / f64::from(extent) - 1.0)
    }
}

/// Times how far off a point is, that is far: the least distance in f32 beyond -1 or beyond a map's last element becomes several
/// times the map's extent.
const FAR: f64 = 1e12;
/// As far away as anything is brought.
const FARTHEST: f32 = 1e6;

/// RoiAlign: the mean of points of each cell of each region, which lie between the elements of one sample's map.
pub(super) fn roi_align(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let (x, regions, of_sample) = (node.input(0)?, node.input(1)?, node.input(2)?);
    match node.string("mode")?.unwrap_or("avg") {
        "avg" => {}
        other => {
            return Err(unsupported(format!(
                "`{other}`: only means are imported. Export it with `avg`, or cut the network in front of this node with --output NAME"
            ))
            .at("mode"));
        }
    }
    let half_pixel = match node.string("coordinate_transformation_mode")? {
        None => node.opset >= 16,
        Some("half_pixel") => true,
        Some("output_half_pixel") => false,
        Some(other) => return Err(malformed(format!("`{other}`")).at("coordinate_transformation_mode")),
    };
    let count = |name: &'static str, default: i64| {
        let number = node.int(name)?.unwrap_or(default);
        let fits = (0..1 << 12).contains(&number);
        if fits {
            Ok(number)
        } else {
            Err(malformed(format!("{number}")).at(name))
        }
    };
    let (rows, columns, each) = (count("output_height", 1)?, count("output_width", 1)?, count("sampling_ratio", 0)?);
    if each == 0 {
        return Err(
            unsupported("0: how many points a cell has must not depend on the region, so export it with a fixed number")
                .at("sampling_ratio"),
        );
    }
    let scale = f64::from(node.float("spatial_scale")?.unwrap_or(1.0));
    let (&[samples, channels, _, _], &[number, 4]) = (&extents(x.shape())[..], &extents(regions.shape())[..]) else {
        return Err(malformed(format!("an input {} and regions {}", x.shape(), regions.shape())));
    };
    if extents(of_sample.shape()) != [number] || rows == 0 || columns == 0 {
        return Err(malformed(format!(
            "{rows} x {columns} cells of regions {} of {}",
            regions.shape(),
            of_sample.shape()
        )));
    }
    if samples != 1 || !x.elem().is_float() || x.elem() != regions.elem() {
        return Err(unsupported(format!(
            "regions of {:?} in an input {} of {:?}: one sample of the same type is imported, so align each one's regions by themselves",
            regions.elem(),
            x.shape(),
            x.elem()
        )));
    }
    let (height, width) = (x.shape().dim(2), x.shape().dim(3));
    let grid = b.in_single(|b| {
        let mut edges = Vec::with_capacity(4);
        for edge in 0..4 {
            edges.push(b.slice(regions, vec![0, edge], vec![1, 1], shape_of(&[number, 1])?)?);
        }
        let points = |cells: i64| Points {
            cells,
            each,
            scale,
            offset: if half_pixel { 0.5 } else { 0.0 },
            least: !half_pixel,
        };
        let across = points(columns).places(b, &edges[0], &edges[2], width)?;
        let down = points(rows).places(b, &edges[1], &edges[3], height)?;
        let whole = [number, rows * each, columns * each, 1];
        let across = b.reshape(&across, shape_of(&[number, 1, columns * each, 1])?)?;
        let across = b.broadcast(&across, shape_of(&whole)?)?;
        let down = b.reshape(&down, shape_of(&[number, rows * each, 1, 1])?)?;
        let down = b.broadcast(&down, shape_of(&whole)?)?;
        let grid = b.concat(&[&across, &down], 3, shape_of(&[number, rows * each, columns * each, 2])?)?;
        b.reshape(&grid, shape_of(&[1, number * rows * each, columns * each, 2])?)
    })?;
    let sample = Primitive::Sample(Sample {
        sampling: Sampling::Linear,
        outside: Outside::Zero,
        places: Places::Grid { align_corners: false },
    });
    let sampled = shape_of(&[1, channels, number * rows * each, columns * each])?;
    let sampled = b.one(sample, &[x, &grid], x.elem(), sampled)?;
    let mut window = Window::new(&[each as u32, each as u32]);
    window.stride[..2].fill(each as u32);
    let mean = Primitive::Pool {
        kind: PoolKind::Average { count_pad: false },
        window,
    };
    let cells = b.one(mean, &[&sampled], x.elem(), shape_of(&[1, channels, number * rows, columns])?)?;
    let cells = b.reshape(&cells, shape_of(&[channels, number, rows, columns])?)?;
    b.transpose(&cells, &[1, 0, 2, 3])
}
