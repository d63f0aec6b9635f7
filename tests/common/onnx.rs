//! ONNX models written by hand, and the part of a model that tests look at. Field numbers are those of onnx.proto.

use prost::Message;

/// Element types of onnx.proto.
pub const FLOAT: i32 = 1;
pub const INT64: i32 = 7;

#[derive(Clone, PartialEq, Message)]
pub struct Model {
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    #[prost(message, optional, tag = "7")]
    pub graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<Opset>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Opset {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(int64, tag = "2")]
    pub version: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Node {
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    #[prost(string, tag = "4")]
    pub op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub domain: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(float, tag = "2")]
    pub f: f32,
    #[prost(int64, tag = "3")]
    pub i: i64,
    #[prost(string, tag = "4")]
    pub s: String,
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<Graph>>,
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    #[prost(int32, tag = "20")]
    pub r#type: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Type {
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    #[prost(int32, tag = "1")]
    pub elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub shape: Option<ShapeProto>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub value: Option<i64>,
}

/// An integer attribute.
pub fn int(name: &str, i: i64) -> Attribute {
    Attribute {
        name: name.into(),
        i,
        r#type: 2,
        ..Attribute::default()
    }
}

/// An attribute of integers.
pub fn ints(name: &str, ints: &[i64]) -> Attribute {
    Attribute {
        name: name.into(),
        ints: ints.to_vec(),
        r#type: 7,
        ..Attribute::default()
    }
}

/// A float attribute.
pub fn float(name: &str, f: f32) -> Attribute {
    Attribute {
        name: name.into(),
        f,
        r#type: 1,
        ..Attribute::default()
    }
}

/// An attribute of text.
pub fn string(name: &str, s: &str) -> Attribute {
    Attribute {
        name: name.into(),
        s: s.into(),
        r#type: 3,
        ..Attribute::default()
    }
}

/// A graph as an attribute: a branch or a body.
pub fn graph(name: &str, graph: Graph) -> Attribute {
    Attribute {
        name: name.into(),
        g: Some(Box::new(graph)),
        r#type: 5,
        ..Attribute::default()
    }
}

fn value(name: &str, dims: Option<&[i64]>) -> ValueInfo {
    let dim = |&d: &i64| Dimension { value: Some(d) };
    let tensor = TensorType {
        elem_type: FLOAT,
        shape: dims.map(|dims| ShapeProto {
            dim: dims.iter().map(dim).collect(),
        }),
    };
    ValueInfo {
        name: name.into(),
        r#type: Some(Type { tensor_type: Some(tensor) }),
    }
}

impl Graph {
    /// A float input.
    pub fn input(mut self, name: &str, dims: &[i64]) -> Graph {
        self.input.push(value(name, Some(dims)));
        self
    }

    /// A float output.
    pub fn output(mut self, name: &str) -> Graph {
        self.output.push(value(name, None));
        self
    }

    /// A float constant, its elements from `element`.
    pub fn constant(mut self, name: &str, dims: &[i64], element: impl FnMut() -> f32) -> Graph {
        let count = dims.iter().product::<i64>() as usize;
        self.initializer.push(TensorProto {
            dims: dims.to_vec(),
            data_type: FLOAT,
            float_data: std::iter::repeat_with(element).take(count).collect(),
            name: name.into(),
            ..TensorProto::default()
        });
        self
    }

    /// An i64 vector.
    pub fn integers(mut self, name: &str, values: &[i64]) -> Graph {
        self.initializer.push(TensorProto {
            dims: vec![values.len() as i64],
            data_type: INT64,
            int64_data: values.to_vec(),
            name: name.into(),
            ..TensorProto::default()
        });
        self
    }

    /// A node; names are separated by spaces, and `-` stands for an absent one.
    pub fn node(mut self, op: &str, inputs: &str, outputs: &str, attribute: &[Attribute]) -> Graph {
        let names = |text: &str| text.split_whitespace().map(|name| name.replace('-', "")).collect();
        self.node.push(Node {
            input: names(inputs),
            output: names(outputs),
            op_type: op.into(),
            attribute: attribute.to_vec(),
            ..Node::default()
        });
        self
    }

    /// The file of a model of operator set 13.
    pub fn file(self) -> Vec<u8> {
        self.file_of(13)
    }

    /// The file of a model of a version of the operator set.
    pub fn file_of(self, version: i64) -> Vec<u8> {
        let model = Model {
            ir_version: 8,
            graph: Some(self),
            opset_import: vec![Opset {
                domain: String::new(),
                version,
            }],
        };
        model.encode_to_vec()
    }
}
