//! Crops of detections as the edge between tenants: `signal` reads what `scout` finds in the same frame, and the plan, its
//! checks and the engine know it.

use super::ends::{cameras, card, classes, map, pictures, yolox};
use super::nets::Net;
use super::oracle::{board, open};
use crate::ids::{CameraId, TenantId};
use crate::plan::check::{CheckError, OrderError, ReadError, check};
use crate::plan::format::{Digest, Operand, Plan, Role, Tenant};
use crate::planner::attach::{Attached, CropSource, attach, attach_crops};
use crate::planner::card::{CropCard, Decode};
use crate::planner::graph::{Graph, ViewOp, verify};
use crate::planner::half_floats::Ports;
use crate::planner::passes::PassSet;
use crate::planner::{CompileOptions, Compiled, PlannerError, Searcher, emit, half_floats, lower};
use crate::primitive::{Primitive, Unary};
use crate::runtime::{Detection, Engine, Image};
use crate::task::{PixelFormat, Rate, Status, Urgency};
use crate::tensor::DType;

const SCOUT: TenantId = TenantId(0);
const SIGNAL: TenantId = TenantId(2);
/// Crops in the batch, and their sides.
const BATCH: u32 = 5;
const SIDE: u32 = 4;
const VALUES: u32 = 3 * SIDE * SIDE;
/// Only class 1 of the two that `scout` knows is cut out.
const CLASSES: u64 = 0b10;
const MARGIN: f32 = 0.25;
const SIZE: (u32, u32) = (40, 30);

/// A network that classifies a crop by its own values: its scores are all values of the crop.
fn values() -> Graph {
    let mut net = Net::default();
    let x = net.input(&[BATCH, 3, SIDE, SIDE]);
    let x = net.view(ViewOp::Reshape, x, &[BATCH, VALUES]);
    let x = net.unary(Unary::LeakyRelu(crate::primitive::Scalar(0.5)), x);
    net.output(x);
    net.graph.name = "signal.onnx".to_owned();
    net.graph
}

/// What `scout` finds, as crops are taken of it.
fn source(scout: &Attached) -> CropSource<'_> {
    CropSource {
        tenant: SCOUT,
        attached: scout,
        image: 0,
        camera: CameraId(0),
        classes: CLASSES,
        margin: MARGIN,
    }
}

fn record(name: &str, decode: &Decode, rate: Rate, priority: u8, sources: &[TenantId]) -> Tenant {
    Tenant {
        name: name.to_owned(),
        model: name.to_owned(),
        cameras: vec![CameraId(0)],
        rate,
        urgency: Urgency { priority, deadline: None },
        kind: decode.kind(),
        sources: sources.to_vec(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// `scout`, `surface` and `signal`, the last with the highest priority, `scout` and `signal` at these rates.
fn compile(options: &CompileOptions, rates: [Rate; 2]) -> Result<Compiled, PlannerError> {
    let table = cameras();
    let detector = {
        let mut decode = yolox(12);
        if let Decode::Yolox { score, .. } = &mut decode {
            *score = 0.05;
        }
        decode
    };
    let ends = |attached: Attached| {
        let attached = if options.dtype == DType::F16 {
            half_floats::convert(attached, Ports::Declared)
        } else {
            attached
        };
        verify(&attached.graph).unwrap();
        attached
    };
    let camera = [CameraId(0)];
    let scout = ends(attach(
        pictures(&[1, 3, 32, 32], &[1, 21, 7]),
        &card(detector.clone()),
        &camera,
        &table,
    )?);
    let labels = map(1, None);
    let surface = ends(attach(
        pictures(&[1, 3, 6, 8], &[1, 2, 6, 8]),
        &card(labels.clone()),
        &camera,
        &table,
    )?);
    let top = classes(VALUES, false);
    let source = source(&scout);
    let signal = ends(attach_crops(values(), &card(top.clone()), &source, &table)?);
    let tenants = vec![
        (record("scout", &detector, rates[0], 1, &[]), scout),
        (record("surface", &labels, Rate::EVERY_FRAME, 2, &[]), surface),
        (record("signal", &top, rates[1], 3, &[SCOUT]), signal),
    ];
    let lowered = lower::lower(table, tenants, options.passes)?;
    emit::emit("test", Digest::of(b"test"), lowered, &board(), options)
}

fn every_frame(options: &CompileOptions) -> Compiled {
    compile(options, [Rate::EVERY_FRAME; 2]).unwrap()
}

fn searched(searcher: Searcher, seed: u64) -> CompileOptions {
    CompileOptions {
        searcher,
        seed,
        ..CompileOptions::default()
    }
}

fn picture(seed: u32) -> Vec<u8> {
    (0..SIZE.0 * SIZE.1 * 3)
        .map(|i| ((i ^ seed).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// What the engine says of one frame.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    status: Vec<(Status, u64)>,
    outputs: Vec<Vec<u8>>,
    detections: Vec<Detection>,
    crops: Vec<Cut>,
}

/// A crop's row, its detection, and its classes with their scores.
type Cut = (usize, Detection, Vec<(u32, f32)>);

fn frame(engine: &mut Engine, data: Option<&[u8]>) -> Seen {
    let image = data.map(|data| Image {
        data,
        width: SIZE.0,
        height: SIZE.1,
        stride: SIZE.0 * 3,
        format: PixelFormat::Bgr8,
    });
    let ticket = engine.submit(&[image, None]).unwrap();
    let report = engine.wait(&ticket, None).unwrap();
    let mut outputs = Vec::new();
    for tenant in &report.tenants {
        let result = engine.result(&ticket, tenant.tenant).unwrap();
        outputs.extend(result.tensors().map(|(_, bytes)| bytes.to_vec()));
    }
    let detections = engine.result(&ticket, SCOUT).unwrap();
    assert!(detections.crops().is_none());
    let detections = detections.detections().collect();
    let result = engine.result(&ticket, SIGNAL).unwrap();
    assert_eq!(result.images(), BATCH as usize);
    let crops = result.crops().unwrap();
    let crops = crops.map(|c| (c.row, c.detection, result.top(c.image).collect())).collect();
    let seen = Seen {
        status: report.tenants.iter().map(|t| (t.status, t.of_frame)).collect(),
        outputs,
        detections,
        crops,
    };
    engine.release(ticket).unwrap();
    seen
}

/// The values of a detection's crop, by the words of the primitive's description.
fn crop(picture: &[u8], bounds: [f32; 4]) -> Vec<f32> {
    let card = card(classes(1, false)).input;
    let at = |low: f32, high: f32, i: u32| {
        let margin = MARGIN * (high - low);
        (low - margin + (i as f32 + 0.5) * ((high - low + 2.0 * margin) / SIDE as f32)) - 0.5
    };
    let pixel = |x: f32, y: f32, c: u32| {
        let (x, y) = (x.clamp(0.0, SIZE.0 as f32 - 1.0) as u32, y.clamp(0.0, SIZE.1 as f32 - 1.0) as u32);
        f32::from(picture[((y * SIZE.0 + x) * 3 + c) as usize])
    };
    let mut values = Vec::new();
    for c in 0..3 {
        for j in 0..SIDE {
            for i in 0..SIDE {
                let (x, y) = (at(bounds[0], bounds[2], i), at(bounds[1], bounds[3], j));
                let row = |y| {
                    let (a, b) = (pixel(x.floor(), y, c), pixel(x.floor() + 1.0, y, c));
                    a + (b - a) * (x - x.floor())
                };
                let (a, b) = (row(y.floor()), row(y.floor() + 1.0));
                let value = (a + (b - a) * (y - y.floor()) - card.mean[c as usize]) / card.std[c as usize];
                values.push(if value < 0.0 { value * 0.5 } else { value });
            }
        }
    }
    values
}

#[test]
fn the_best_detections_of_the_same_frame_are_cut_out() {
    let mut engine = open(&every_frame(&CompileOptions::default()), 2);
    let (mut some, mut cut) = (0, 0);
    for number in 0..6 {
        let data = picture(number);
        let seen = frame(&mut engine, Some(&data));
        assert!(seen.status.iter().all(|s| *s == (Status::Fresh, u64::from(number))));
        let mut expected: Vec<usize> = (0..seen.detections.len()).filter(|&d| seen.detections[d].class == 1).collect();
        // Detections stand in falling score already.
        cut += usize::from(expected.len() > BATCH as usize);
        expected.truncate(BATCH as usize);
        assert_eq!(seen.crops.iter().map(|c| c.0).collect::<Vec<_>>(), expected, "frame {number}");
        for (row, detection, top) in &seen.crops {
            assert_eq!(*detection, seen.detections[*row]);
            let values = crop(&data, detection.bounds);
            assert_eq!(top.len(), values.len());
            assert!(
                top.iter()
                    .all(|&(class, score)| values[class as usize].to_bits() == score.to_bits())
            );
            some += 1;
        }
    }
    assert!(some > 12 && cut > 0, "{some} crops in all, more than a batch in {cut} frames");
}

#[test]
fn every_searcher_and_set_of_passes_gives_the_same_bits() {
    let run = |options: &CompileOptions, workers| {
        let mut engine = open(&every_frame(options), workers);
        [7, 8].map(|seed| frame(&mut engine, Some(&picture(seed))))
    };
    let plain = run(&searched(Searcher::Sequential, 0), 1);
    assert_eq!(run(&searched(Searcher::Streams, 0), 2), plain);
    let mut cut = 0;
    for seed in 0..12 {
        let options = searched(Searcher::Random, seed);
        assert_eq!(run(&options, 1 + seed as usize % 3), plain, "seed {seed}");
        let plan = every_frame(&options).plan;
        cut += usize::from(plan.operators[crop_operator(&plan)].chunks.len() > 1);
    }
    assert!(cut > 1, "the crops are cut into chunks in {cut} plans");
    for passes in [PassSet::NONE, PassSet::LAYOUT, PassSet::ELIDE] {
        let options = CompileOptions {
            passes,
            ..CompileOptions::default()
        };
        assert_eq!(run(&options, 2), plain, "{passes:?}");
    }
}

#[test]
fn half_precision_leaves_rows_and_boxes_as_they_are() {
    let options = CompileOptions {
        dtype: DType::F16,
        ..CompileOptions::default()
    };
    let data = picture(3);
    let seen = frame(&mut open(&every_frame(&options), 2), Some(&data));
    assert!(!seen.crops.is_empty());
    for (row, detection, top) in &seen.crops {
        assert_eq!(*detection, seen.detections[*row]);
        let values = crop(&data, detection.bounds);
        let half = |v: f32| half::f16::from_f32(v).to_f32();
        // The crop is rounded once and so is what is computed of it: two half steps of 11 bits.
        assert!(
            top.iter()
                .all(|&(class, score)| (half(score) - values[class as usize]).abs() <= 1e-3)
        );
    }
}

#[test]
fn what_is_computed_from_an_old_picture_is_stale_in_both() {
    let mut engine = open(&every_frame(&CompileOptions::default()), 2);
    let none = frame(&mut engine, None);
    assert!(none.status.iter().all(|s| s.0 == Status::None) && none.crops.is_empty());
    let fresh = frame(&mut engine, Some(&picture(1)));
    assert_eq!(fresh.status, [(Status::Fresh, 1); 3]);
    let stale = frame(&mut engine, None);
    assert_eq!(stale.status, [(Status::Stale, 1); 3]);
    assert_eq!((stale.outputs, stale.crops), (fresh.outputs, fresh.crops));
}

#[test]
fn a_held_result_keeps_the_detections_it_was_made_of() {
    let half = Rate { divisor: 2, phase: 0 };
    let mut engine = open(&compile(&CompileOptions::default(), [Rate::EVERY_FRAME, half]).unwrap(), 2);
    let first = frame(&mut engine, Some(&picture(1)));
    let second = frame(&mut engine, Some(&picture(2)));
    assert_eq!(second.status, [(Status::Fresh, 1), (Status::Fresh, 1), (Status::Held, 0)]);
    assert_ne!(first.detections, second.detections);
    assert_eq!(first.crops, second.crops);
    assert!(first.crops.iter().all(|(row, detection, _)| *detection == first.detections[*row]));
}

/// The operator whose only primitive is a crop.
fn crop_operator(plan: &Plan) -> usize {
    let crops = |o: &crate::plan::format::Operator| matches!(o.calls[0].primitive, Primitive::Crop(_));
    plan.operators.iter().position(crops).unwrap()
}

fn refused(plan: Plan) -> CheckError {
    check(plan).err().unwrap()
}

#[test]
fn a_plan_that_reads_detections_before_they_are_complete_is_refused() {
    let plan = every_frame(&searched(Searcher::Streams, 0)).plan;
    let cropping = crop_operator(&plan);
    // Scout and signal run on streams of their own, and one sync point joins them.
    assert!(check(plan.clone()).is_ok() && plan.streams.len() == 3);
    let mut loose = plan.clone();
    loose.cycle[0].syncs.clear();
    let error = refused(loose);
    let CheckError::Read(ReadError::NotBefore { reader, writer, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(reader.operator.index(), cropping);
    let writer = &plan.operators[writer.operator.index()];
    assert_eq!(writer.tenant, SCOUT);

    // On one stream the order of the segments is what counts.
    let mut plan = every_frame(&searched(Searcher::Sequential, 0)).plan;
    assert!(plan.cycle[0].syncs.is_empty());
    let segments = &mut plan.cycle[0].segments;
    let signal = segments.iter().position(|s| s.tenant == SIGNAL).unwrap();
    segments[..=signal].rotate_right(1);
    assert!(matches!(refused(plan), CheckError::Read(ReadError::NotBefore { .. })));
}

#[test]
fn a_reader_that_does_not_name_its_source_is_refused() {
    let mut plan = every_frame(&CompileOptions::default()).plan;
    plan.tenants[SIGNAL.index()].sources = vec![TenantId(1)];
    let error = refused(plan);
    assert!(
        matches!(error, CheckError::Read(ReadError::NoSource { writer: SCOUT, reader }) if reader.operator.index() > 0),
        "{error}"
    );
    // Without any source its rows mean nothing: a result of that role has a source (P6).
    let mut plan = every_frame(&CompileOptions::default()).plan;
    plan.tenants[SIGNAL.index()].sources.clear();
    assert_eq!(refused(plan).invariant(), 6);
}

#[test]
fn a_source_that_is_not_due_in_the_frame_is_refused() {
    let half = Rate { divisor: 2, phase: 0 };
    // Both at half rate: legal. Then signal claims every frame, or the other half.
    let plan = compile(&CompileOptions::default(), [half, half]).unwrap().plan;
    let mut often = plan.clone();
    often.tenants[SIGNAL.index()].rate = Rate::EVERY_FRAME;
    often.cycle[1].tenants.push(SIGNAL);
    let error = refused(often);
    assert!(
        matches!(
            error,
            CheckError::Order(OrderError::Source {
                frame: 1,
                tenant: SIGNAL,
                source_tenant: SCOUT
            })
        ),
        "{error}"
    );
    // The planner says so before it comes to that.
    let early = compile(&CompileOptions::default(), [half, Rate::EVERY_FRAME]).unwrap_err();
    assert!(matches!(early, PlannerError::Schedule(_)), "{early}");
}

#[test]
fn ports_and_operands_of_crops_are_checked() {
    let plan = every_frame(&CompileOptions::default()).plan;
    let (signal, cropping) = (SIGNAL.index(), crop_operator(&plan));
    let roles: Vec<Role> = plan.tenants[signal].outputs.iter().map(|p| p.role).collect();
    assert_eq!(roles, [Role::TopValues, Role::TopIndices, Role::CropRows, Role::Detections]);
    type Change = fn(&mut Plan, usize, usize);
    let changes: [(&str, u8, Change); 8] = [
        ("no rows", 6, |p, signal, _| drop(p.tenants[signal].outputs.remove(2))),
        ("no detections", 6, |p, signal, _| drop(p.tenants[signal].outputs.remove(3))),
        ("rows twice", 6, |p, signal, _| {
            let rows = p.tenants[signal].outputs[2].clone();
            p.tenants[signal].outputs.push(rows);
        }),
        ("another camera than its tenant's", 6, |p, signal, _| {
            p.tenants[signal].cameras = vec![CameraId(1)]
        }),
        ("a camera that is not there", 1, |p, _, cropping| {
            if let Primitive::Crop(c) = &mut p.operators[cropping].calls[0].primitive {
                c.camera = CameraId(9);
            }
        }),
        ("no class", 6, |p, _, cropping| {
            if let Primitive::Crop(c) = &mut p.operators[cropping].calls[0].primitive {
                c.classes = 0;
            }
        }),
        ("a margin below 0", 6, |p, _, cropping| {
            if let Primitive::Crop(c) = &mut p.operators[cropping].calls[0].primitive {
                c.margin.0 = -0.1;
            }
        }),
        ("count and detections exchanged", 6, |p, _, cropping| {
            p.operators[cropping].calls[0].inputs.swap(1, 2)
        }),
    ];
    for (name, invariant, change) in changes {
        let mut changed = plan.clone();
        change(&mut changed, signal, cropping);
        let error = refused(changed);
        assert_eq!(error.invariant(), invariant, "{name}: {error}");
    }
    assert!(matches!(plan.operators[cropping].calls[0].inputs[1], Operand::View(v)
        if v == plan.tenants[SCOUT.index()].outputs[0].view));
}

#[test]
fn a_number_of_crops_that_a_network_does_not_take_is_refused() {
    let table = cameras();
    let scout = attach(pictures(&[1, 3, 32, 32], &[1, 21, 7]), &card(yolox(12)), &[CameraId(0)], &table).unwrap();
    let source = source(&scout);
    let asked = |count: Option<u32>| {
        let mut card = card(classes(VALUES, false));
        card.input.crops = Some(CropCard {
            classes: vec!["sign".to_owned()],
            margin: MARGIN,
            count,
        });
        attach_crops(values(), &card, &source, &table)
    };
    assert!(asked(None).is_ok() && asked(Some(BATCH)).is_ok());
    let error = asked(Some(BATCH - 1)).unwrap_err().to_string();
    assert!(error.contains("but 4 crops are asked for"), "{error}");
}
