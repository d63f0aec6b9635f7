//! Convolutions of many channels to few by wide windows, which are summed column by column.

use super::*;

#[test]
fn few_channels_are_summed_from_columns() {
    for (outputs, kernel, left) in [(1, [3, 7], 2), (3, [5, 5], 2), (1, [9, 3], 1), (9, [5, 5], 1)] {
        let (mut net, mut draw) = (Net::default(), Draw::new(4));
        let dims = [2, 3072 / (kernel[0] * kernel[1]) + 1, 11, 14];
        let x = net.input(&dims);
        let weights = net.constant(draw.tensor(&[outputs, dims[1], kernel[0], kernel[1]]));
        let bias = net.constant(draw.tensor(&[outputs]));
        let mut window = Window::new(&kernel);
        (window.stride, window.dilation) = ([2, 1, 1], [1, 2, 1]);
        (window.pad_begin, window.pad_end) = ([1, 3, 0], [2, 5, 0]);
        let extents = [0, 1].map(|axis| window.output(axis, dims[axis + 2]).unwrap());
        let made = [2, outputs, extents[0], extents[1]];
        let y = net.node(Op::Primitive(Primitive::Conv { window, groups: 1 }), &[x, weights, bias], &made);
        net.output(y);
        let passed = run(net.graph.clone(), PassSet::FULLER).unwrap();
        let inputs = [draw.tensor(&dims)];
        close(&evaluate(&passed, &inputs), &evaluate(&net.graph, &inputs), 1e-4, "columns");
        let convolutions = passed
            .nodes
            .iter()
            .filter(|n| matches!(n.op, Op::Primitive(Primitive::Conv { .. })));
        assert_eq!(convolutions.count(), left, "{outputs} channels by {kernel:?}");
    }
}
