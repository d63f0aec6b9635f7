//! Files that are no good: each gives a network or an error that names the file, without panic and without more memory than a
//! small multiple of the file.

use crate::data::{self, Chance};
use crate::{network, passes};
use platoon::planner::CompileOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What compiling a file may take besides a multiple of its size, in bytes. An allocator keeps address space in reserve, so
/// that bound is wider.
const RESIDENT: u64 = 24 << 20;
const ADDRESSES: u64 = 160 << 20;
/// Bytes taken for each byte of a file.
const MULTIPLE: u64 = 32;

/// The process that this test starts, in which nothing else runs and the peaks are this test's own.
const CHILD: &str = "PLATOON_MALFORMED_CHILD";

fn archive() -> PathBuf {
    match std::env::var_os("PLATOON_MALFORMED") {
        Some(folder) => PathBuf::from(folder).join("cases.tar.xz"),
        None => data::av_data().join("../onnx-malformed/cases.tar.xz"),
    }
}

/// A peak of this process so far, in bytes; 0 where the system does not say.
fn peak(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(key));
    let kib = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[test]
fn files_that_are_no_good_are_refused_and_cost_nothing() {
    let Some(archive) = data::need("malformed", &archive()) else {
        return;
    };
    if std::env::var_os(CHILD).is_none() {
        let test = "malformed::files_that_are_no_good_are_refused_and_cost_nothing";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .output();
        let child = child.unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        said.lines().filter(|l| l.starts_with("RAN ")).for_each(|l| eprintln!("{l}"));
        assert!(child.status.success(), "{}\n{said}", child.status);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cases = data::unpack(&archive);
    assert!(cases.len() >= 90, "{} cases", cases.len());
    let (mut good, mut refused) = (Vec::new(), 0);
    for (path, bytes) in &cases {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let before = (peak("VmHWM:"), peak("VmPeak:"));
        match compile(folder.path(), &name, bytes) {
            Ok(compiled) => good.push((name.clone(), compiled)),
            Err(()) => refused += 1,
        }
        let (resident, addresses) = (peak("VmHWM:") - before.0, peak("VmPeak:") - before.1);
        let many = bytes.len() as u64 * MULTIPLE;
        assert!(resident <= RESIDENT + many, "{name}, {} bytes: took {resident}", bytes.len());
        assert!(addresses <= ADDRESSES + many, "{name}, {} bytes: reserved {addresses}", bytes.len());
    }
    assert!(good.iter().any(|(name, _)| name == "s_packed_dims.onnx"), "packed dims are valid");
    let loaded = good.len();
    let mut random = Chance::new(1);
    for (name, compiled) in good {
        let inputs = network::inputs_of(&compiled, || random.signed());
        network::run(compiled, &inputs, 2).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    data::ran(
        "malformed",
        &format!("{} cases, {refused} refused, {loaded} compiled and run", cases.len()),
    );
}

/// Compiles a file of these bytes; an error must name it.
fn compile(folder: &Path, name: &str, bytes: &[u8]) -> Result<platoon::planner::Compiled, ()> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    let compiled = network::compile(&path, &CompileOptions::default());
    compiled.map_err(|error| {
        let text = network::told(&*error);
        assert!(text.contains(name), "{name}: the error does not name the file: {text}");
    })
}

#[test]
fn flips_and_cuts_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (mut random, (mut good, mut refused)) = (Chance::new(7), (0, 0));
    let whole = passes::residual();
    for round in 0..4000 {
        let mut bytes = whole.clone();
        if round % 4 == 0 {
            bytes.truncate(random.below(whole.len()));
        } else {
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
        }
        match compile(folder.path(), "mutated.onnx", &bytes) {
            Ok(_) => good += 1,
            Err(()) => refused += 1,
        }
    }
    // Most flips hit weights, which may be anything; most cuts hit a message.
    assert!(good > 100 && refused > 100, "{good} compiled, {refused} refused");
}
