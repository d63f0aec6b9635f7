//! What each ONNX operator means: one function an operator, grouped by kind; this file is the list.
//!
//! A function reads its node's inputs and attributes (all of them, for an attribute that nobody reads is refused), emits
//! primitives and views through the builder, and returns the node's outputs in ONNX's order.

mod constant;
mod conv;
mod elementwise;
mod formula;
mod matrix;
mod norm;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod select;
mod window;

use super::builder::{Builder, Operand};
use super::error::{Fallible, unsupported};
use super::node::OnnxNode;
use crate::primitive::{Binary, ReduceKind};
use std::path::Path;

/// The oldest operator set in which an operator means what it means in set 7, so that the few models of older sets whose
/// operators all do so are imported too.
fn oldest(op: &str) -> i64 {
    match op {
        "Conv" | "ConvTranspose" | "GlobalAveragePool" | "GlobalMaxPool" | "Identity" | "MatMul" | "Transpose" | "Softmax" => 1,
        "Shape" | "Constant" | "Gather" | "Slice" | "Squeeze" | "Unsqueeze" | "Flatten" | "ReduceMax" | "ReduceMean" | "ReduceSum" => 1,
        "Pad" | "Split" => 2,
        "Concat" => 4,
        "Reshape" => 5,
        "Relu" | "LeakyRelu" | "Sigmoid" | "HardSigmoid" | "Tanh" | "Exp" | "Sqrt" | "Neg" | "Clip" | "Cast" | "Min" | "Max" => 6,
        "Log" | "Abs" | "Floor" | "Ceil" | "Reciprocal" | "Elu" | "Selu" => 6,
        "Softplus" | "Softsign" => 1,
        _ => 7,
    }
}

/// Imports one node. `model` is the model's file, for tensor attributes with external data.
pub(super) fn import(b: &mut Builder, node: &OnnxNode<'_>, model: &Path) -> Fallible<Vec<Operand>> {
    if node.opset < oldest(node.op) {
        return Err(unsupported(format!(
            "this operator in operator set {}: {} and newer are imported (convert the model with onnx.version_converter)",
            node.opset,
            oldest(node.op)
        )));
    }
    let output = match node.op {
        "Conv" => conv::conv(b, node),
        "ConvTranspose" => conv::conv_transpose(b, node),
        "MaxPool" => return pool::max_pool(b, node),
        "AveragePool" => pool::average_pool(b, node),
        "GlobalAveragePool" => reduce::global(b, node, ReduceKind::Mean),
        "GlobalMaxPool" => reduce::global(b, node, ReduceKind::Max),
        "ReduceMean" => reduce::reduce(b, node, ReduceKind::Mean),
        "ReduceMax" => reduce::reduce(b, node, ReduceKind::Max),
        "ReduceSum" => reduce::reduce(b, node, ReduceKind::Sum),
        "Relu" | "LeakyRelu" | "Sigmoid" | "HardSigmoid" | "HardSwish" | "Tanh" | "Exp" | "Sqrt" | "Neg" | "Erf" | "Log" | "Round"
        | "Abs" | "Floor" | "Ceil" => elementwise::unary(b, node),
        "Add" => elementwise::binary(b, node, Binary::Add),
        "Sub" => elementwise::binary(b, node, Binary::Sub),
        "Mul" => elementwise::binary(b, node, Binary::Mul),
        "Div" => elementwise::binary(b, node, Binary::Div),
        "Pow" => elementwise::binary(b, node, Binary::Pow),
        "PRelu" => elementwise::prelu(b, node),
        "Mod" => formula::modulo(b, node),
        "Sum" => elementwise::fold(b, node, Binary::Add),
        "Min" => elementwise::fold(b, node, Binary::Min),
        "Max" => elementwise::fold(b, node, Binary::Max),
        "Clip" => elementwise::clip(b, node),
        "Cast" => elementwise::cast(b, node),
        "BatchNormalization" => elementwise::batch_normalization(b, node),
        "LayerNormalization" => return norm::layer_normalization(b, node),
        "Mish" => formula::mish(b, node),
        "Gelu" => formula::gelu(b, node),
        "Reciprocal" => formula::reciprocal(b, node),
        "Softplus" => formula::softplus(b, node),
        "Softsign" => formula::softsign(b, node),
        "Elu" | "Celu" | "Selu" => formula::elu(b, node),
        "QuantizeLinear" => quantize::quantize(b, node),
        "DequantizeLinear" => quantize::dequantize(b, node),
        "LSTM" => return recurrent::lstm(b, node),
        "GRU" => return recurrent::gru(b, node),
        "RNN" => return recurrent::rnn(b, node),
        "Gemm" => matrix::gemm(b, node),
        "MatMul" => matrix::mat_mul(b, node),
        "Softmax" => matrix::softmax(b, node),
        "LogSoftmax" => matrix::log_softmax(b, node),
        "Reshape" => reshape::reshape(b, node),
        "Flatten" => reshape::flatten(b, node),
        "Squeeze" => reshape::squeeze(b, node),
        "Unsqueeze" => reshape::unsqueeze(b, node),
        "Transpose" => reshape::transpose(b, node),
        "Expand" => reshape::expand(b, node),
        "Identity" => reshape::identity(node),
        "Dropout" => return reshape::dropout(b, node),
        "Concat" => select::concat(b, node),
        "Split" => return select::split(b, node),
        "Slice" => select::slice(b, node),
        "Gather" => select::gather(b, node),
        "Pad" => select::pad(b, node),
        "Resize" => resize::resize(b, node),
        "Upsample" => resize::upsample(b, node),
        "Constant" => constant::constant(b, node, model),
        "ConstantOfShape" => constant::constant_of_shape(b, node, model),
        "Shape" => constant::shape(b, node),
        _ => Err(unsupported("this operator is not imported")),
    };
    Ok(vec![output?])
}
