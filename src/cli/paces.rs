//! `platoon profile --paces`: the paces of an architecture from the operator tables of its boards.

use super::{Outcome, compile, output};
use crate::board::BoardRecord;
use crate::plan::format::{Operator, Plan};
use crate::plan::tactic;
use crate::planner::optable::OpTable;
use crate::planner::simulate::paces::fit::{self, Observed};
use crate::planner::simulate::paces::{Loads, Paces};
use crate::planner::{Compiled, boards, durable};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is known of one operator: of each tactic of its menu that was measured, in the menu's order.
type Menu = Vec<Observed>;

/// What the times of a board count for its own paces, where those of others count 1.
const OWN: f64 = 10.0;

/// What a board's table knows of a network.
#[derive(Clone)]
struct Known {
    name: String,
    /// Without its batch: what is alike is left out together.
    network: String,
    board: String,
    menus: Vec<Menu>,
}

/// Compiles the networks for a board.
pub type Networks<'a> = &'a dyn Fn(&BoardRecord) -> anyhow::Result<Vec<Compiled>>;

/// Fits the paces of a board's architecture, one file for each number of units that was measured, writes them into a folder, and tells
/// how well networks are served by the paces of all others.
pub fn run(board: &BoardRecord, networks: Networks<'_>, folder: &Path) -> anyhow::Result<Outcome> {
    let mut known = Vec::new();
    let mut measured: Vec<BoardRecord> = Vec::new();
    for (path, other) in boards::all(Path::new("boards")) {
        let other = other.with_context(|| path.display().to_string())?;
        if other.architecture != board.architecture || other.backend != board.backend {
            continue;
        }
        let Some(table) = compile::measured(&other)? else { continue };
        let plans = networks(&other)?;
        known.extend(plans.iter().map(|compiled| what_is_known(compiled, &other, &table)));
        measured.push(other);
    }
    anyhow::ensure!(
        known.iter().flat_map(|k| &k.menus).any(|menu| !menu.is_empty()),
        "no board of {} has a table that knows these networks: measure one with `platoon profile --board {}`",
        board.architecture,
        board.name
    );
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let fitted: Vec<(Paces, Vec<[String; 6]>)> = std::thread::scope(|scope| {
        let known = &known;
        let each = |own| scope.spawn(move || of_board(own, known));
        let workers: Vec<_> = measured.iter().map(each).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).collect()
    });
    anyhow::ensure!(
        fitted.len() == measured.len(),
        "the paces of a board could not be fitted: this is a bug"
    );
    let mut table = output::Table::new(&[
        "network",
        "board",
        "operators",
        "by the menu's order",
        "by paces of the others",
        "off %",
    ]);
    for (own, (paces, rows)) in measured.iter().zip(fitted) {
        let file = folder.join(own.units.to_string());
        durable::replace(&file, paces.render().as_bytes()).with_context(|| format!("{}: cannot be written", file.display()))?;
        rows.into_iter().for_each(|row| table.row(row));
    }
    output::print(&format!(
        "{}written to {}\nTimes over those of the fastest tactics, the network itself left out; off: of the operators' times in the middle\n",
        table.render(),
        folder.display()
    ))?;
    Ok(Outcome::Good)
}

/// The paces of one board, and how each of its networks is served by those of all others.
fn of_board(own: &BoardRecord, known: &[Known]) -> (Paces, Vec<[String; 6]>) {
    let mut known = known.to_vec();
    weigh(&mut known, &own.name);
    let menus = |of: &dyn Fn(&Known) -> bool| -> Vec<Observed> {
        let own = known.iter().filter(|k| of(k));
        own.flat_map(|k| &k.menus).flatten().copied().collect()
    };
    let all = menus(&|_| true);
    let count = |part: &dyn Fn(&Known) -> bool| menus(part).len();
    let provenance = format!(
        "{}, {} SMs: {} times of its own, {} of other sizes",
        own.architecture,
        own.units,
        count(&|k| k.board == own.name),
        count(&|k| k.board != own.name)
    );
    let fitted = fit::paces(&all, vec![provenance]);
    let networks: BTreeSet<&str> = known.iter().map(|k| k.network.as_str()).collect();
    let mut rows = Vec::new();
    for network in networks {
        let left_out = || known.iter().filter(|k| k.network == network && k.board == own.name);
        if left_out().next().is_some() {
            let others = fit::paces(&menus(&|k| k.network != network), Vec::new());
            rows.extend(left_out().map(|one| row(one, &others)));
        }
    }
    (fitted, rows)
}

/// A board's own times count [`OWN`] times those of others of its architecture. Boards that few networks were measured on count more a
/// time: the root of how many fewer there are.
fn weigh(known: &mut [Known], own: &str) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for one in known.iter() {
        *times.entry(one.board.clone()).or_default() += one.menus.iter().map(Vec::len).sum::<usize>();
    }
    let most = times.values().copied().max().unwrap_or(0);
    for one in known {
        let few = (most as f64 / times[&one.board].max(1) as f64).sqrt();
        let weight = if one.board == own { OWN * few } else { few };
        one.menus.iter_mut().flatten().for_each(|o| o.weight = weight);
    }
}

fn what_is_known(compiled: &Compiled, board: &BoardRecord, table: &OpTable) -> Known {
    let plan = &compiled.plan;
    Known {
        name: plan.task_set.clone(),
        network: plan.task_set.split(':').next().unwrap_or_default().to_owned(),
        board: board.name.clone(),
        menus: plan.operators.iter().map(|o| menu(plan, o, board, table)).collect(),
    }
}

fn menu(plan: &Plan, operator: &Operator, board: &BoardRecord, table: &OpTable) -> Menu {
    let observed = |tactic| {
        let with = Operator {
            tactic,
            chunks: Vec::new(),
            ..operator.clone()
        };
        let time = table.of(plan, &with)?;
        let loads = Loads::of(&with, board);
        let weight = 1.0;
        Some(Observed {
            tactic,
            loads,
            time,
            weight,
        })
    };
    tactic::menu_on(plan, operator, board).into_iter().filter_map(observed).collect()
}

/// How a network is served: the time of the tactics that are chosen over that of the fastest ones.
fn row(known: &Known, paces: &Paces) -> [String; 6] {
    let (mut best, mut first, mut chosen) = (0, 0, 0);
    let mut errors = Vec::new();
    for menu in known.menus.iter().filter(|m| !m.is_empty()) {
        let loaded: Vec<_> = menu.iter().map(|o| (o.tactic, o.loads)).collect();
        let choice = &menu[paces.choice(&loaded)];
        best += menu.iter().map(|o| o.time.0).min().unwrap_or(0);
        first += menu[0].time.0;
        chosen += choice.time.0;
        errors.extend(
            paces
                .own(choice.tactic, &choice.loads)
                .map(|time| (time / choice.time.0.max(1) as f64 - 1.0).abs()),
        );
    }
    errors.sort_by(f64::total_cmp);
    let over = |time: u64| format!("{:.3}", time as f64 / best.max(1) as f64);
    let off = errors.get(errors.len() / 2).map_or(String::new(), |e| format!("{:.1}", e * 100.0));
    [
        known.name.clone(),
        known.board.clone(),
        known.menus.iter().filter(|m| !m.is_empty()).count().to_string(),
        over(first),
        over(chosen),
        off,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::zoo;
    use crate::planner::{self, CompileOptions, Ports};
    use crate::tensor::DType;

    /// A network of the zoo as it is planned for a board whose table nobody gives, what its table knows, and the time of its plan.
    fn without_table(network: &str, batch: u32, board: &str) -> (Known, u64) {
        let board = boards::load(board).unwrap();
        let table = compile::measured(&board).unwrap().unwrap();
        let options = CompileOptions {
            dtype: DType::F16,
            ports: Ports::Half,
            ..CompileOptions::default()
        };
        let graph = zoo::find(network).unwrap().model(batch).graph;
        let compiled = planner::compile_graph(network, graph, &board, &options).unwrap();
        let known = what_is_known(&compiled, &board, &table);
        let own = |(operator, menu): (&Operator, &Menu)| menu.iter().find(|o| o.tactic == operator.tactic).map(|o| o.time.0);
        let times = compiled.plan.operators.iter().zip(&known.menus).filter_map(own);
        let time = times.sum();
        (known, time)
    }

    #[test]
    fn networks_without_times_have_tactics_that_suit_the_board() {
        for board in ["h200-sm16", "h200"] {
            let (known, time) = without_table("r50", 8, board);
            let menus = || known.menus.iter().filter(|m| !m.is_empty());
            assert!(
                menus().count() > 40,
                "{board}: the table does not know the network: it has to be measured again"
            );
            let fastest: u64 = menus().filter_map(|m| m.iter().map(|o| o.time.0).min()).sum();
            let first: u64 = menus().map(|m| m[0].time.0).sum();
            assert!(time <= fastest * 105 / 100, "{board}: {time} of {fastest}");
            assert!(first <= fastest * 135 / 100, "{board}: {first} of {fastest} in the menus' order");
        }
    }
}
