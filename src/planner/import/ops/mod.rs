//! What each ONNX operator means: one function an operator, grouped by kind; this file is the list.
//!
//! A function reads its node's inputs and attributes (all of them, for an attribute that nobody reads is refused), emits
//! primitives and views through the builder, and returns the node's outputs in ONNX's order.

mod angles;
mod arrange;
mod attention;
mod boxes;
mod combine;
mod constant;
mod conv;
mod counting;
mod einsum;
mod elementwise;
mod formula;
mod hyperbolic;
mod known;
pub(super) mod logic;
mod matrix;
mod norm;
mod pool;
mod quantize;
mod quantized;
mod rank;
mod recurrent;
mod reduce;
mod refused;
mod regions;
pub(super) mod reshape;
mod resize;
mod rotary;
mod sample;
mod scatter;
mod select;
mod window;

use super::builder::Builder;
use super::error::{Fallible, unsupported};
use super::node::OnnxNode;
use super::values::Operand;
use crate::primitive::{Binary, ReduceKind};
use logic::{Comparison, Logic};
use reduce::Reduction;
use std::path::Path;

/// The oldest operator set in which an operator means what it means in set 7, so that the few models of older sets whose
/// operators all do so are imported too.
fn oldest(op: &str) -> i64 {
    match op {
        "Conv" | "ConvTranspose" | "GlobalAveragePool" | "GlobalMaxPool" | "Identity" | "MatMul" | "Transpose" | "Softmax" => 1,
        "Shape" | "Constant" | "Gather" | "Slice" | "Squeeze" | "Unsqueeze" | "Flatten" | "ReduceMax" | "ReduceMean" | "ReduceSum" => 1,
        "Pad" | "Split" | "LpPool" | "GlobalLpPool" => 2,
        "Concat" => 4,
        "Reshape" => 5,
        "Relu" | "LeakyRelu" | "Sigmoid" | "HardSigmoid" | "Tanh" | "Exp" | "Sqrt" | "Neg" | "Clip" | "Cast" | "Min" | "Max" => 6,
        "Log" | "Abs" | "Floor" | "Ceil" | "Reciprocal" | "Elu" | "Selu" => 6,
        "Softplus" | "Softsign" | "ArgMax" | "ArgMin" | "TopK" | "ReduceMin" | "ReduceProd" | "ReduceL1" | "ReduceL2" | "Size" => 1,
        "ReduceSumSquare" | "ReduceLogSum" | "ReduceLogSumExp" | "SpaceToDepth" | "DepthToSpace" | "Not" | "LpNormalization" | "LRN" => 1,
        "Hardmax" => 1,
        "InstanceNormalization" | "Tile" => 6,
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
        "LpPool" => pool::lp_pool(b, node),
        "GlobalLpPool" => pool::global_lp_pool(b, node),
        "GlobalAveragePool" => reduce::global(b, node, ReduceKind::Mean),
        "GlobalMaxPool" => reduce::global(b, node, ReduceKind::Max),
        "ReduceMean" => reduce::reduce(b, node, Reduction::Of(ReduceKind::Mean)),
        "ReduceMax" => reduce::reduce(b, node, Reduction::Of(ReduceKind::Max)),
        "ReduceSum" => reduce::reduce(b, node, Reduction::Of(ReduceKind::Sum)),
        "ReduceMin" => reduce::reduce(b, node, Reduction::Min),
        "ReduceProd" => reduce::reduce(b, node, Reduction::Product),
        "ReduceL1" => reduce::reduce(b, node, Reduction::Sizes),
        "ReduceL2" => reduce::reduce(b, node, Reduction::Length),
        "ReduceSumSquare" => reduce::reduce(b, node, Reduction::Squares),
        "ReduceLogSum" => reduce::reduce(b, node, Reduction::LogSum),
        "ReduceLogSumExp" => reduce::reduce(b, node, Reduction::LogSumExp),
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
        "CastLike" => elementwise::cast_like(b, node),
        "BatchNormalization" => return norm::batch_normalization(b, node),
        "LayerNormalization" => return norm::layer_normalization(b, node),
        "RMSNormalization" => norm::rms_normalization(b, node),
        "InstanceNormalization" => norm::instance_normalization(b, node),
        "GroupNormalization" => norm::group_normalization(b, node),
        "LpNormalization" => norm::lp_normalization(b, node),
        "LRN" => norm::local_response(b, node),
        "MeanVarianceNormalization" => norm::mean_variance(b, node),
        "Equal" => logic::compare(b, node, Comparison::Equal),
        "Greater" => logic::compare(b, node, Comparison::Greater),
        "GreaterOrEqual" => logic::compare(b, node, Comparison::GreaterOrEqual),
        "Less" => logic::compare(b, node, Comparison::Less),
        "LessOrEqual" => logic::compare(b, node, Comparison::LessOrEqual),
        "And" => logic::logic(b, node, Logic::And),
        "Or" => logic::logic(b, node, Logic::Or),
        "Xor" => logic::logic(b, node, Logic::Xor),
        "Not" => logic::not(b, node),
        "Where" => logic::choose(b, node),
        "Sign" => logic::sign(b, node),
        "IsNaN" => logic::is_nan(b, node),
        "IsInf" => logic::is_inf(b, node),
        "ThresholdedRelu" => formula::thresholded(b, node),
        "Shrink" => formula::shrink(b, node),
        "Swish" => formula::swish(b, node),
        "Mean" => formula::mean(b, node),
        "Mish" => formula::mish(b, node),
        "Gelu" => formula::gelu(b, node),
        "Reciprocal" => formula::reciprocal(b, node),
        "Softplus" => formula::softplus(b, node),
        "Softsign" => formula::softsign(b, node),
        "Elu" | "Celu" | "Selu" => formula::elu(b, node),
        "QuantizeLinear" => quantize::quantize(b, node),
        "DequantizeLinear" => quantize::dequantize(b, node),
        "DynamicQuantizeLinear" => return quantized::dynamic(b, node),
        "QLinearConv" => quantized::qlinear_conv(b, node),
        "QLinearMatMul" => quantized::qlinear_mat_mul(b, node),
        "ConvInteger" => quantized::conv_integer(b, node),
        "MatMulInteger" => quantized::mat_mul_integer(b, node),
        "Attention" => return attention::attention(b, node),
        "RotaryEmbedding" => rotary::rotary_embedding(b, node),
        "Einsum" => einsum::einsum(b, node),
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
        "Size" => counting::size(b, node),
        "Range" => counting::range(b, node),
        "EyeLike" => counting::eye_like(b, node),
        "Trilu" => counting::triangle(b, node),
        "NonZero" => counting::non_zero(b, node),
        "OneHot" => counting::one_hot(b, node),
        "CumSum" => counting::cumulative_sum(b, node),
        "Sin" | "Cos" | "Tan" | "Sinh" | "Cosh" | "Asin" | "Acos" | "Atan" | "Asinh" | "Acosh" | "Atanh" => angles::function(b, node),
        "Tile" => arrange::tile(b, node),
        "DepthToSpace" => arrange::depth_to_space(b, node),
        "SpaceToDepth" => arrange::space_to_depth(b, node),
        "ReverseSequence" => arrange::reverse_sequence(b, node),
        "Compress" => known::compress(b, node),
        "Unique" => return known::unique(b, node),
        "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" => known::bits(b, node),
        "BitwiseNot" => known::bitwise_not(b, node),
        "HannWindow" | "HammingWindow" | "BlackmanWindow" => known::window(b, node),
        "Hardmax" => rank::hardmax(b, node),
        "ArgMax" | "ArgMin" => rank::arg_max(b, node),
        "TopK" => return rank::top_k(b, node),
        "GatherElements" => scatter::gather_elements(b, node),
        "GatherND" => scatter::gather_nd(b, node),
        "ScatterElements" | "Scatter" => scatter::scatter_elements(b, node),
        "ScatterND" => scatter::scatter_nd(b, node),
        "GridSample" => sample::grid_sample(b, node),
        "DeformConv" => sample::deform_conv(b, node),
        "Col2Im" => sample::col2im(b, node),
        "AffineGrid" => regions::affine_grid(b, node),
        "RoiAlign" => regions::roi_align(b, node),
        other => Err(unsupported(refused::why(other))),
    };
    Ok(vec![output?])
}
