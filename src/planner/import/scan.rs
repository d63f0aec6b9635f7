//! A walk over a model's bytes before they are decoded, which bounds the memory that decoding takes.
//!
//! An empty protobuf message is two bytes in a file and hundreds in memory. The walk counts the messages (and strings) that
//! [`super::proto`] would make, without making them, and refuses files with absurdly many.

use super::error::{Fallible, limit, malformed};

/// Messages and strings in one model: a network of [`crate::limits::MAX_OPERATORS`] nodes stays below.
const MAX_MESSAGES: u32 = 1 << 20;

/// Messages inside each other: graphs hold nodes, whose branches are graphs.
const MAX_DEPTH: u32 = 64;

/// The messages that hold others, and which of their fields do.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Function,
    Graph,
    Node,
    Attribute,
    Tensor,
    ValueInfo,
    Type,
    TensorType,
    Shape,
    /// Counted, not looked into.
    Leaf,
}

impl Message {
    fn field(self, number: u64) -> Option<Message> {
        Some(match (self, number) {
            (Message::Model, 7) => Message::Graph,
            (Message::Model, 25) => Message::Function,
            (Message::Graph, 1) | (Message::Function, 7) => Message::Node,
            (Message::Attribute, 6) => Message::Graph,
            (Message::Graph, 5) | (Message::Attribute, 5) => Message::Tensor,
            (Message::Graph, 11 | 12) => Message::ValueInfo,
            (Message::Node, 5) | (Message::Function, 11) => Message::Attribute,
            (Message::ValueInfo, 2) => Message::Type,
            (Message::Type, 1) => Message::TensorType,
            (Message::TensorType, 2) => Message::Shape,
            (Message::Model, 8)
            | (Message::Function, 4 | 5 | 6 | 9)
            | (Message::Graph, 15)
            | (Message::Node, 1 | 2)
            | (Message::Tensor, 13)
            | (Message::Shape, 1) => Message::Leaf,
            _ => return None,
        })
    }
}

/// Refuses files with more messages than a network can need. What is not protobuf at all is left to the decoder.
pub(super) fn check(file: &[u8]) -> Fallible<()> {
    let mut left = MAX_MESSAGES;
    walk(file, Message::Model, &mut left, MAX_DEPTH)
}

fn walk(mut bytes: &[u8], message: Message, left: &mut u32, depth: u32) -> Fallible<()> {
    let below = depth
        .checked_sub(1)
        .ok_or_else(|| limit(format!("messages more than {MAX_DEPTH} deep inside each other")))?;
    let cut = || malformed("not an ONNX model: it ends inside a field");
    while !bytes.is_empty() {
        let key = varint(&mut bytes).ok_or_else(cut)?;
        let length = match key & 7 {
            0 => {
                varint(&mut bytes).ok_or_else(cut)?;
                continue;
            }
            1 => 8,
            5 => 4,
            2 => varint(&mut bytes).ok_or_else(cut)?,
            _ => return Err(malformed("not an ONNX model: a field of an unknown kind")),
        };
        let length = usize::try_from(length).ok().filter(|&n| n <= bytes.len()).ok_or_else(cut)?;
        let (body, rest) = bytes.split_at(length);
        bytes = rest;
        if key & 7 != 2 {
            continue;
        }
        if let Some(inner) = message.field(key >> 3) {
            *left = left
                .checked_sub(1)
                .ok_or_else(|| limit(format!("more than {MAX_MESSAGES} messages")))?;
            if !matches!(inner, Message::Leaf) {
                walk(body, inner, left, below)?;
            }
        }
    }
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_empty_messages_is_refused_before_decoding() {
        let nodes = [0x0a, 0x00].repeat(MAX_MESSAGES as usize);
        let mut file = vec![0x3a];
        let mut n = nodes.len();
        while n >= 0x80 {
            file.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        file.push(n as u8);
        file.extend(nodes);
        assert!(check(&file).is_err());
    }

    #[test]
    fn graphs_inside_graphs_end_somewhere() {
        // Graph (7 of the model, 6 of an attribute), node 1, attribute 5, each holding all that was there before.
        let mut bytes = Vec::new();
        for level in 0..300usize {
            let key = [0x32, 0x2a, 0x0a][level % 3];
            let mut outer = vec![key];
            let mut n = bytes.len();
            while n >= 0x80 {
                outer.push((n & 0x7f) as u8 | 0x80);
                n >>= 7;
            }
            outer.push(n as u8);
            outer.extend(&bytes);
            bytes = outer;
        }
        assert_eq!(bytes[0], 0x0a, "the outermost is a node of a graph");
        let mut left = MAX_MESSAGES;
        assert!(walk(&bytes, Message::Graph, &mut left, MAX_DEPTH).is_err());
        assert!(walk(&[0x0a, 0x00], Message::Graph, &mut left, MAX_DEPTH).is_ok());
    }

    #[test]
    fn cut_and_foreign_bytes_are_refused() {
        assert!(check(&[]).is_ok());
        assert!(check(&[0x3a, 0x02, 0x0a, 0x00]).is_ok());
        assert!(check(&[0x3a, 0x05, 0x0a]).is_err());
        assert!(check(&[0xff; 20]).is_err());
        assert!(check(b"just some text").is_err());
    }
}
