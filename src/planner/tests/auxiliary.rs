//! Operators of one network side by side: plans for a GPU have streams for them, and give the bits of one stream.

use super::nets::{Draw, Net};
use super::oracle::{run_for, same_bits};
use crate::board::BoardRecord;
use crate::plan::format::Plan;
use crate::planner::graph::Graph;
use crate::planner::{CompileOptions, Compiled, Searcher, boards, compile_graph};
use crate::tensor::{DType, Tensor};

/// A picture at three resolutions, each convolved on its own, then added up at the lowest: what a network of several scales does.
fn scales() -> (Graph, Vec<Tensor>) {
    let (mut net, mut draw) = (Net::default(), Draw::new(11));
    let dims = [1, 32, 24, 24];
    let x = net.input(&dims);
    let stem = net.conv(&mut draw, x, 64, 3, 1, 1, true);
    let mut lowest = Vec::new();
    for halvings in 0..3 {
        let mut y = stem;
        for _ in 0..halvings {
            y = net.conv(&mut draw, y, 64, 3, 2, 1, true);
        }
        for _ in 0..4 {
            y = net.conv(&mut draw, y, 64, 3, 1, 1, true);
        }
        for _ in halvings..2 {
            y = net.conv(&mut draw, y, 64, 3, 2, 1, true);
        }
        lowest.push(y);
    }
    let all = net.concat(1, &lowest);
    let y = net.conv(&mut draw, all, 16, 1, 1, 1, true);
    net.output(y);
    (net.graph, vec![draw.tensor(&dims)])
}

fn compile(graph: &Graph, searcher: Searcher) -> Compiled {
    compile_for(&boards::load("h200").unwrap(), graph, searcher)
}

fn compile_for(board: &BoardRecord, graph: &Graph, searcher: Searcher) -> Compiled {
    let options = CompileOptions {
        dtype: DType::F16,
        searcher,
        ..CompileOptions::default()
    };
    compile_graph("scales", graph.clone(), board, &options).unwrap()
}

/// Streams that run some of the tenant's steps, and whether one of them waits for another.
fn used(plan: &Plan) -> (usize, bool) {
    let frame = &plan.cycle[0];
    let mut streams: Vec<_> = frame.segments.iter().map(|s| s.stream).collect();
    streams.sort_unstable();
    streams.dedup();
    (streams.len(), !frame.syncs.is_empty())
}

#[test]
fn scales_run_side_by_side_and_give_the_bits_of_one_stream() {
    let board = boards::load("h200").unwrap();
    let (graph, inputs) = scales();
    let inputs = std::slice::from_ref(&inputs);
    let plain = compile(&graph, Searcher::Sequential);
    assert_eq!(used(&plain.plan), (1, false));
    let expected = run_for(&board, &plain, inputs, 1);
    let spread = compile(&graph, CompileOptions::default().searcher);
    assert_eq!(spread.plan.searcher, "auxiliary");
    let (streams, waits) = used(&spread.plan);
    assert!(streams > 1 && waits);
    assert!(spread.plan.prediction.longest() < plain.plan.prediction.longest());
    for workers in 1..=3 {
        let found = run_for(&board, &spread, inputs, workers);
        same_bits(&spread.plan, &found[0], &expected[0], &format!("{workers} workers"));
    }
    // The same network, the same bytes.
    let again = compile(&graph, Searcher::Auxiliary);
    assert_eq!(crate::plan::file::encode(&again.plan), crate::plan::file::encode(&spread.plan));
}

#[test]
fn a_board_without_room_for_them_gets_one_stream() {
    let (graph, _) = scales();
    let [plain, spread] = [Searcher::Streams, Searcher::Auxiliary].map(|s| compile(&graph, s).plan);
    assert!(
        plain.arena_bytes < spread.arena_bytes,
        "{} {}",
        plain.arena_bytes,
        spread.arena_bytes
    );
    let weights: u64 = plain.weight_files.iter().map(|f| f.bytes).sum();
    let mut board = boards::load("h200").unwrap();
    board.memory_budget = weights + spread.persistent_bytes + spread.arena_bytes;
    assert_eq!(compile_for(&board, &graph, Searcher::Auxiliary).plan.searcher, "auxiliary");
    board.memory_budget -= 1;
    let found = compile_for(&board, &graph, Searcher::Auxiliary).plan;
    assert!(found.arena_bytes < spread.arena_bytes);
    // Too little for any: the best, which the deployment refuses with what it would take.
    board.memory_budget = weights;
    assert_eq!(compile_for(&board, &graph, Searcher::Auxiliary).plan.searcher, "auxiliary");
}
