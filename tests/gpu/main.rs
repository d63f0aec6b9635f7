//! The CUDA backend on a real GPU. Where there is none, every test says so on a line that begins with `NO GPU`, and passes.
//!
//! | module | what |
//! |---|---|
//! | `conformance` | operators: ONNX's own cases, in f32 and in f16 |
//! | `permutes` | axes in other orders: the bits of the processor |
//! | `pairs` | products of computed matrices, whose K is cut into ranges |
//! | `chains` | elementwise functions: the bits of the processor |
//! | `paddings` | what is beside a tensor, by every mode: the bits of the processor |
//! | `pools` | windows of every size: the bits of the processor |
//! | `deformable` | deformable attention, its levels put together in every way: the bits of the processor |
//! | `expectations` | means weighed by a softmax: the bits of the processor, however bins lie |
//! | `depthwise` | channels convolved on their own, under every strip |
//! | `grouped` | convolutions in groups that share patches: the bits of the processor |
//! | `fuller` | layers of few channels, planned as others: the bits of the processor |
//! | `floats` | convolutions, products and reductions of floats: the bits of the processor |
//! | `reductions` | reductions under every kernel: the same bits |
//! | `networks` | whole networks in f16 against the processor in f32 |
//! | `bits` | the same bits, however a plan is scheduled, submitted and confined |
//! | `company` | operators that share a workspace |
//! | `frames` | the loop: no memory, no call that waits |
//! | `images` | images in the GPU's memory, slots in the host's |
//! | `faults` | what goes wrong on the device |
//! | `pooled` | convolutions of which maxima alone are stored: the same bits by every kernel |
//! | `prologues` | products behind scale, shift and relu, or behind factors: the same bits by `mma.sync` and `wgmma` |
//! | `refused` | what cannot be prepared |
//! | `resizes` | pictures made larger and smaller: the bits of the processor |
//! | `samples` | samples of pictures by grids: the bits of the processor, however both lie |
//! | `sharing` | beside other processes on the same GPU: the same bits |
//! | `slender` | convolutions from many channels to few: the same bits by every kernel of their classes |
//! | `squeezes` | squeeze and excitation, for one sample a block and for several |
//! | `tensors` | tensor inputs in the GPU's memory |
//! | `tiles` | the tiles of dense layers |
//!
//! `PLATOON_KERNELS` names the folder of kernel archives, by default `plans/kernels`.
#![cfg(all(feature = "cuda", feature = "bench"))]
#![allow(dead_code)] // the shared modules serve other binaries too

mod attentions;
mod bits;
mod chains;
mod company;
mod conformance;
mod deformable;
mod depthwise;
mod direct;
mod expectations;
mod faults;
mod floats;
mod frames;
mod fuller;
mod grouped;
mod images;
mod networks;
mod normalisations;
mod paddings;
mod pairs;
mod permutes;
mod pooled;
mod pools;
mod processor;
mod prologues;
mod ranks;
mod recurrences;
mod reductions;
mod refused;
mod resizes;
mod road;
mod rows;
mod samples;
mod sharing;
mod slender;
mod spread;
mod squeezes;
mod tensors;
mod tiles;
mod zeros;

#[path = "../common/av.rs"]
mod av;
#[path = "../common/calls.rs"]
mod calls;
#[path = "../common/cases.rs"]
mod cases;
#[path = "../common/child.rs"]
mod child;
#[path = "../common/compare.rs"]
mod compare;
#[path = "../common/data.rs"]
mod data;
#[path = "../common/gpu.rs"]
mod gpu;
#[path = "../common/meter.rs"]
mod meter;
#[path = "../common/network.rs"]
mod network;
#[path = "../common/onnx.rs"]
mod onnx;
#[path = "../conformance/skips.rs"]
mod skips;
