//! Hand-built plans: networks of row-wise primitives over `[1,1,H,W]` pictures, scheduled in any legal way.
//!
//! A [`Net`] says what is computed; [`Decisions`] say how it is cut and scheduled. The same nets under any decisions have
//! the same bits, which is what the tests of the executor rest on.

use platoon::board::{BackendKind, BoardRecord};
use platoon::ids::*;
use platoon::plan::deployment::Deployment;
use platoon::plan::format::*;
use platoon::plan::table::{Entry, Table};
use platoon::plan::tactic::{Target, arithmetic_class};
use platoon::primitive::{Binary, PoolKind, Primitive, Region, Scalar, Unary, Window};
use platoon::task::{Rate, ResultKind, Urgency};
use platoon::tensor::{DType, Layout, Shape};
use platoon::units::Nanos;

/// What feeds a network.
#[derive(Clone, Copy)]
pub enum Feed {
    /// A camera's picture, gray.
    Camera(u16),
    /// A tensor input.
    Input,
    /// The difference of two tensor inputs.
    Difference,
    /// The last value of an earlier network of the set, which becomes its source.
    Net(usize),
}

/// One layer.
#[derive(Clone, Copy)]
pub enum Layer {
    /// Largest of three rows: every row needs its neighbours.
    Max3,
    /// A leaky step and a clip.
    Leak(f32),
    /// Adds the value of two layers before.
    Skip,
    /// Adds what the same layer gave in the network's frame before, times a half: a persistent buffer.
    Remember,
}

/// One network.
#[derive(Clone)]
pub struct Net {
    pub name: &'static str,
    pub feed: Feed,
    pub rate: Rate,
    pub layers: Vec<Layer>,
}

/// How the nets are cut and scheduled.
#[derive(Clone)]
pub struct Decisions {
    pub streams: usize,
    /// Of operator `n`: number of row bands.
    pub chunks: fn(usize) -> u32,
    /// Of operator `n`: launch width.
    pub width: fn(usize) -> u16,
    /// Operators in a segment.
    pub segment: usize,
    /// Stream of segment `s` of net `n`.
    pub stream: fn(usize, usize) -> usize,
}

impl Decisions {
    /// One stream, whole operators, one segment a network.
    pub fn plain() -> Decisions {
        Decisions {
            streams: 1,
            chunks: |_| 1,
            width: |_| 0,
            segment: usize::MAX,
            stream: |_, _| 0,
        }
    }
}

pub const HEIGHT: u32 = 24;
pub const WIDTH: u32 = 10;
pub const PIXELS: usize = (HEIGHT * WIDTH) as usize;

/// The board of all hand-built plans.
pub fn board() -> BoardRecord {
    BoardRecord {
        name: "bench".into(),
        backend: BackendKind::Cpu,
        architecture: std::env::consts::ARCH.into(),
        units: 8,
        memory_budget: 1 << 30,
        macs_per_ns: 1.0,
        bytes_per_ns: 1.0,
        issue: Nanos(100),
    }
}

/// `count` gray cameras of the nets' size.
pub fn cameras(count: u16) -> Vec<Camera> {
    let camera = |c| Camera {
        name: format!("camera{c}"),
        max_width: WIDTH,
        max_height: HEIGHT,
        bytes: PIXELS as u64,
    };
    (0..count).map(camera).collect()
}

/// A deployment of these plans; the first is the default.
pub fn deploy(slots: u16, plans: Vec<Plan>) -> Deployment {
    let table = Table {
        board: board(),
        backend: BackendKind::Cpu,
        default_task_set: plans[0].task_set.clone(),
        slots,
        cameras: plans[0].cameras.clone(),
        entries: plans.iter().map(Entry::of).collect(),
    };
    Deployment::assemble(table, plans, Vec::new()).unwrap_or_else(|e| panic!("the plan is not legal: {e}"))
}

struct Builder {
    plan: Plan,
}

/// The plan of `nets` under `decisions`.
pub fn plan(task_set: &str, camera_count: u16, nets: &[Net], decisions: &Decisions) -> Plan {
    let mut b = Builder {
        plan: Plan {
            task_set: task_set.into(),
            board: Digest::of_board(&board()),
            source: Digest::of(task_set.as_bytes()),
            kernels: None,
            searcher: "hand".into(),
            cameras: cameras(camera_count),
            tenants: Vec::new(),
            weight_files: Vec::new(),
            sections: Vec::new(),
            buffers: Vec::new(),
            operators: Vec::new(),
            streams: (0..decisions.streams)
                .map(|s| Stream {
                    priority: s as u8,
                    units: 0,
                })
                .collect(),
            cycle: Vec::new(),
            arena_bytes: 0,
            persistent_bytes: 0,
            input_bytes: 0,
            output_bytes: 0,
            prediction: Prediction {
                basis: Basis::Estimated,
                best_effort: true,
                frames: Vec::new(),
            },
        },
    };
    let mut operators: Vec<Vec<OperatorId>> = Vec::new();
    let mut last: Vec<View> = Vec::new();
    for net in nets {
        let (ops, value) = b.net(net, &last, decisions);
        operators.push(ops);
        last.push(value);
    }
    let cycle = nets.iter().fold(1, |n, net| lcm(n, u64::from(net.rate.divisor)));
    for frame in 0..cycle {
        b.frame(frame, nets, &operators, decisions);
    }
    b.plan
}

fn lcm(a: u64, b: u64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    a / gcd(a, b) * b
}

impl Builder {
    fn shape() -> Shape {
        Shape::new(&[1, 1, HEIGHT, WIDTH]).unwrap()
    }

    fn view(&mut self, dtype: DType, space: fn(u64) -> Space) -> View {
        let bytes = PIXELS as u64 * dtype.bytes();
        let total = match space(0) {
            Space::Arena { .. } => &mut self.plan.arena_bytes,
            Space::Persistent { .. } => &mut self.plan.persistent_bytes,
            Space::Input { .. } => &mut self.plan.input_bytes,
            _ => &mut self.plan.output_bytes,
        };
        let offset = *total;
        *total += bytes.next_multiple_of(64);
        self.buffer(dtype, space(offset), bytes)
    }

    fn buffer(&mut self, dtype: DType, space: Space, bytes: u64) -> View {
        self.plan.buffers.push(Buffer { space, bytes });
        View {
            buffer: BufferId(self.plan.buffers.len() as u32 - 1),
            origin: 0,
            dtype,
            layout: Layout::contiguous(Self::shape()),
        }
    }

    fn operator(&mut self, tenant: usize, calls: &[(Primitive, Vec<Operand>)], output: View, decisions: &Decisions) -> OperatorId {
        let n = self.plan.operators.len();
        let bands = (decisions.chunks)(n).clamp(1, HEIGHT);
        let call = |(primitive, inputs): &(Primitive, Vec<Operand>)| Call {
            primitive: *primitive,
            inputs: inputs.clone(),
            dtype: output.dtype,
            shape: Self::shape(),
            rounding: Rounding::Kept,
        };
        let mut operator = Operator {
            tenant: TenantId(tenant as u16),
            name: format!("operator{n}"),
            calls: calls.iter().map(call).collect(),
            outputs: vec![output],
            class: ArithmeticClass {
                family: Family::Fma,
                split_k: 1,
            },
            tactic: Tactic::of(Kernel::Generic),
            width: (decisions.width)(n),
            chunks: (0..bands)
                .map(|i| Region {
                    batch: 0..1,
                    rows: i * HEIGHT / bands..(i + 1) * HEIGHT / bands,
                })
                .collect(),
        };
        operator.class = arithmetic_class(&self.plan, &operator, Target::Cpu);
        self.plan.operators.push(operator);
        OperatorId(n as u32)
    }

    /// The operators of a net in order, and its last value.
    fn net(&mut self, net: &Net, others: &[View], decisions: &Decisions) -> (Vec<OperatorId>, View) {
        let t = self.plan.tenants.len();
        let arena = |offset| Space::Arena { offset };
        let (feed, cameras, sources) = match net.feed {
            Feed::Camera(c) => (
                self.buffer(DType::U8, Space::Camera(CameraId(c)), PIXELS as u64),
                vec![CameraId(c)],
                vec![],
            ),
            Feed::Input | Feed::Difference => (self.view(DType::F32, |offset| Space::Input { offset }), vec![], vec![]),
            Feed::Net(n) => (others[n], vec![], vec![TenantId(n as u16)]),
        };
        let mut operators = Vec::new();
        let first = self.view(DType::F32, arena);
        let (mut entrance, mut inputs) = (Primitive::Copy, vec![feed]);
        if matches!(net.feed, Feed::Difference) {
            entrance = Primitive::Binary(Binary::Sub);
            inputs.push(self.view(DType::F32, |offset| Space::Input { offset }));
        }
        let operands = inputs.iter().map(|view| Operand::View(*view)).collect();
        operators.push(self.operator(t, &[(entrance, operands)], first, decisions));
        let mut values = vec![first];
        for layer in &net.layers {
            let x = *values.last().unwrap();
            let before = values[values.len().saturating_sub(2)];
            let (x, before) = (Operand::View(x), Operand::View(before));
            let out = self.view(DType::F32, arena);
            match *layer {
                Layer::Max3 => {
                    let mut window = Window::new(&[3, 1]);
                    (window.pad_begin[0], window.pad_end[0]) = (1, 1);
                    let kind = PoolKind::Max { column_major: false };
                    operators.push(self.operator(t, &[(Primitive::Pool { kind, window }, vec![x])], out, decisions));
                }
                Layer::Leak(alpha) => {
                    let leak = Primitive::Unary(Unary::LeakyRelu(Scalar(alpha)));
                    let clip = Primitive::Unary(Unary::Clip(Scalar(-300.0), Scalar(300.0)));
                    let calls = [(leak, vec![x]), (clip, vec![Operand::Inner(0)])];
                    operators.push(self.operator(t, &calls, out, decisions));
                }
                Layer::Skip => {
                    operators.push(self.operator(t, &[(Primitive::Binary(Binary::Sub), vec![x, before])], out, decisions));
                }
                Layer::Remember => {
                    let state = self.view(DType::F32, |offset| Space::Persistent { offset });
                    let half = Primitive::Unary(Unary::HardSigmoid(Scalar(0.25), Scalar(0.5)));
                    let sum = Primitive::Binary(Binary::Add);
                    let calls = [(half, vec![Operand::View(state)]), (sum, vec![Operand::Inner(0), x])];
                    operators.push(self.operator(t, &calls, out, decisions));
                    operators.push(self.operator(t, &[(Primitive::Copy, vec![Operand::View(out)])], state, decisions));
                }
            }
            values.push(out);
        }
        let value = *values.last().unwrap();
        let result = self.view(DType::F32, |offset| Space::Output { offset });
        operators.push(self.operator(t, &[(Primitive::Copy, vec![Operand::View(value)])], result, decisions));
        let port = |name: &str, view| Port {
            name: name.into(),
            image: 0,
            role: Role::Tensor,
            view,
            labels: Vec::new(),
            fit: None,
            widened: false,
        };
        self.plan.tenants.push(Tenant {
            name: net.name.into(),
            model: "hand-built".into(),
            cameras,
            rate: net.rate,
            urgency: Urgency {
                priority: 1,
                deadline: None,
            },
            kind: ResultKind::Tensors,
            sources,
            inputs: match net.feed {
                Feed::Input | Feed::Difference => inputs.iter().map(|view| port("x", *view)).collect(),
                _ => vec![],
            },
            outputs: vec![port("y", result)],
        });
        (operators, value)
    }

    /// One frame schedule. Segments are issued net by net in turn, each net's in order, and joined by sync points.
    fn frame(&mut self, frame: u64, nets: &[Net], operators: &[Vec<OperatorId>], decisions: &Decisions) {
        let due: Vec<usize> = (0..nets.len()).filter(|&n| nets[n].rate.due(frame)).collect();
        let mut schedule = FrameSchedule {
            tenants: due.iter().map(|&n| TenantId(n as u16)).collect(),
            ..FrameSchedule::default()
        };
        let mut issued: Vec<Vec<SegmentId>> = vec![Vec::new(); nets.len()];
        let cut: Vec<Vec<&[OperatorId]>> = operators
            .iter()
            .map(|ops| ops.chunks(decisions.segment.min(ops.len())).collect())
            .collect();
        let mut left: usize = due.iter().map(|&n| cut[n].len()).sum();
        while left > 0 {
            for &n in &due {
                let s = issued[n].len();
                // A net that reads another starts after all of it was issued.
                let source = match nets[n].feed {
                    Feed::Net(source) if s == 0 => Some(source),
                    _ => None,
                };
                let ready = source.is_none_or(|source| issued[source].len() == cut[source].len());
                if s == cut[n].len() || !ready {
                    continue;
                }
                let id = SegmentId(schedule.segments.len() as u32);
                let after = issued[n].last().or_else(|| source.and_then(|source| issued[source].last()));
                if let Some(&after) = after {
                    schedule.syncs.push(SyncPoint {
                        after: vec![after],
                        before: vec![id],
                    });
                }
                let steps = cut[n][s].iter().flat_map(|&operator| {
                    let chunks = self.plan.operators[operator.index()].chunks.len() as u16;
                    (0..chunks).map(move |chunk| Step { operator, chunk })
                });
                schedule.segments.push(Segment {
                    tenant: TenantId(n as u16),
                    stream: StreamId(((decisions.stream)(n, s) % decisions.streams) as u16),
                    steps: steps.collect(),
                });
                issued[n].push(id);
                left -= 1;
            }
        }
        self.plan.prediction.frames.push(FramePrediction {
            total: Nanos(1000),
            finish: vec![Nanos(1000); due.len()],
            misses: Vec::new(),
        });
        self.plan.cycle.push(schedule);
    }
}
