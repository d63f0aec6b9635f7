//! The processor's bits: what the GPU must find, whole and in shares, where every sum is taken in one order.

use crate::data::{self, Chance};
use crate::gpu::Beside;
use crate::network;
use platoon::planner::{CompileOptions, Compiled, Ports, Searcher};
use platoon::tensor::DType;

/// Runs a network on the GPU and on the processor in each type, every operator whole and cut into shares, and asks for the same bits.
/// `what` says what the network is made of.
pub fn check_bits(test: &str, file: &[u8], types: &[(DType, Ports)], what: &str) {
    check_bits_of(test, file, types, what, |_, _| {});
}

/// The same of plans that `change` looks at first, given the seed of how operators are cut, and may change.
pub fn check_bits_of(test: &str, file: &[u8], types: &[(DType, Ports)], what: &str, change: impl Fn(&mut Compiled, u64)) {
    let Some(beside) = Beside::of(test, file) else { return };
    let Beside { machine, reference, .. } = &beside;
    let mut runs = 0;
    for &(dtype, ports) in types {
        for (searcher, seed) in [(Searcher::Sequential, 0), (Searcher::Random, 3), (Searcher::Random, 4)] {
            let options = CompileOptions {
                dtype,
                ports,
                searcher,
                seed,
                ..CompileOptions::default()
            };
            let mut compiled = beside.compile(&options);
            change(&mut compiled, seed);
            let mut random = Chance::new(21 + seed);
            let inputs = network::inputs_of(&compiled, || random.signed());
            let expected = reference.run(compiled.clone(), &inputs).unwrap();
            let found = machine.run(compiled, &inputs).unwrap();
            assert_eq!(
                network::bits_differ(&found, &expected),
                None,
                "{dtype}, {ports:?}, {searcher:?} {seed}"
            );
            runs += 1;
        }
    }
    data::ran(test, &format!("{what} in {runs} plans"));
}
