//! Programs of small schedules, command by command.

use super::*;
use crate::backend::cuda::bind::{Im2colMap, Kernel, TensorMap, TensorMaps, TiledMap};
use crate::backend::{FaultKind, SegmentWords};
use crate::plan::format::*;
use crate::primitive::{Primitive, Region};
use crate::task::{Rate, ResultKind, Urgency};
use crate::tensor::{DType, Layout as TensorLayout, Shape};

struct NoMaps;

impl TensorMaps for NoMaps {
    fn tiled(&self, _: &TiledMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(1))
    }

    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(1))
    }
}

struct Named(&'static str);

impl Kernel for Named {
    fn launches(&self, at: &Addresses<'_>, _: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        Ok(vec![Launch::new("unit", self.0, 4, width, 32, &at.workspace.address)])
    }
}

/// Two tenants on a stream each: the first reads camera 0 in two segments, the second tensors in one, after the first's
/// first segment. Sixteen bytes of everything.
fn plan() -> Plan {
    let shape = Shape::new(&[1, 16]).unwrap();
    let spaces = [
        Space::Camera(CameraId(0)),
        Space::Input { offset: 64 },
        Space::Arena { offset: 0 },
        Space::Output { offset: 0 },
        Space::Output { offset: 64 },
    ];
    let view = |buffer| View {
        buffer: crate::ids::BufferId(buffer),
        origin: 0,
        dtype: DType::U8,
        layout: TensorLayout::contiguous(shape),
    };
    let operator = |tenant, from, to| Operator {
        tenant: TenantId(tenant),
        calls: vec![Call {
            primitive: Primitive::Copy,
            inputs: vec![Operand::View(view(from))],
            dtype: DType::U8,
            shape,
            rounding: Rounding::Kept,
        }],
        outputs: vec![view(to)],
        chunks: vec![Region::whole(shape)],
        name: String::new(),
        class: ArithmeticClass {
            family: Family::Fma,
            split_k: 1,
        },
        tactic: Tactic::of(crate::plan::format::Kernel::Generic),
        width: 2,
    };
    let port = |buffer| Port {
        name: String::new(),
        image: 0,
        role: Role::Tensor,
        view: view(buffer),
        labels: Vec::new(),
        fit: None,
        widened: false,
    };
    let tenant = |cameras: &[CameraId], inputs: &[u32], output| Tenant {
        name: String::new(),
        model: String::new(),
        cameras: cameras.to_vec(),
        rate: Rate::EVERY_FRAME,
        urgency: Urgency {
            priority: 1,
            deadline: None,
        },
        kind: ResultKind::Tensors,
        sources: Vec::new(),
        inputs: inputs.iter().map(|&b| port(b)).collect(),
        outputs: vec![port(output)],
    };
    let segment = |tenant, operators: &[u32]| Segment {
        tenant: TenantId(tenant),
        stream: StreamId(tenant),
        steps: operators
            .iter()
            .map(|&o| Step {
                operator: OperatorId(o),
                chunk: 0,
            })
            .collect(),
    };
    Plan {
        task_set: String::new(),
        board: Digest([0; 32]),
        source: Digest([0; 32]),
        kernels: None,
        searcher: String::new(),
        cameras: vec![Camera {
            name: String::new(),
            max_width: 4,
            max_height: 4,
            bytes: 16,
        }],
        tenants: vec![tenant(&[CameraId(0)], &[], 3), tenant(&[], &[1], 4)],
        weight_files: Vec::new(),
        sections: Vec::new(),
        buffers: spaces.map(|space| Buffer { space, bytes: 16 }).to_vec(),
        operators: vec![operator(0, 0, 2), operator(0, 2, 3), operator(1, 1, 4)],
        streams: vec![Stream { priority: 1, units: 0 }, Stream { priority: 0, units: 0 }],
        cycle: vec![FrameSchedule {
            tenants: vec![TenantId(0), TenantId(1)],
            segments: vec![segment(0, &[0]), segment(0, &[1]), segment(1, &[2])],
            syncs: vec![SyncPoint {
                after: vec![SegmentId(0)],
                before: vec![SegmentId(2)],
            }],
        }],
        arena_bytes: 16,
        persistent_bytes: 0,
        input_bytes: 80,
        output_bytes: 80,
        prediction: Prediction {
            basis: Basis::Estimated,
            best_effort: true,
            frames: Vec::new(),
        },
    }
}

/// The program as text: lanes by name, launches by function.
fn told(faults: &[InjectedFault], change: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
    told_of(plan(), faults, change)
}

fn told_of(plan: Plan, faults: &[InjectedFault], change: impl FnOnce(&mut Frame<'_>)) -> Vec<String> {
    let kernels: Vec<Box<dyn Kernel>> = ["a0", "a1", "b0"].map(|n| Box::new(Named(n)) as Box<dyn Kernel>).into();
    let area = |address| Area { address, bytes: 80 };
    let images = [area(5000)];
    let pinned = [area(6000)];
    let mut frame = Frame {
        schedule: &plan.cycle[0],
        index: 0,
        kernels: &kernels,
        at: Addresses {
            plan: &plan,
            arena: area(1000),
            persistent: Area::default(),
            input: area(2000),
            output: area(3000),
            images: &images,
            weights: &[],
            packs: &[],
            slot: 4000,
            workspace: Area::default(),
            clusters: false,
            multiprocessors: 0,
            maps: &NoMaps,
        },
        workspaces: &[area(70), area(71)],
        block: 7000,
        pinned: Pinned {
            images: &pinned,
            input: area(6100),
            output: area(6200),
        },
        mapped: false,
        words: 8000,
        layout: Layout {
            places: Places { segments: 3 },
            trace: false,
        },
        segment_words: SegmentWords::Beside,
        early: false,
        faults,
    };
    change(&mut frame);
    let program = frame.program().unwrap();
    let names = ["root", "s0", "s1", "m0", "m1", "cam0", "t0", "t1"];
    let name = |lane: Lane| names[lane.0];
    let command = |c: &Command| match c {
        Command::Launch { lane, launch, early, .. } => {
            let launch = &program.launches[*launch];
            let number = |at: usize| u64::from_ne_bytes(launch.params[at..at + 8].try_into().unwrap());
            let count = match launch.function.as_str() {
                "mark" => launch.params[8].to_string(),
                "transfer" => format!(" {}>{}+{}", number(0), number(8), number(16)),
                _ => String::new(),
            };
            let early = if *early { " early" } else { "" };
            format!("{} {}{count}{early}", name(*lane), launch.function)
        }
        Command::Download { lane, bytes } => format!("{} down {}+{}", name(*lane), bytes.offset, bytes.bytes),
        Command::Record { lane, event } => format!("{} !{}", name(*lane), event.0),
        Command::Wait { lane, event } => format!("{} ?{}", name(*lane), event.0),
    };
    program.commands.iter().map(command).collect()
}

#[rustfmt::skip]
#[test]
fn a_frame_forks_from_the_root_and_joins_it_with_its_word_last() {
    let expected = [
        "root begin", "root !0", "cam0 ?0", "cam0 upload", "cam0 !1", "t1 ?0", "t1 transfer 6164>2064+16", "t1 !2",
        // The first segment waits for its image, and its start is marked beside it.
        "s0 ?1", "s0 !3", "m0 ?3", "m0 mark1", "s0 a0", "s0 !4",
        // The second follows at once: one launch marks the end of the first and the start of the second.
        "m0 ?4", "m0 mark2", "s0 a1", "s0 !5", "t0 ?5", "t0 transfer 3000>6200+16", "t0 mark1",
        // The other stream waits for its tensors and for the first segment.
        "s1 ?2", "s1 ?4", "s1 !6", "m1 ?6", "m1 mark1", "s1 b0", "s1 !7", "t1 ?7", "t1 transfer 3064>6264+16", "t1 mark1",
        "m0 ?5", "m0 mark1", "m1 ?7", "m1 mark1", "m0 !8", "root ?8", "t0 !9", "root ?9", "m1 !10", "root ?10", "t1 !11", "root ?11",
        "root mark1",
    ];
    assert_eq!(told(&[], |_| ()), expected);
}

#[rustfmt::skip]
#[test]
fn without_segment_words_only_what_is_awaited_is_recorded() {
    let expected = [
        "root begin", "root !0", "cam0 ?0", "cam0 upload", "cam0 !1", "t1 ?0", "t1 transfer 6164>2064+16", "t1 !2",
        "s0 ?1", "s0 a0", "s0 !3", "s0 a1", "s0 !4", "t0 ?4", "t0 transfer 3000>6200+16", "t0 mark1",
        "s1 ?2", "s1 ?3", "s1 b0", "s1 !5", "t1 ?5", "t1 transfer 3064>6264+16", "t1 mark1",
        "t0 !6", "root ?6", "t1 !7", "root ?7", "root mark1",
    ];
    assert_eq!(told(&[], |f| f.segment_words = SegmentWords::None), expected);
}

#[rustfmt::skip]
#[test]
fn words_between_segments_are_in_their_order() {
    let expected = [
        "root begin", "root !0", "cam0 ?0", "cam0 upload", "cam0 !1", "t1 ?0", "t1 transfer 6164>2064+16", "t1 !2",
        "s0 ?1", "s0 mark1", "s0 a0", "s0 !3", "s0 mark2", "s0 a1", "s0 !4", "t0 ?4", "t0 transfer 3000>6200+16", "t0 mark1",
        "s1 ?2", "s1 ?3", "s1 mark1", "s1 b0", "s1 !5", "t1 ?5", "t1 transfer 3064>6264+16", "t1 mark1",
        "s0 mark1", "s1 mark1", "s0 !6", "root ?6", "t0 !7", "root ?7", "s1 !8", "root ?8", "t1 !9", "root ?9", "root mark1",
    ];
    assert_eq!(told(&[], |f| f.segment_words = SegmentWords::Between), expected);
    let early: Vec<String> = told(&[], |f| (f.segment_words, f.early) = (SegmentWords::Between, true));
    let early: Vec<&str> = early.iter().filter_map(|c| c.strip_suffix(" early")).collect();
    assert_eq!(&early[..3], ["s0 a0", "s0 mark2", "s0 a1"], "each follows the launch in front of it");
}

#[test]
fn only_a_launch_that_waits_for_nothing_but_the_one_in_front_begins_early() {
    let early = |commands: Vec<String>| -> Vec<String> { commands.into_iter().filter(|c| c.ends_with("early")).collect() };
    // The second segment of a stream follows the first; a tenant's word follows its results; everything else comes after a wait.
    assert_eq!(
        early(told(&[], |f| f.early = true)),
        ["s0 a1 early", "t0 mark1 early", "t1 mark1 early"]
    );
    let fault = InjectedFault {
        frame: 4,
        at: FaultPlace::Tenant(TenantId(0)),
        kind: FaultKind::Hang,
    };
    assert_eq!(
        early(told(&[fault], |f| f.early = true)),
        ["s0 a0 early", "s0 a1 early", "t0 mark1 early", "t1 mark1 early"]
    );
}

#[test]
fn large_results_go_by_a_copy_engine() {
    let downs = |bytes| {
        let mut plan = plan();
        plan.buffers[4].bytes = bytes;
        let output = Area {
            address: 3000,
            bytes: 1 << 20,
        };
        let commands = told_of(plan, &[], |f| (f.at.output, f.pinned.output) = (output, output));
        commands.into_iter().filter(|c| c.starts_with("t1 down")).collect::<Vec<_>>()
    };
    assert!(downs(marks::LARGEST_RESULT).is_empty());
    let more = marks::LARGEST_RESULT + 1;
    assert_eq!(downs(more), [format!("t1 down 64+{more}")]);
}

#[test]
fn on_the_hosts_own_memory_nothing_is_copied() {
    let commands = told(&[], |f| f.mapped = true);
    assert!(
        commands
            .iter()
            .all(|c| !["upload", "transfer", "down"].iter().any(|w| c.contains(w))),
        "{commands:?}"
    );
    assert!(
        commands.contains(&"s0 ?0".to_owned()),
        "a stream that waits for nothing waits for the frame's beginning"
    );
}

#[test]
fn faults_come_at_the_start_of_their_segment_in_frames_of_their_schedule() {
    let fault = |at, frame| InjectedFault {
        frame,
        at,
        kind: FaultKind::Hang,
    };
    let faults = [
        fault(FaultPlace::Tenant(TenantId(0)), 4),
        fault(FaultPlace::Segment(SegmentId(2)), 5),
    ];
    let commands = told(&faults, |f| f.segment_words = SegmentWords::None);
    let at = |text: &str| commands.iter().position(|c| c == text).unwrap();
    assert_eq!(at("s0 fault") + 1, at("s0 a0"));
    assert_eq!(at("s1 fault") + 1, at("s1 b0"));
    assert_eq!(commands.iter().filter(|c| c.ends_with("fault")).count(), 2);
    // With another place in a longer cycle none of them would come: the plan's cycle has one schedule.
    assert!(!told(&faults, |f| f.index = 1).iter().any(|c| c.ends_with("fault")));
}

#[test]
fn results_and_waits_are_told_by_the_last_segment_of_each_stream() {
    let ends = Ends::of(&plan().cycle[0]);
    assert_eq!(
        (ends.waits.clone(), ends.awaited.clone()),
        (vec![vec![], vec![], vec![0]], vec![true, true, true])
    );
    assert!(ends.finishes(TenantId(0), 1) && !ends.finishes(TenantId(0), 0) && ends.finishes(TenantId(1), 2));
}
