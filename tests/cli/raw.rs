//! Small ONNX files, written field by field.

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u64, value: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn node(op: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut node: Vec<u8> = inputs.iter().flat_map(|i| bytes(1, i.as_bytes())).collect();
    node.extend(bytes(2, output.as_bytes()));
    node.extend(bytes(4, op.as_bytes()));
    attributes.iter().for_each(|a| node.extend(bytes(5, a)));
    bytes(1, &node)
}

/// A graph input (field 11) or output (field 12).
fn value(field: u64, name: &str, elem: u64, dims: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&d| bytes(1, &number(1, d))).collect();
    let tensor = [number(1, elem), bytes(2, &dims)].concat();
    bytes(field, &[bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat())
}

fn initializer(name: &str, dims: &[u64], values: &[f32]) -> Vec<u8> {
    let mut tensor: Vec<u8> = dims.iter().flat_map(|&d| number(1, d)).collect();
    tensor.extend(number(2, 1));
    tensor.extend(bytes(8, name.as_bytes()));
    tensor.extend(bytes(9, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()));
    bytes(5, &tensor)
}

fn model(graph: &[Vec<u8>]) -> Vec<u8> {
    let opset = bytes(8, &number(2, 13));
    [number(1, 8), bytes(7, &graph.concat()), opset].concat()
}

/// A picture of 32 x 24 pixels to two scores a pixel: `2 - mean / 64` and `mean / 64 - 2` of its colours.
pub fn shades() -> Vec<u8> {
    shades_of(&[1, 1], &[24, 32])
}

/// The same of pictures of so many rows and columns, by windows of such extents, whose last pixel is all that counts.
pub fn shades_of(window: &[u64; 2], extents: &[u64; 2]) -> Vec<u8> {
    let (weight, taps) = (1.0 / 3.0 / 64.0, (window[0] * window[1]) as usize);
    let last = |weight: f32| [vec![0.0; taps - 1], vec![weight]].concat().repeat(3);
    let results = [extents[0] - window[0] + 1, extents[1] - window[1] + 1];
    model(&[
        node("Conv", &["picture", "w", "b"], "shades", &[]),
        initializer("w", &[2, 3, window[0], window[1]], &[last(-weight), last(weight)].concat()),
        initializer("b", &[2], &[2.0, -2.0]),
        value(11, "picture", 1, &[1, 3, extents[0], extents[1]]),
        value(12, "shades", 1, &[1, 2, results[0], results[1]]),
    ])
}

/// `y = x + x` over as many rows of 4 as one likes.
pub fn symbolic() -> Vec<u8> {
    let dims = [bytes(1, &bytes(2, b"rows")), bytes(1, &number(1, 4))].concat();
    let tensor = [number(1, 1), bytes(2, &dims)].concat();
    let value = |field: u64, name: &[u8]| bytes(field, &[bytes(1, name), bytes(2, &bytes(1, &tensor))].concat());
    model(&[node("Add", &["x", "x"], "y", &[]), value(11, b"x"), value(12, b"y")])
}

/// `y = reshape(x, shape)` with the shape as an input, and `double/y:0 = y + y`.
pub fn reshaping() -> Vec<u8> {
    model(&[
        node("Reshape", &["x", "shape"], "y", &[]),
        node("Add", &["y", "y"], "double/y:0", &[]),
        value(11, "x", 1, &[2, 3]),
        value(11, "shape", 7, &[2]),
        value(12, "double/y:0", 1, &[3, 2]),
    ])
}

/// `y = x + w` of four values, where `w` is in a file beside it.
pub fn elsewhere(file: &str) -> Vec<u8> {
    let place = bytes(13, &[bytes(1, b"location"), bytes(2, file.as_bytes())].concat());
    let weights = [number(1, 4), number(2, 1), bytes(8, b"w"), number(14, 1), place].concat();
    model(&[
        node("Add", &["x", "w"], "y", &[]),
        bytes(5, &weights),
        value(11, "x", 1, &[4]),
        value(12, "y", 1, &[4]),
    ])
}

/// Two inputs of one name.
pub fn two_of_one_name() -> Vec<u8> {
    model(&[
        node("Relu", &["x"], "y", &[]),
        value(11, "x", 1, &[4]),
        value(11, "x", 1, &[4]),
        value(12, "y", 1, &[4]),
    ])
}

/// Two nodes that each read what the other gives.
pub fn circle() -> Vec<u8> {
    model(&[
        node("Add", &["x", "b"], "a", &[]),
        node("Relu", &["a"], "b", &[]),
        value(11, "x", 1, &[4]),
        value(12, "b", 1, &[4]),
    ])
}
