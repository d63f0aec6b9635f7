//! Two ways to run a graph: node by node on host tensors, and compiled, on the CPU backend.

use crate::backend::cpu::CpuBackend;
use crate::backend::cpu::eval::eval;
use crate::board::BoardRecord;
use crate::ids::TenantId;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Digest, Plan, Tenant};
use crate::planner::attach::{Attached, tensors};
use crate::planner::graph::{Graph, Op, verify};
use crate::planner::passes::PassSet;
use crate::planner::strided::{Strided, gather};
use crate::planner::{CompileOptions, Compiled, boards, deployment, emit, half_floats, lower, passes};
use crate::runtime::{Engine, Options};
use crate::task::{Rate, ResultKind, Status, Urgency};
use crate::tensor::{DType, Layout, Tensor};

/// What the graph's outputs are: every node on its own, every value whole.
pub fn evaluate(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    let mut known: Vec<Option<Tensor>> = graph.values.iter().map(|v| v.data.as_deref().cloned()).collect();
    for (named, tensor) in graph.inputs.iter().zip(inputs) {
        known[named.value.index()] = Some(tensor.clone());
    }
    for node in &graph.nodes {
        let of = |i: usize| known[node.inputs[i].index()].as_ref().unwrap();
        let shape = graph.value(node.outputs[0]).shape;
        let results = match &node.op {
            Op::Primitive(primitive) => {
                let inputs: Vec<&Tensor> = (0..node.inputs.len()).map(of).collect();
                let outputs: Vec<_> = node.outputs.iter().map(|v| graph.operand(*v)).collect();
                eval(primitive, &inputs, &outputs).unwrap()
            }
            Op::View(view) => {
                let whole = Strided::whole(Layout::contiguous(of(0).shape()));
                vec![gather(of(0), &whole.view(view, shape).unwrap()).unwrap()]
            }
            Op::Concat { axis } => {
                let outer: usize = shape.dims()[..*axis].iter().map(|&d| d as usize).product();
                let parts: Vec<&Tensor> = (0..node.inputs.len()).map(of).collect();
                let row = |p: &Tensor, r: usize| {
                    let width = p.bytes().len() / outer;
                    p.bytes()[r * width..(r + 1) * width].to_vec()
                };
                let bytes: Vec<u8> = (0..outer).flat_map(|r| parts.iter().flat_map(move |p| row(p, r))).collect();
                vec![Tensor::from_bytes(parts[0].dtype(), shape, &bytes).unwrap()]
            }
        };
        for (value, result) in node.outputs.iter().zip(results) {
            known[value.index()] = Some(result);
        }
    }
    let output = |n: &crate::planner::graph::Named| known[n.value.index()].clone().unwrap();
    graph.outputs.iter().map(output).collect()
}

pub fn board() -> BoardRecord {
    BoardRecord {
        units: 2,
        ..boards::load("host").unwrap()
    }
}

fn tenant(name: &str) -> Tenant {
    Tenant {
        name: name.to_owned(),
        model: name.to_owned(),
        cameras: Vec::new(),
        rate: Rate::EVERY_FRAME,
        urgency: Urgency {
            priority: 0,
            deadline: None,
        },
        kind: ResultKind::Tensors,
        sources: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// One tenant a graph.
pub fn compile(graphs: &[Graph], options: &CompileOptions) -> Compiled {
    let attached = |graph: &Graph| -> Attached {
        verify(graph).unwrap();
        let attached = tensors(passes::run(graph.clone(), options.passes).unwrap());
        let attached = if options.dtype == DType::F16 {
            half_floats::convert(attached, options.ports)
        } else {
            attached
        };
        verify(&attached.graph).unwrap();
        attached
    };
    let tenants = graphs.iter().enumerate().map(|(i, g)| (tenant(&format!("t{i}")), attached(g)));
    let lowered = lower::lower(Vec::new(), tenants.collect(), options.passes).unwrap();
    emit::emit("test", Digest::of(b"test"), lowered, &board(), options).unwrap()
}

/// The graph as one tenant with some passes.
pub fn compile_with(graph: &Graph, passes: PassSet) -> Compiled {
    let options = CompileOptions {
        passes,
        ..CompileOptions::default()
    };
    compile(std::slice::from_ref(graph), &options)
}

/// An engine with the compiled plan alone, on `workers` workers.
pub fn open(compiled: &Compiled, workers: usize) -> Engine {
    open_for(&board(), compiled, workers)
}

/// The same of a plan that is for any board, on the CPU backend.
fn open_for(board: &BoardRecord, compiled: &Compiled, workers: usize) -> Engine {
    let set = &compiled.plan.task_set;
    let table = deployment::table(std::slice::from_ref(compiled), board, set, 1).unwrap();
    let files = compiled.weight_files.iter().map(|(_, bytes)| bytes.clone()).collect();
    let deployment = Deployment::assemble(table, vec![compiled.plan.clone()], files).unwrap();
    let options = Options {
        workers: Some(workers),
        // Slow kernels on a busy machine are no hang.
        watchdog: None,
        ..Options::default()
    };
    Engine::over(deployment, &CpuBackend::native(), &options).unwrap()
}

/// What each tenant of the compiled plan gives for its inputs, on `workers` workers.
pub fn run(compiled: &Compiled, inputs: &[Vec<Tensor>], workers: usize) -> Vec<Vec<Tensor>> {
    run_for(&board(), compiled, inputs, workers)
}

/// The same of a plan that is for any board, on the CPU backend.
pub fn run_for(board: &BoardRecord, compiled: &Compiled, inputs: &[Vec<Tensor>], workers: usize) -> Vec<Vec<Tensor>> {
    let mut engine = open_for(board, compiled, workers);
    let mut draft = engine.begin().unwrap();
    for (t, inputs) in inputs.iter().enumerate() {
        for (port, tensor) in inputs.iter().enumerate() {
            draft.copy_input(TenantId(t as u16), port, tensor.bytes()).unwrap();
        }
    }
    let ticket = draft.submit().unwrap();
    engine.wait(&ticket, None).unwrap();
    let results = (0..inputs.len()).map(|t| {
        let result = engine.result(&ticket, TenantId(t as u16)).unwrap();
        assert_eq!(result.status, Status::Fresh);
        let tensor = |(port, bytes): (&crate::plan::format::Port, &[u8])| {
            Tensor::from_bytes(port.view.dtype, port.view.layout.shape, bytes).unwrap()
        };
        result.tensors().map(tensor).collect()
    });
    let results = results.collect();
    engine.release(ticket).unwrap();
    results
}

/// Checks one graph against the oracle: same bits.
pub fn same_bits(plan: &Plan, found: &[Tensor], expected: &[Tensor], about: &str) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.shape(), expected.shape(), "{about}, output {i}");
        let width = found.dtype().bytes() as usize;
        let pairs = found.bytes().chunks(width).zip(expected.bytes().chunks(width));
        if let Some(at) = pairs.clone().position(|(a, b)| a != b) {
            let values = (found.get_f64(at), expected.get_f64(at));
            panic!("{about}, output {i}, element {at}: {values:?}\n{}", crate::plan::dump::dump(plan));
        }
    }
}

/// Checks one graph against the oracle where passes fold arithmetic: the difference stays below `tolerance` of the largest
/// magnitude among the expected elements.
pub fn close(found: &[Tensor], expected: &[Tensor], tolerance: f64, about: &str) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(
            (found.shape(), found.dtype()),
            (expected.shape(), expected.dtype()),
            "{about}, output {i}"
        );
        let all = || (0..found.len()).map(|e| (found.get_f64(e).unwrap(), expected.get_f64(e).unwrap()));
        let largest = all().map(|(_, e)| e.abs()).fold(1.0, f64::max);
        let worst = all().map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
        assert!(worst <= tolerance * largest, "{about}, output {i}: off by {worst} of {largest}");
    }
}
