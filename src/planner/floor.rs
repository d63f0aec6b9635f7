//! Floors: the shortest time that an operator, or a network, could take on a board at the best rates measured there.
//!
//! An operator's floor is `max(multiply-adds / rate, bytes / bandwidth, results / rate of writing) + launch`: the roofline of
//! Williams, Waterman and Patterson 2009 with a kernel's cost in a chain, on the board's limits instead of the sustained rates
//! that estimates divide by. Bytes are the distinct ones of its operands, results and weights, each moved once from or to memory;
//! few SMs write more slowly than they read. A network's floor is the sum over its operators, as they are fused in its plan: it has
//! every launch in it, nothing of two operators overlaps, and what stays in the second-level cache between two operators is still
//! counted as moved. A plan that fuses more has a lower floor.

use super::cost;
use crate::board::BoardRecord;
use crate::plan::format::Operator;

/// The best sustained rates of a board: what no operator is faster than.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Multiply-adds a nanosecond of all units.
    pub macs_per_ns: f64,
    /// Bytes a nanosecond between memory and all units.
    pub bytes_per_ns: f64,
    /// The same of those that units write alone: no more.
    pub written_per_ns: f64,
    /// Nanoseconds that a kernel costs in a chain of kernels.
    pub launch_ns: f64,
}

/// What bounds an operator from below, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    /// Its multiply-adds at the best rate.
    pub arithmetic: f64,
    /// Its bytes at the best bandwidth.
    pub memory: f64,
    /// Its launches, one a chunk.
    pub launch: f64,
}

impl Floor {
    /// The floor in nanoseconds.
    pub fn total(&self) -> f64 {
        self.arithmetic.max(self.memory) + self.launch
    }

    /// What holds it up the most, in a word.
    pub fn bound(&self) -> &'static str {
        if self.launch >= self.arithmetic.max(self.memory) {
            "launch"
        } else if self.arithmetic >= self.memory {
            "arithmetic"
        } else {
            "bytes"
        }
    }
}

impl Limits {
    /// The rates that a board's estimates are made with, for boards whose limits are not measured.
    pub fn of_rates(board: &BoardRecord) -> Limits {
        Limits {
            macs_per_ns: f64::from(board.macs_per_ns),
            bytes_per_ns: f64::from(board.bytes_per_ns),
            written_per_ns: f64::from(board.bytes_per_ns),
            launch_ns: board.issue.0 as f64,
        }
    }

    /// The floor of a whole operator.
    pub fn floor(&self, operator: &Operator) -> Floor {
        let (macs, bytes) = cost::work(operator);
        Floor {
            arithmetic: macs as f64 / self.macs_per_ns,
            memory: (bytes as f64 / self.bytes_per_ns).max(cost::written(operator) as f64 / self.written_per_ns),
            launch: operator.chunks.len().max(1) as f64 * self.launch_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_of_arithmetic_and_bytes_counts_and_the_launch_is_added() {
        let floor = |arithmetic, memory| Floor {
            arithmetic,
            memory,
            launch: 800.0,
        };
        assert_eq!((floor(2000.0, 900.0).total(), floor(2000.0, 900.0).bound()), (2800.0, "arithmetic"));
        assert_eq!((floor(100.0, 900.0).total(), floor(100.0, 900.0).bound()), (1700.0, "bytes"));
        assert_eq!((floor(100.0, 700.0).total(), floor(100.0, 700.0).bound()), (1500.0, "launch"));
    }
}
