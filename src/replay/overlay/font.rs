//! The built-in bitmap font: printable ASCII, cells of 6 x 10 pixels, drawn enlarged with smoothed diagonals.

/// Columns of a glyph's ink.
pub const GLYPH_WIDTH: u32 = 5;
/// Rows of a glyph's ink: seven above the baseline, two below.
pub const GLYPH_HEIGHT: u32 = 9;
/// Columns from one character to the next.
pub const ADVANCE: u32 = 6;

/// A glyph's rows, top first; bit 4 is the leftmost column.
pub type Glyph = [u8; GLYPH_HEIGHT as usize];

/// The glyph of `c`; characters outside printable ASCII show as an empty box.
pub fn glyph(c: char) -> Glyph {
    let index = (c as usize).checked_sub(usize::from(b' '));
    index.and_then(|i| GLYPHS.get(i)).copied().unwrap_or(BOX)
}

/// Width of `text` in pixels at `scale` pixels a dot, without the gap after the last character.
pub fn width(text: &str, scale: u32) -> u32 {
    let n = u32::try_from(text.chars().count()).unwrap_or(u32::MAX / ADVANCE / 64);
    (n * ADVANCE).saturating_sub(ADVANCE - GLYPH_WIDTH).saturating_mul(scale)
}

/// True if the dot at `(column, row)` of `glyph` is inked; false outside the glyph.
fn dot(glyph: &Glyph, column: i32, row: i32) -> bool {
    let inside = (0..GLYPH_WIDTH as i32).contains(&column) && (0..GLYPH_HEIGHT as i32).contains(&row);
    inside && glyph[row as usize] >> (GLYPH_WIDTH as i32 - 1 - column) & 1 == 1
}

/// True if pixel `(x, y)` of the glyph enlarged by `scale` is inked.
///
/// Each dot becomes a square of `scale` pixels; from scale 2 on, where two inked dots touch at a corner only, the two
/// notches beside the corner are filled with triangles, which turns the steps of diagonals into slopes.
pub fn inked(glyph: &Glyph, scale: u32, x: u32, y: u32) -> bool {
    let (column, row) = ((x / scale) as i32, (y / scale) as i32);
    if dot(glyph, column, row) || scale < 2 {
        return dot(glyph, column, row);
    }
    // Distance from the dot's centre, in half pixels; the signs tell the quarter.
    let offset = |v: u32| 2 * (v % scale) as i32 + 1 - scale as i32;
    let (dx, dy) = (offset(x), offset(y));
    let (sx, sy) = (dx.signum(), dy.signum());
    let in_triangle = sx != 0 && sy != 0 && dx.abs() + dy.abs() >= scale as i32;
    in_triangle && dot(glyph, column + sx, row) && dot(glyph, column, row + sy) && !dot(glyph, column + sx, row + sy)
}

const BOX: Glyph = draw("##### #...# #...# #...# #...# #...# ##### ..... .....");

/// Reads a drawing: nine rows of five dots, `#` inked, a space between rows.
const fn draw(rows: &str) -> Glyph {
    let bytes = rows.as_bytes();
    assert!(bytes.len() == 53);
    let mut glyph = [0; GLYPH_HEIGHT as usize];
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] == b'#' {
            glyph[i / 6] |= 1 << (4 - i % 6);
        }
        i += 1;
    }
    glyph
}

#[rustfmt::skip]
const GLYPHS: [Glyph; 95] = [
    draw("..... ..... ..... ..... ..... ..... ..... ..... ....."), // space
    draw("..#.. ..#.. ..#.. ..#.. ..#.. ..... ..#.. ..... ....."), // !
    draw(".#.#. .#.#. .#.#. ..... ..... ..... ..... ..... ....."), // "
    draw(".#.#. .#.#. ##### .#.#. ##### .#.#. .#.#. ..... ....."), // #
    draw("..#.. .#### #.#.. .###. ..#.# ####. ..#.. ..... ....."), // $
    draw("##..# ##..# ...#. ..#.. .#... #..## #..## ..... ....."), // %
    draw(".##.. #..#. #.#.. .#... #.#.# #..#. .##.# ..... ....."), // &
    draw("..#.. ..#.. .#... ..... ..... ..... ..... ..... ....."), // '
    draw("...#. ..#.. .#... .#... .#... ..#.. ...#. ..... ....."), // (
    draw(".#... ..#.. ...#. ...#. ...#. ..#.. .#... ..... ....."), // )
    draw("..... ..#.. #.#.# .###. #.#.# ..#.. ..... ..... ....."), // *
    draw("..... ..#.. ..#.. ##### ..#.. ..#.. ..... ..... ....."), // +
    draw("..... ..... ..... ..... ..... ..##. ..#.. .#... ....."), // ,
    draw("..... ..... ..... ##### ..... ..... ..... ..... ....."), // -
    draw("..... ..... ..... ..... ..... .##.. .##.. ..... ....."), // .
    draw("....# ....# ...#. ..#.. .#... #.... #.... ..... ....."), // /
    draw(".###. #...# #..## #.#.# ##..# #...# .###. ..... ....."), // 0
    draw("..#.. .##.. ..#.. ..#.. ..#.. ..#.. .###. ..... ....."), // 1
    draw(".###. #...# ....# ...#. ..#.. .#... ##### ..... ....."), // 2
    draw("##### ...#. ..#.. ...#. ....# #...# .###. ..... ....."), // 3
    draw("...#. ..##. .#.#. #..#. ##### ...#. ...#. ..... ....."), // 4
    draw("##### #.... ####. ....# ....# #...# .###. ..... ....."), // 5
    draw("..##. .#... #.... ####. #...# #...# .###. ..... ....."), // 6
    draw("##### ....# ...#. ..#.. .#... .#... .#... ..... ....."), // 7
    draw(".###. #...# #...# .###. #...# #...# .###. ..... ....."), // 8
    draw(".###. #...# #...# .#### ....# ...#. .##.. ..... ....."), // 9
    draw("..... .##.. .##.. ..... .##.. .##.. ..... ..... ....."), // :
    draw("..... .##.. .##.. ..... .##.. ..#.. .#... ..... ....."), // ;
    draw("...#. ..#.. .#... #.... .#... ..#.. ...#. ..... ....."), // <
    draw("..... ..... ##### ..... ##### ..... ..... ..... ....."), // =
    draw(".#... ..#.. ...#. ....# ...#. ..#.. .#... ..... ....."), // >
    draw(".###. #...# ....# ...#. ..#.. ..... ..#.. ..... ....."), // ?
    draw(".###. #...# #.### #.#.# #.##. #.... .###. ..... ....."), // @
    draw(".###. #...# #...# #...# ##### #...# #...# ..... ....."), // A
    draw("####. #...# #...# ####. #...# #...# ####. ..... ....."), // B
    draw(".###. #...# #.... #.... #.... #...# .###. ..... ....."), // C
    draw("####. #...# #...# #...# #...# #...# ####. ..... ....."), // D
    draw("##### #.... #.... ####. #.... #.... ##### ..... ....."), // E
    draw("##### #.... #.... ####. #.... #.... #.... ..... ....."), // F
    draw(".###. #...# #.... #.### #...# #...# .#### ..... ....."), // G
    draw("#...# #...# #...# ##### #...# #...# #...# ..... ....."), // H
    draw(".###. ..#.. ..#.. ..#.. ..#.. ..#.. .###. ..... ....."), // I
    draw("..### ...#. ...#. ...#. ...#. #..#. .##.. ..... ....."), // J
    draw("#...# #..#. #.#.. ##... #.#.. #..#. #...# ..... ....."), // K
    draw("#.... #.... #.... #.... #.... #.... ##### ..... ....."), // L
    draw("#...# ##.## #.#.# #.#.# #...# #...# #...# ..... ....."), // M
    draw("#...# ##..# #.#.# #..## #...# #...# #...# ..... ....."), // N
    draw(".###. #...# #...# #...# #...# #...# .###. ..... ....."), // O
    draw("####. #...# #...# ####. #.... #.... #.... ..... ....."), // P
    draw(".###. #...# #...# #...# #.#.# #..#. .##.# ..... ....."), // Q
    draw("####. #...# #...# ####. #.#.. #..#. #...# ..... ....."), // R
    draw(".#### #.... #.... .###. ....# ....# ####. ..... ....."), // S
    draw("##### ..#.. ..#.. ..#.. ..#.. ..#.. ..#.. ..... ....."), // T
    draw("#...# #...# #...# #...# #...# #...# .###. ..... ....."), // U
    draw("#...# #...# #...# #...# #...# .#.#. ..#.. ..... ....."), // V
    draw("#...# #...# #...# #.#.# #.#.# ##.## #...# ..... ....."), // W
    draw("#...# #...# .#.#. ..#.. .#.#. #...# #...# ..... ....."), // X
    draw("#...# #...# .#.#. ..#.. ..#.. ..#.. ..#.. ..... ....."), // Y
    draw("##### ....# ...#. ..#.. .#... #.... ##### ..... ....."), // Z
    draw(".###. .#... .#... .#... .#... .#... .###. ..... ....."), // [
    draw("#.... #.... .#... ..#.. ...#. ....# ....# ..... ....."), // backslash
    draw(".###. ...#. ...#. ...#. ...#. ...#. .###. ..... ....."), // ]
    draw("..#.. .#.#. #...# ..... ..... ..... ..... ..... ....."), // ^
    draw("..... ..... ..... ..... ..... ..... ..... ##### ....."), // _
    draw(".#... ..#.. ...#. ..... ..... ..... ..... ..... ....."), // `
    draw("..... ..... .###. ....# .#### #...# .#### ..... ....."), // a
    draw("#.... #.... ####. #...# #...# #...# ####. ..... ....."), // b
    draw("..... ..... .#### #.... #.... #.... .#### ..... ....."), // c
    draw("....# ....# .#### #...# #...# #...# .#### ..... ....."), // d
    draw("..... ..... .###. #...# ##### #.... .###. ..... ....."), // e
    draw("..##. .#... ####. .#... .#... .#... .#... ..... ....."), // f
    draw("..... ..... .#### #...# #...# #...# .#### ....# .###."), // g
    draw("#.... #.... ####. #...# #...# #...# #...# ..... ....."), // h
    draw("..#.. ..... .##.. ..#.. ..#.. ..#.. .###. ..... ....."), // i
    draw("...#. ..... ..##. ...#. ...#. ...#. ...#. #..#. .##.."), // j
    draw("#.... #.... #..#. #.#.. ##... #.#.. #..#. ..... ....."), // k
    draw(".##.. ..#.. ..#.. ..#.. ..#.. ..#.. .###. ..... ....."), // l
    draw("..... ..... ##.#. #.#.# #.#.# #.#.# #.#.# ..... ....."), // m
    draw("..... ..... ####. #...# #...# #...# #...# ..... ....."), // n
    draw("..... ..... .###. #...# #...# #...# .###. ..... ....."), // o
    draw("..... ..... ####. #...# #...# #...# ####. #.... #...."), // p
    draw("..... ..... .#### #...# #...# #...# .#### ....# ....#"), // q
    draw("..... ..... #.##. ##... #.... #.... #.... ..... ....."), // r
    draw("..... ..... .#### #.... .###. ....# ####. ..... ....."), // s
    draw(".#... .#... ####. .#... .#... .#... ..##. ..... ....."), // t
    draw("..... ..... #...# #...# #...# #...# .#### ..... ....."), // u
    draw("..... ..... #...# #...# #...# .#.#. ..#.. ..... ....."), // v
    draw("..... ..... #...# #.#.# #.#.# #.#.# .#.#. ..... ....."), // w
    draw("..... ..... #...# .#.#. ..#.. .#.#. #...# ..... ....."), // x
    draw("..... ..... #...# #...# #...# #...# .#### ....# .###."), // y
    draw("..... ..... ##### ...#. ..#.. .#... ##### ..... ....."), // z
    draw("...## ..#.. ..#.. .#... ..#.. ..#.. ...## ..... ....."), // {
    draw("..#.. ..#.. ..#.. ..#.. ..#.. ..#.. ..#.. ..#.. ....."), // |
    draw("##... ..#.. ..#.. ...#. ..#.. ..#.. ##... ..... ....."), // }
    draw("..... ..... .#... #.#.# ...#. ..... ..... ..... ....."), // ~
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printable_character_has_its_own_drawing() {
        let all: Vec<Glyph> = (b' '..=b'~').map(|c| glyph(c as char)).collect();
        for (i, a) in all.iter().enumerate() {
            assert_eq!(
                a.iter().all(|&r| r == 0),
                i == 0,
                "only the space is blank: {}",
                (b' ' + i as u8) as char
            );
            assert!(all[i + 1..].iter().all(|b| a != b), "{} is drawn twice", (b' ' + i as u8) as char);
        }
        assert_eq!(glyph('\u{e9}'), BOX);
        assert_eq!(glyph('\n'), BOX);
    }

    #[test]
    fn enlarging_keeps_every_dot_and_rounds_only_corners() {
        for c in "AkZ8/".chars() {
            let g = glyph(c);
            for (x, y) in (0..GLYPH_HEIGHT).flat_map(|y| (0..GLYPH_WIDTH).map(move |x| (x, y))) {
                let plain = inked(&g, 1, x, y);
                // The centre of a dot of five by five pixels is never part of a corner.
                assert_eq!(inked(&g, 5, 5 * x + 2, 5 * y + 2), plain, "{c} at {x},{y}");
            }
        }
        // A horizontal stroke has no diagonal to smooth.
        let dash = glyph('-');
        assert!((0..10).all(|x| inked(&dash, 2, x, 6) && inked(&dash, 2, x, 7) && !inked(&dash, 2, x, 5) && !inked(&dash, 2, x, 8)));
        // The stroke of a slash is widened at the steps.
        let slash = glyph('/');
        assert!((0..18).any(|y| (0..10).filter(|&x| inked(&slash, 2, x, y)).count() > 2));
    }

    #[test]
    fn text_width_has_no_gap_at_the_end() {
        assert_eq!(width("", 3), 0);
        assert_eq!(width("A", 1), 5);
        assert_eq!(width("AB", 2), 22);
    }
}
