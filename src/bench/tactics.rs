//! The times of tactics of a plan's operators on a board, for its operator table.
//!
//! Each operator runs on its own with every tactic that is asked for, a chain of repetitions a tactic, all tactics in turn
//! again and again in every frame, so that what else the machine does meets them alike. A chain's time is that of its
//! segment, on the device's own clock. On a GPU the words that begin and end a segment stand in the chain, as what fills the
//! GPU would keep a word beside it waiting; what they cost is measured with each plan, by an operator in a short chain and in a long
//! one, and taken off. An operator that looks alike in several networks is measured once.
//!
//! The table of a board gets whole menus. What takes long is also cut in two, along its batch and along its rows, and run
//! with the tactics that were best for all of it. Making an engine ready takes longer than a GPU's frames, so a plan holds as
//! many operators as fit; a processor's frames take long, so there it holds what runs in part of a second, and what was measured
//! is saved as often.

use super::BenchError;
use super::agree::alone;
use super::inputs::{self, Picture};
use super::load;
use super::measure::Samples;
use crate::backend::SegmentWords;
use crate::board::{BackendKind, BoardRecord};
use crate::ids::{CameraId, OperatorId, PlanId, TenantId};
use crate::limits::MAX_BYTES;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Kernel, Operand, Operator, Plan, Tactic, View};
use crate::plan::tactic::{self, Target};
use crate::planner::cost;
use crate::planner::isolate::{Ends, Isolated, Trial, isolate};
use crate::planner::optable::{Key, Measured, OpTable};
use crate::planner::schedule::splits;
use crate::primitive::Region;
use crate::runtime::{Engine, Options};
use crate::tensor::Shape;
use crate::units::Nanos;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Times that a tactic runs in a row.
const REPEATS: u32 = 8;
/// Turns that every tactic has in a frame.
const ROUNDS: u32 = 2;
/// Times that an operator runs in a row in chains that tell what the words of segments cost, and turns of these in a frame.
const SHORT: u32 = 1;
const LONG: u32 = 9;
const PROBES: u32 = 4;
/// Frames before those that count: they fetch code and weights into the caches and raise the clocks.
const WARM: usize = 1;
/// Frames that count.
const FRAMES: usize = 8;
/// Steps of one plan on the device, about: places in memory are sought for each among all.
const STEPS: usize = 4000;
/// Bytes of the operands of one plan, about: they are filled with noise and brought to the device in every frame.
const OPERANDS: u64 = 96 << 20;
/// Runs of consecutive bytes that the steps of one plan touch, about: each is looked at when the plan is checked.
const RUNS: u64 = 4 << 20;
/// Work of one frame on a processor, about: multiply-adds, and as many for each byte as it could do meanwhile.
const WORK: u64 = 1 << 31;
/// Multiply-adds that a processor could do while a byte comes.
const WORK_OF_BYTE: u64 = 4;
/// An operator that takes at least so long is also measured in two chunks,
const HEAVY: Nanos = Nanos(15_000);
/// with so many of its fastest tactics.
const CUT_TACTICS: usize = 2;
/// The range of noise in operands.
const RANGE: (f32, f32) = (-1.0, 1.0);

/// How far a table has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Operators that differ in what their time depends on, once for each way to cut them.
    pub operators: usize,
    /// Of them, those whose tactics all have times.
    pub known: usize,
}

impl Progress {
    /// True if nothing is left to measure.
    pub fn complete(&self) -> bool {
        self.known == self.operators
    }
}

/// What is measured of every operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its own tactic in its own chunks.
    AsPlanned,
    /// Every tactic of its menu, and the best of them in two chunks where it takes long.
    Menus,
}

/// An operator with tactics that have no time yet, under the keys of their times.
struct Open {
    trial: Trial,
    keys: Vec<Key>,
    bytes: u64,
    /// Runs of consecutive bytes that the operator touches.
    runs: u64,
    /// What the operator takes of a processor once.
    work: u64,
}

impl Open {
    /// Those of all its steps.
    fn all_runs(&self) -> u64 {
        self.runs.saturating_mul(self.steps() as u64)
    }

    /// That of all its steps; chunks share it.
    fn all_work(&self) -> u64 {
        let times = self.keys.len() as u64 * u64::from(self.trial.repeats * self.trial.rounds);
        self.work.saturating_mul(times)
    }

    fn steps(&self) -> usize {
        self.keys.len() * (self.trial.repeats * self.trial.rounds) as usize * self.trial.chunks.len().max(1)
    }

    /// The same with half of its tactics each; `None` for a single one.
    fn halves(&self) -> Option<[Open; 2]> {
        let middle = self.keys.len() / 2;
        let part = |range: Range<usize>| Open {
            trial: Trial {
                tactics: self.trial.tactics[range.clone()].to_vec(),
                ..self.trial.clone()
            },
            keys: self.keys[range].to_vec(),
            bytes: self.bytes,
            runs: self.runs,
            work: self.work,
        };
        (middle > 0).then(|| [part(0..middle), part(middle..self.keys.len())])
    }
}

/// What is asked of an operator, given what is known.
type Pass = fn(&Plan, &Operator, Target, &OpTable) -> Vec<Asked>;

/// Measures what the table lacks of a deployment's plans, until `deadline` or until nothing is left. `save` is given the
/// table after every group of operators, so that a measurement can be broken off and taken up again.
pub fn measure(
    deployment: &Deployment,
    extent: Extent,
    table: &mut OpTable,
    options: &Options,
    deadline: Option<Instant>,
    save: &mut dyn FnMut(&OpTable, Progress) -> Result<(), BenchError>,
) -> Result<Progress, BenchError> {
    let mut progress = Progress::default();
    let most_work = match options.backend.unwrap_or(deployment.table.backend) {
        BackendKind::Cpu => WORK,
        BackendKind::Cuda => u64::MAX,
    };
    let passes: &[Pass] = match extent {
        Extent::AsPlanned => &[as_planned],
        Extent::Menus => &[menu, cuts],
    };
    for pass in passes {
        let mut seen = BTreeSet::new();
        for (index, plan) in deployment.plans.iter().enumerate() {
            let Some(id) = PlanId::from_index(index) else { break };
            let target = Target::of(&deployment.table.board);
            let open = open(plan, |o| pass(plan, o, target, table), table, &mut seen, &mut progress);
            for group in groups(&open, most_work) {
                if deadline.is_some_and(|d| Instant::now() >= d) {
                    return Ok(progress);
                }
                time(deployment, id, group, table, options)?;
                progress.known += group.len();
                save(table, progress)?;
            }
        }
    }
    Ok(progress)
}

/// Tactics and the chunks to run them in, none for the operator's own.
type Asked = (Vec<Tactic>, Vec<Region>);

fn as_planned(_: &Plan, operator: &Operator, _: Target, _: &OpTable) -> Vec<Asked> {
    vec![(vec![operator.tactic], Vec::new())]
}

/// All of the menu but the generic kernel, which is for what no other computes.
fn menu(plan: &Plan, operator: &Operator, target: Target, _: &OpTable) -> Vec<Asked> {
    let mut menu = tactic::menu(plan, operator, target);
    if menu.iter().any(|t| t.kernel != Kernel::Generic) {
        menu.retain(|t| t.kernel != Kernel::Generic);
    }
    vec![(menu, vec![Region::whole(output(operator))])]
}

/// Two chunks along the batch and along the rows, where an operator takes long enough for it.
fn cuts(plan: &Plan, operator: &Operator, target: Target, table: &OpTable) -> Vec<Asked> {
    let whole = Operator {
        chunks: Vec::new(),
        ..operator.clone()
    };
    let mut timed: Vec<(Nanos, Tactic)> = tactic::menu(plan, &whole, target)
        .into_iter()
        .filter_map(|t| Some((table.time(&table.key(plan, &whole, t))?.median, t)))
        .collect();
    timed.sort_by_key(|(time, _)| *time);
    if timed.first().is_none_or(|(time, _)| *time < HEAVY) {
        return Vec::new();
    }
    let best: Vec<Tactic> = timed.into_iter().take(CUT_TACTICS).map(|(_, t)| t).collect();
    let (all, splits) = (Region::whole(output(operator)), splits(operator));
    let (batch, rows) = (all.batch.end / 2, all.rows.end / 2);
    let mut asked = Vec::new();
    if splits.batch && batch > 0 {
        let part = |batch| Region { batch, ..all.clone() };
        asked.push((best.clone(), vec![part(0..batch), part(batch..all.batch.end)]));
    }
    if splits.rows && rows > 0 {
        let part = |rows| Region { rows, ..all.clone() };
        asked.push((best, vec![part(0..rows), part(rows..all.rows.end)]));
    }
    asked
}

fn output(operator: &Operator) -> Shape {
    operator.outputs.first().map_or(Shape::SCALAR, |v| v.layout.shape)
}

/// The views that an operator reads and writes.
fn touched(operator: &Operator) -> impl Iterator<Item = &View> {
    let operands = operator.calls.iter().flat_map(|c| &c.inputs);
    let read = operands.filter_map(|o| match o {
        Operand::View(view) => Some(view),
        Operand::Inner(_) => None,
    });
    read.chain(&operator.outputs)
}

/// About as many runs of consecutive bytes as a view names: one where nothing lies between its elements, else one for each
/// row of neighbours.
fn runs(view: &View) -> u64 {
    let (shape, layout) = (view.layout.shape, &view.layout);
    let whole = layout.reach().is_none_or(|elements| elements <= shape.elements());
    let neighbours = (0..shape.rank()).find(|&a| shape.dim(a) > 1 && layout.stride(a) == 1);
    let side_by_side = neighbours.map_or(1, |axis| u64::from(shape.dim(axis)));
    if whole { 1 } else { shape.elements() / side_by_side }
}

/// What was not met before and has no time, of what `pass` asks for of a plan's operators.
fn open(
    plan: &Plan,
    pass: impl Fn(&Operator) -> Vec<Asked>,
    table: &OpTable,
    seen: &mut BTreeSet<Vec<Key>>,
    progress: &mut Progress,
) -> Vec<Open> {
    let mut open = Vec::new();
    for (index, operator) in plan.operators.iter().enumerate() {
        for (tactics, chunks) in pass(operator) {
            let mut own = operator.clone();
            if !chunks.is_empty() {
                own.chunks.clone_from(&chunks);
            }
            let keys: Vec<Key> = tactics.iter().map(|&t| table.key(plan, &own, t)).collect();
            if tactics.is_empty() || !seen.insert(keys.clone()) {
                continue;
            }
            progress.operators += 1;
            let left = || tactics.iter().zip(&keys).filter(|(_, key)| table.time(key).is_none());
            if left().next().is_none() {
                progress.known += 1;
                continue;
            }
            let (macs, bytes) = cost::work(operator);
            open.push(Open {
                trial: Trial {
                    operator: OperatorId(index as u32),
                    tactics: left().map(|(t, _)| *t).collect(),
                    repeats: REPEATS,
                    rounds: ROUNDS,
                    chunks,
                },
                keys: left().map(|(_, key)| key.clone()).collect(),
                bytes,
                runs: touched(operator).map(runs).sum(),
                work: macs.saturating_add(bytes.saturating_mul(WORK_OF_BYTE)),
            });
        }
    }
    open
}

/// Neighbours that share a plan of about `most_work`.
fn groups(open: &[Open], most_work: u64) -> Vec<&[Open]> {
    let mut groups = Vec::new();
    let (mut start, mut steps, mut bytes, mut runs, mut work) = (0, 0, 0, 0u64, 0u64);
    for (index, one) in open.iter().enumerate() {
        let crowded = steps + one.steps() > STEPS
            || bytes + one.bytes > OPERANDS
            || runs.saturating_add(one.all_runs()) > RUNS
            || work.saturating_add(one.all_work()) > most_work;
        if index > start && crowded {
            groups.push(&open[start..index]);
            (start, steps, bytes, runs, work) = (index, 0, 0, 0, 0);
        }
        work = work.saturating_add(one.all_work());
        steps += one.steps();
        bytes += one.bytes;
        runs = runs.saturating_add(one.all_runs());
    }
    groups.extend((start < open.len()).then(|| &open[start..]));
    groups
}

/// Times a group of operators and notes what was found.
fn time(deployment: &Deployment, id: PlanId, group: &[Open], table: &mut OpTable, options: &Options) -> Result<(), BenchError> {
    let plan: &Plan = &deployment.plans[id.index()];
    let board = BoardRecord {
        memory_budget: MAX_BYTES,
        ..deployment.table.board.clone()
    };
    if let [one] = group
        && one.all_runs() > RUNS
        && let Some(halves) = one.halves()
    {
        return halves
            .iter()
            .try_for_each(|half| time(deployment, id, std::slice::from_ref(half), table, options));
    }
    let mut trials: Vec<Trial> = group.iter().map(|o| o.trial.clone()).collect();
    if options.backend.unwrap_or(board.backend) == BackendKind::Cuda {
        trials.extend(probes(group));
    }
    let began = Instant::now();
    let isolated = match isolate(plan, &trials, &board) {
        Ok(isolated) => isolated,
        // Slices of concatenations make accesses that a plan may only hold so many of.
        Err(_) if group.len() > 1 => {
            let (some, others) = group.split_at(group.len() / 2);
            time(deployment, id, some, table, options)?;
            return time(deployment, id, others, table, options);
        }
        Err(error) => {
            return Err(BenchError::Plan {
                name: plan.task_set.clone(),
                error: Box::new(error),
            });
        }
    };
    let segments = isolated.plan.cycle.iter().map(|f| f.segments.len()).sum::<usize>();
    let options = Options {
        trace: segments * (WARM + FRAMES),
        // What fills the GPU would keep a word beside it waiting.
        segment_words: SegmentWords::Between,
        slots: Some(1),
        ..options.clone()
    };
    let planned = began.elapsed();
    let engine = Engine::with(alone(deployment, plan, &isolated, &board)?, &options)?;
    let opened = began.elapsed();
    let samples = run(engine, plan, &isolated, segments)?;
    let (spent, steps) = (began.elapsed(), isolated.plan.operators.len());
    log::debug!(
        "{} operators in {steps} steps: planned in {planned:.0?}, prepared in {:.0?}, run in {:.0?}",
        group.len(),
        opened - planned,
        spent - opened
    );
    // The times of a chain in all its turns, of which there are as many as the operator has `ways`.
    let chain = |ends: &Ends, turn: usize, ways: usize| {
        let mut all = Samples::default();
        for segment in ends.segments.iter().skip(turn).step_by(ways) {
            all.extend(samples[segment.index()].iter());
        }
        all
    };
    let words = match &isolated.operators[group.len()..] {
        [short, long] => cost_of_words(chain(short, 0, 1).median(), chain(long, 0, 1).median()),
        _ => Nanos(0),
    };
    for (open, ends) in group.iter().zip(&isolated.operators) {
        for (turn, key) in open.keys.iter().enumerate() {
            let all = chain(ends, turn, open.keys.len());
            if all.count() > 0 {
                let each = |time: Nanos| Nanos(time.0.saturating_sub(words.0) / u64::from(REPEATS));
                let measured = Measured {
                    median: each(all.median()),
                    spread: Nanos((all.quantile(0.9).0 - all.quantile(0.1).0) / u64::from(REPEATS)),
                    runs: all.count() as u32,
                };
                table.note(key.clone(), measured);
            }
        }
    }
    Ok(())
}

/// A short and a long chain of the operator of a group that has the fewest bytes.
fn probes(group: &[Open]) -> Vec<Trial> {
    let smallest = group.iter().min_by_key(|open| open.bytes).map(|open| &open.trial);
    let chain = |trial: &Trial, repeats| Trial {
        tactics: trial.tactics.iter().take(1).copied().collect(),
        repeats,
        rounds: PROBES,
        ..trial.clone()
    };
    smallest.map_or(Vec::new(), |trial| vec![chain(trial, SHORT), chain(trial, LONG)])
}

/// What the words of a segment cost, of the times of a short chain and of a long one: what is left of the short one without its operators.
fn cost_of_words(short: Nanos, long: Nanos) -> Nanos {
    let operators = long.0.saturating_sub(short.0) * u64::from(SHORT) / u64::from(LONG - SHORT);
    Nanos(short.0.saturating_sub(operators))
}

/// Runs an isolated plan of `plan` on noise, and on what frames hold where values decide how long an operator takes; the times
/// of each segment.
fn run(mut engine: Engine, plan: &Plan, isolated: &Isolated, segments: usize) -> Result<Vec<Samples>, BenchError> {
    let pictures: Vec<Picture> = isolated.plan.cameras.iter().map(Picture::of).collect();
    let mut tensors = inputs::tensors(&isolated.plan, &[RANGE]);
    for (input, operand) in load::operands(plan, isolated) {
        tensors[input].2 = operand;
    }
    for _ in 0..WARM + FRAMES {
        let mut draft = engine.begin()?;
        for (camera, picture) in pictures.iter().enumerate() {
            draft.copy_image(CameraId(camera as u16), &picture.image())?;
        }
        for (tenant, port, data) in &tensors {
            draft.copy_input(TenantId(*tenant as u16), *port, data)?;
        }
        let ticket = draft.submit()?;
        engine.wait(&ticket, None)?;
        engine.release(ticket)?;
    }
    let mut samples = vec![Samples::default(); segments];
    engine.trace(|event| {
        let counts = event.frame >= WARM as u64 && event.end > event.start;
        if let Some(of) = samples.get_mut(event.segment.index()).filter(|_| counts) {
            of.extend([Nanos(event.end - event.start)]);
        }
    });
    engine.close();
    Ok(samples)
}

/// When a budget of seconds that starts now is spent.
pub fn deadline(budget: Option<Duration>) -> Option<Instant> {
    budget.map(|b| Instant::now() + b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::architecture::Toolkit;
    use crate::bench::zoo::build::Net;
    use crate::bench::zoo::layers::Conv;
    use crate::plan::format::Basis;
    use crate::planner::optable::Provenance;
    use crate::planner::{self, CompileOptions, Compiled, boards};
    use crate::tensor::DType;
    use std::sync::Arc;

    fn compile(board: &BoardRecord, times: Option<Arc<OpTable>>) -> Compiled {
        let mut net = Net::new("net", 7);
        let x = net.input("x", DType::F32, &[1, 8, 6, 6]);
        let a = net.conv("a", x, Conv::new(8, 3).pad(1).bias());
        let a = net.conv("b", a, Conv::new(8, 3).pad(1).bias());
        let a = net.max_pool("pool", a, 2, 2, 0);
        net.output("y", a);
        let options = CompileOptions {
            dtype: DType::F16,
            best_effort: true,
            times,
            ..CompileOptions::default()
        };
        planner::compile_graph("net", net.finish().graph, board, &options).unwrap()
    }

    #[test]
    fn words_cost_what_a_chain_has_besides_its_operators() {
        let chain = |operators: u32| Nanos(3_200 + 1_500 * u64::from(operators));
        assert_eq!(cost_of_words(chain(SHORT), chain(LONG)), Nanos(3_200));
        assert_eq!(cost_of_words(Nanos(100), Nanos(2_000)), Nanos(0), "no less than nothing");
    }

    #[test]
    fn a_processor_measures_what_takes_long_in_small_parts() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/boards/jetson-agx-orin.toml");
        let board = boards::load(file).unwrap();
        let plan = compile(&board, None).plan;
        let table = table(&board);
        let target = Target::of(&board);
        let (mut seen, mut progress) = (BTreeSet::new(), Progress::default());
        let mut open = open(&plan, |o| menu(&plan, o, target, &table), &table, &mut seen, &mut progress);
        assert!(open.len() > 1 && open.iter().all(|o| o.work > 0));
        assert_eq!(groups(&open, WORK).len(), 1, "small ones go together");
        open.iter_mut().for_each(|o| o.work = WORK / 8);
        assert_eq!(groups(&open, WORK).len(), open.len(), "large ones go alone");
        assert_eq!(groups(&open, u64::MAX).len(), 1);
    }

    fn table(board: &BoardRecord) -> OpTable {
        let version = Toolkit { major: 12, minor: 6 };
        OpTable::new(Provenance {
            board: board.name.clone(),
            architecture: board.architecture.clone(),
            units: board.units,
            gpu: "the processor".into(),
            driver: version,
            toolkit: version,
            date: String::new(),
        })
    }

    #[test]
    fn what_was_measured_is_planned_with_and_not_measured_again() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/boards/jetson-agx-orin.toml");
        let board = boards::load(file).unwrap();
        let mut table = table(&board);
        // The processor stands in for the GPU: it runs every tactic's plan, and its segments have times too.
        let options = Options {
            backend: Some(BackendKind::Cpu),
            workers: Some(1),
            ..Options::default()
        };
        let estimated = compile(&board, None);
        assert_eq!(estimated.plan.prediction.basis, Basis::Estimated);
        let deployment = super::super::ours::deployment(vec![estimated], &board).unwrap();
        let saved = std::cell::Cell::new(0);
        let mut count = |_: &OpTable, _: Progress| {
            saved.set(saved.get() + 1);
            Ok(())
        };
        let spent = measure(&deployment, Extent::Menus, &mut table, &options, Some(Instant::now()), &mut count).unwrap();
        assert!(
            spent.operators > 0 && spent.known == 0 && table.is_empty(),
            "a budget of nothing: {spent:?}"
        );
        let done = measure(&deployment, Extent::Menus, &mut table, &options, None, &mut count).unwrap();
        assert!(done.complete() && done.operators >= spent.operators, "{done:?}");
        let (times, groups) = (table.len(), saved.get());
        assert!(times >= done.operators);
        let again = measure(&deployment, Extent::Menus, &mut table, &options, None, &mut count).unwrap();
        assert_eq!((again, table.len(), saved.get()), (done, times, groups), "everything is known");

        let planned = compile(&board, Some(Arc::new(table))).plan;
        assert_eq!(planned.prediction.basis, Basis::Measured);
        assert!(planned.prediction.frames[0].total.0 > 0);
    }
}
