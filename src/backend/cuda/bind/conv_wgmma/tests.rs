use super::*;
use std::mem::{offset_of, size_of};

#[test]
fn params_have_the_sources_bytes() {
    assert_eq!(size_of::<Params>(), 224 + size_of::<Epilogue>() + 16);
    assert_eq!((offset_of!(Params, weights), offset_of!(Params, k_blocks)), (128, 136));
    assert_eq!((offset_of!(Params, walk_rows), offset_of!(Params, tiles)), (176, 216));
    assert_eq!(offset_of!(Params, epilogue), 224);
    assert_eq!(size_of::<PingPongParams>(), size_of::<Params>() + 256);
}

#[test]
fn blocks_of_every_entry_fit_an_sm() {
    // 227 KiB of a block, 228 KiB of an SM with 1 KiB kept for each block; 64 Ki registers are the compiler's business.
    for entry in WgmmaTile::all() {
        assert!(entry.shared() <= 227 << 10, "{entry:?}: {}", entry.shared());
        let resident = u32::from(entry.blocks) * (entry.shared() + 1024);
        assert!(resident <= 228 << 10, "{entry:?}: {resident}");
        assert!(u32::from(entry.blocks) * entry.threads() <= 2048);
    }
}

#[test]
fn pairs_can_be_undone() {
    for entry in WgmmaTile::all().filter(|e| e.mates() == 2) {
        assert!(entry.kept().is_none() && entry.blocks == 1, "{entry:?}");
        assert!(entry.together().is_some_and(|e| e.mates() == 1), "{entry:?}");
    }
}

#[test]
fn blocks_find_places_at_once() {
    let entry = |chains, blocks| WgmmaTile {
        tile: (128, 64),
        stages: 4,
        blocks,
        chains,
        sharing: Sharing::Together,
    };
    let two = entry(Chains::One, 2);
    assert_eq!(two.clusters(500, 0, 132), 264);
    assert_eq!(two.clusters(100, 0, 132), 100, "fewer tiles than places");
    assert_eq!(two.clusters(500, 40, 132), 40, "a launch width");
    assert_eq!(two.clusters(500, 0, 0), 500, "an unknown GPU");
    assert_eq!(entry(Chains::Cluster, 1).clusters(500, 0, 132), 500);
}

#[test]
fn regions_become_runs_of_pixels() {
    let grid = [3, 10, 7];
    let region = |batch: std::ops::Range<u32>, rows: std::ops::Range<u32>| Region { batch, rows };
    let whole = Runs::of(&region(1..3, 0..10), grid);
    assert_eq!((whole.first, whole.pixels, whole.count), (70, 140, 1));
    let band = Runs::of(&region(1..3, 4..6), grid);
    assert_eq!((band.first, band.pixels, band.stride, band.count), (70 + 28, 14, 70, 2));
    // A matrix of rank 2 is cut along its samples, single pixels.
    let matrix = Runs::of(&region(5..9, 0..1), [32, 1, 1]);
    assert_eq!((matrix.first, matrix.pixels, matrix.count), (5, 4, 1));
}

/// Every pixel of every chunk belongs to exactly one run, whatever the cut.
#[test]
fn chunks_cover_the_output_once() {
    let grid = [4, 9, 5];
    let cuts = [(0..4, 0..9), (0..1, 0..9), (2..4, 3..9)];
    let rest = [(1..2, 0..9), (2..4, 0..3)];
    let pixels = |chunks: &[(std::ops::Range<u32>, std::ops::Range<u32>)]| {
        let mut seen = vec![0u32; 4 * 9 * 5];
        for (batch, rows) in chunks {
            let runs = Runs::of(
                &Region {
                    batch: batch.clone(),
                    rows: rows.clone(),
                },
                grid,
            );
            for run in 0..runs.count {
                for pixel in 0..runs.pixels {
                    seen[(runs.first + run * runs.stride + pixel) as usize] += 1;
                }
            }
        }
        seen
    };
    assert!(pixels(&cuts[..1]).iter().all(|&n| n == 1));
    let parts: Vec<_> = cuts[1..].iter().chain(&rest).cloned().collect();
    assert!(pixels(&parts).iter().all(|&n| n == 1));
}
