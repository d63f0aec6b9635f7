use super::*;
use std::mem::{offset_of, size_of};

#[test]
fn params_have_the_sources_bytes() {
    assert_eq!(size_of::<Params>(), 160 + size_of::<Epilogue>());
    assert_eq!((offset_of!(Params, x_pixel), offset_of!(Params, height)), (32, 48));
    assert_eq!((offset_of!(Params, rows), offset_of!(Params, items)), (104, 132));
    assert_eq!(offset_of!(Params, epilogue), 160);
}
