use super::*;
use std::mem::{offset_of, size_of};

#[test]
fn structs_have_the_sources_bytes() {
    assert_eq!(
        (size_of::<SampleParams>(), offset_of!(SampleParams, first_batch)),
        (4 * 88 + 7 * 12 + 13 * 4, 4 * 88 + 7 * 12)
    );
    assert_eq!(size_of::<ScatterParams>(), 2 * 88 + 16);
    let (sample, scatter) = (include_str!("../../kernels/sample.cu"), include_str!("../../kernels/scatter.cu"));
    assert!(sample.contains(&format!("SAMPLE_THREADS = {SAMPLE_THREADS};")) && sample.contains(&format!("SAMPLE_PIECE = {PIECE};")));
    assert!(scatter.contains(&format!("SCATTER_THREADS = {SCATTER_THREADS};")));
    assert!(scatter.contains(&format!("SCATTER_ROWS = {SCATTER_ROWS};")));
}
