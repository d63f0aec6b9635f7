//! The menu of tactics: what it offers fits, and the generic kernel is always last.

use super::sample::{self, buffer as b, operator as o};
use platoon::ids::BufferId;
use platoon::plan::format::{Kernel, Operand, Plan};
use platoon::plan::tactic::{Misfit, Target, fits, menu};
use platoon::tensor::DType;

fn kernels(plan: &Plan, operator: usize) -> Vec<Kernel> {
    menu(plan, &plan.operators[operator], Target::Cpu)
        .iter()
        .map(|t| t.kernel)
        .collect()
}

#[test]
fn everything_on_the_menu_fits() {
    let plan = sample::plan();
    for operator in &plan.operators {
        let menu = menu(&plan, operator, Target::Cpu);
        assert_eq!(menu.last().unwrap().kernel, Kernel::Generic);
        for tactic in menu {
            let mut operator = operator.clone();
            operator.tactic = tactic;
            assert_eq!(fits(&plan, &operator), Ok(()));
        }
    }
}

#[test]
fn the_sample_s_operators_get_their_kernels() {
    let plan = sample::plan();
    assert_eq!(kernels(&plan, o::CONV), [Kernel::ConvIgemm, Kernel::Generic]);
    assert_eq!(kernels(&plan, o::FOLLOW), [Kernel::Elementwise, Kernel::Generic]);
    assert_eq!(kernels(&plan, o::PREPARE), [Kernel::Prepare, Kernel::Generic]);
    assert_eq!(kernels(&plan, o::MEAN), [Kernel::Reduce, Kernel::Generic]);
    assert_eq!(kernels(&plan, o::TOP), [Kernel::Decode, Kernel::Generic]);
    // From channels-last to rows: no two neighbours stay neighbours.
    assert_eq!(kernels(&plan, o::SCOUT_OUT), [Kernel::Generic]);
    // Pooling with a sum behind it, fused.
    assert_eq!(kernels(&plan, o::SUM), [Kernel::Pool, Kernel::Generic]);
}

#[test]
fn a_misfit_says_why() {
    let misfit = |change: fn(&mut Plan)| {
        let mut plan = sample::plan();
        change(&mut plan);
        fits(&plan, &plan.operators[o::CONV])
    };
    assert_eq!(
        misfit(|p| p.operators[0].tactic.kernel = Kernel::ConvDepthwise),
        Err(Misfit::Primitive)
    );
    assert_eq!(misfit(|p| p.operators[0].calls[0].dtype = DType::F16), Err(Misfit::Type));
    assert_eq!(
        misfit(|p| p.operators[0].outputs[0] = sample::dense(b::CONV, &[1, 4, 8, 8])),
        Err(Misfit::Layout)
    );
    assert_eq!(
        misfit(|p| {
            if let Operand::View(weights) = &mut p.operators[0].calls[0].inputs[1] {
                weights.buffer = BufferId(b::SUM as u32);
            }
        }),
        Err(Misfit::Weights)
    );
    assert_eq!(
        misfit(|p| {
            let again = p.operators[0].calls[0].clone();
            p.operators[0].calls.push(again);
        }),
        Err(Misfit::Tail)
    );
}
