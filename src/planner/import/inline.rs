//! Functions that a model brings along (`ModelProto.functions`): every call becomes the nodes of the function's body.
//!
//! This happens once, before anything else looks at the nodes, so the rest of the importer knows no functions. Names of a body get
//! the call's name in front, and none that the model has already. What cannot be brought in stays a call, with the reason kept
//! for whoever needs its results: a file may call what it likes where nobody looks.
//!
//! A small file can describe a network beyond any memory by functions that call each other twice. So all that is copied comes out
//! of one budget, and so does every name that is made.

use super::error::{Fallible, Kind, Reason, limit, malformed, unsupported};
use super::proto::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto};
use super::{MAX_OPSET, is_standard};
use crate::limits::MAX_OPERATORS;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Calls inside each other.
const MAX_DEPTH: usize = 32;
/// Bytes of memory that copies may take, about.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes that a message takes beside what it lists, at most.
const MESSAGE_BYTES: u64 = 512;
/// Bytes of a call's name that go in front of the names inside; longer ones are numbered.
const MAX_PREFIX: usize = 128;

/// What a call names: domain, name and overload.
type Key = (String, String, String);

/// Why calls of a function are still there, by domain and name.
pub(super) type Refusals = BTreeMap<(String, String), (Kind, String)>;

/// Puts the bodies of functions in the place of their calls.
pub(super) fn inline(model: &mut ModelProto) -> Fallible<Refusals> {
    let Some(graph) = &mut model.graph else {
        return Ok(Refusals::new());
    };
    let mut functions = BTreeMap::new();
    for function in &model.functions {
        let costs = function.node.iter().map(node_bytes).collect();
        let key = (function.domain.clone(), function.name.clone(), function.overload.clone());
        if functions.insert(key, (function, costs)).is_some() {
            return Err(malformed(format!(
                "two functions `{}` of the domain `{}`",
                function.name, function.domain
            )));
        }
    }
    let mut inliner = Inliner {
        functions,
        taken: BTreeSet::new(),
        nodes_left: MAX_OPERATORS,
        bytes_left: MAX_BYTES,
        numbered: 0,
        refusals: Refusals::new(),
    };
    if !inliner.functions.is_empty() {
        collect_names(graph, &mut inliner.taken);
    }
    inliner.graph(graph, &mut Vec::new(), None);
    Ok(inliner.refusals)
}

/// The names of values in a graph and in its branches.
fn collect_names(graph: &GraphProto, names: &mut BTreeSet<String>) {
    names.extend(graph.initializer.iter().map(|t| t.name.clone()));
    names.extend(graph.input.iter().chain(&graph.output).map(|v| v.name.clone()));
    for node in &graph.node {
        names.extend(node.input.iter().chain(&node.output).cloned());
        node.attribute
            .iter()
            .filter_map(|a| a.g.as_deref())
            .for_each(|g| collect_names(g, names));
    }
}

struct Inliner<'a> {
    /// The functions, with the bytes of each node.
    functions: BTreeMap<Key, (&'a FunctionProto, Rc<[u64]>)>,
    /// The names of values that there are.
    taken: BTreeSet<String>,
    nodes_left: usize,
    bytes_left: u64,
    /// Names that were numbered so far.
    numbered: u64,
    refusals: Refusals,
}

/// What a body is read with: the call, and what the names inside stand for, the innermost graph last.
struct Call<'c> {
    prefix: String,
    scopes: Vec<BTreeMap<String, String>>,
    attributes: BTreeMap<&'c str, &'c AttributeProto>,
}

impl Inliner<'_> {
    /// Brings in what a graph and its branches call. `version` is the standard operator set's, of nodes that come out of a function;
    /// no file gives a node one.
    fn graph(&mut self, graph: &mut GraphProto, stack: &mut Vec<Key>, version: Option<i64>) {
        graph.node = self.nodes(std::mem::take(&mut graph.node), stack, version);
    }

    fn nodes(&mut self, nodes: Vec<NodeProto>, stack: &mut Vec<Key>, version: Option<i64>) -> Vec<NodeProto> {
        let mut all = Vec::with_capacity(nodes.len());
        for mut node in nodes {
            node.version = version;
            for branch in node.attribute.iter_mut().filter_map(|a| a.g.as_deref_mut()) {
                self.graph(branch, stack, version);
            }
            let key = (node.domain.clone(), node.op_type.clone(), node.overload.clone());
            // Of what the standard has, a function is a fallback for those who lack it.
            if is_standard(&key.0) || !self.functions.contains_key(&key) {
                all.push(node);
                continue;
            }
            match self.body(&node, &key, stack) {
                Ok((body, version)) => {
                    stack.push(key);
                    all.extend(self.nodes(body, stack, version));
                    stack.pop();
                }
                Err(Reason { kind, attribute, text }) => {
                    let place = attribute.map(|a| format!("attribute `{a}`: ")).unwrap_or_default();
                    self.refusals.entry((key.0, key.1)).or_insert((kind, format!("{place}{text}")));
                    all.push(node);
                }
            }
        }
        all
    }

    /// The nodes that a call stands for, and the version of their operator set.
    fn body(&mut self, call: &NodeProto, key: &Key, stack: &[Key]) -> Fallible<(Vec<NodeProto>, Option<i64>)> {
        if stack.contains(key) {
            return Err(malformed("a function of the model that calls itself"));
        }
        if stack.len() >= MAX_DEPTH {
            return Err(limit(format!(
                "functions of the model more than {MAX_DEPTH} deep inside each other"
            )));
        }
        let (function, costs) = &self.functions[key];
        let (function, costs) = (*function, costs.clone());
        let version = function.opset_import.iter().find(|o| is_standard(&o.domain)).map(|o| o.version);
        if version.is_some_and(|v| !(1..=MAX_OPSET).contains(&v)) {
            return Err(unsupported(format!(
                "a function of the model in operator set {}: those up to {MAX_OPSET} are imported",
                version.unwrap_or(0)
            )));
        }
        let (ins, outs) = (call.input.len(), call.output.len());
        if ins > function.input.len() || outs > function.output.len() {
            return Err(malformed(format!(
                "{ins} inputs and {outs} outputs of a function with {} and {}",
                function.input.len(),
                function.output.len()
            )));
        }
        let listed = function.input.len() + function.output.len() + function.attribute.len() + function.attribute_proto.len();
        self.take(0, MESSAGE_BYTES + 128 * listed as u64)?;
        let names: BTreeSet<&String> = function.attribute.iter().collect();
        let mut attributes: BTreeMap<&str, &AttributeProto> = function.attribute_proto.iter().map(|a| (a.name.as_str(), a)).collect();
        for given in &call.attribute {
            if !attributes.contains_key(given.name.as_str()) && !names.contains(&given.name) {
                return Err(malformed("the function has no attribute of this name").at(&given.name));
            }
            attributes.insert(&given.name, given);
        }
        let mut inside = Call {
            prefix: self.prefix(call),
            scopes: vec![BTreeMap::new()],
            attributes,
        };
        let given = function
            .input
            .iter()
            .zip(call.input.iter().map(Some).chain(std::iter::repeat(None)));
        for (name, outer) in given {
            inside.scopes[0].insert(name.clone(), outer.cloned().unwrap_or_default());
        }
        let mut nodes = Vec::with_capacity(function.node.len());
        for (name, outer) in function.output.iter().zip(&call.output).filter(|(_, outer)| !outer.is_empty()) {
            // An output that is an input, or another output, is a value of its own for the caller.
            if inside.scopes[0].contains_key(name) {
                self.take(1, MESSAGE_BYTES)?;
                nodes.push(NodeProto {
                    op_type: "Identity".into(),
                    input: vec![self.resolved(&mut inside, name)?],
                    output: vec![outer.clone()],
                    ..NodeProto::default()
                });
            } else {
                inside.scopes[0].insert(name.clone(), outer.clone());
            }
        }
        for (node, cost) in function.node.iter().zip(costs.iter().copied()) {
            self.take(1, cost)?;
            let mut node = node.clone();
            self.settle(&mut node, &mut inside)?;
            nodes.push(node);
        }
        Ok((nodes, version))
    }

    /// What stands in front of the names inside a call.
    fn prefix(&mut self, call: &NodeProto) -> String {
        let output = call.output.iter().find(|o| !o.is_empty());
        match Some(&call.name).filter(|name| !name.is_empty()).or(output) {
            Some(name) if name.len() <= MAX_PREFIX => name.clone(),
            _ => {
                self.numbered += 1;
                format!("#{}", self.numbered)
            }
        }
    }

    /// Gives a node of a body the caller's names and attributes.
    fn settle(&mut self, node: &mut NodeProto, call: &mut Call<'_>) -> Fallible<()> {
        for name in node.input.iter_mut().chain(&mut node.output).filter(|name| !name.is_empty()) {
            *name = self.resolved(call, name)?;
        }
        if !node.name.is_empty() {
            node.name = format!("{}/{}", call.prefix, node.name);
        }
        let mut attributes = Vec::with_capacity(node.attribute.len());
        for mut attribute in std::mem::take(&mut node.attribute) {
            if !attribute.ref_attr_name.is_empty() {
                // What neither the call nor the function gives is left out: the operator's own default holds.
                let Some(&given) = call.attributes.get(attribute.ref_attr_name.as_str()) else {
                    continue;
                };
                if given.g.is_some() {
                    return Err(unsupported(
                        "a graph as an attribute of a function: export the network with its functions inlined (onnx.inliner)",
                    )
                    .at(&given.name));
                }
                self.take(0, attribute_bytes(given))?;
                attributes.push(AttributeProto {
                    name: attribute.name,
                    ..given.clone()
                });
                continue;
            }
            if let Some(branch) = attribute.g.as_deref_mut() {
                self.branch(branch, call)?;
            }
            attributes.push(attribute);
        }
        node.attribute = attributes;
        Ok(())
    }

    /// The same for a graph inside a body, whose own names hold in it alone.
    fn branch(&mut self, graph: &mut GraphProto, call: &mut Call<'_>) -> Fallible<()> {
        let mut own = BTreeMap::new();
        let defined = graph.initializer.iter().map(|t| &t.name).chain(graph.input.iter().map(|v| &v.name));
        for name in defined.chain(graph.node.iter().flat_map(|n| &n.output)).filter(|n| !n.is_empty()) {
            if !own.contains_key(name) {
                own.insert(name.clone(), self.fresh(&call.prefix, name)?);
            }
        }
        call.scopes.push(own);
        let values = graph.input.iter_mut().chain(&mut graph.output).map(|v| &mut v.name);
        for name in values.chain(graph.initializer.iter_mut().map(|t| &mut t.name)) {
            *name = self.resolved(call, name)?;
        }
        for node in &mut graph.node {
            self.settle(node, call)?;
        }
        call.scopes.pop();
        Ok(())
    }

    /// What a name inside a call stands for outside: a new name, the first time that it is read or given.
    fn resolved(&mut self, call: &mut Call<'_>, name: &str) -> Fallible<String> {
        if let Some(outer) = call.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            self.take(0, outer.len() as u64)?;
            return Ok(outer.clone());
        }
        let fresh = self.fresh(&call.prefix, name)?;
        call.scopes[0].insert(name.to_owned(), fresh.clone());
        Ok(fresh)
    }

    /// A name that no value has.
    fn fresh(&mut self, prefix: &str, name: &str) -> Fallible<String> {
        let mut made = format!("{prefix}/{name}");
        while self.taken.contains(&made) {
            self.numbered += 1;
            made = format!("{prefix}/{name}#{}", self.numbered);
        }
        self.take(0, 3 * (made.len() + name.len()) as u64)?;
        self.taken.insert(made.clone());
        Ok(made)
    }

    fn take(&mut self, nodes: usize, bytes: u64) -> Fallible<()> {
        match (self.nodes_left.checked_sub(nodes), self.bytes_left.checked_sub(bytes)) {
            (Some(nodes_left), Some(bytes_left)) => {
                (self.nodes_left, self.bytes_left) = (nodes_left, bytes_left);
                Ok(())
            }
            _ => Err(limit(format!(
                "the functions of the model make more than {MAX_OPERATORS} nodes, or {} MiB of them",
                MAX_BYTES >> 20
            ))),
        }
    }
}

/// Bytes that copying takes, about: payloads in the file's own bytes are shared.
fn node_bytes(node: &NodeProto) -> u64 {
    let names = node.input.iter().chain(&node.output).map(|n| n.len() as u64 + 24);
    MESSAGE_BYTES + names.sum::<u64>() + node.attribute.iter().map(attribute_bytes).sum::<u64>()
}

fn attribute_bytes(attribute: &AttributeProto) -> u64 {
    let lists = 4 * attribute.floats.len() + 8 * attribute.ints.len() + 32 * attribute.strings.len();
    MESSAGE_BYTES + lists as u64 + attribute.t.as_ref().map_or(0, tensor_bytes) + attribute.g.as_deref().map_or(0, graph_bytes)
}

fn tensor_bytes(tensor: &TensorProto) -> u64 {
    let narrow = tensor.float_data.len() + tensor.int32_data.len();
    let wide = tensor.int64_data.len() + tensor.double_data.len() + tensor.dims.len();
    let texts: usize = tensor.external_data.iter().map(|e| e.key.len() + e.value.len() + 48).sum();
    MESSAGE_BYTES + (4 * narrow + 8 * wide + texts) as u64
}

fn graph_bytes(graph: &GraphProto) -> u64 {
    let values = graph.input.iter().chain(&graph.output).map(|v| {
        let shape = v
            .r#type
            .as_ref()
            .and_then(|t| t.tensor_type.as_ref())
            .and_then(|t| t.shape.as_ref());
        MESSAGE_BYTES + shape.map_or(0, |s| 64 * s.dim.len() as u64)
    });
    let nodes: u64 = graph.node.iter().map(node_bytes).sum();
    MESSAGE_BYTES + values.sum::<u64>() + nodes + graph.initializer.iter().map(tensor_bytes).sum::<u64>()
}
