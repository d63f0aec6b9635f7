#![allow(unsafe_code)]
//! The vector kernels of the CPU backend.
//!
//! # One source, sixteen lanes
//!
//! Every kernel is written once, over vectors of sixteen virtual `f32` lanes: one 512-bit register
//! with AVX-512, two registers with AVX2, four with NEON, an array in portable Rust. The body is
//! compiled once per instruction set, and [`Kernels::get`] picks the best at run time.
//!
//! # Equal bits
//!
//! For the same call every instruction set yields the same bits. Each output is accumulated in one
//! fixed order with fused multiply-adds; reductions over a run keep sixteen partial results by index
//! modulo sixteen and fold them by a fixed tree; maximum and minimum are
//! `if a > b { a } else { b }` and its mirror; exponential, logarithm, error function and their kin
//! are built from correctly rounded steps. How a caller cuts pixels, rows or channels into calls does not
//! change a bit either, save for the reductions of one run and for a softmax. One thing is outside
//! the promise: a NaN is a NaN everywhere, but its sign and payload are not fixed.
//!
//! # Layout
//!
//! Tensors are channels-last. Weights are packed once, by [`Kernels::pack`] and [`pack_depthwise`].
//! Nothing here allocates except what the caller hands in.

mod convert;
mod igemm;
mod math;
pub mod operators;
mod pack;
mod part;
mod portable;
mod recurrent;
mod reduce;
mod step;
mod table;
mod tile;
mod vector;
mod window;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(test)]
mod tests;

pub use convert::BilinearRow;
pub use igemm::{Gemm, Igemm};
pub use pack::{depthwise_packed_len, pack_depthwise, packed_len};
pub use recurrent::RecurrentCell;
pub use step::{Binary, MAX_STEPS, MapRows, Operand, Step, Unary};
pub use table::Kernels;
pub use window::{Depthwise, Pool, PoolKind, Window};

/// An instruction set for which the kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// x86-64 with AVX-512 F, VL, BW and DQ.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// AArch64 with Advanced SIMD.
    Neon,
    /// Plain Rust, on any processor.
    Portable,
}

impl Isa {
    /// All of them, best first.
    pub const ALL: [Isa; 4] = [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Portable];

    /// The name used in settings and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Neon => "neon",
            Isa::Portable => "portable",
        }
    }

    /// The instruction set of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Whether this processor has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_available()
                    && std::arch::is_x86_feature_detected!("avx512f")
                    && std::arch::is_x86_feature_detected!("avx512vl")
                    && std::arch::is_x86_feature_detected!("avx512bw")
                    && std::arch::is_x86_feature_detected!("avx512dq")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma")
                    && std::arch::is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Isa::Portable => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }

    /// Those that this processor has, best first; the portable one is always among them.
    pub fn available() -> impl Iterator<Item = Isa> {
        Isa::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// The best that this processor has.
    #[must_use]
    pub fn detect() -> Isa {
        Isa::available().next().unwrap_or(Isa::Portable)
    }
}
