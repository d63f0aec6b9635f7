//! A small legal plan with everything in it: chunks with halos, two streams, a sync point, a cycle of two frames,
//! a dependent tenant, persistent memory, arena reuse, weights, a camera.

use platoon::board::{BackendKind, BoardRecord};
use platoon::ids::*;
use platoon::plan::format::*;
use platoon::plan::table::{Entry, Table};
use platoon::plan::weights::WeightFileBuilder;
use platoon::primitive::{Binary, ColorOrder, Fit, Prepare, Primitive, ReduceKind, Region, Scalar, Unary, Window};
use platoon::task::{Rate, ResultKind, Urgency};
use platoon::tensor::{DType, Layout, Shape};
use platoon::units::Nanos;

/// Buffers of [`plan`], by what they hold.
pub mod buffer {
    pub const INPUT: usize = 0;
    pub const WEIGHTS: usize = 1;
    pub const BIAS: usize = 2;
    pub const CONV: usize = 3;
    pub const SUM: usize = 4;
    pub const SCOUT_OUT: usize = 5;
    pub const MEMORY: usize = 6;
    pub const MEMORY_OUT: usize = 7;
    /// Lies where [`CONV`] does: used only after the sync point.
    pub const REUSED: usize = 8;
    pub const FOLLOWER_OUT: usize = 9;
    pub const IMAGE: usize = 10;
    pub const PREPARED: usize = 11;
    pub const MEAN: usize = 12;
    pub const VALUES: usize = 13;
    pub const INDICES: usize = 14;
}

/// Operators of [`plan`], by what they do.
pub mod operator {
    pub const CONV: usize = 0;
    pub const SUM: usize = 1;
    pub const SCOUT_OUT: usize = 2;
    pub const RECALL: usize = 3;
    pub const FOLLOW: usize = 4;
    pub const FOLLOWER_OUT: usize = 5;
    pub const REMEMBER: usize = 6;
    pub const PREPARE: usize = 7;
    pub const MEAN: usize = 8;
    pub const TOP: usize = 9;
}

pub fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

pub fn view(buffer: usize, dtype: DType, layout: Layout) -> View {
    View {
        buffer: BufferId(buffer as u32),
        origin: 0,
        dtype,
        layout,
    }
}

/// A dense f32 tensor in C order.
pub fn dense(buffer: usize, dims: &[u32]) -> View {
    view(buffer, DType::F32, Layout::contiguous(shape(dims)))
}

/// A dense f32 tensor, channels last.
pub fn pixels(buffer: usize, dims: &[u32]) -> View {
    view(buffer, DType::F32, Layout::channels_last(shape(dims)))
}

pub fn call(primitive: Primitive, inputs: Vec<Operand>, output: &View) -> Call {
    Call {
        primitive,
        inputs,
        dtype: output.dtype,
        shape: output.layout.shape,
        rounding: Rounding::Kept,
    }
}

pub fn operator_of(tenant: u16, calls: Vec<Call>, outputs: Vec<View>) -> Operator {
    let chunks = vec![Region::whole(outputs[0].layout.shape)];
    Operator {
        tenant: TenantId(tenant),
        name: format!("node of tenant {tenant}"),
        calls,
        outputs,
        class: ArithmeticClass {
            family: Family::Fma,
            split_k: 1,
        },
        tactic: Tactic::of(Kernel::Generic),
        width: 0,
        chunks,
    }
}

/// An operator of one primitive with inputs in memory.
pub fn simple(tenant: u16, primitive: Primitive, inputs: &[View], outputs: &[View]) -> Operator {
    let inputs = inputs.iter().map(|v| Operand::View(*v)).collect();
    operator_of(tenant, vec![call(primitive, inputs, &outputs[0])], outputs.to_vec())
}

pub fn port(name: &str, role: Role, view: View) -> Port {
    Port {
        name: name.to_string(),
        image: 0,
        role,
        view,
        labels: Vec::new(),
        fit: None,
        widened: false,
    }
}

pub fn tenant(name: &str, kind: ResultKind, outputs: Vec<Port>) -> Tenant {
    Tenant {
        name: name.to_string(),
        model: format!("{name}_net"),
        cameras: Vec::new(),
        rate: Rate::EVERY_FRAME,
        urgency: Urgency {
            priority: 1,
            deadline: None,
        },
        kind,
        sources: Vec::new(),
        inputs: Vec::new(),
        outputs,
    }
}

pub fn rows(start: u32, end: u32) -> Region {
    Region {
        batch: 0..1,
        rows: start..end,
    }
}

pub fn steps(steps: &[(usize, u16)]) -> Vec<Step> {
    let step = |&(operator, chunk): &(usize, u16)| Step {
        operator: OperatorId(operator as u32),
        chunk,
    };
    steps.iter().map(step).collect()
}

pub fn segment(tenant: u16, stream: u16, list: &[(usize, u16)]) -> Segment {
    Segment {
        tenant: TenantId(tenant),
        stream: StreamId(stream),
        steps: steps(list),
    }
}

pub fn sync(after: &[u32], before: &[u32]) -> SyncPoint {
    SyncPoint {
        after: after.iter().map(|&s| SegmentId(s)).collect(),
        before: before.iter().map(|&s| SegmentId(s)).collect(),
    }
}

pub fn board() -> BoardRecord {
    BoardRecord {
        name: "bench".to_string(),
        backend: BackendKind::Cpu,
        architecture: "x86_64".to_string(),
        units: 2,
        memory_budget: 1 << 20,
        macs_per_ns: 20.0,
        bytes_per_ns: 10.0,
        issue: Nanos(2_000),
    }
}

/// The sections of the sample's weight file: weights `[4,4,3,3]` and bias `[4]`.
pub fn weights() -> (Vec<Section>, WeightFile, Vec<u8>) {
    let floats = |n: u32| (0..n).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect::<Vec<u8>>();
    let mut builder = WeightFileBuilder::new(0);
    let sections = vec![builder.push(&floats(144)), builder.push(&floats(4))];
    let (file, bytes) = builder.finish();
    (sections, file, bytes)
}

fn tenants() -> Vec<Tenant> {
    use buffer::*;
    let map = [1, 4, 8, 8];
    let mut scout = tenant(
        "scout",
        ResultKind::Tensors,
        vec![
            port("sum", Role::Tensor, dense(SCOUT_OUT, &map)),
            port("memory", Role::Tensor, dense(MEMORY_OUT, &map)),
        ],
    );
    scout.inputs = vec![port("x", Role::Tensor, dense(INPUT, &map))];
    scout.urgency.deadline = Some(Nanos(1_000_000));
    let mut follower = tenant(
        "follower",
        ResultKind::Tensors,
        vec![port("y", Role::Tensor, dense(FOLLOWER_OUT, &map))],
    );
    follower.rate = Rate { divisor: 2, phase: 1 };
    follower.sources = vec![TenantId(0)];
    let mut top = vec![
        port("values", Role::TopValues, dense(VALUES, &[1, 1])),
        port(
            "indices",
            Role::TopIndices,
            view(INDICES, DType::I32, Layout::contiguous(shape(&[1, 1]))),
        ),
    ];
    top[1].labels = ["stop", "yield", "none"].map(String::from).to_vec();
    let mut signal = tenant("signal", ResultKind::Classification, top);
    signal.cameras = vec![CameraId(0)];
    vec![scout, follower, signal]
}

fn buffers() -> Vec<Buffer> {
    let arena = |offset, bytes| (Space::Arena { offset }, bytes);
    let output = |offset, bytes| (Space::Output { offset }, bytes);
    let all = [
        (Space::Input { offset: 0 }, 1024),
        (Space::Weights(SectionId(0)), 576),
        (Space::Weights(SectionId(1)), 16),
        arena(0, 1024),
        arena(1024, 1024),
        output(0, 1024),
        (Space::Persistent { offset: 0 }, 1024),
        output(1024, 1024),
        arena(0, 1024),
        output(2048, 1024),
        (Space::Camera(CameraId(0)), 9216),
        arena(2048, 192),
        arena(2240, 12),
        output(3072, 4),
        output(3136, 4),
    ];
    all.iter().map(|&(space, bytes)| Buffer { space, bytes }).collect()
}

fn operators() -> Vec<Operator> {
    use buffer::*;
    let map = [1, 4, 8, 8];
    let mut window = Window::new(&[3, 3]);
    (window.pad_begin, window.pad_end) = ([1, 1, 0], [1, 1, 0]);
    let conv = Primitive::Conv { window, groups: 1 };
    let mut conv = simple(
        0,
        conv,
        &[pixels(INPUT, &map), pixels(WEIGHTS, &[4, 4, 3, 3]), dense(BIAS, &[4])],
        &[pixels(CONV, &map)],
    );
    conv.chunks = vec![rows(0, 5), rows(5, 8)];
    conv.tactic.kernel = Kernel::ConvIgemm;
    // A pooled window reads a halo of one row on each side of its chunk.
    let pool = Primitive::Pool {
        kind: platoon::primitive::PoolKind::Max { column_major: false },
        window,
    };
    let (from, to) = (pixels(CONV, &map), pixels(SUM, &map));
    let mut sum = operator_of(
        0,
        vec![
            call(pool, vec![Operand::View(from)], &to),
            call(
                Primitive::Binary(Binary::Add),
                vec![Operand::Inner(0), Operand::View(pixels(INPUT, &map))],
                &to,
            ),
        ],
        vec![to],
    );
    sum.chunks = vec![rows(0, 4), rows(4, 8)];
    let copy = |tenant, from, to| simple(tenant, Primitive::Copy, &[from], &[to]);
    let prepare = Primitive::Prepare(Prepare {
        camera: CameraId(0),
        fit: Fit::Stretch,
        fill: 0,
        order: ColorOrder::Rgb,
        mean: [Scalar(0.0); 3],
        std: [Scalar(255.0); 3],
    });
    let image = view(IMAGE, DType::U8, Layout::contiguous(shape(&[9216])));
    let mean = Primitive::Reduce {
        kind: ReduceKind::Mean,
        axes: 0b1100,
    };
    let indices = view(INDICES, DType::I32, Layout::contiguous(shape(&[1, 1])));
    vec![
        conv,
        sum,
        copy(0, pixels(SUM, &map), dense(SCOUT_OUT, &map)),
        copy(0, dense(MEMORY, &map), dense(MEMORY_OUT, &map)),
        simple(1, Primitive::Unary(Unary::Relu), &[pixels(SUM, &map)], &[pixels(REUSED, &map)]),
        copy(1, pixels(REUSED, &map), dense(FOLLOWER_OUT, &map)),
        copy(1, pixels(REUSED, &map), dense(MEMORY, &map)),
        simple(2, prepare, &[image], &[pixels(PREPARED, &[1, 3, 4, 4])]),
        simple(2, mean, &[pixels(PREPARED, &[1, 3, 4, 4])], &[pixels(MEAN, &[1, 3, 1, 1])]),
        simple(2, Primitive::TopK, &[dense(MEAN, &[1, 3])], &[dense(VALUES, &[1, 1]), indices]),
    ]
}

fn cycle() -> Vec<FrameSchedule> {
    let scout = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0)];
    let signal = segment(2, 1, &[(7, 0), (8, 0), (9, 0)]);
    vec![
        FrameSchedule {
            tenants: vec![TenantId(0), TenantId(2)],
            segments: vec![segment(0, 0, &scout), signal.clone()],
            syncs: Vec::new(),
        },
        FrameSchedule {
            tenants: vec![TenantId(0), TenantId(1), TenantId(2)],
            segments: vec![segment(0, 0, &scout), signal, segment(1, 1, &[(4, 0), (5, 0), (6, 0)])],
            syncs: vec![sync(&[0], &[2])],
        },
    ]
}

/// The legal plan.
pub fn plan() -> Plan {
    let (sections, weight_file, _) = weights();
    let finishes = |n: u64| FramePrediction {
        total: Nanos(300_000),
        finish: (1..=n).map(|i| Nanos(100_000 * i)).collect(),
        misses: Vec::new(),
    };
    Plan {
        task_set: "urban".to_string(),
        board: Digest::of_board(&board()),
        source: Digest::of(b"the sample"),
        kernels: None,
        searcher: "by hand".to_string(),
        cameras: vec![Camera {
            name: "front".to_string(),
            max_width: 64,
            max_height: 48,
            bytes: 9216,
        }],
        tenants: tenants(),
        weight_files: vec![weight_file],
        sections,
        buffers: buffers(),
        operators: operators(),
        streams: vec![Stream { priority: 2, units: 0 }, Stream { priority: 1, units: 0 }],
        cycle: cycle(),
        arena_bytes: 2304,
        persistent_bytes: 1024,
        input_bytes: 1024,
        output_bytes: 3200,
        prediction: Prediction {
            basis: Basis::Estimated,
            best_effort: false,
            frames: vec![finishes(2), finishes(3)],
        },
    }
}

/// A table of the given plans for [`board`].
pub fn table(plans: &[Plan]) -> Table {
    Table {
        board: board(),
        backend: BackendKind::Cpu,
        default_task_set: plans[0].task_set.clone(),
        slots: 2,
        cameras: plans[0].cameras.clone(),
        entries: plans.iter().map(Entry::of).collect(),
    }
}
