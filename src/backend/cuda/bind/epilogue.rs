//! What follows a product's sums: `Epilogue` of `kernels/epilogue.cuh`.

use super::tail::Tail;
use super::{Addresses, BindError, PackId, Packer};
use crate::plan::format::{Call, Operand, Operator, Rounding, View};
use crate::plan::tactic::before_copy;
use crate::plan::tactic::product::{Pixels, Product};
use crate::primitive::{Binary, Primitive, Region, Unary};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};
use half::f16;

/// Channels that are finished together.
pub const GROUP: usize = 8;

/// Bits of [`Epilogue::flags`].
pub mod flags {
    /// The sum with its bias is rounded to f16 before the tail.
    pub const ROUNDED: u32 = 1;
    /// Every group of 8 channels of the output begins at a multiple of 16 bytes.
    pub const WIDE_STORE: u32 = 2;
    /// The same for the joined tensor.
    pub const WIDE_JOINED: u32 = 4;
    /// Pixels of output and joined tensor follow each other across rows and samples of the chunk.
    pub const FLAT: u32 = 8;
    /// Results are rounded to f16 and stored as f32.
    pub const WIDENED: u32 = 16;
    /// The function's value, rounded to f16, is added to the joined tensor.
    pub const JOINS: u32 = 32;
    /// With [`JOINS`]: and a relu is the last.
    pub const JOINS_RELU: u32 = 64;
    /// Every pair of channels of the output begins at a multiple of 4 bytes.
    pub const EVEN_STORE: u32 = 128;
}

/// Numbers of the tails that have a path of their own.
pub(super) mod function {
    pub const IDENTITY: u32 = 0;
    pub const RELU: u32 = 1;
    pub const LEAKY_RELU: u32 = 2;
    pub const CLIP: u32 = 3;
    pub const HARD_SWISH: u32 = 4;
    pub const SILU: u32 = 5;
    pub const GELU: u32 = 6;
    pub const SIGMOID: u32 = 7;
    pub const TANH: u32 = 8;
    pub const GELU_TANH: u32 = 9;
    pub const TAIL: u32 = 10;
}

/// A tensor of f16 with neighbouring channels side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ChannelsLast {
    /// Device address of its first element.
    pub address: u64,
    /// Elements from sample to sample.
    pub batch: i64,
    /// Elements from row to row.
    pub row: i64,
    /// Elements from pixel to pixel.
    pub pixel: i64,
}

impl ChannelsLast {
    /// A tensor at `address`; where pixels are flat, `step` is the one step between them.
    pub(super) fn new(address: u64, pixels: &Pixels, step: Option<i64>) -> ChannelsLast {
        let [batch, row, pixel, _] = pixels.strides;
        ChannelsLast {
            address,
            batch,
            row,
            pixel: step.unwrap_or(pixel),
        }
    }
}

/// Bias, rounding, tail and output of a product.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Epilogue {
    /// The output.
    pub output: ChannelsLast,
    /// The tensor that the tail adds; zeros if it adds none.
    pub joined: ChannelsLast,
    /// Device address of the packed bias, 0 for none.
    pub bias: u64,
    /// Number of the tail's path.
    pub function: u32,
    /// [`flags`].
    pub flags: u32,
    /// First attribute of the path's function.
    pub first: f32,
    /// Second attribute.
    pub second: f32,
    /// The calls behind the head, for the interpreter.
    pub tail: Tail,
}

impl Epilogue {
    /// The epilogue of a chunk of a product.
    pub fn new(
        at: &Addresses<'_>,
        operator: &Operator,
        product: &Product<'_>,
        bias: Option<PackId>,
        region: &Region,
    ) -> Result<Epilogue, BindError> {
        let tail = Tail::of_product(at, operator, product)?;
        let path = Path::of(operator, product);
        let [samples, rows, ..] = product.out.extents;
        let whole = region.batch.len() == 1 || region.rows == (0..rows) || samples == 1;
        let joined_step = path.joined.map(|(_, pixels)| pixels.flat_step());
        let step = product.out.flat_step().filter(|_| whole && joined_step != Some(None));
        let address = at.view(product.output)?;
        let mut bits = path.flags;
        let mut set = |bit: u32, on: bool| bits |= if on { bit } else { 0 };
        let widened = product.output.dtype == DType::F32;
        set(flags::ROUNDED, tail.head_rounded != 0);
        set(flags::WIDE_STORE, address.is_multiple_of(16) && product.out.wide() && !widened);
        set(flags::EVEN_STORE, address.is_multiple_of(4) && product.out.even() && !widened);
        set(flags::WIDENED, widened);
        set(flags::FLAT, step.is_some());
        let joined = match path.joined {
            Some((view, pixels)) => {
                let address = at.view(view)?;
                set(flags::WIDE_JOINED, address.is_multiple_of(16) && pixels.wide());
                ChannelsLast::new(address, &pixels, joined_step.flatten().filter(|_| step.is_some()))
            }
            None => ChannelsLast::default(),
        };
        Ok(Epilogue {
            output: ChannelsLast::new(address, &product.out, step),
            joined,
            bias: bias.map_or(Ok(0), |pack| at.pack(pack).map(|area| area.address))?,
            function: path.function,
            flags: bits,
            first: path.attributes.0,
            second: path.attributes.1,
            tail,
        })
    }
}

/// How a tail is computed: a function of one value, then what is joined.
struct Path<'a> {
    function: u32,
    attributes: (f32, f32),
    joined: Option<(&'a View, Pixels)>,
    /// Those of [`flags`] that say how it is joined.
    flags: u32,
}

impl<'a> Path<'a> {
    /// The path of an operator's tail; what has none of its own is interpreted.
    fn of(operator: &'a Operator, product: &Product<'_>) -> Path<'a> {
        let calls = before_copy(operator);
        let halves = calls.iter().all(|c| c.dtype == DType::F16);
        Path::known(calls, product).filter(|_| halves).unwrap_or(Path {
            function: function::TAIL,
            attributes: (0.0, 0.0),
            joined: None,
            flags: 0,
        })
    }

    /// Of a head: maybe a function, maybe an addition, and behind it maybe a relu.
    fn known(calls: &'a [Call], product: &Product<'_>) -> Option<Path<'a>> {
        let later = calls.get(1..).unwrap_or(&[]);
        let first = later.first().and_then(|call| unary(call, 0)).and_then(simple);
        let (function, attributes) = first.unwrap_or((function::IDENTITY, (0.0, 0.0)));
        let joins = usize::from(first.is_some());
        let path = |joined, flags| {
            Some(Path {
                function,
                attributes,
                joined,
                flags,
            })
        };
        // What is added to is rounded.
        let added = |add| {
            calls
                .get(joins)
                .filter(|c| c.rounding == Rounding::Rounded)
                .and_then(|_| added(add, joins as u8, product))
        };
        match &later[joins..] {
            [] => path(None, 0),
            [add] => path(Some(added(add)?), flags::JOINS),
            [add, relu] if unary(relu, joins as u8 + 1) == Some(Unary::Relu) => path(Some(added(add)?), flags::JOINS | flags::JOINS_RELU),
            _ => None,
        }
    }
}

/// The function of a call that takes the value of call `source` alone.
fn unary(call: &Call, source: u8) -> Option<Unary> {
    match (&call.primitive, call.inputs.as_slice()) {
        (Primitive::Unary(kind), [x]) if *x == Operand::Inner(source) => Some(*kind),
        _ => None,
    }
}

fn simple(kind: Unary) -> Option<(u32, (f32, f32))> {
    Some(match kind {
        Unary::Relu => (function::RELU, (0.0, 0.0)),
        Unary::LeakyRelu(alpha) => (function::LEAKY_RELU, (alpha.0, 0.0)),
        Unary::Clip(low, high) => (function::CLIP, (low.0, high.0)),
        Unary::HardSwish => (function::HARD_SWISH, (0.0, 0.0)),
        Unary::Silu => (function::SILU, (0.0, 0.0)),
        Unary::Sigmoid => (function::SIGMOID, (0.0, 0.0)),
        Unary::Tanh => (function::TANH, (0.0, 0.0)),
        Unary::Gelu => (function::GELU, (0.0, 0.0)),
        Unary::GeluTanh => (function::GELU_TANH, (0.0, 0.0)),
        _ => return None,
    })
}

/// The tensor that a call adds to the value of call `source`, if it lies like the output.
fn added<'a>(call: &'a Call, source: u8, product: &Product<'_>) -> Option<(&'a View, Pixels)> {
    let view = match (&call.primitive, call.inputs.as_slice()) {
        (Primitive::Binary(Binary::Add), [Operand::Inner(value), Operand::View(view)] | [Operand::View(view), Operand::Inner(value)])
            if *value == source =>
        {
            view
        }
        _ => return None,
    };
    let pixels = Pixels::of(view)?;
    let fits = view.dtype == DType::F16 && pixels.extents == product.out.extents && pixels.channels_last();
    fits.then_some((view, pixels))
}

/// Packs a product's bias as the epilogue reads it: f32, zeros up to a multiple of [`GROUP`] channels.
pub fn pack_bias(packer: &Packer<'_>, product: &Product<'_>) -> Result<Option<PackId>, BindError> {
    let Some(view) = product.bias else { return Ok(None) };
    let section = packer.section(view).ok_or(BindError::Reference)?;
    let (last, channels) = (view.layout.shape.rank() - 1, product.out.extents[3] as usize);
    let stride = if channels > 1 { view.layout.stride(last) } else { 0 };
    let halves = Constants::new(packer.contents(section)?, view)?;
    let name = format!("bias {} {} {stride} {}", view.origin, view.dtype, channels);
    let make = |_: &[u8]| {
        let mut packed: Vec<f32> = (0..channels as i64).map(|c| halves.get(c * stride)).collect();
        packed.resize(channels.next_multiple_of(GROUP), 0.0);
        bytemuck::cast_slice(&packed).to_vec()
    };
    packer.pack(section, name, make).map(Some)
}

/// Elements of a constant view, by their offset from its first.
pub struct Constants<'a> {
    bytes: &'a [u8],
    begin: usize,
    dtype: DType,
}

impl<'a> Constants<'a> {
    /// The view must lie inside its section.
    pub fn new(section: &'a [u8], view: &View) -> Result<Constants<'a>, BindError> {
        let size = view.dtype.bytes();
        let (low, high) = view.layout.bounds().ok_or(BindError::Large("a weight tensor"))?;
        let begin = view.origin.checked_mul(size).ok_or(BindError::Reference)?;
        let end = u64::try_from(high)
            .ok()
            .and_then(|h| h.checked_add(1)?.checked_mul(size)?.checked_add(begin));
        match end {
            Some(end) if low >= 0 && end <= section.len() as u64 && view.dtype.is_float() => Ok(Constants {
                bytes: &section[begin as usize..end as usize],
                begin: begin as usize,
                dtype: view.dtype,
            }),
            _ => Err(BindError::Reference),
        }
    }

    /// The view's bytes in its section.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.begin..self.begin + self.bytes.len()
    }

    /// The element `offset` elements behind the first; offsets are inside the view's layout.
    pub fn get(&self, offset: i64) -> f32 {
        let at = offset as usize;
        match self.dtype {
            DType::F16 => self.half(offset).to_f32(),
            _ => f32::from_le_bytes([0, 1, 2, 3].map(|i| self.bytes[at * 4 + i])),
        }
    }

    /// The same of a view of f16.
    pub fn half(&self, offset: i64) -> f16 {
        let at = offset as usize * 2;
        f16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(size_of::<ChannelsLast>(), 32);
        assert_eq!(size_of::<Epilogue>(), 88 + size_of::<Tail>());
        assert_eq!(
            (
                offset_of!(Epilogue, bias),
                offset_of!(Epilogue, function),
                offset_of!(Epilogue, tail)
            ),
            (64, 72, 88)
        );
    }

    #[test]
    fn numbers_are_the_sources() {
        let source = include_str!("../kernels/epilogue.cuh");
        for line in [
            "EPILOGUE_IDENTITY = 0,",
            "EPILOGUE_RELU = 1,",
            "EPILOGUE_LEAKY_RELU = 2,",
            "EPILOGUE_CLIP = 3,",
            "EPILOGUE_HARD_SWISH = 4,",
            "EPILOGUE_SILU = 5,",
            "EPILOGUE_GELU = 6,",
            "EPILOGUE_SIGMOID = 7,",
            "EPILOGUE_TANH = 8,",
            "EPILOGUE_GELU_TANH = 9,",
            "EPILOGUE_TAIL = 10,",
            "EPILOGUE_ROUNDED = 1;",
            "EPILOGUE_WIDE_STORE = 2;",
            "EPILOGUE_WIDE_JOINED = 4;",
            "EPILOGUE_FLAT = 8;",
            "EPILOGUE_WIDENED = 16;",
            "EPILOGUE_JOINS = 32;",
            "EPILOGUE_JOINS_RELU = 64;",
            "EPILOGUE_EVEN_STORE = 128;",
        ] {
            assert!(source.contains(line), "{line}");
        }
    }
}
