//! Why an operator is not imported, and what to do about it.

/// Of an operator that no function is there for.
pub(super) fn why(op: &str) -> String {
    let cut = "cut the network in front of it (a card's `output`, or `infer --output`, may name any tensor), and leave the rest to the \
               decoder or to the program";
    match op {
        "NonMaxSuppression" => format!("how many boxes are left is known only when it runs, and plans have fixed shapes: {cut}"),
        "StringNormalizer" => format!("its output's extent is known only when it runs, and plans have fixed shapes: {cut}"),
        op if op.starts_with("Sequence") || op.starts_with("Optional") => {
            "optional values, and functions over sequences: export the network with tensors only, or simplify the file (onnxsim)".into()
        }
        op if op.starts_with("Random") || matches!(op, "Multinomial" | "Bernoulli") => {
            "random numbers: the same frame gives the same bits. Export the network for inference".into()
        }
        "MaxRoiPool" | "MaxUnpool" => {
            format!("it works on regions or places that a frame computes, for which there is no kernel: {cut}")
        }
        _ => format!("this operator is not imported: express it by others when exporting, or {cut}"),
    }
}
