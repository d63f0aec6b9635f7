//! The contract between the halves: the plan, its file, its table, its weights, and what must hold of them.
//!
//! A plan is the immutable result for one task set on one board. Bytes become a [`format::Plan`] (decoded, nothing
//! believed), then a [`check::CheckedPlan`] (every invariant below established), which alone a backend accepts.
//!
//! # Invariants
//! The modules of [`check`], its errors and the tests use these numbers.
//! - **P1** every reference (tenant, operator, buffer, stream, segment, sync point, weight section, tactic) exists.
//! - **P2** the chunks of an operator cover its batch and output rows exactly, in order, without overlap, all in the
//!   operator's arithmetic class, which is a function of the operator and the board alone.
//! - **P3** segments and sync points form a partial order: every sync point joins earlier to later segments in issue
//!   order, so issuing in stored order on the stored streams cannot deadlock; frames of the cycle run one after another.
//! - **P4** every operator reads only what is complete before it under that order (a row band's halo rows included);
//!   a dependent tenant runs only in frames where its source runs.
//! - **P5** two buffers that may be live at once under that order never overlap; alignment holds; everything fits the
//!   board's budget. Persistent buffers are never reused within the cycle.
//! - **P6** shapes, types and layouts agree along every edge; `limits` holds for every count.
//! - **P7** weights match their digests; the plan matches its checksum, its format version and the board.
//! - **P8** every deadline and rate is met by the stored prediction, or the plan is best-effort and stores its misses.

pub mod check;
pub mod clocks;
pub mod deployment;
pub mod digest;
pub mod dump;
pub mod file;
pub mod footprint;
pub mod format;
pub mod regular;
pub mod table;
pub mod tactic;
pub mod weights;
