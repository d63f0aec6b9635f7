use super::*;

const TOOLKIT: Toolkit = Toolkit { major: 12, minor: 6 };

fn cubin(name: &str, bytes: &[u8]) -> Cubin {
    Cubin {
        name: name.into(),
        made_from: Digest::of(name.as_bytes()),
        bytes: bytes.to_vec(),
    }
}

fn sample() -> Archive {
    let cubins = [cubin("conv_mma", &[7; 37]), cubin("generic", b""), cubin("tail", &[1, 2, 3])];
    Archive::new("sm_87", TOOLKIT, Digest::of(b"sources"), &cubins).unwrap()
}

#[test]
fn what_goes_in_comes_out() {
    let archive = Archive::from_bytes(sample().bytes().to_vec()).unwrap();
    assert_eq!((archive.architecture(), archive.toolkit()), ("sm_87", TOOLKIT));
    assert_eq!(archive.source_digest(), Digest::of(b"sources"));
    assert_eq!(archive.units().collect::<Vec<_>>(), ["conv_mma", "generic", "tail"]);
    assert_eq!(archive.unit("conv_mma"), Some(vec![7; 37]));
    assert_eq!(archive.unit_bytes("conv_mma"), Some(37));
    assert_eq!(archive.unit("generic"), Some(Vec::new()));
    assert_eq!(archive.unit("tail"), Some(vec![1, 2, 3]));
    assert_eq!(archive.unit_digest("tail"), Some(Digest::of(b"tail")));
    assert_eq!(archive.unit("none"), None);
    let empty = Archive::new("sm_80", TOOLKIT, Digest::of(b""), &[]).unwrap();
    assert_eq!(Archive::from_bytes(empty.bytes().to_vec()).unwrap().units().count(), 0);
}

#[test]
fn every_truncation_extension_and_flipped_bit_is_refused() {
    let bytes = sample().bytes().to_vec();
    for length in 0..bytes.len() {
        assert!(Archive::from_bytes(bytes[..length].to_vec()).is_err(), "{length} bytes");
    }
    assert!(Archive::from_bytes([&bytes[..], &[0]].concat()).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut other = bytes.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(Archive::from_bytes(other).is_err(), "bit {bit}");
    }
}

/// An archive's bytes with another index, all checksums made anew: what somebody could forge.
fn forged(change: impl FnOnce(&mut Index)) -> Result<Archive, ArchiveError> {
    let Archive { mut index, bytes } = sample();
    let old = postcard::to_allocvec(&index).unwrap().len();
    let body = bytes[(HEADER + old).next_multiple_of(ALIGN)..].to_vec();
    change(&mut index);
    let text = postcard::to_allocvec(&index).unwrap();
    let mut bytes = bytes[..12].to_vec();
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(Digest::of(&text).0);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(text);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    bytes.extend(body);
    Archive::from_bytes(bytes)
}

#[test]
fn a_forged_index_is_refused_without_arithmetic_going_wrong() {
    assert!(forged(|_| ()).is_ok());
    let refused: [fn(&mut Index); 10] = [
        |i| i.units[0].unpacked = u64::MAX,
        |i| i.units[0].length = u64::MAX,
        |i| i.units[2].length = u64::MAX - 1,
        |i| i.units[1].offset = u64::MAX,
        |i| i.units[1].offset = 0,
        |i| i.units[2].length = 2,
        |i| i.units.swap(0, 1),
        |i| i.units[1].name = "conv_mma".into(),
        |i| i.units[0].name = "../conv".into(),
        |i| i.architecture = String::new(),
    ];
    for (n, change) in refused.into_iter().enumerate() {
        assert!(forged(change).is_err(), "change {n}");
    }
}

#[test]
fn a_unit_that_unpacks_to_other_lengths_is_none() {
    for wrong in [0, 36, 38, MAX_CUBIN] {
        let archive = forged(|i| i.units[0].unpacked = wrong).unwrap();
        assert_eq!(archive.unit("conv_mma"), None, "{wrong}");
        assert_eq!(archive.unit("tail"), Some(vec![1, 2, 3]));
    }
    // Bytes of one unit under the name of another.
    let archive = forged(|i| i.units[0].unpacked = i.units[2].unpacked).unwrap();
    assert_eq!(archive.unit("conv_mma"), None);
}

fn write(folder: &Path, architecture: &str, toolkit: Toolkit, sources: Digest) {
    let archive = Archive::new(architecture, toolkit, sources, &[cubin("u", &[toolkit.major as u8])]).unwrap();
    std::fs::write(folder.join(file_name(architecture, toolkit)), archive.bytes()).unwrap();
}

#[test]
fn the_newest_archive_that_the_driver_serves_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let new = Toolkit { major: 13, minor: 0 };
    let here = sources::digest();
    write(folder.path(), "sm_87", TOOLKIT, here);
    write(folder.path(), "sm_87", new, here);
    let found = |driver| find(folder.path(), "sm_87", driver).map(|a| a.toolkit());
    assert_eq!(found(13000), Ok(new));
    assert_eq!(found(12060), Ok(TOOLKIT));
    assert!(matches!(
        found(11080).unwrap_err().seen[..],
        [(_, Unusable::Driver { .. }), (_, Unusable::Driver { .. })]
    ));
}

#[test]
fn what_is_there_instead_is_said_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let none = find(path, "sm_87", 13000).unwrap_err().to_string();
    assert!(
        none.contains("there are none") && none.contains("platoon kernels --arch sm_87"),
        "{none}"
    );
    write(path, "sm_87", TOOLKIT, Digest::of(b"older"));
    write(path, "sm_90a", TOOLKIT, sources::digest());
    std::fs::write(path.join(file_name("sm_87", Toolkit { major: 12, minor: 8 })), b"PLTKERN").unwrap();
    std::fs::copy(
        path.join(file_name("sm_90a", TOOLKIT)),
        path.join(file_name("sm_87", Toolkit { major: 12, minor: 2 })),
    )
    .unwrap();
    std::fs::write(path.join("notes.txt"), b"").unwrap();
    let error = find(path, "sm_87", 13000).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.seen.len(), 4, "{text}");
    for part in [
        "cuda12.8.kernels is damaged",
        "cuda12.6.kernels is of other kernel sources",
        "is for other GPUs",
        "file name says",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
