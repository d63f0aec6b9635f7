//! The tiles of a product of two computed tensors: those of a chunk's rows by all columns, of one matrix after another.

use super::frame::ElementBox;
use super::operands::{input, optional_input, output};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, count};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::primitive::Region;

/// Operands and tiles of a chunk.
pub(super) struct Matrices {
    /// The whole output.
    pub y: DeviceView,
    /// `[.., M, K]`.
    pub a: DeviceView,
    /// `[.., K, N]`.
    pub b: DeviceView,
    /// Of the output's shape; address 0 for none.
    pub bias: DeviceView,
    /// The chunk's first coordinates.
    pub start: [u32; MAX_RANK],
    /// Extents of the chunk along the leading axes, 1 for rows and columns.
    pub outer: [Divisor; MAX_RANK],
    /// The last axis but one.
    pub row_axis: usize,
    /// Rows of the chunk, from `start[row_axis]` on.
    pub rows: u32,
    /// Columns, all of them.
    pub columns: u32,
    /// Products of an output.
    pub depth: u32,
    /// Tiles along rows and along columns.
    pub tiles: [u32; 2],
    /// Tiles of all matrices.
    pub count: u32,
}

impl Matrices {
    /// Of an operator that begins with a product, in tiles of so many rows and columns; `None` for an empty chunk.
    pub fn new(at: &Addresses<'_>, operator: &Operator, region: &Region, tile: [u32; 2]) -> Result<Option<Matrices>, BindError> {
        let view = output(operator, 0)?;
        let outputs = ElementBox::new(view, region)?;
        if outputs.count == 0 {
            return Ok(None);
        }
        let row_axis = view.layout.shape.rank().checked_sub(2).ok_or(BindError::Reference)?;
        let a = DeviceView::new(at, input(operator, 0)?)?;
        let bias = optional_input(operator, 2).map(|view| DeviceView::new(at, view)).transpose()?;
        let (rows, columns) = (outputs.extents[row_axis].divisor, outputs.extents[row_axis + 1].divisor);
        let mut outer = outputs.extents;
        outer[row_axis..].fill(Divisor::new(1));
        let tiles = [rows.div_ceil(tile[0]), columns.div_ceil(tile[1])];
        Ok(Some(Matrices {
            y: DeviceView::new(at, view)?,
            a,
            b: DeviceView::new(at, input(operator, 1)?)?,
            bias: bias.unwrap_or_default(),
            start: outputs.start,
            outer,
            row_axis,
            rows,
            columns,
            depth: a.extents[row_axis + 1],
            tiles,
            count: count(outer.iter().map(|d| d.divisor).chain(tiles), "a product")?,
        }))
    }
}
