//! Plans, tables and weights as bytes and as claims: what is written is read again, what is wrong is refused.

mod bytes;
mod deployment;
mod invariants;
mod legal;
mod meter;
mod order;
mod sample;
mod tactics;
mod text;
