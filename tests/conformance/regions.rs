//! Regions and grids that a frame computes, beside their definitions.

use crate::data::Chance;
use crate::network::{self, Tensors};
use crate::onnx::{Graph, float, int, string};
use platoon::planner::CompileOptions;
use platoon::tensor::{Data, Tensor};
use std::path::{Path, PathBuf};

const CHANNELS: usize = 3;
const HEIGHT: usize = 9;
const WIDTH: usize = 12;
/// Cells of a region down and across, and points of a cell along each axis.
const CELLS: [usize; 2] = [4, 3];
const POINTS: usize = 2;
const SCALE: f64 = 0.25;

/// Regions within the map, across its edges, outside of it, smaller than an element, and turned round.
const REGIONS: [[f32; 4]; 6] = [
    [4.0, 6.0, 30.0, 28.0],
    [-9.0, -7.0, 20.0, 55.0],
    [-40.0, -40.0, -8.0, -8.0],
    [12.0, 12.0, 12.5, 12.25],
    [30.0, 20.0, 60.0, 36.0],
    [24.0, 16.0, 8.0, 4.0],
];

fn written(folder: &tempfile::TempDir, graph: Graph, version: i64) -> PathBuf {
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, graph.file_of(version)).unwrap();
    path
}

fn run(model: &Path, fixed: &[(&str, Tensor)], value: impl FnMut() -> f32) -> (Tensors, Tensors) {
    let compiled = network::compile(model, &CompileOptions::default()).unwrap_or_else(|e| panic!("{}", network::told(&*e)));
    let mut inputs = network::inputs_of(&compiled, value);
    for (name, tensor) in fixed {
        let shape = inputs[*name].shape();
        inputs.insert(
            (*name).to_owned(),
            Tensor::new(shape, Data::F32(tensor.as_f32().unwrap().to_vec())).unwrap(),
        );
    }
    let outputs = network::run(compiled, &inputs, 2).unwrap();
    (inputs, outputs)
}

/// A channel of the map between its elements: nothing farther than one element outside.
fn between(channel: &[f32], y: f64, x: f64) -> f64 {
    if !(-1.0..=HEIGHT as f64).contains(&y) || !(-1.0..=WIDTH as f64).contains(&x) {
        return 0.0;
    }
    let axis = |at: f64, extent: usize| {
        let at = at.clamp(0.0, extent as f64 - 1.0);
        let first = (at.floor() as usize).min(extent - 1);
        (first, (first + 1).min(extent - 1), at - first as f64)
    };
    let ((top, bottom, down), (left, right, across)) = (axis(y, HEIGHT), axis(x, WIDTH));
    let at = |row: usize, column: usize| f64::from(channel[row * WIDTH + column]);
    let row = |row: usize| at(row, left) * (1.0 - across) + at(row, right) * across;
    row(top) * (1.0 - down) + row(bottom) * down
}

/// RoiAlign as ONNX defines it: region by region, channel by channel, cell by cell.
fn aligned(map: &[f32], half_pixel: bool) -> Vec<f64> {
    let mut cells = Vec::new();
    for region in REGIONS {
        let offset = if half_pixel { 0.5 } else { 0.0 };
        let edge = |at: usize| f64::from(region[at]) * SCALE - offset;
        let length = |low: usize, high: usize| match half_pixel {
            true => edge(high) - edge(low),
            false => (edge(high) - edge(low)).max(1.0),
        };
        let step = [length(1, 3) / CELLS[0] as f64, length(0, 2) / CELLS[1] as f64];
        for channel in map.chunks(HEIGHT * WIDTH) {
            for row in 0..CELLS[0] {
                for column in 0..CELLS[1] {
                    let at =
                        |low: f64, cell: usize, point: usize, step: f64| low + (cell as f64 + (point as f64 + 0.5) / POINTS as f64) * step;
                    let points = (0..POINTS * POINTS).map(|p| {
                        let y = at(edge(1), row, p / POINTS, step[0]);
                        between(channel, y, at(edge(0), column, p % POINTS, step[1]))
                    });
                    cells.push(points.sum::<f64>() / (POINTS * POINTS) as f64);
                }
            }
        }
    }
    cells
}

#[test]
fn regions_are_aligned_by_means_of_points_between_elements() {
    let folder = tempfile::tempdir().unwrap();
    for (mode, half_pixel) in [("half_pixel", true), ("output_half_pixel", false)] {
        let attributes = [
            int("output_height", CELLS[0] as i64),
            int("output_width", CELLS[1] as i64),
            int("sampling_ratio", POINTS as i64),
            float("spatial_scale", SCALE as f32),
            string("coordinate_transformation_mode", mode),
        ];
        let g = Graph::default()
            .input("x", &[1, CHANNELS as i64, HEIGHT as i64, WIDTH as i64])
            .input("regions", &[REGIONS.len() as i64, 4])
            .integers("samples", &[0; REGIONS.len()])
            .node("RoiAlign", "x regions samples", "y", &attributes)
            .output("y");
        let mut random = Chance::new(3);
        let shape = platoon::tensor::Shape::new(&[REGIONS.len() as u32, 4]).unwrap();
        let regions = Tensor::new(shape, Data::F32(REGIONS.concat())).unwrap();
        let (inputs, outputs) = run(&written(&folder, g, 16), &[("regions", regions)], || random.signed());
        let expected = aligned(inputs["x"].as_f32().unwrap(), half_pixel);
        let found = outputs["y"].as_f32().unwrap();
        assert_eq!(found.len(), expected.len());
        // The third region lies beyond one element outside on both axes, and nothing of the map is near.
        let cells = CHANNELS * CELLS[0] * CELLS[1];
        assert!(found[2 * cells..3 * cells].iter().all(|&cell| cell == 0.0), "{mode}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let near = (f64::from(*found) - expected).abs() < 1e-5;
            assert!(near, "{mode}: cell {i} is {found} instead of {expected}");
        }
    }
}

#[test]
fn points_that_depend_on_the_region_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |samples: i64, attributes: &[crate::onnx::Attribute]| {
        let g = Graph::default()
            .input("x", &[samples, 2, 8, 8])
            .input("regions", &[2, 4])
            .integers("samples", &[0, samples - 1])
            .node("RoiAlign", "x regions samples", "y", attributes)
            .output("y");
        let error = network::compile(&written(&folder, g, 16), &CompileOptions::default())
            .err()
            .unwrap();
        network::told(&*error)
    };
    assert!(refused(1, &[]).contains("sampling_ratio"), "{}", refused(1, &[]));
    let fixed = int("sampling_ratio", 2);
    assert!(refused(1, &[fixed.clone(), string("mode", "max")]).contains("only means"));
    assert!(refused(2, &[fixed]).contains("one sample"));
}

#[test]
fn a_grid_of_a_matrix_is_its_product_with_the_places_of_elements() {
    let folder = tempfile::tempdir().unwrap();
    for align_corners in [false, true] {
        let g = Graph::default()
            .input("flat", &[2, 2, 3])
            .integers("picture", &[2, 1, 3, 4])
            .node(
                "AffineGrid",
                "flat picture",
                "flat.y",
                &[int("align_corners", align_corners.into())],
            )
            .input("deep", &[1, 3, 4])
            .integers("volume", &[1, 1, 2, 1, 3])
            .node("AffineGrid", "deep volume", "deep.y", &[int("align_corners", align_corners.into())])
            .output("flat.y")
            .output("deep.y");
        let mut random = Chance::new(4);
        let (inputs, outputs) = run(&written(&folder, g, 20), &[], || random.signed());
        let place = |at: usize, extent: usize| match align_corners {
            true if extent == 1 => -1.0,
            true => 2.0 * at as f64 / (extent - 1) as f64 - 1.0,
            false => (2 * at + 1) as f64 / extent as f64 - 1.0,
        };
        for (name, samples, extents) in [("flat", 2, &[3usize, 4][..]), ("deep", 1, &[2, 1, 3])] {
            let axes = extents.len();
            let (matrices, found) = (inputs[name].as_f32().unwrap(), outputs[&format!("{name}.y")].as_f32().unwrap());
            let count: usize = extents.iter().product();
            assert_eq!(found.len(), samples * count * axes);
            for (i, found) in found.iter().enumerate() {
                let (row, mut rest) = (i % axes, i / axes % count);
                let mut vector = vec![1.0; axes + 1];
                for axis in (0..axes).rev() {
                    vector[axes - 1 - axis] = place(rest % extents[axis], extents[axis]);
                    rest /= extents[axis];
                }
                let matrix = &matrices[(i / axes / count * axes + row) * (axes + 1)..][..axes + 1];
                let expected: f64 = matrix.iter().zip(&vector).map(|(&m, v)| f64::from(m) * v).sum();
                assert!(
                    (f64::from(*found) - expected).abs() < 1e-5,
                    "{name}: element {i} is {found} instead of {expected}"
                );
            }
        }
    }
}
