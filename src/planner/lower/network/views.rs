//! Views and concatenations: strides where they can be said so, copies where they cannot.

use super::{Network, Place};
use crate::plan::format::View;
use crate::planner::graph::{Node, Op};
use crate::planner::lower::LowerError;
use crate::planner::lower::layout::apart;
use crate::planner::passes::PassSet;
use crate::planner::strided::{Strided, constant, nested_as};
use crate::tensor::Layout;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Network<'_> {
    /// A view becomes strides over what it looks at, or over a copy of that.
    pub(super) fn view(&mut self, node: &Node) -> Result<(), LowerError> {
        let Op::View(view) = &node.op else { return Ok(()) };
        let (input, output) = (node.inputs[0], node.outputs[0]);
        let (from, shape) = (self.place(input)?, self.graph.value(output).shape);
        let dtype = from.view.dtype;
        if let Some(at) = from.strided().view(view, shape) {
            let seen = self.seen(from.view.buffer, dtype, at)?;
            self.settle(output, seen, from.writers.clone());
            let dynamic = constant(self.graph, &self.producers, input).is_none();
            if !self.set.has(PassSet::ELIDE) && dynamic && shape.elements() > 0 {
                let target = self.fresh(nested_as(shape, &self.natural[output.index()]), dtype)?;
                let seen = self.place(output)?;
                let writers = self.copy(&node.name, &seen, target)?;
                self.settle(output, target, writers);
            }
            return Ok(());
        }
        // Strides cannot say it: store the input anew, in an order that the view can be made of: best where the view has a home, or
        // else in the wanted one.
        let input_shape = self.graph.value(input).shape;
        let at_home = self.homes[output.index()].and_then(|home| home.at.unview(view, input_shape));
        let (target, known) = match at_home {
            Some(at) => {
                let target = View {
                    layout: at.layout,
                    ..self.storage(output)?
                };
                (target, None)
            }
            None => {
                let wanted = self.natural[output.index()];
                let padded = (shape.rank() >= 3)
                    .then(|| apart(shape))
                    .flatten()
                    .filter(|padded| *padded == wanted);
                let mut orders = padded.into_iter().chain([nested_as(shape, &wanted)]);
                let order = orders.find_map(|order| Some(Strided::whole(order).unview(view, input_shape)?.layout));
                let order = order.unwrap_or_else(|| Layout::contiguous(input_shape));
                // Another view of the value may have had it stored so: what reads both, as a block's residual does, shares it.
                let copies = self.anew.get(&input).into_iter().flatten();
                match copies.into_iter().find(|copy| copy.view.layout == order).cloned() {
                    Some(copy) => (copy.view, Some(copy.writers)),
                    None => (self.fresh(order, dtype)?, None),
                }
            }
        };
        let writers = match known {
            Some(writers) => writers,
            None => {
                let writers = self.copy(&node.name, &from, target)?;
                let copy = Place {
                    view: target,
                    writers: writers.clone(),
                };
                self.anew.entry(input).or_default().push(copy);
                writers
            }
        };
        let stored = Strided {
            origin: target.origin as i64,
            layout: target.layout,
        };
        let at = stored.view(view, shape).ok_or_else(|| LowerError::View {
            graph: self.graph.name.clone(),
            node: node.name.clone(),
        })?;
        let seen = self.seen(target.buffer, dtype, at)?;
        self.settle(output, seen, writers);
        Ok(())
    }

    /// The parts of a concatenation are born in their places of the whole, or copied there.
    pub(super) fn concat(&mut self, node: &Node) -> Result<(), LowerError> {
        let Op::Concat { axis } = node.op else { return Ok(()) };
        let output = node.outputs[0];
        let whole = self.storage(output)?;
        let all = Strided {
            origin: whole.origin as i64,
            layout: whole.layout,
        };
        let mut writers = BTreeSet::new();
        let mut start = 0;
        for &part in &node.inputs {
            let extent = self.graph.value(part).shape.dim(axis);
            let from = self.place(part)?;
            let band = all
                .band(axis, start, extent)
                .ok_or_else(|| self.limit("the extent of a concatenation"))?;
            let target = self.seen(whole.buffer, whole.dtype, band)?;
            let born_there = from.view.buffer == whole.buffer && from.strided().same_places(&band);
            if born_there {
                writers.extend(from.writers.iter());
            } else {
                writers.extend(self.copy(&node.name, &from, target)?.iter());
            }
            start += extent;
        }
        self.settle(output, whole, Arc::new(writers));
        Ok(())
    }
}
