//! Loop and Scan: their bodies, once for every iteration, in the place of the node.
//!
//! How often a body runs has to be known while importing, since a frame's work is fixed ahead of time. Every iteration has names of
//! its own, made of the node's first output, the iteration and the name in the body; what is constant in a body is read once.

use super::builder::Builder;
use super::error::{Fallible, Reason, given_twice, limit, malformed, ungiven, unsupported};
use super::host::{Host, shape_of};
use super::node::OnnxNode;
use super::ops::reshape::extents;
use super::proto::{GraphProto, NodeProto, ValueInfoProto};
use super::values::{Deep, Operand};
use super::{cut, file, import_node, is_standard, node_name};
use crate::tensor::{Data, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// Nodes that all unrolled bodies of one network may have together.
pub(super) const MAX_UNROLLED: usize = 1 << 15;

/// What to do about a loop whose iterations are not known.
const FIX_IT: &str = "and a frame's work is fixed ahead of time: fix the inputs that it comes from, export the network traced with a \
                      constant number of iterations, or cut it in front of this node with --output NAME";

/// What a name inside a body may stand for.
#[derive(Clone)]
enum Value {
    Tensor(Operand),
    Sequence(Rc<[Operand]>),
    Deep(Deep),
}

/// Where a body is imported.
struct Scope<'a> {
    opset: i64,
    path: &'a Path,
    builder: &'a mut Builder,
    names: &'a mut BTreeMap<String, Operand>,
}

impl Scope<'_> {
    fn value(&self, name: &str) -> Fallible<Value> {
        let tensor = self.names.get(name).cloned().map(Value::Tensor);
        let sequence = || self.builder.sequences.get(name).map(Value::Sequence);
        let deep = || self.builder.deep.get(name).cloned().map(Value::Deep);
        tensor.or_else(sequence).or_else(deep).ok_or_else(|| ungiven(name))
    }

    fn tensor(&self, name: &str) -> Fallible<Operand> {
        match self.value(name)? {
            Value::Tensor(operand) => Ok(operand),
            Value::Sequence(_) => Err(unsupported(format!(
                "the sequence `{name}` where a tensor is expected: join it with ConcatFromSequence first"
            ))),
            Value::Deep(deep) => Err(limit(format!("`{name}` has {}", deep.refused()))),
        }
    }

    fn give(&mut self, name: &str, value: Value) -> Fallible<()> {
        let given = match value {
            Value::Sequence(parts) => return self.builder.sequences.add(name, parts.to_vec()),
            Value::Tensor(operand) => self.names.insert(name.to_owned(), operand).is_some(),
            Value::Deep(deep) => self.builder.deep.insert(name.to_owned(), deep).is_some(),
        };
        if given { Err(given_twice(name)) } else { Ok(()) }
    }
}

/// A body, without its constants.
struct Body {
    graph: GraphProto,
    needed: Vec<bool>,
    prefix: String,
    /// The names that are constants, with what they are called outside.
    constants: BTreeMap<String, String>,
}

impl Body {
    /// The body of a Loop or Scan. Its constants are given names outside at once: every iteration reads the same.
    fn of(node: &NodeProto, scope: &mut Scope<'_>) -> Fallible<Body> {
        let body = node.attribute.iter().find(|a| a.name == "body").and_then(|a| a.g.as_deref());
        let mut graph = body.ok_or_else(|| malformed("missing").at("body"))?.clone();
        let prefix = node.output.iter().find(|o| !o.is_empty()).cloned();
        let prefix = prefix.ok_or_else(|| malformed("no output"))?;
        let mut constants = BTreeMap::new();
        take_constants(&mut graph, scope, &prefix, &mut constants);
        let needed = cut::needed(&graph, &[]).nodes;
        Ok(Body {
            graph,
            needed,
            prefix,
            constants,
        })
    }

    /// Imports one iteration: what its outputs stand for.
    fn iterate(&self, scope: &mut Scope<'_>, iteration: u64, given: Vec<Value>) -> Fallible<Vec<Value>> {
        let (taken, listed) = (given.len(), self.graph.input.len());
        if taken != listed {
            return Err(malformed(format!("{taken} values for {listed} inputs")).at("body"));
        }
        scope.builder.take_unrolled(0)?;
        let mut own = self.constants.clone();
        defined(&self.graph, &mut |name| {
            own.entry(name.to_owned())
                .or_insert_with(|| format!("{}#{iteration}/{name}", self.prefix));
        });
        for (input, value) in self.graph.input.iter().zip(given) {
            scope.give(&own[&input.name], value)?;
        }
        for (position, node) in self.graph.node.iter().enumerate().filter(|(position, _)| self.needed[*position]) {
            let mut node = node.clone();
            rename(&mut node, &own);
            let name = format!("{}#{iteration}/{}", self.prefix, node_name(&self.graph.node[position], position));
            let told = |e: Reason| e.inside(&format!("in iteration {iteration}, node `{name}` ({})", node.op_type), "body");
            import_node(&node, &name, scope.opset, scope.path, scope.builder, scope.names).map_err(told)?;
        }
        let given = |output: &ValueInfoProto| {
            let name = own.get(&output.name).unwrap_or(&output.name);
            scope.value(name).map_err(|e| e.at("body"))
        };
        self.graph.output.iter().map(given).collect()
    }
}

/// Takes initializers and constants out of a graph and of those inside it, as far as they can be read, and names them outside.
fn take_constants(graph: &mut GraphProto, scope: &mut Scope<'_>, prefix: &str, taken: &mut BTreeMap<String, String>) {
    let mut take = |scope: &mut Scope<'_>, name: &str, constant: Operand| {
        let outside = format!("{prefix}#/{name}");
        if taken.contains_key(name) || scope.names.contains_key(&outside) {
            return false;
        }
        scope.names.insert(outside.clone(), constant);
        taken.insert(name.to_owned(), outside);
        true
    };
    graph.initializer.retain(|initializer| match file::tensor(initializer, scope.path) {
        Ok(host) => {
            let constant = scope.builder.given_constant(&initializer.name, host);
            !take(scope, &initializer.name, constant)
        }
        Err(_) => true,
    });
    graph.node.retain(|node| {
        let [output] = node.output.as_slice() else { return true };
        if node.op_type != "Constant" || !is_standard(&node.domain) || !node.input.is_empty() {
            return true;
        }
        // What cannot be read is told of where it is needed.
        let mut alone = BTreeMap::new();
        let read = import_node(node, output, scope.opset, scope.path, scope.builder, &mut alone);
        match (read, alone.remove(output)) {
            (Ok(()), Some(constant)) => !take(scope, output, constant),
            _ => true,
        }
    });
    let inner = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    inner
        .filter_map(|a| a.g.as_deref_mut())
        .for_each(|inner| take_constants(inner, scope, prefix, taken));
}

/// The names that a graph and those inside it give.
fn defined(graph: &GraphProto, each: &mut dyn FnMut(&str)) {
    graph.input.iter().for_each(|value| each(&value.name));
    graph.initializer.iter().for_each(|tensor| each(&tensor.name));
    for node in &graph.node {
        node.output.iter().filter(|o| !o.is_empty()).for_each(|name| each(name));
        node.attribute
            .iter()
            .filter_map(|a| a.g.as_deref())
            .for_each(|inner| defined(inner, each));
    }
}

/// Gives a node, and those of graphs inside it, the names of an iteration.
fn rename(node: &mut NodeProto, own: &BTreeMap<String, String>) {
    let renamed = |name: &mut String| {
        if let Some(outside) = own.get(name) {
            outside.clone_into(name);
        }
    };
    node.input.iter_mut().chain(&mut node.output).for_each(renamed);
    for graph in node.attribute.iter_mut().filter_map(|a| a.g.as_deref_mut()) {
        let values = graph.input.iter_mut().chain(&mut graph.output).map(|v| &mut v.name);
        values.chain(graph.initializer.iter_mut().map(|t| &mut t.name)).for_each(renamed);
        graph.node.iter_mut().for_each(|inner| rename(inner, own));
    }
}

/// True for the operators that [`import`] knows.
pub(super) fn is_one(op: &str) -> bool {
    matches!(op, "Loop" | "Scan")
}

/// Imports a Loop or a Scan.
pub(super) fn import(
    node: &NodeProto,
    opset: i64,
    path: &Path,
    builder: &mut Builder,
    names: &mut BTreeMap<String, Operand>,
) -> Fallible<()> {
    let scope = &mut Scope {
        opset,
        path,
        builder,
        names,
    };
    scope.builder.unrolling += 1;
    let results = match node.op_type.as_str() {
        "Loop" => unroll_loop(node, scope),
        _ => unroll_scan(node, scope),
    };
    scope.builder.unrolling -= 1;
    let results = results?;
    let named = node.output.iter().enumerate().filter(|(_, name)| !name.is_empty());
    for (index, name) in named {
        let value = results.get(index).cloned();
        let value = value.ok_or_else(|| malformed(format!("output {index} (`{name}`), of {} that its body gives", results.len())))?;
        scope.give(name, value)?;
    }
    Ok(())
}

/// The one number, or truth value, that a constant holds.
fn known(operand: &Operand) -> Option<i64> {
    match operand.host()?.as_i64s()?.as_slice() {
        &[one] => Some(one),
        _ => None,
    }
}

/// Loop: while its condition holds, and as often as its first input says at most. What every iteration adds to a list is stacked.
fn unroll_loop(node: &NodeProto, scope: &mut Scope<'_>) -> Fallible<Vec<Value>> {
    let input = |index: usize| node.input.get(index).filter(|name| !name.is_empty());
    let body = Body::of(node, scope)?;
    let most = match input(0) {
        None => None,
        Some(name) => {
            let count = known(&scope.tensor(name)?);
            Some(count.ok_or_else(|| unsupported(format!("the number of iterations is computed at run time, {FIX_IT}")).at("M"))?)
        }
    };
    let condition = |operand: &Operand| {
        known(operand)
            .map(|truth| truth != 0)
            .ok_or_else(|| unsupported(format!("whether another iteration follows is computed at run time, {FIX_IT}")).at("cond"))
    };
    let mut goes_on = match input(1) {
        None => true,
        Some(name) => condition(&scope.tensor(name)?)?,
    };
    let carried = node.input.get(2..).unwrap_or_default();
    let mut state = carried.iter().map(|name| scope.value(name)).collect::<Fallible<Vec<Value>>>()?;
    let stacks = (body.graph.output.len()).checked_sub(1 + state.len());
    let stacks = stacks.ok_or_else(|| malformed(format!("fewer outputs than the {} values that it carries", state.len())).at("body"))?;
    let mut rows: Vec<Vec<Operand>> = vec![Vec::new(); stacks];
    let mut iteration = 0u64;
    while goes_on && most.is_none_or(|most| i128::from(iteration) < i128::from(most)) {
        let number = scope.builder.constant(Host::i64s(Shape::SCALAR, vec![iteration as i64])?);
        let truth = scope.builder.constant(Host::tensor(Shape::SCALAR, Data::Bool(vec![1]))?);
        let mut given = vec![Value::Tensor(number), Value::Tensor(truth)];
        given.append(&mut state);
        let mut made = body.iterate(scope, iteration, given)?.into_iter();
        let after = made.next();
        state = made.by_ref().take(carried.len()).collect();
        for (row, value) in rows.iter_mut().zip(made) {
            row.push(single(value)?);
        }
        iteration += 1;
        // What no iteration looks at any more may be anything.
        if most.is_none_or(|most| i128::from(iteration) < i128::from(most)) {
            goes_on = match after {
                Some(Value::Tensor(after)) => condition(&after)?,
                _ => return Err(malformed("a condition that is no truth value").at("body")),
            };
        }
    }
    for row in rows {
        state.push(Value::Tensor(stacked(scope.builder, &row, 0)?));
    }
    Ok(state)
}

/// Scan: along axes of its last inputs, of which the body gets a slice after another. What it gives of them is stacked.
fn unroll_scan(node: &NodeProto, scope: &mut Scope<'_>) -> Fallible<Vec<Value>> {
    if scope.opset < 9 {
        return Err(unsupported(
            "Scan of operator set 8, over sequences of a batch: convert the model with onnx.version_converter",
        ));
    }
    let body = Body::of(node, scope)?;
    let plain = NodeProto {
        attribute: node.attribute.iter().filter(|a| a.name != "body").cloned().collect(),
        ..NodeProto::default()
    };
    let plain = OnnxNode::new(&plain, scope.opset, Vec::new())?;
    let scanned = plain
        .int("num_scan_inputs")?
        .ok_or_else(|| malformed("missing").at("num_scan_inputs"))?;
    let first = usize::try_from(scanned)
        .ok()
        .filter(|&n| n > 0)
        .and_then(|n| node.input.len().checked_sub(n));
    let first = first.ok_or_else(|| malformed(format!("{scanned} of {} inputs", node.input.len())).at("num_scan_inputs"))?;
    let stacks = body.graph.output.len().checked_sub(first);
    let stacks = stacks.ok_or_else(|| malformed(format!("fewer outputs than the {first} values that it carries")).at("body"))?;
    let list = |name: &'static str, count: usize| -> Fallible<Vec<i64>> {
        match plain.ints(name)? {
            None => Ok(vec![0; count]),
            Some(given) if given.len() == count => Ok(given.to_vec()),
            Some(given) => Err(malformed(format!("{} numbers for {count} values", given.len())).at(name)),
        }
    };
    let count = node.input.len() - first;
    let (ways_in, ways_out) = (list("scan_input_directions", count)?, list("scan_output_directions", stacks)?);
    let (axes_in, axes_out) = (list("scan_input_axes", count)?, list("scan_output_axes", stacks)?);
    plain.finish()?;
    let mut sources = Vec::with_capacity(count);
    let mut steps = None;
    for (name, axis) in node.input[first..].iter().zip(&axes_in) {
        let operand = scope.tensor(name)?;
        let axis = OnnxNode::axis(*axis, operand.shape().rank(), "scan_input_axes")?;
        let extent = operand.shape().dim(axis);
        if *steps.get_or_insert(extent) != extent {
            return Err(malformed(format!(
                "`{name}` has {extent} slices, others have {}",
                steps.unwrap_or(0)
            )));
        }
        sources.push((operand, axis));
    }
    let steps = i64::from(steps.unwrap_or(0));
    let mut state = node.input[..first]
        .iter()
        .map(|name| scope.value(name))
        .collect::<Fallible<Vec<Value>>>()?;
    let mut rows: Vec<Vec<Operand>> = vec![Vec::new(); stacks];
    for iteration in 0..steps {
        let mut given = std::mem::take(&mut state);
        for ((source, axis), way) in sources.iter().zip(&ways_in) {
            let at = if *way == 0 { iteration } else { steps - 1 - iteration };
            let (mut start, mut dims) = (vec![0; source.shape().rank()], extents(source.shape()));
            (start[*axis], dims[*axis]) = (at, 1);
            let slice = scope.builder.slice(source, start, vec![1; dims.len()], shape_of(&dims)?)?;
            dims.remove(*axis);
            given.push(Value::Tensor(scope.builder.reshape(&slice, shape_of(&dims)?)?));
        }
        let mut made = body.iterate(scope, iteration as u64, given)?.into_iter();
        state = made.by_ref().take(first).collect();
        for (row, value) in rows.iter_mut().zip(made) {
            row.push(single(value)?);
        }
    }
    for ((mut row, way), axis) in rows.into_iter().zip(&ways_out).zip(axes_out) {
        if *way != 0 {
            row.reverse();
        }
        state.push(Value::Tensor(stacked(scope.builder, &row, axis)?));
    }
    Ok(state)
}

/// A tensor of a body's outputs.
fn single(value: Value) -> Fallible<Operand> {
    match value {
        Value::Tensor(operand) => Ok(operand),
        Value::Sequence(_) => Err(unsupported("a list of sequences: carry the sequence from iteration to iteration instead").at("body")),
        Value::Deep(deep) => Err(limit(deep.refused()).at("body")),
    }
}

/// Tensors of one shape side by side along a new axis.
fn stacked(b: &mut Builder, rows: &[Operand], axis: i64) -> Fallible<Operand> {
    let first = rows.first().ok_or_else(|| {
        unsupported(
            "a list of what no iteration gives, whose shape is not known: cut the network in front of this node with --output NAME, or \
             export it with at least one iteration",
        )
    })?;
    let mut dims = extents(first.shape());
    let axis = OnnxNode::axis(axis, dims.len() + 1, "scan_output_axes")?;
    dims.insert(axis, 1);
    let row = shape_of(&dims)?;
    let mut pieces = Vec::with_capacity(rows.len());
    for piece in rows {
        if piece.shape() != first.shape() || piece.elem() != first.elem() {
            return Err(malformed(format!(
                "iterations that give {} of {:?} and {} of {:?} for one list",
                first.shape(),
                first.elem(),
                piece.shape(),
                piece.elem()
            ))
            .at("body"));
        }
        pieces.push(b.reshape(piece, row)?);
    }
    dims[axis] = rows.len() as i64;
    b.concat(&pieces.iter().collect::<Vec<_>>(), axis, shape_of(&dims)?)
}
