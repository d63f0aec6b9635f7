use super::*;

fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

#[test]
fn channels_last_keeps_logical_order_and_moves_axis_one_inside() {
    let l = Layout::channels_last(shape(&[2, 3, 4, 5]));
    assert_eq!(l.strides(), &[60, 1, 15, 3]);
    assert_eq!(Layout::channels_last(shape(&[2, 3])).strides(), &[3, 1]);
}

#[test]
fn reshape_of_a_layout_is_found_where_strides_can_say_it() {
    let l = Layout::contiguous(shape(&[2, 3, 4]));
    assert_eq!(l.reshaped(shape(&[6, 4])).unwrap().strides(), &[4, 1]);
    assert_eq!(l.reshaped(shape(&[1, 24])).unwrap().strides(), &[0, 1]);
    let t = l.permuted(&[1, 0, 2]).unwrap();
    assert!(t.reshaped(shape(&[6, 4])).is_none());
    assert_eq!(t.reshaped(shape(&[3, 2, 2, 2])).unwrap().strides(), &[4, 12, 2, 1]);
    // Channels-last pixels flatten to rows of pixels without a copy.
    let nhwc = Layout::channels_last(shape(&[1, 8, 4, 4])).permuted(&[0, 2, 3, 1]).unwrap();
    assert_eq!(nhwc.reshaped(shape(&[1, 16, 8])).unwrap().strides(), &[0, 8, 1]);
}

#[test]
fn shapes_beyond_the_limits_are_refused() {
    assert!(Shape::new(&[1; MAX_RANK + 1]).is_none());
    assert!(Shape::new(&[u32::MAX, 2]).is_none());
    assert!(Shape::new(&[u32::MAX, 2, 0]).is_none());
    assert_eq!(shape(&[3, 0]).elements(), 0);
}
