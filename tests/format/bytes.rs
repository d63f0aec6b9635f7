//! Plan files and tables as bytes: roundtrips, and every kind of damage.

use super::meter::{Chance, peak_bytes};
use super::sample;
use platoon::plan::check::check;
use platoon::plan::file::{FileError, HEADER, VERSION, decode, encode};
use platoon::plan::format::Digest;
use platoon::plan::table::{Table, TableError};

/// Makes header and digest right again for the body at hand, as whoever means harm would.
fn reseal(bytes: &mut [u8]) {
    let body = Digest::of(&bytes[HEADER..]);
    let length = (bytes.len() - HEADER) as u64;
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    bytes[24..56].copy_from_slice(&body.0);
    reseal_header(bytes);
}

fn reseal_header(bytes: &mut [u8]) {
    let crc = crc32fast::hash(&bytes[..56]);
    bytes[56..60].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn what_is_written_is_read_again_and_always_the_same() {
    let plan = sample::plan();
    let bytes = encode(&plan);
    assert_eq!(bytes, encode(&plan.clone()));
    assert_eq!(decode(&bytes).unwrap(), plan);
    let table = sample::table(&[plan]);
    assert_eq!(table.encode(), table.clone().encode());
    assert_eq!(Table::decode(&table.encode()).unwrap(), table);
}

#[test]
fn every_flipped_bit_of_the_header_is_noticed() {
    let plan = sample::plan();
    for (bytes, is_table) in [(encode(&plan), false), (sample::table(&[plan]).encode(), true)] {
        for bit in 0..HEADER * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = match is_table {
                false => decode(&damaged).unwrap_err(),
                true => match Table::decode(&damaged).unwrap_err() {
                    TableError::File(error) => error,
                    other => panic!("bit {bit}: {other}"),
                },
            };
            match bit / 8 {
                0..8 => assert_eq!(error, FileError::Magic, "bit {bit}"),
                _ => assert!(matches!(error, FileError::Header { .. }), "bit {bit}: {error}"),
            }
        }
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = encode(&sample::plan());
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length]).unwrap_err();
        match length {
            0..HEADER => assert_eq!(error, FileError::Short(length)),
            _ => assert!(matches!(error, FileError::Length { .. }), "{length}: {error}"),
        }
    }
    let mut longer = bytes;
    longer.push(0);
    assert!(matches!(decode(&longer), Err(FileError::Length { .. })));
}

#[test]
fn random_flips_of_the_body_are_all_noticed() {
    let mut bytes = encode(&sample::plan());
    let body = bytes.len() - HEADER;
    let mut chance = Chance::new(7);
    for i in 0..100_000 {
        let (at, bit) = (HEADER + chance.below(body), 1u8 << chance.below(8));
        bytes[at] ^= bit;
        assert_eq!(decode(&bytes), Err(FileError::Body), "flip {i} at {at}");
        bytes[at] ^= bit;
    }
    assert!(decode(&bytes).is_ok());
}

#[test]
fn kinds_and_versions_are_told_apart() {
    let plan = sample::plan();
    let table = sample::table(std::slice::from_ref(&plan));
    assert_eq!(decode(&table.encode()), Err(FileError::Kind { wanted: 1, found: 2 }));
    assert_eq!(
        Table::decode(&encode(&plan)),
        Err(TableError::File(FileError::Kind { wanted: 2, found: 1 }))
    );
    for (version, error) in [
        (VERSION - 1, FileError::Older(VERSION - 1)),
        (VERSION + 1, FileError::Newer(VERSION + 1)),
    ] {
        let mut bytes = encode(&plan);
        bytes[12..16].copy_from_slice(&version.to_le_bytes());
        reseal_header(&mut bytes);
        assert_eq!(decode(&bytes), Err(error));
    }
    let mut bytes = encode(&plan);
    bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    reseal_header(&mut bytes);
    assert_eq!(decode(&bytes), Err(FileError::Large(u64::MAX)));
    assert_eq!(
        decode(b"\x7fELF and so on, long enough to hold a whole header of sixty bytes"),
        Err(FileError::Magic)
    );
}

#[test]
fn bytes_after_the_last_field_are_refused() {
    let mut bytes = encode(&sample::plan());
    bytes.extend([1, 2, 3]);
    reseal(&mut bytes);
    assert_eq!(decode(&bytes), Err(FileError::Trailing(3)));
}

#[test]
fn claimed_lengths_take_no_memory() {
    // 2^32 cameras: memory that a system may promise; and 2^63: memory that none has.
    let claims: [&[u8]; 2] = [
        &[0x80, 0x80, 0x80, 0x80, 0x10],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ];
    for claim in claims {
        // An empty task set, two digests, no kernels, an empty searcher, then the list of cameras.
        let mut bytes = encode(&sample::plan());
        bytes.truncate(HEADER);
        bytes.push(0);
        bytes.extend([0; 64]);
        bytes.extend([0, 0]);
        bytes.extend(claim);
        reseal(&mut bytes);
        let before = peak_bytes();
        assert!(matches!(decode(&bytes), Err(FileError::Malformed(_))));
        // A sequence takes at most 1 MiB ahead; the other tests of this process may take some more meanwhile.
        assert!(peak_bytes() - before < 1 << 30, "decoding took {} bytes", peak_bytes() - before);
    }
}

#[test]
fn altered_bodies_under_a_right_digest_never_panic() {
    let sample = encode(&sample::plan());
    let mut chance = Chance::new(11);
    let (mut malformed, mut refused, mut passed) = (0, [0; 9], 0);
    for _ in 0..20_000 {
        let mut bytes = sample.clone();
        for _ in 0..=chance.below(3) {
            let at = HEADER + chance.below(bytes.len() - HEADER);
            match chance.below(4) {
                0 => bytes[at] = chance.below(256) as u8,
                1 => bytes[at] ^= 1 << chance.below(8),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][chance.below(5)]),
            }
        }
        reseal(&mut bytes);
        match decode(&bytes) {
            Err(_) => malformed += 1,
            Ok(plan) => match check(plan) {
                Err(error) => refused[usize::from(error.invariant())] += 1,
                Ok(_) => passed += 1,
            },
        }
    }
    // The mutations reach beyond the decoder into every invariant; some hit a name or a figure and are harmless.
    assert!(malformed > 1_000 && passed > 100, "{malformed} malformed, {passed} passed");
    assert!(refused[1..].iter().all(|&n| n > 0), "refused by invariant: {refused:?}");
}

#[test]
fn altered_tables_under_a_right_digest_never_panic() {
    let sample = sample::table(&[sample::plan()]).encode();
    let mut chance = Chance::new(13);
    let mut refused = 0;
    for _ in 0..5_000 {
        let mut bytes = sample.clone();
        let at = HEADER + chance.below(bytes.len() - HEADER);
        bytes[at] = chance.below(256) as u8;
        reseal(&mut bytes);
        refused += usize::from(Table::decode(&bytes).is_err());
    }
    assert!(refused > 100, "{refused} refused");
}
