//! Every invariant, broken by one change to a legal plan, is named by its number.

use super::sample::{self, buffer as b, operator as o, rows, sync};
use platoon::ids::*;
use platoon::plan::check::check;
use platoon::plan::format::*;
use platoon::primitive::{Primitive, Region, Unary, Window};
use platoon::task::{Rate, ResultKind};
use platoon::tensor::{DType, Layout};
use platoon::units::Nanos;

type Change = fn(&mut Plan);

/// Applies each change to the sample and demands a refusal with this number; gives the messages.
fn refused(invariant: u8, changes: &[(&str, Change)]) {
    for (what, change) in changes {
        let mut plan = sample::plan();
        change(&mut plan);
        assert_ne!(plan, sample::plan(), "{what}: changes nothing");
        match check(plan) {
            Ok(_) => panic!("{what}: passed"),
            Err(error) => {
                assert_eq!(error.invariant(), invariant, "{what}: {error}");
                assert!(error.to_string().starts_with(&format!("P{invariant}: ")), "{what}: {error}");
            }
        }
    }
}

fn input_view(plan: &mut Plan, operator: usize, call: usize, input: usize) -> &mut View {
    match &mut plan.operators[operator].calls[call].inputs[input] {
        Operand::View(view) => view,
        Operand::Inner(_) => panic!("an inner operand"),
    }
}

#[test]
fn p1_references() {
    refused(
        1,
        &[
            ("tenant's camera", |p| p.tenants[2].cameras[0] = CameraId(1)),
            ("tenant's source", |p| p.tenants[1].sources[0] = TenantId(9)),
            ("result's buffer", |p| p.tenants[0].outputs[0].view.buffer = BufferId(99)),
            ("section's file", |p| p.sections[0].file = 1),
            ("buffer's section", |p| p.buffers[b::BIAS].space = Space::Weights(SectionId(2))),
            ("buffer's camera", |p| p.buffers[b::IMAGE].space = Space::Camera(CameraId(3))),
            ("operator's tenant", |p| p.operators[0].tenant = TenantId(3)),
            ("operand's buffer", |p| input_view(p, o::CONV, 0, 0).buffer = BufferId(u32::MAX)),
            ("output's buffer", |p| p.operators[0].outputs[0].buffer = BufferId(15)),
            ("frame's tenant", |p| p.cycle[0].tenants[1] = TenantId(7)),
            ("segment's tenant", |p| p.cycle[0].segments[0].tenant = TenantId(7)),
            ("segment's stream", |p| p.cycle[0].segments[0].stream = StreamId(2)),
            ("step's operator", |p| p.cycle[0].segments[0].steps[0].operator = OperatorId(10)),
            ("step's chunk", |p| p.cycle[0].segments[0].steps[0].chunk = 2),
            ("sync point's segment", |p| p.cycle[1].syncs[0].after[0] = SegmentId(3)),
            ("preparation's camera", |p| {
                if let Primitive::Prepare(prepare) = &mut p.operators[o::PREPARE].calls[0].primitive {
                    prepare.camera = CameraId(1);
                }
            }),
        ],
    );
}

#[test]
fn p2_chunks() {
    refused(
        2,
        &[
            ("gap", |p| p.operators[0].chunks = vec![rows(0, 4), rows(5, 8)]),
            ("overlap", |p| p.operators[0].chunks = vec![rows(0, 6), rows(5, 8)]),
            ("order", |p| p.operators[0].chunks = vec![rows(5, 8), rows(0, 5)]),
            ("short", |p| p.operators[0].chunks = vec![rows(0, 5), rows(5, 7)]),
            ("long", |p| p.operators[0].chunks = vec![rows(0, 5), rows(5, 9)]),
            ("empty", |p| p.operators[0].chunks = vec![rows(0, 0), rows(0, 8)]),
            ("backward range", |p| p.operators[0].chunks = vec![rows(0, 5), rows(8, 5)]),
            ("batch", |p| p.operators[0].chunks[1] = Region { batch: 0..2, rows: 5..8 }),
            ("an axis that is needed whole", |p| {
                p.operators[o::PREPARE].chunks = vec![rows(0, 2), rows(2, 4)];
                p.operators[o::PREPARE].calls[0].shape = sample::shape(&[1, 3, 4, 4]);
                p.operators[o::PREPARE].calls[0].primitive = Primitive::Softmax { axis: 2 };
                p.operators[o::PREPARE].calls[0].inputs = vec![Operand::View(sample::pixels(b::INPUT, &[1, 3, 4, 4]))];
            }),
        ],
    );
}

#[test]
fn p3_order() {
    refused(
        3,
        &[
            ("a tenant that is not due", |p| p.cycle.swap(0, 1)),
            ("tenants in disorder", |p| p.cycle[1].tenants.reverse()),
            ("a source that does not run", |p| {
                p.tenants[0].rate = Rate { divisor: 2, phase: 0 };
                p.cycle[1].tenants = vec![TenantId(1), TenantId(2)];
            }),
            ("its own source", |p| p.tenants[1].sources.push(TenantId(1))),
            ("a missing step", |p| {
                p.cycle[0].segments[0].steps.pop();
            }),
            ("a missing segment", |p| drop(p.cycle[0].segments.pop())),
            ("a step twice", |p| {
                let step = p.cycle[0].segments[0].steps[0];
                p.cycle[0].segments[0].steps.push(step);
            }),
            ("an empty segment", |p| {
                let mut segment = p.cycle[0].segments[0].clone();
                segment.steps.clear();
                p.cycle[0].segments.push(segment);
            }),
            ("a step of another tenant", |p| p.cycle[1].segments[2].tenant = TenantId(0)),
            ("a segment of a tenant that is not due", |p| {
                let segment = p.cycle[1].segments[2].clone();
                p.cycle[0].segments.push(segment);
            }),
            ("a wait for a later segment", |p| p.cycle[1].syncs.push(sync(&[2], &[0]))),
            ("a wait for itself", |p| p.cycle[1].syncs.push(sync(&[1], &[1]))),
        ],
    );
}

#[test]
fn p4_reads() {
    refused(
        4,
        &[
            ("no sync point", |p| p.cycle[1].syncs.clear()),
            ("a sync point with the wrong segment", |p| {
                p.cycle[1].syncs[0].after = vec![SegmentId(1)]
            }),
            ("steps in the wrong order", |p| p.cycle[0].segments[0].steps.swap(3, 4)),
            // Pooled rows 0 to 3 need convolved rows 0 to 4, and row 4 is now the second chunk's.
            ("a halo row that is not there yet", |p| {
                p.operators[0].chunks = vec![rows(0, 4), rows(4, 8)];
                p.cycle[0].segments[0].steps.swap(1, 2);
            }),
            ("no source", |p| p.tenants[1].sources.clear()),
            ("bytes that nobody writes", |p| {
                p.buffers[b::SUM].bytes = 1088;
                p.arena_bytes = 4096;
                p.buffers[b::PREPARED].space = Space::Arena { offset: 2304 };
                p.buffers[b::MEAN].space = Space::Arena { offset: 2560 };
                input_view(p, o::SCOUT_OUT, 0, 0).origin = 4;
            }),
            ("bytes written twice", |p| {
                p.operators[o::RECALL].outputs[0].buffer = BufferId(b::SCOUT_OUT as u32);
                p.tenants[0].outputs.pop();
            }),
            ("a result that is not written", |p| {
                p.buffers[b::MEMORY_OUT].bytes = 1024;
                p.operators[o::RECALL].outputs[0].buffer = BufferId(b::SUM as u32 + 8);
                p.buffers[12] = Buffer {
                    space: Space::Arena { offset: 4096 },
                    bytes: 1024,
                };
                p.arena_bytes = 5120;
                let mean = BufferId(p.buffers.len() as u32);
                p.buffers.push(Buffer {
                    space: Space::Arena { offset: 2240 },
                    bytes: 12,
                });
                p.operators[o::MEAN].outputs[0].buffer = mean;
                input_view(p, o::TOP, 0, 0).buffer = mean;
            }),
            ("a result written by another tenant", |p| {
                p.tenants[2].outputs = {
                    let mut port = p.tenants[0].outputs[0].clone();
                    port.name = "stolen".to_string();
                    p.tenants[2].kind = ResultKind::Tensors;
                    vec![port]
                }
            }),
            ("an operator that reads what it writes", |p| {
                input_view(p, o::SCOUT_OUT, 0, 0).buffer = BufferId(b::SCOUT_OUT as u32);
            }),
            ("persistent memory without an order", |p| {
                // The follower writes it beside the reading scout, which runs on in a segment of its own.
                let tail = p.cycle[1].segments[0].steps.split_off(5);
                let segment = Segment {
                    tenant: TenantId(0),
                    stream: StreamId(0),
                    steps: tail,
                };
                p.cycle[1].segments.push(segment);
            }),
            ("persistent memory that is never written", |p| {
                p.operators[o::REMEMBER].outputs[0] = sample::dense(b::SUM, &[1, 4, 8, 8]);
                p.operators[o::REMEMBER].outputs[0].buffer = BufferId(p.buffers.len() as u32);
                p.buffers.push(Buffer {
                    space: Space::Arena { offset: 4096 },
                    bytes: 1024,
                });
                p.arena_bytes = 5120;
            }),
        ],
    );
}

#[test]
fn p5_memory() {
    refused(
        5,
        &[
            ("alignment", |p| p.buffers[b::MEAN].space = Space::Arena { offset: 2244 }),
            ("outside the arena", |p| p.arena_bytes = 2048),
            ("offset overflow", |p| {
                p.buffers[b::CONV].space = Space::Arena { offset: u64::MAX - 63 }
            }),
            ("outside the outputs", |p| p.output_bytes = 3136),
            ("larger than the section", |p| p.buffers[b::BIAS].bytes = 32),
            ("larger than the image", |p| p.buffers[b::IMAGE].bytes = 9217),
            ("live at once on one stream", |p| {
                p.buffers[b::SUM].space = Space::Arena { offset: 64 }
            }),
            ("live at once on two streams", |p| {
                p.buffers[b::PREPARED].space = Space::Arena { offset: 960 }
            }),
            ("read and written by one operator", |p| {
                p.buffers[b::MEAN].space = Space::Arena { offset: 2176 }
            }),
            ("results overlap", |p| {
                p.buffers[b::MEMORY_OUT].space = Space::Output { offset: 960 }
            }),
        ],
    );
}

#[test]
fn p6_counts_shapes_and_ports() {
    refused(
        6,
        &[
            ("no tenants", |p| p.tenants.clear()),
            ("no streams", |p| p.streams.clear()),
            ("no cycle", |p| p.cycle.clear()),
            ("a long name", |p| p.tenants[0].name = "x".repeat(513)),
            ("a name twice", |p| p.tenants[1].name = "scout".to_string()),
            ("a huge buffer", |p| p.buffers[0].bytes = u64::MAX),
            ("a huge arena", |p| p.arena_bytes = u64::MAX),
            ("nine primitives", |p| {
                p.operators[1].calls = vec![p.operators[1].calls[0].clone(); 9]
            }),
            ("no chunks", |p| p.operators[0].chunks.clear()),
            ("no outputs", |p| p.operators[0].outputs.clear()),
            ("rate 0", |p| p.tenants[1].rate.divisor = 0),
            ("phase", |p| p.tenants[1].rate.phase = 2),
            ("cycle no multiple", |p| p.tenants[1].rate = Rate { divisor: 3, phase: 1 }),
            ("a camera without pixels", |p| p.cameras[0].max_width = 0),
            ("an input of another shape", |p| {
                *input_view(p, o::FOLLOW, 0, 0) = sample::pixels(b::SUM, &[1, 4, 4, 16])
            }),
            ("an input of another type", |p| input_view(p, o::FOLLOW, 0, 0).dtype = DType::I32),
            ("an output of another shape", |p| {
                p.operators[o::FOLLOW].outputs[0] = sample::pixels(b::REUSED, &[1, 8, 4, 8])
            }),
            ("an attribute", |p| {
                if let Primitive::Conv { window, .. } = &mut p.operators[0].calls[0].primitive {
                    window.stride[0] = 0;
                }
            }),
            ("too many taps", |p| {
                let mut window = Window::new(&[u32::MAX / 2; 3]);
                (window.pad_begin, window.pad_end) = ([u32::MAX / 2 - 1; 3], [u32::MAX / 2 - 1; 3]);
                if let Primitive::Pool { window: w, .. } = &mut p.operators[o::SUM].calls[0].primitive {
                    *w = window;
                }
            }),
            ("an inner value of a later primitive", |p| {
                p.operators[o::SUM].calls[0].inputs[0] = Operand::Inner(1)
            }),
            ("an inner value that nobody reads", |p| {
                p.operators[o::SUM].calls[1].inputs[0] = Operand::View(sample::pixels(b::INPUT, &[1, 4, 8, 8]));
            }),
            ("a view behind its buffer", |p| input_view(p, o::FOLLOW, 0, 0).origin = 1),
            ("a view before its buffer", |p| {
                input_view(p, o::FOLLOW, 0, 0).layout = Layout::new(sample::shape(&[1, 4, 8, 8]), &[0, 1, 32, -4]).unwrap();
            }),
            ("a stride out of bounds", |p| {
                input_view(p, o::FOLLOW, 0, 0).layout = Layout::new(sample::shape(&[1, 4, 8, 8]), &[0, 1, i64::MAX, 4]).unwrap();
            }),
            ("an output that folds", |p| {
                p.operators[o::FOLLOW].outputs[0].layout = Layout::new(sample::shape(&[1, 4, 8, 8]), &[0, 1, 4, 4]).unwrap();
            }),
            ("an output broadcast", |p| {
                p.operators[o::FOLLOW].outputs[0].layout = Layout::new(sample::shape(&[1, 4, 8, 8]), &[0, 0, 32, 4]).unwrap();
            }),
            ("an output in the inputs", |p| {
                p.operators[o::FOLLOW].outputs[0].buffer = BufferId(b::INPUT as u32)
            }),
            ("another tenant's camera", |p| p.tenants[2].cameras.clear()),
            ("an image that is none", |p| {
                input_view(p, o::PREPARE, 0, 0).buffer = BufferId(b::INPUT as u32)
            }),
            ("a tactic that does not fit", |p| {
                p.operators[o::FOLLOW].tactic.kernel = Kernel::MatMul
            }),
            ("a tile that is not on the menu", |p| {
                p.operators[o::FOLLOW].tactic.tile = (65_535, 1)
            }),
            ("another arithmetic class", |p| p.operators[o::FOLLOW].class.split_k = 2),
            ("a result in the arena", |p| {
                p.tenants[0].outputs[0].view.buffer = BufferId(b::SUM as u32)
            }),
            ("a result in channels-last order", |p| {
                p.tenants[0].outputs[0].view = sample::pixels(b::SCOUT_OUT, &[1, 4, 8, 8])
            }),
            ("a role of another kind", |p| p.tenants[0].kind = ResultKind::Segmentation),
            ("scores without classes", |p| drop(p.tenants[2].outputs.pop())),
            ("a picture outside the batch", |p| p.tenants[2].outputs[0].image = 1),
            ("a widened float", |p| p.tenants[0].outputs[0].widened = true),
            ("an unknown operator in the middle", |p| {
                let first = p.operators[o::TOP].calls[0].clone();
                p.operators[o::TOP].calls.insert(0, first);
            }),
            ("a type that the first output does not have", |p| {
                p.operators[o::FOLLOW].calls[0].primitive = Primitive::Unary(Unary::Exp);
                p.operators[o::FOLLOW].calls[0].dtype = DType::F16;
            }),
        ],
    );
}

#[test]
fn p7_sections() {
    refused(
        7,
        &[
            ("alignment", |p| p.sections[1].offset += 4),
            ("end", |p| p.sections[1].bytes = 4096),
            ("overflow", |p| p.sections[1].offset = u64::MAX - 63),
            ("a short file", |p| p.weight_files[0].bytes = 64),
        ],
    );
}

#[test]
fn p8_prediction() {
    refused(
        8,
        &[
            ("a missing frame", |p| drop(p.prediction.frames.pop())),
            ("a missing finish", |p| {
                p.prediction.frames[0].finish.pop();
            }),
            ("a finish after the end", |p| p.prediction.frames[0].total = Nanos(1)),
            ("a missed deadline that is not stored", |p| {
                p.tenants[0].urgency.deadline = Some(Nanos(1))
            }),
            ("a miss where there is none", |p| p.prediction.frames[1].misses = vec![0]),
            ("a miss of no tenant", |p| p.prediction.frames[1].misses = vec![9]),
            ("a missed deadline that is not a wish", |p| {
                p.tenants[0].urgency.deadline = Some(Nanos(1));
                p.prediction.frames.iter_mut().for_each(|f| f.misses = vec![0]);
            }),
        ],
    );
}
