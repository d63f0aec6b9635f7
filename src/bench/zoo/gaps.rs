//! How far networks and their operators are from their floors.
//!
//! Each operator of a network's plan is timed on its own with the plan's tactic, in a chain of repetitions (see
//! [`super::super::tactics`]), and stands beside its floor (see [`crate::planner::floor`]). Operators that differ in nothing
//! that their time depends on are one row. The sum of all operators' times is not the network's time: inside a network an
//! operator meets other contents of the caches, and beside the chain other launches.

use crate::bench::tactics::{self, Extent};
use crate::bench::{BenchError, ours};
use crate::board::BoardRecord;
use crate::plan::format::Plan;
use crate::planner::floor::{Floor, Limits};
use crate::planner::optable::{self, Key, OpTable};
use crate::planner::{Compiled, cost};
use crate::runtime::Options;
use crate::units::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Operators of a plan that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Alike {
    /// The name of the first of them.
    pub name: String,
    /// How many there are.
    pub count: u32,
    /// Their tactic in a word.
    pub tactic: String,
    /// Shape of the first output.
    pub shape: String,
    /// Multiply-adds of one.
    pub macs: u64,
    /// Bytes of one.
    pub bytes: u64,
    /// The floor of one.
    pub floor: Floor,
    /// The time of one; `None` if it has none.
    pub time: Option<Nanos>,
}

impl Alike {
    /// Nanoseconds above the floor, of all together.
    pub fn gap(&self) -> f64 {
        self.time.map_or(0.0, |t| (t.0 as f64 - self.floor.total()) * f64::from(self.count))
    }
}

/// A network's operators beside their floors, largest gap first.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaps {
    /// The operators.
    pub operators: Vec<Alike>,
}

impl Gaps {
    /// Times the operators of a compiled group alone, keeps the times in `table`, and sets them beside their floors.
    pub fn measure(
        compiled: Compiled,
        board: &BoardRecord,
        limits: &Limits,
        table: &mut OpTable,
        options: &Options,
    ) -> Result<Gaps, BenchError> {
        let deployment = ours::deployment(vec![compiled], board)?;
        tactics::measure(&deployment, Extent::AsPlanned, table, options, None, &mut |_, _| Ok(()))?;
        Ok(Gaps::of(&deployment.plans[0], limits, table))
    }

    /// The operators of a plan with the times that a table knows.
    pub fn of(plan: &Plan, limits: &Limits, table: &OpTable) -> Gaps {
        let mut known: BTreeMap<Key, usize> = BTreeMap::new();
        let mut operators: Vec<Alike> = Vec::new();
        for operator in &plan.operators {
            let key = table.key(plan, operator, operator.tactic);
            if let Some(&index) = known.get(&key) {
                operators[index].count += 1;
                continue;
            }
            let (macs, bytes) = cost::work(operator);
            operators.push(Alike {
                name: operator.name.clone(),
                count: 1,
                tactic: optable::told(operator.tactic),
                shape: operator.outputs.first().map_or(String::new(), |v| v.layout.shape.to_string()),
                macs,
                bytes,
                floor: limits.floor(operator),
                time: table.time(&key).map(|m| m.median),
            });
            known.insert(key, operators.len() - 1);
        }
        operators.sort_by(|a, b| b.gap().total_cmp(&a.gap()));
        Gaps { operators }
    }

    fn total(&self, of_one: impl Fn(&Alike) -> f64) -> f64 {
        self.operators.iter().map(|o| f64::from(o.count) * of_one(o)).sum()
    }

    /// The floor of the whole in nanoseconds.
    pub fn floor(&self) -> f64 {
        self.total(|o| o.floor.total())
    }

    /// The operators' times together, in nanoseconds.
    pub fn sum(&self) -> f64 {
        self.total(|o| o.time.map_or(0.0, |t| t.0 as f64))
    }

    /// How many operators there are.
    pub fn count(&self) -> u32 {
        self.operators.iter().map(|o| o.count).sum()
    }

    /// Everything.
    pub fn json(&self) -> Value {
        let operator = |o: &Alike| {
            json!({
                "name": o.name, "count": o.count, "tactic": o.tactic, "shape": o.shape, "multiply_adds": o.macs, "bytes": o.bytes,
                "floor_us": o.floor.total() / 1e3, "bound": o.floor.bound(), "time_us": o.time.map(|t| t.0 as f64 / 1e3),
            })
        };
        json!({
            "floor_ms": self.floor() / 1e6,
            "sum_of_operators_ms": self.sum() / 1e6,
            "operators": self.operators.iter().map(operator).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(name: &str, count: u32, time: u64) -> Alike {
        Alike {
            name: name.into(),
            count,
            tactic: "Copy/0x0/0".into(),
            shape: "[1,8]".into(),
            macs: 0,
            bytes: 1000,
            floor: Floor {
                arithmetic: 0.0,
                memory: 200.0,
                launch: 800.0,
            },
            time: Some(Nanos(time)),
        }
    }

    #[test]
    fn gaps_count_operators_that_are_alike_as_often_as_they_are_there() {
        let gaps = Gaps {
            operators: vec![alike("a", 3, 2000), alike("b", 1, 4000)],
        };
        assert_eq!((gaps.count(), gaps.floor(), gaps.sum()), (4, 4000.0, 10_000.0));
        assert_eq!((gaps.operators[0].gap(), gaps.operators[1].gap()), (3000.0, 3000.0));
        let json = gaps.json();
        assert_eq!((&json["floor_ms"], &json["operators"][0]["count"]), (&json!(0.004), &json!(3)));
        assert_eq!(json["operators"][0]["bound"], json!("launch"));
    }
}
