use super::*;
use crate::backend::cpu::fixture;
use crate::plan::format::{Buffer, Call, Rounding};
use crate::primitive::{Primitive, Unary};
use crate::tensor::{DType, Layout, Shape};

fn provenance() -> Provenance {
    Provenance {
        board: "h200".into(),
        architecture: "sm_90a".into(),
        units: 132,
        gpu: "NVIDIA H200".into(),
        driver: Toolkit { major: 13, minor: 0 },
        toolkit: Toolkit { major: 12, minor: 6 },
        date: "2026-11-21".into(),
    }
}

fn relu(input: u32, output: u32, origin: u64, extent: u32) -> (Plan, Operator) {
    let buffer = Buffer {
        space: Space::Arena { offset: 0 },
        bytes: 4096,
    };
    let plan = fixture::plan(vec![buffer; 4]);
    let shape = Shape::new(&[1, extent]).unwrap();
    let view = |buffer, origin| View {
        buffer: BufferId(buffer),
        origin,
        dtype: DType::F16,
        layout: Layout::contiguous(shape),
    };
    let call = Call {
        primitive: Primitive::Unary(Unary::Relu),
        inputs: vec![Operand::View(view(input, origin))],
        dtype: DType::F16,
        shape,
        rounding: Rounding::Rounded,
    };
    (plan, fixture::operator(Kernel::Elementwise, vec![call], vec![view(output, 0)]))
}

fn time(ns: u64) -> Measured {
    Measured {
        median: Nanos(ns),
        spread: Nanos(3),
        runs: 20,
    }
}

#[test]
fn chunks_have_times_of_their_own() {
    let (plan, mut operator) = relu(0, 1, 0, 8);
    let mut table = OpTable::new(provenance());
    table.note(table.key(&plan, &operator, operator.tactic), time(100));
    operator.chunks = [0..4, 4..8].map(|rows| crate::primitive::Region { batch: 0..1, rows }).to_vec();
    assert_eq!(table.of(&plan, &operator), None);
    table.note(table.key(&plan, &operator, operator.tactic), time(130));
    assert_eq!(table.of(&plan, &operator), Some(Nanos(130)));
    assert_eq!(table.len(), 2);
    assert!(table.render().contains("@1x2 ") && OpTable::parse(&table.render()).is_ok());
}

#[test]
fn times_of_changed_kernels_are_forgotten() {
    let (plan, operator) = relu(0, 1, 0, 8);
    let mut table = OpTable::new(provenance());
    let key = table.key(&plan, &operator, operator.tactic);
    table.note(key.clone(), time(100));
    let other = |tactic: &str| Key {
        operator: "0".repeat(DIGITS),
        tactic: tactic.into(),
        sources: "1".repeat(DIGITS),
    };
    table.note(other("Elementwise/0x0/0"), time(90));
    table.note(other("NoSuchKernel/0x0/0"), time(80));
    table.forget_changed();
    assert_eq!((table.len(), table.time(&key)), (1, Some(time(100))));
}

#[test]
fn operators_are_known_by_what_their_time_depends_on() {
    let digest = |(plan, operator): (Plan, Operator)| operator_digest(&plan, &operator);
    let one = digest(relu(0, 1, 0, 8));
    assert_eq!(one, digest(relu(3, 2, 64, 8)), "which buffers, and a place of the same alignment");
    assert_ne!(one, digest(relu(0, 1, 0, 9)), "another shape");
    assert_ne!(one, digest(relu(0, 1, 1, 8)), "another alignment");
    assert_ne!(one, digest(relu(1, 1, 0, 8)), "in place");
    let (plan, mut operator) = relu(0, 1, 0, 8);
    (operator.name, operator.width) = ("other".into(), 3);
    assert_eq!(one, digest((plan, operator)));
}

#[test]
fn the_fastest_measured_tactic_is_chosen_and_a_new_time_replaces_the_old() {
    let (plan, operator) = relu(0, 1, 0, 8);
    let mut table = OpTable::new(provenance());
    let menu = [Kernel::Elementwise, Kernel::Generic, Kernel::Copy].map(Tactic::of);
    assert_eq!(table.fastest(&plan, &operator, &menu), None);
    for (tactic, ns) in menu.into_iter().zip([900, 700]) {
        table.note(table.key(&plan, &operator, tactic), time(ns));
    }
    assert_eq!(table.fastest(&plan, &operator, &menu), Some((menu[1], Nanos(700))));
    table.note(table.key(&plan, &operator, menu[0]), time(600));
    assert_eq!(table.fastest(&plan, &operator, &menu), Some((menu[0], Nanos(600))));
    assert_eq!(table.len(), 2);
    let other = relu(0, 1, 0, 9);
    assert_eq!(table.fastest(&other.0, &other.1, &menu), None);
    let mut newer = table.clone();
    newer.provenance.toolkit = Toolkit { major: 13, minor: 0 };
    if !sources::UNITS.is_empty() {
        assert_eq!(newer.fastest(&plan, &operator, &menu), None, "compiled by another toolkit");
    }
}

#[test]
fn text_is_read_as_it_is_written_and_anything_else_refused_by_line() {
    let (plan, operator) = relu(0, 1, 0, 8);
    let mut table = OpTable::new(provenance());
    for (kernel, ns) in [(Kernel::Generic, 5), (Kernel::Elementwise, 7)] {
        table.note(table.key(&plan, &operator, Tactic::of(kernel)), time(ns));
    }
    let text = table.render();
    assert_eq!(OpTable::parse(&text).unwrap(), table);
    let line = |text: &str| OpTable::parse(text).unwrap_err().0;
    assert_eq!(line(""), 1);
    assert_eq!(line(&text.replace("format 1", "format 2")), 1);
    assert_eq!(line(&text.replace("units: 132", "units: many")), 4);
    assert_eq!(line(&text.replace("toolkit: 12.6", "toolkit: new")), 7);
    assert_eq!(line(&text.replace(" 3 20", " 3")), 10);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(9, 10);
    assert_eq!(line(&lines.join("\n")), 11);
    for end in 0..text.len() {
        // Whatever is cut off, nothing panics.
        let _ = OpTable::parse(&text[..end]);
    }
}

#[test]
fn a_table_of_another_board_is_refused_and_none_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("{}/boards/h200.toml", env!("CARGO_MANIFEST_DIR"));
    let board = super::super::boards::load(&file).unwrap();
    let path = path(folder.path(), &board);
    assert!(OpTable::load(&path, &board).unwrap().is_none());
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::write(&path, OpTable::new(provenance()).render()).unwrap();
    assert!(OpTable::load(&path, &board).unwrap().is_some_and(|t| t.is_empty()));
    let share = BoardRecord { units: 16, ..board };
    let error = OpTable::load(&path, &share).unwrap_err().to_string();
    assert!(error.contains("132 SMs"), "{error}");
}
