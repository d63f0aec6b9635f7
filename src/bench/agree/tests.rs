use super::*;
use crate::bench::zoo::build::Net;
use crate::bench::zoo::layers::Conv;
use crate::board::BackendKind;
use crate::planner::{self, CompileOptions, boards};

/// A network with a residual edge, a gate that is broadcast over pixels, and a concatenation whose parts are written in
/// place, compiled in f16 for a board.
fn deployment(board: &BoardRecord) -> Deployment {
    let mut net = Net::new("net", 7);
    let x = net.input("x", DType::F32, &[2, 8, 9, 10]);
    let a = net.conv("a", x, Conv::new(16, 3).pad(1).bias());
    let a = net.hard_swish("swish", a);
    let b = net.conv("b", a, Conv::new(16, 3).pad(1).groups(16).bias());
    let sum = net.relu_of_sum("sum", a, b);
    let pooled = net.max_pool("pool", sum, 2, 2, 0);
    let flat = net.global_mean("mean", pooled);
    let flat = net.flatten(flat);
    let out = net.linear("out", flat, 5);
    net.output("y", out);
    net.output("s", sum);
    let options = CompileOptions {
        dtype: DType::F16,
        best_effort: true,
        ..CompileOptions::default()
    };
    let compiled = planner::compile_graph("net", net.finish().graph, board, &options).unwrap();
    super::super::ours::deployment(vec![compiled], board).unwrap()
}

#[test]
fn every_operator_of_a_gpus_plan_runs_on_its_own_and_gives_what_it_gives_in_the_network() {
    for board in ["h200", "jetson-agx-orin", "host"] {
        let file = format!("{}/boards/{board}.toml", env!("CARGO_MANIFEST_DIR"));
        let board = boards::load(&file).unwrap();
        let deployment = deployment(&board);
        let options = Options {
            backend: Some(BackendKind::Cpu),
            ..Options::default()
        };
        let mut told = 0;
        let agreement = agree(&deployment, PlanId(0), &options, &mut |done| told = done).unwrap();
        let operators = deployment.plans[0].operators.len();
        assert!(operators > 5, "{operators}");
        assert_eq!((agreement.operators, agreement.same_bits, told), (operators, operators, operators));
        assert_eq!((agreement.worst, agreement.wrong), (None, Vec::new()));
    }
}

#[test]
fn sums_in_several_ranges_have_an_order_of_their_own() {
    let board = boards::load(&format!("{}/boards/h200.toml", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let deployment = deployment(&board);
    let mut operator = deployment.plans[0].operators.iter().find(|o| keeps_order(o)).unwrap().clone();
    operator.class.split_k = 32;
    assert!(!keeps_order(&operator));
}

fn f16_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&v| f16::from_f32(v).to_ne_bytes()).collect()
}

#[test]
fn tensor_cores_may_round_to_a_neighbour_and_nothing_else_may_differ() {
    let (cpu, next) = (f16_bytes(&[1.0, -2.0, 0.001]), f16_bytes(&[1.0 + 1.0 / 1024.0, -2.0, 0.0005]));
    let found = |order, gpu: &[u8]| differences(DType::F16, order, gpu, &cpu, |_| true);
    let cores = found(false, &next);
    assert!(cores.first_wrong.is_none() && !cores.same_bits);
    assert!(
        cores.worst.is_some_and(|w| w.of_allowed > 0.2 && w.of_allowed < 1.0),
        "{:?}",
        cores.worst
    );
    let same = found(true, &next).first_wrong.unwrap();
    assert_eq!((same.element, same.cpu), (0, 1.0));
    let far = found(false, &f16_bytes(&[1.0, -2.0, 0.02]));
    assert_eq!(far.first_wrong.map(|w| w.element), Some(2));
    let nan = found(false, &f16_bytes(&[1.0, f32::NAN, 0.001]));
    assert_eq!(nan.first_wrong.map(|w| (w.element, w.of_allowed)), Some((1, f64::INFINITY)));
    assert!(found(true, &cpu).same_bits);
}

#[test]
fn integers_are_exact_and_rows_without_meaning_are_left_out() {
    let bytes = |values: &[i32]| values.iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<u8>>();
    let found = differences(DType::I32, false, &bytes(&[1, 2, 9]), &bytes(&[1, 3, 4]), |i| i != 1);
    assert_eq!(found.first_wrong.map(|w| (w.element, w.gpu)), Some((2, 9.0)));
}
