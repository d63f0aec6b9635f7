//! Plans of networks fed with tensors: graph inputs in, graph outputs out, without cameras, cards or a task file.

use super::attach;
use super::graph::{Graph, Node, Value};
use super::import::{self, ImportOptions};
use super::{CompileOptions, Compiled, PlannerError, digest_text, emit, file_digest, half_floats, lower, passes, single_floats};
use crate::board::BoardRecord;
use crate::plan::format::{Digest, Tenant};
use crate::plan::tactic::Target;
use crate::task::{Rate, ResultKind, Urgency};
use crate::tensor::{DType, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// Compiles one network as a single tenant fed with tensors: graph inputs in, graph outputs out.
///
/// `fixed` gives inputs that are constants of the plan (shapes, axes, pads ..), `shapes` the shapes of symbolic inputs.
pub fn compile_network(
    path: &Path,
    fixed: BTreeMap<String, Tensor>,
    shapes: BTreeMap<String, Vec<u32>>,
    board: &BoardRecord,
    options: &CompileOptions,
) -> Result<Compiled, PlannerError> {
    let mut text = digest_text(board, options);
    text.push_str(&format!("{:?} {shapes:?}", file_digest(path)?));
    for (name, tensor) in &fixed {
        text.push_str(&format!("{name} {} {:?}", tensor.shape(), Digest::of(tensor.bytes())));
    }
    for name in &options.outputs {
        text.push_str(&format!("{name:?}"));
    }
    let import = ImportOptions {
        batch: options.batch,
        fixed,
        shapes,
        outputs: options.outputs.clone(),
    };
    let graph = import::import(path, &import)?;
    if let Some(batch) = options.batch {
        import::takes_batch(&graph, path, batch)?;
    }
    let name = path
        .file_stem()
        .map_or_else(|| "network".to_string(), |s| s.to_string_lossy().into_owned());
    compile(&name, Digest::of(text.as_bytes()), vec![(name.clone(), graph)], board, options)
}

/// Compiles one graph, made by whatever means, as a single tenant fed with tensors. Tenant and task set are called `name`.
///
/// The graph must hold what [`super::graph::verify`] checks. [`CompileOptions::batch`] has no effect: a graph's shapes are fixed.
pub fn compile_graph(name: &str, graph: Graph, board: &BoardRecord, options: &CompileOptions) -> Result<Compiled, PlannerError> {
    compile_graphs(name, vec![(name.to_string(), graph)], board, options)
}

/// Compiles the task set `name` of several graphs, each the tenant of the name beside it, in every frame and without deadlines.
///
/// As [`compile_graph`] otherwise.
pub fn compile_graphs(
    name: &str,
    tenants: Vec<(String, Graph)>,
    board: &BoardRecord,
    options: &CompileOptions,
) -> Result<Compiled, PlannerError> {
    let mut text = digest_text(board, options);
    text.push_str(&format!("{name:?}\n"));
    for (tenant, graph) in &tenants {
        text.push_str(&format!("{tenant:?} {:?}\n", graph_digest(graph)));
    }
    compile(name, Digest::of(text.as_bytes()), tenants, board, options)
}

/// Passes, lowering and emission of graphs as tenants fed with tensors. `source` is the digest of all they are made from.
fn compile(
    name: &str,
    source: Digest,
    graphs: Vec<(String, Graph)>,
    board: &BoardRecord,
    options: &CompileOptions,
) -> Result<Compiled, PlannerError> {
    let mut tenants = Vec::with_capacity(graphs.len());
    for (tenant, graph) in graphs {
        let graph = match options.dtype {
            DType::F32 => single_floats::convert(graph),
            _ => graph,
        };
        let attached = attach::tensors(passes::run(graph, options.passes.of(options.dtype, Target::of(board)))?);
        let attached = if options.dtype == DType::F16 {
            half_floats::convert(attached, options.ports)
        } else {
            attached
        };
        tenants.push((record(tenant), attached));
    }
    let lowered = lower::lower(Vec::new(), tenants, options.passes.on(Target::of(board)))?;
    emit::emit(name, source, lowered, board, options)
}

/// The record of a tenant fed with tensors; lowering adds its ports.
fn record(name: String) -> Tenant {
    Tenant {
        model: name.clone(),
        name,
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

/// Digest of a graph's values, constants, nodes, inputs and outputs.
fn graph_digest(graph: &Graph) -> Digest {
    let mut text = String::new();
    for value in &graph.values {
        let Value {
            name,
            dtype,
            shape,
            data,
            single,
        } = value;
        let data = data.as_deref().map(|t| Digest::of(t.bytes()));
        let single = if *single { " single" } else { "" };
        text.push_str(&format!("{name:?} {dtype} {shape} {data:?}{single}\n"));
    }
    for Node { name, op, inputs, outputs } in &graph.nodes {
        text.push_str(&format!("{name:?} {op:?} {inputs:?} {outputs:?}\n"));
    }
    text.push_str(&format!("{:?} {:?}\n", graph.inputs, graph.outputs));
    Digest::of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::boards;
    use crate::planner::graph::{Named, Op};
    use crate::primitive::{Binary, Primitive};
    use crate::tensor::{Data, Shape};
    use std::sync::Arc;

    /// `x + constant` over two elements.
    fn shifted(constant: [f32; 2]) -> Graph {
        let shape = Shape::new(&[2]).unwrap();
        let mut graph = Graph::default();
        let named = |name: &str, value| Named {
            name: name.into(),
            value,
            widened: false,
        };
        let x = graph.add_value("x", DType::F32, shape);
        let c = graph.add_constant("c", Arc::new(Tensor::new(shape, Data::F32(constant.to_vec())).unwrap()));
        let y = graph.add_value("y", DType::F32, shape);
        graph.inputs.push(named("x", x));
        graph.add_node("add", Op::Primitive(Primitive::Binary(Binary::Add)), vec![x, c], vec![y]);
        graph.outputs.push(named("y", y));
        graph
    }

    fn board() -> BoardRecord {
        boards::load("host").unwrap()
    }

    #[test]
    fn graphs_become_tenants_with_their_own_ports() {
        let tenants = vec![("a".to_string(), shifted([1.0, 2.0])), ("b".to_string(), shifted([3.0, 4.0]))];
        let compiled = compile_graphs("both", tenants, &board(), &CompileOptions::default()).unwrap();
        let plan = &compiled.plan;
        assert_eq!(plan.task_set, "both");
        let tenant = |at: usize| {
            let tenant = &plan.tenants[at];
            (
                tenant.name.as_str(),
                tenant.inputs[0].name.as_str(),
                tenant.outputs[0].name.as_str(),
            )
        };
        assert_eq!((tenant(0), tenant(1)), (("a", "x", "y"), ("b", "x", "y")));
        assert_ne!(plan.operators[0].tenant, plan.operators[1].tenant);
    }

    #[test]
    fn a_plan_is_known_by_its_graph_its_weights_and_its_options() {
        let options = CompileOptions::default();
        let source = |graph, options: &CompileOptions| compile_graph("one", graph, &board(), options).unwrap().plan.source;
        let first = source(shifted([1.0, 2.0]), &options);
        assert_eq!(source(shifted([1.0, 2.0]), &options), first);
        assert_ne!(source(shifted([1.0, 2.5]), &options), first, "another weight");
        let mut renamed = shifted([1.0, 2.0]);
        renamed.outputs[0].name = "z".into();
        assert_ne!(source(renamed, &options), first, "another name");
        let half = CompileOptions {
            dtype: DType::F16,
            ..options
        };
        assert_ne!(source(shifted([1.0, 2.0]), &half), first, "another type");
    }
}
