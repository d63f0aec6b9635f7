//! The planner as a whole: graphs compiled in every way give what their nodes give one by one.

mod abreast;
mod auxiliary;
mod beside;
mod branches;
mod channels;
mod classifier;
mod crops;
mod ends;
mod files;
mod group_normalise;
mod islands;
mod meeting;
pub mod nets;
pub mod oracle;
mod pieces;
mod pooled;
mod rates;
mod resized;
mod shuffled;
mod sums;
mod tails;
mod transformers;
mod views;
mod volumes;

use super::passes::PassSet;
use super::simulate::Costs;
use super::{CompileOptions, Compiled, Searcher, picture, zones};
use crate::tensor::DType;
use nets::random;
use oracle::{close, compile, compile_with, evaluate, run, same_bits};

/// Passes that fold arithmetic, and so change how results are rounded.
const ROUNDING: PassSet = PassSet::FOLD_BATCHNORM
    .with(PassSet::BRANCHES)
    .with(PassSet::FOLD_AHEAD)
    .with(PassSet::SILU)
    .with(PassSet::HARDSWISH)
    .with(PassSet::FLATTENED);

#[test]
fn passes_that_fold_no_arithmetic_change_no_bit() {
    let sets = [
        PassSet::NONE,
        PassSet::GROUP,
        PassSet::LAYOUT,
        PassSet::ELIDE,
        PassSet::LAYOUT.with(PassSet::ELIDE),
        PassSet::ALL.without(ROUNDING),
        PassSet::ALL.without(ROUNDING).without(PassSet::FOLD_PAD),
    ];
    for seed in 0..60 {
        let (graph, inputs) = random(seed, 3 + seed as usize % 14);
        let expected = evaluate(&graph, &inputs);
        for set in sets {
            let compiled = compile_with(&graph, set);
            let found = run(&compiled, std::slice::from_ref(&inputs), 2);
            let about = format!("seed {seed}, passes {set:?}");
            same_bits(&compiled.plan, &found[0], &expected, &about);
        }
    }
}

#[test]
fn passes_that_fold_arithmetic_change_no_more_than_rounding() {
    for seed in 100..160 {
        let (graph, inputs) = random(seed, 3 + seed as usize % 14);
        let expected = evaluate(&graph, &inputs);
        for set in [
            PassSet::FOLD_BATCHNORM,
            PassSet::BRANCHES,
            PassSet::SILU,
            PassSet::HARDSWISH,
            PassSet::ALL,
        ] {
            let compiled = compile_with(&graph, set);
            let found = run(&compiled, std::slice::from_ref(&inputs), 2);
            close(&found[0], &expected, 1e-5, &format!("seed {seed}, passes {set:?}"));
        }
    }
}

#[test]
fn every_schedule_gives_the_bits_of_the_plain_one() {
    for seed in 200..220 {
        let nets: Vec<_> = (0..3).map(|i| random(seed * 7 + i, 8)).collect();
        let graphs: Vec<_> = nets.iter().map(|(g, _)| g.clone()).collect();
        let inputs: Vec<_> = nets.iter().map(|(_, i)| i.clone()).collect();
        let with = |searcher| {
            let options = CompileOptions {
                searcher,
                seed,
                budget: 300,
                rivals: 8,
                ..CompileOptions::default()
            };
            compile(&graphs, &options)
        };
        let plain = run(&with(Searcher::Sequential), &inputs, 1);
        let searchers = [
            (Searcher::Streams, 2),
            (Searcher::Auxiliary, 2),
            (Searcher::Random, 1),
            (Searcher::Random, 3),
            (Searcher::Barriers, 2),
            (Searcher::Shares, 3),
            (Searcher::Apart, 2),
            (Searcher::Spatial, 2),
            (Searcher::Gacer, 2),
            (Searcher::Platoon, 3),
        ];
        for (searcher, workers) in searchers {
            let compiled = with(searcher);
            // The plans of other decisions run just as well.
            let rivals = compiled
                .rivals
                .iter()
                .enumerate()
                .filter(|(r, _)| (r + seed as usize).is_multiple_of(5));
            let others = rivals.map(|(_, plan)| Compiled {
                plan: plan.clone(),
                ..compiled.clone()
            });
            for compiled in others.chain([compiled.clone()]) {
                let found = run(&compiled, &inputs, workers);
                for (found, plain) in found.iter().zip(&plain) {
                    same_bits(&compiled.plan, found, plain, &format!("seed {seed}, {searcher:?}"));
                }
            }
        }
    }
}

#[test]
fn half_precision_keeps_the_borders_types_and_about_three_digits() {
    for seed in 300..330 {
        let (graph, inputs) = random(seed, 6);
        let expected = evaluate(&graph, &inputs);
        let options = CompileOptions {
            dtype: DType::F16,
            ..CompileOptions::default()
        };
        let compiled = compile(std::slice::from_ref(&graph), &options);
        let found = run(&compiled, std::slice::from_ref(&inputs), 2);
        close(&found[0], &expected, 2e-2, &format!("seed {seed}"));
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (graph, _) = random(17, 12);
    let options = CompileOptions {
        searcher: Searcher::Random,
        seed: 5,
        ..CompileOptions::default()
    };
    let bytes = |options| {
        let compiled = compile(std::slice::from_ref(&graph), options);
        (
            crate::plan::file::encode(&compiled.plan),
            compiled.weight_files,
            compiled.report.json(),
        )
    };
    assert_eq!(bytes(&options), bytes(&options));
    assert_ne!(
        bytes(&options).0,
        bytes(&CompileOptions {
            seed: 6,
            ..options.clone()
        })
        .0
    );
}

#[test]
fn networks_of_one_content_share_a_weight_file() {
    let (graph, _) = random(0, 12);
    let compiled = compile(&[graph.clone(), graph], &CompileOptions::default());
    assert!(!compiled.plan.sections.is_empty());
    assert_eq!(compiled.weight_files.len(), 1);
}

#[test]
fn a_plan_is_drawn_with_every_step_and_the_same_every_time() {
    let graphs: Vec<_> = (0..2).map(|i| random(40 + i, 8).0).collect();
    let options = CompileOptions {
        searcher: Searcher::Platoon,
        budget: 200,
        ..CompileOptions::default()
    };
    let plan = compile(&graphs, &options).plan;
    let draw = || picture::svg(&plan, &Costs::of(&plan.operators, &oracle::board(), &|_| None));
    let drawn = draw();
    assert_eq!(drawn, draw());
    let steps: usize = plan.cycle.iter().flat_map(|f| &f.segments).map(|s| s.steps.len()).sum();
    assert_eq!(drawn.matches(" us</title></rect>").count(), steps);
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>") && drawn.contains("residue"));
    assert!(plan.tenants.iter().all(|t| drawn.contains(&format!(">{}</text>", t.name))));
}

#[test]
fn sweet_zones_begin_at_free_streams_and_wherever_a_plan_came_from() {
    let graphs: Vec<_> = (0..2).map(|i| random(40 + i, 8).0).collect();
    let of = |searcher| {
        let options = CompileOptions {
            searcher,
            budget: 200,
            ..CompileOptions::default()
        };
        let plan = compile(&graphs, &options).plan;
        let zones = zones::of_plan(&plan, &oracle::board(), None, &|_| None).unwrap();
        (plan, zones)
    };
    let ((free, found), (_, same)) = (of(Searcher::Streams), of(Searcher::Platoon));
    assert_eq!(found, same);
    let all = || std::iter::once(&found.pointers).chain(&found.chunks);
    assert!(all().all(|c| c.points[0].predicted == free.prediction.longest()));
    let plans = zones::plans(&free, &found, &oracle::board(), None, &|_| None).unwrap();
    let predicted = all().flat_map(|c| &c.points).map(|p| p.predicted);
    assert!(
        plans.iter().map(|p| p.prediction.longest()).eq(predicted),
        "the plans are those of the points"
    );
}
