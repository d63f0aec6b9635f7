//! Every network's raw outputs against onnxruntime's, in f32 and in f16.
//!
//! The references come with the already resized picture. A camera of exactly the network's size makes the preparation
//! leave the pixels alone, so that nothing but colour order, normalisation and the network itself is compared.

use super::{av, data, npy};
use platoon::ids::TenantId;
use platoon::plan::deployment::Deployment;
use platoon::planner::card::{Card, Decode};
use platoon::planner::tasks::{CameraSpec, TaskSetSpec, Tasks, TenantSpec};
use platoon::planner::{CompileOptions, boards, compile_task_set, table};
use platoon::primitive::Fit;
use platoon::replay::picture::Picture;
use platoon::runtime::{Engine, Options};
use platoon::task::{Rate, Status, Urgency};
use platoon::tensor::DType;
use std::collections::BTreeMap;
use std::path::Path;

/// How far outputs may be from the references.
struct Limits {
    /// Relative and absolute tolerance, as the references' README suggests it.
    tolerance: f32,
    /// Elements of all frames' tensors, and pixels of their maps, that may be beyond it.
    beyond: f64,
}

const SINGLE: Limits = Limits {
    tolerance: 1e-3,
    beyond: 0.0,
};
/// Rounding weights and activations to f16 moves a few elements further than that, whoever does it: onnxruntime on these
/// networks and frames, with every weight and every stored activation rounded, has up to 1.7 % of a network's elements
/// beyond this tolerance (deeplab; 0.5 % of yolox).
const HALF: Limits = Limits {
    tolerance: 2e-2,
    beyond: 0.017,
};

/// What the references hold of one output: its name, what their files' names add to the frame's, and the axis of the
/// classes if there is also a map of the best class.
struct Output {
    name: &'static str,
    values: &'static str,
    best: Option<(&'static str, usize)>,
}

#[test]
fn yolox_nano_416() {
    let output = Output {
        name: "output",
        values: "output",
        best: None,
    };
    check("yolox_nano_416", "yolox_nano_416", &[output]);
}

#[test]
fn road_segmentation_adas_0001() {
    let output = Output {
        name: "tf.identity",
        values: "probs_every8",
        best: Some(("argmax", 3)),
    };
    check("road_segmentation_adas_0001", "road_segmentation_adas_0001", &[output]);
}

#[test]
fn twinlitenet_360x640() {
    let area = Output {
        name: "da",
        values: "da_every4",
        best: Some(("da_argmax", 1)),
    };
    let lines = Output {
        name: "ll",
        values: "ll_every4",
        best: Some(("ll_argmax", 1)),
    };
    check("twinlitenet_360x640", "twinlitenet_360x640", &[area, lines]);
}

#[test]
fn deeplab_edgetpu_cityscapes_513() {
    let output = Output {
        name: "logits",
        values: "logits",
        best: None,
    };
    check("deeplab_edgetpu_cityscapes_513", "deeplab_edgetpu_cityscapes_513", &[output]);
}

#[test]
fn efficientnet_lite0_224() {
    let output = Output {
        name: "logits",
        values: "efficientnet_lite0_224",
        best: None,
    };
    check("efficientnet_lite0_224", "classifiers_224", &[output]);
}

#[test]
fn mobilenet_v2_1_0_224() {
    let output = Output {
        name: "probs",
        values: "mobilenet_v2_1.0_224",
        best: None,
    };
    check("mobilenet_v2_1.0_224", "classifiers_224", &[output]);
}

fn check(model: &str, folder: &str, outputs: &[Output]) {
    let Some(root) = data::need(model, &data::av_data()) else { return };
    let refs = root.join("refs").join(folder);
    let mut names: Vec<String> = std::fs::read_dir(&refs)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".input.png")?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() >= 2, "{}: too few references", refs.display());
    let pictures: Vec<Picture> = names.iter().map(|n| av::picture(&refs.join(format!("{n}.input.png")))).collect();
    let mut said = Vec::new();
    // There are no vector kernels for f16 yet: one frame of it takes as long as many of f32.
    for (dtype, limits, frames) in [(DType::F32, SINGLE, names.len()), (DType::F16, HALF, 1)] {
        let mut engine = open(model, pictures[0].size(), dtype);
        let mut worst = vec![Worst::default(); outputs.len()];
        for (name, picture) in names.iter().zip(&pictures).take(frames) {
            let ticket = engine.submit(&[Some(av::image(picture))]).unwrap();
            engine.wait(&ticket, None).unwrap();
            let result = engine.result(&ticket, TenantId(0)).unwrap();
            assert_eq!(result.status, Status::Fresh);
            for (output, worst) in outputs.iter().zip(&mut worst) {
                let (port, bytes) = result.tensors().find(|(p, _)| p.name == output.name).unwrap();
                let shape: Vec<usize> = port.view.layout.shape.dims().iter().map(|&d| d as usize).collect();
                let values: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
                let what = format!("{model} {dtype} {name} {}", output.name);
                let reference = npy::read(&refs.join(format!("{name}.{}.npy", output.values)));
                worst.values(&what, (&shape, &values), &reference, limits.tolerance);
                if let Some((suffix, axis)) = output.best {
                    let map = refs.join(format!("{name}.{suffix}.png"));
                    worst.classes(&what, (&shape, &values), axis, &map, limits.tolerance);
                }
            }
            engine.release(ticket).unwrap();
        }
        for (output, worst) in outputs.iter().zip(&worst) {
            let what = format!("{model} {dtype} {}", output.name);
            assert!(
                worst.beyond as f64 <= limits.beyond * worst.elements as f64,
                "{what}: {} of {} elements are beyond the tolerance, first {}",
                worst.beyond,
                worst.elements,
                worst.first
            );
            let wrong = worst.wrong as f64 <= limits.beyond * worst.pixels as f64;
            assert!(wrong, "{what}: {} of {} pixels, first {}", worst.wrong, worst.pixels, worst.first);
        }
        let worst = outputs.iter().zip(&worst).map(|(o, w)| format!("{} {w}", o.name));
        said.push(format!("{dtype}: {}", worst.collect::<Vec<_>>().join(", ")));
    }
    data::ran(model, &format!("{} frames, one in f16; {}", names.len(), said.join("; ")));
}

/// An engine with the model as its only tenant, its outputs left as they are.
fn open(model: &str, (width, height): (u32, u32), dtype: DType) -> Engine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/av/models").join(model);
    let mut card = Card::load(&folder).unwrap_or_else(|e| panic!("{e}"));
    card.decode = Decode::Tensors;
    card.input.fit = Fit::Stretch;
    let front = "front".to_string();
    let tenant = TenantSpec {
        name: model.into(),
        card,
        cameras: vec![front.clone()],
        rate: Rate::EVERY_FRAME,
        urgency: Urgency {
            priority: 0,
            deadline: None,
        },
        sources: vec![],
    };
    let tasks = Tasks {
        path: folder,
        default: "one".into(),
        slots: 1,
        base_hz: None,
        cameras: vec![CameraSpec {
            name: front,
            max_width: width,
            max_height: height,
        }],
        sets: BTreeMap::from([("one".to_string(), TaskSetSpec { tenants: vec![tenant] })]),
    };
    let board = boards::load("host").unwrap();
    let options = CompileOptions {
        dtype,
        ..CompileOptions::default()
    };
    let compiled = compile_task_set(&tasks, "one", &board, &options).unwrap_or_else(|e| panic!("{e:?}"));
    let table = table(std::slice::from_ref(&compiled), &board, "one", 1).unwrap();
    let weights = compiled.weight_files.into_iter().map(|(_, bytes)| bytes).collect();
    let deployment = Deployment::assemble(table, vec![compiled.plan], weights).unwrap_or_else(|e| panic!("{e}"));
    // Generic kernels on a busy machine are slow, not hung.
    let options = Options {
        watchdog: None,
        ..Options::default()
    };
    Engine::with(deployment, &options).unwrap_or_else(|e| panic!("{e:?}"))
}

/// The deviations seen.
#[derive(Clone, Default)]
struct Worst {
    /// The largest.
    absolute: f32,
    elements: usize,
    /// Elements beyond the tolerance.
    beyond: usize,
    pixels: usize,
    /// Pixels whose best class differs.
    differ: usize,
    /// Those of them where that is no near tie.
    wrong: usize,
    /// The first element beyond or pixel wrong.
    first: String,
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "within {:.1e}, {} of {} elements beyond",
            self.absolute, self.beyond, self.elements
        )?;
        match self.pixels {
            0 => Ok(()),
            n => write!(
                f,
                ", best class differs in {} of {n} pixels, {} no near tie",
                self.differ, self.wrong
            ),
        }
    }
}

impl Worst {
    /// Compares a whole tensor with the reference, which may hold every n-th element of an axis only.
    fn values(&mut self, what: &str, (shape, values): (&[usize], &[f32]), reference: &npy::Array, tolerance: f32) {
        assert_eq!(shape.len(), reference.shape.len(), "{what}");
        let steps: Vec<usize> = shape.iter().zip(&reference.shape).map(|(d, r)| d.div_ceil(*r)).collect();
        let kept: Vec<usize> = shape.iter().zip(&steps).map(|(d, s)| d.div_ceil(*s)).collect();
        assert_eq!(kept, reference.shape, "{what}");
        for (i, &expected) in reference.values.iter().enumerate() {
            let (mut rest, mut at, mut pitch) = (i, 0, 1);
            for axis in (0..shape.len()).rev() {
                at += rest % kept[axis] * steps[axis] * pitch;
                rest /= kept[axis];
                pitch *= shape[axis];
            }
            let difference = (values[at] - expected).abs();
            assert!(difference.is_finite(), "{what}, element {at}: {}", values[at]);
            self.absolute = self.absolute.max(difference);
            if difference > tolerance + tolerance * expected.abs() {
                self.beyond += 1;
                self.note(|| format!("{what}, element {at}: {} instead of {expected}", values[at]));
            }
        }
        self.elements += reference.values.len();
    }

    /// Compares the best class of every pixel with the reference's, which may differ where two classes are within the
    /// tolerance of each other.
    fn classes(&mut self, what: &str, (shape, values): (&[usize], &[f32]), axis: usize, map: &Path, tolerance: f32) {
        let map = av::picture(map);
        let (classes, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let pixels = values.len() / classes;
        assert_eq!(map.rgb().len(), pixels * 3, "{what}");
        for (pixel, expected) in map.rgb().chunks_exact(3).enumerate() {
            let score = |class: usize| values[pixel / inner * classes * inner + class * inner + pixel % inner];
            let best = (0..classes).max_by(|&a, &b| score(a).total_cmp(&score(b)).then(b.cmp(&a))).unwrap();
            let expected = usize::from(expected[0]);
            if best != expected {
                let gap = score(best) - score(expected);
                self.differ += 1;
                if gap >= tolerance {
                    self.wrong += 1;
                    self.note(|| format!("{what}, pixel {pixel}: class {best} instead of {expected} by {gap}"));
                }
            }
        }
        self.pixels += pixels;
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.first.is_empty() {
            self.first = text();
        }
    }
}
