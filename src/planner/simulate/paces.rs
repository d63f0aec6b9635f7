//! Paces: how long a tactic takes on an operator that was not measured with it, from those that were.
//!
//! A launch's time is taken to be a sum over what it does: beginning, rounds of blocks, what each of them multiplies, bytes that it
//! moves ([`Loads`]). How long each of these takes is a tactic's *pace*, fitted ([`fit`]) to all times of the operator tables of one
//! architecture's boards. A whole GPU and a part of it have paces each, fitted to its own times above all: cache and memory that all
//! share serve few SMs better. A board of any other size takes those of the nearest one, and has more rounds or fewer. So a network that
//! nobody measured, and a board of some SMs, have tactics that suit them. Where a tactic has few times, its kernel's pace stands in.
//!
//! The fitted paces are text, `boards/paces/<architecture>/<SMs>`, and part of the program.

pub mod fit;
mod loads;

pub use loads::{COUNT, Loads};

use crate::board::{BackendKind, BoardRecord};
use crate::plan::format::{Kernel, Operator, Tactic};
use crate::planner::optable::told;
use crate::units::Nanos;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;

/// First line of a file of paces.
const TITLE: &str = "platoon paces, format 1";
/// Architectures with paces, and the units of the boards they are of.
const KNOWN: [(&str, u32, &str); 2] = [
    ("sm_90a", 16, include_str!("../../../boards/paces/sm_90a/16")),
    ("sm_90a", 132, include_str!("../../../boards/paces/sm_90a/132")),
];
/// Times from which on a tactic, or a kernel, has a pace of its own.
pub const ENOUGH: u32 = 6;
/// Parts of a board up to this size have next to nothing in common with the whole of it: an operator that takes longer there than its tactic's
/// pace says need not do so here.
const ALIEN: f64 = 0.125;
/// By how much a kernel's pace is taken to be longer, in percent: of two tactics, the one that is known leads.
const DOUBT: f64 = 1.2;

/// Nanoseconds that each load takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// For one of each of [`Loads`].
    pub each: [f64; COUNT],
    /// Times that it was fitted to.
    pub times: u32,
}

impl Pace {
    /// The time of some loads, in nanoseconds.
    pub fn of(&self, loads: &Loads) -> f64 {
        self.each.iter().zip(loads.0).map(|(each, load)| each * load).sum()
    }
}

/// The paces of an architecture, by tactic and by kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paces {
    /// Where they come from: lines of whoever fitted them.
    pub provenance: Vec<String>,
    paces: BTreeMap<String, Pace>,
}

impl Paces {
    /// Paces by the names of tactics, as [`told`] names them, and of kernels.
    pub fn new(provenance: Vec<String>, paces: BTreeMap<String, Pace>) -> Paces {
        Paces { provenance, paces }
    }

    /// The paces of a board's architecture for the nearest number of units; `None` where there are none.
    pub fn of(board: &BoardRecord) -> Option<&'static Paces> {
        Paces::nearest(board, |architecture| architecture == board.architecture)
    }

    /// What a board's tactics are chosen by: its architecture's paces, or else those of another one, whose GPUs run the same kernels for
    /// all that is not a Hopper's own. They tell tactics apart, and no times.
    pub fn guide(board: &BoardRecord) -> Option<&'static Paces> {
        Paces::of(board).or_else(|| Paces::nearest(board, |_| true))
    }

    /// Of the paces of some architectures those whose units differ from a board's by the smallest factor.
    fn nearest(board: &BoardRecord, of: impl Fn(&str) -> bool) -> Option<&'static Paces> {
        let factor = |units: u32| (f64::from(units) / f64::from(board.units.max(1))).ln().abs();
        let known = Paces::all()
            .iter()
            .filter(|known| board.backend == BackendKind::Cuda && of(known.0));
        known.min_by(|a, b| factor(a.1).total_cmp(&factor(b.1))).map(|(.., paces)| paces)
    }

    fn all() -> &'static [(&'static str, u32, Paces)] {
        static ALL: OnceLock<Vec<(&str, u32, Paces)>> = OnceLock::new();
        let parse = |(architecture, units, text): (&'static str, u32, &str)| Some((architecture, units, Paces::parse(text).ok()?));
        ALL.get_or_init(|| KNOWN.into_iter().filter_map(parse).collect())
    }

    /// How long an operator in one piece takes under its tactic, alone on a board: no less than its bytes from memory. `None` for
    /// kernels without a pace, and for those of few times: two of them tell nothing of many rounds.
    pub fn time(&self, operator: &Operator, board: &BoardRecord) -> Option<Nanos> {
        let loads = Loads::of(operator, board);
        let kernel = || Some(self.known(&kernel(operator.tactic))?.of(&loads) * DOUBT);
        let time = self.own(operator.tactic, &loads).or_else(kernel)?;
        Some(Nanos((time.max(loads.bytes()).ceil() as u64).max(1)))
    }

    /// How long an operator in one piece takes under its tactic on a part of a board that has so many of its units: by the paces for a board
    /// of that size, and, the larger the part, by how much it `differs` on the whole board. `None` where they say nothing.
    pub fn on_part(operator: &Operator, board: &BoardRecord, units: u32, differs: f64) -> Option<Nanos> {
        let part = BoardRecord { units, ..board.clone() };
        let there = Paces::of(&part)?.time(operator, &part)?;
        let size = f64::from(units) / f64::from(board.units.max(1));
        let weight = ((size - ALIEN) / (1.0 - ALIEN)).clamp(0.0, 1.0);
        Some(Nanos((there.0 as f64 * (1.0 + weight * differs)).ceil() as u64))
    }

    /// By which part of what paces say of it an operator takes longer on a board; 0 where it was not measured.
    pub fn differs(operator: &Operator, board: &BoardRecord, measured: Option<Nanos>) -> f64 {
        let paced = || Paces::of(board)?.time(operator, board);
        match measured.and_then(|time| Some((time, paced()?))) {
            Some((measured, paced)) => measured.0 as f64 / paced.0 as f64 - 1.0,
            None => 0.0,
        }
    }

    /// Whether a tactic has a pace of its own.
    pub fn knows(&self, tactic: Tactic) -> bool {
        tactic.kernel != Kernel::Generic && self.known(&told(tactic)).is_some()
    }

    /// Of a menu the fastest tactic by its own pace; the first where that one's is not known.
    pub fn fastest(&self, operator: &Operator, board: &BoardRecord, menu: &[Tactic]) -> Option<Tactic> {
        let with = |&tactic: &Tactic| Operator {
            tactic,
            ..operator.clone()
        };
        let loaded: Vec<(Tactic, Loads)> = menu.iter().map(|t| (*t, Loads::of(&with(t), board))).collect();
        menu.get(self.choice(&loaded)).copied()
    }

    /// The same of tactics whose loads are known: the place of the choice.
    pub fn choice(&self, menu: &[(Tactic, Loads)]) -> usize {
        let own = |(tactic, loads): &(Tactic, Loads)| self.own(*tactic, loads);
        let timed = menu.iter().map(own).enumerate().filter_map(|(place, time)| Some((time?, place)));
        match menu.first().and_then(own) {
            Some(_) => timed.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, place)| place),
            None => 0,
        }
    }

    /// The nanoseconds of a tactic that has a pace of its own. The generic kernel has none: what it computes is too various, and where
    /// others serve, they are there because it is slow.
    pub fn own(&self, tactic: Tactic, loads: &Loads) -> Option<f64> {
        if tactic.kernel == Kernel::Generic {
            return None;
        }
        self.known(&told(tactic)).map(|p| p.of(loads))
    }

    /// The pace of a name that was fitted to enough times.
    fn known(&self, name: &str) -> Option<&Pace> {
        self.paces.get(name).filter(|p| p.times >= ENOUGH)
    }

    /// The paces as text.
    pub fn render(&self) -> String {
        let mut text = format!("{TITLE}\n");
        self.provenance.iter().for_each(|line| text.push_str(&format!("# {line}\n")));
        for (name, pace) in &self.paces {
            let each = pace.each.iter().map(|e| format!(" {e}")).collect::<String>();
            let _ = writeln!(text, "{name} {}{each}", pace.times);
        }
        text
    }

    /// Reads their text; the error is a line, from 1.
    pub fn parse(text: &str) -> Result<Paces, usize> {
        let mut paces = Paces::default();
        for (at, line) in (1usize..).zip(text.lines()) {
            if at == 1 {
                (line == TITLE).then_some(()).ok_or(at)?;
            } else if let Some(line) = line.strip_prefix("# ") {
                paces.provenance.push(line.to_owned());
            } else {
                let (name, pace) = entry(line).ok_or(at)?;
                paces.paces.insert(name.to_owned(), pace);
            }
        }
        if text.is_empty() { Err(1) } else { Ok(paces) }
    }
}

/// The name of a tactic's kernel.
pub fn kernel(tactic: Tactic) -> String {
    format!("{:?}", tactic.kernel)
}

fn entry(line: &str) -> Option<(&str, Pace)> {
    let mut words = line.split(' ');
    let (name, times) = (words.next().filter(|n| !n.is_empty())?, words.next()?.parse().ok()?);
    let mut each = [0.0; COUNT];
    for own in &mut each {
        *own = words.next()?.parse().ok().filter(|e: &f64| e.is_finite() && *e >= 0.0)?;
    }
    words.next().is_none().then_some((name, Pace { each, times }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_read_as_they_are_written_and_nothing_else_is() {
        let pace = |times| Pace {
            each: [0.25, 3.0, 0.0, 1e-3, 7.5, 0.0, 0.0, 0.0, 0.0, 2.0, 0.5],
            times,
        };
        let named = [("ConvWgmma/64x64/20".to_owned(), pace(40)), ("ConvWgmma".to_owned(), pace(900))];
        let paces = Paces::new(vec!["of nothing".to_owned()], named.into());
        let text = paces.render();
        assert_eq!(Paces::parse(&text), Ok(paces));
        let line = text.lines().count();
        for wrong in [
            text.replace("format 1", "format 2"),
            text.clone() + "Pool 3 1 2 3\n",
            text.clone() + "Pool 3 1 2 3 4 5 6 7 8 9 10 11 12\n",
            text.clone() + "Pool 3 1 2 3 4 5 6 7 8 9 10 -1\n",
            text.clone() + "Pool 3 1 2 3 4 5 6 7 8 9 10 nan\n",
            text.clone() + "\n",
        ] {
            assert!(matches!(Paces::parse(&wrong), Err(at) if at == 1 || at == line + 1), "{wrong}");
        }
        assert_eq!(Paces::parse(""), Err(1));
    }

    #[test]
    fn the_generic_kernel_is_never_preferred() {
        let none = Pace {
            each: [0.0; COUNT],
            times: 100,
        };
        let pool = Pace {
            each: [9.0; COUNT],
            times: 100,
        };
        let named = [Kernel::Generic, Kernel::Pool].map(Tactic::of);
        let paces = Paces::new(Vec::new(), named.iter().map(|t| told(*t)).zip([none, pool]).collect());
        let loads = Loads([1.0; COUNT]);
        assert_eq!(named.map(|t| paces.own(t, &loads)), [None, Some(9.0 * COUNT as f64)]);
        let [generic, pool] = named.map(|t| (t, loads));
        let half = (pool.0, Loads([0.5; COUNT]));
        assert_eq!(paces.choice(&[pool, half, generic]), 1);
        assert_eq!(paces.choice(&[generic, pool, half]), 0, "what is first and not known stays");
    }

    #[test]
    fn a_kernel_of_few_times_has_no_pace() {
        let (mut operators, ..) = crate::planner::schedule::tests::chains(1, 1);
        operators[0].tactic = Tactic::of(Kernel::Pool);
        let time = |times| {
            let pace = Pace { each: [9.0; COUNT], times };
            let paces = Paces::new(Vec::new(), [("Pool".to_owned(), pace)].into());
            paces.time(&operators[0], &crate::planner::simulate::tests::board(8, 1))
        };
        assert_eq!(time(ENOUGH - 1), None);
        assert!(time(ENOUGH).is_some_and(|t| t.0 > 1));
    }

    #[test]
    fn a_part_of_a_board_takes_after_the_whole_the_larger_it_is() {
        let mut board = crate::planner::boards::load("h200").unwrap();
        let (mut operators, ..) = crate::planner::schedule::tests::chains(1, 1);
        operators[0].tactic = Tactic::of(Kernel::Pool);
        let own = &operators[0];
        let paced = |units| {
            let part = BoardRecord { units, ..board.clone() };
            Paces::of(&part).unwrap().time(own, &part).unwrap().0
        };
        let measured = Nanos(2 * paced(132));
        let differs = Paces::differs(own, &board, Some(measured));
        let on = |units| Paces::on_part(own, &board, units, differs).unwrap();
        assert_eq!(on(132), measured);
        assert_eq!(
            [8, 16].map(|units| on(units).0),
            [8, 16].map(paced),
            "small parts have nothing in common with it"
        );
        let more = [16, 32, 64, 96].map(|units| on(units).0 as f64 / paced(units) as f64);
        assert!(more.is_sorted() && more[3] > 1.5 && more[3] < 2.0, "{more:?}");
        assert_eq!(Paces::differs(own, &board, None), 0.0);
        board.architecture = "sm_80".to_owned();
        assert_eq!(Paces::on_part(own, &board, 16, 0.0), None, "no paces, no time");
    }

    #[test]
    fn the_programs_own_paces_are_in_order() {
        for (architecture, units, text) in KNOWN {
            let paces = Paces::parse(text).unwrap_or_else(|line| panic!("{architecture}/{units}: line {line}"));
            assert!(!paces.provenance.is_empty() && paces.paces.len() > 50, "{architecture}/{units}");
            assert_eq!(paces.render(), text, "{architecture}/{units}");
        }
    }

    #[test]
    fn a_board_of_any_size_has_the_paces_of_the_nearest_one() {
        let of = |units, architecture: &str| {
            let mut board = crate::planner::boards::load("h200").unwrap();
            (board.units, board.architecture) = (units, architecture.to_owned());
            Paces::guide(&board).and_then(|found| Paces::all().iter().find(|known| std::ptr::eq(&known.2, found)).map(|known| known.1))
        };
        let sizes = [1, 16, 40, 50, 132, 148].map(|units| of(units, "sm_90a"));
        assert_eq!(sizes, [16, 16, 16, 132, 132, 132].map(Some));
        assert_eq!(
            [8, 128].map(|units| of(units, "sm_87")),
            [16, 132].map(Some),
            "those of another architecture"
        );
    }
}
