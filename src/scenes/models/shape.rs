//! Builders: solids from rectangles and profiles, marks on their faces, dice for their looks.
//!
//! Faces of solids list their corners from the lower left as seen from outside: lower left, lower right, upper right, upper
//! left. x to the right, y up and z ahead is a left-handed system: who looks along +z sees x to the right, who looks along -x
//! from the right side sees z to the right.

use crate::scenes::fixed::{Dice, ONE, TURN, cos, sin};
use crate::scenes::mesh::{Decal, Face, Finish, Part, Point, Rgb, Role};

/// A place in a face's plane: to the right and up, as seen from outside, in millimetres.
pub(super) type Spot = (i32, i32);

/// Colour and finish of a face or mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paint {
    pub(super) colour: Rgb,
    pub(super) finish: Finish,
}

impl Paint {
    pub(super) const fn matt(colour: Rgb) -> Paint {
        Paint {
            colour,
            finish: Finish::Matt,
        }
    }

    pub(super) const fn gloss(colour: Rgb) -> Paint {
        Paint {
            colour,
            finish: Finish::Gloss,
        }
    }

    pub(super) const fn lamp(colour: Rgb) -> Paint {
        Paint {
            colour,
            finish: Finish::Lamp,
        }
    }

    pub(super) const fn reflector(colour: Rgb) -> Paint {
        Paint {
            colour,
            finish: Finish::Reflector,
        }
    }

    /// The same finish in a darker (below 1000) or lighter colour.
    pub(super) fn shaded(self, thousandths: i32) -> Paint {
        Paint {
            colour: shade(self.colour, thousandths),
            ..self
        }
    }
}

/// `colour` times `thousandths`.
pub(super) fn shade(Rgb(r, g, b): Rgb, thousandths: i32) -> Rgb {
    let part = |c: u8| (i32::from(c) * thousandths / 1000).clamp(0, 255) as u8;
    Rgb(part(r), part(g), part(b))
}

/// `a` with `thousandths` of `b` mixed in.
pub(super) fn mix(a: Rgb, b: Rgb, thousandths: i32) -> Rgb {
    let part = |a: u8, b: u8| ((i32::from(a) * (1000 - thousandths) + i32::from(b) * thousandths) / 1000).clamp(0, 255) as u8;
    Rgb(part(a.0, b.0), part(a.1, b.1), part(a.2, b.2))
}

/// Dice of `look`: the same look gives the same choices; `kind` tells the kinds of bodies apart.
pub(super) fn dice(look: u32, kind: u64) -> Dice {
    Dice::new(u64::from(look), kind, 0)
}

/// `spot` turned anticlockwise about the origin.
pub(super) fn turned((u, v): Spot, angle: i32) -> Spot {
    let (s, c) = (sin(angle), cos(angle));
    (rounded(u * c - v * s, ONE), rounded(u * s + v * c, ONE))
}

fn rounded(a: i32, b: i32) -> i32 {
    (a + b / 2).div_euclid(b)
}

/// The point at `x`, `y`, `z`.
pub(super) fn at(x: i32, y: i32, z: i32) -> Point {
    Point { x, y, z }
}

/// A face without marks.
pub(super) fn face(corners: Vec<Point>, paint: Paint) -> Face {
    Face {
        corners,
        colour: paint.colour,
        finish: paint.finish,
        decals: Vec::new(),
    }
}

/// A rectangle of the ground plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) x: (i32, i32),
    pub(super) z: (i32, i32),
}

impl Plan {
    pub(super) fn new(x: (i32, i32), z: (i32, i32)) -> Plan {
        Plan { x, z }
    }

    /// `width` by `depth` about the origin.
    pub(super) fn centred(width: i32, depth: i32) -> Plan {
        Plan {
            x: (-width / 2, width / 2),
            z: (-depth / 2, depth / 2),
        }
    }
}

/// Faces of [`frustum`] and [`block`]; the first two also of [`prism_x`].
pub(super) const RIGHT: usize = 0;
/// See [`RIGHT`].
pub(super) const LEFT: usize = 1;
/// See [`RIGHT`].
pub(super) const FRONT: usize = 2;
/// See [`RIGHT`].
pub(super) const BACK: usize = 3;
/// See [`RIGHT`].
pub(super) const TOP: usize = 4;

/// From `lower` at height `y.0` straight to `upper` at height `y.1`.
pub(super) fn frustum(lower: Plan, upper: Plan, y: (i32, i32), paint: Paint) -> Part {
    let low = |x, z| at(x, y.0, z);
    let top = |x, z| at(x, y.1, z);
    let (l, u) = (lower, upper);
    let quads = [
        [low(l.x.1, l.z.0), low(l.x.1, l.z.1), top(u.x.1, u.z.1), top(u.x.1, u.z.0)],
        [low(l.x.0, l.z.1), low(l.x.0, l.z.0), top(u.x.0, u.z.0), top(u.x.0, u.z.1)],
        [low(l.x.1, l.z.1), low(l.x.0, l.z.1), top(u.x.0, u.z.1), top(u.x.1, u.z.1)],
        [low(l.x.0, l.z.0), low(l.x.1, l.z.0), top(u.x.1, u.z.0), top(u.x.0, u.z.0)],
        [top(u.x.0, u.z.0), top(u.x.1, u.z.0), top(u.x.1, u.z.1), top(u.x.0, u.z.1)],
        [low(l.x.0, l.z.1), low(l.x.1, l.z.1), low(l.x.1, l.z.0), low(l.x.0, l.z.0)],
    ];
    Part {
        faces: quads.into_iter().map(|q| face(q.to_vec(), paint)).collect(),
        role: Role::Body,
    }
}

/// A box.
pub(super) fn block(plan: Plan, y: (i32, i32), paint: Paint) -> Part {
    frustum(plan, plan, y, paint)
}

/// `profile` of (z, y), anticlockwise as seen from the right, drawn across from `x.0` to `x.1`: the right side, the left
/// side, then a face for each edge of the profile.
pub(super) fn prism_x(profile: &[Spot], x: (i32, i32), paint: Paint) -> Part {
    let mut faces = vec![
        face(profile.iter().map(|&(z, y)| at(x.1, y, z)).collect(), paint),
        face(profile.iter().rev().map(|&(z, y)| at(x.0, y, z)).collect(), paint),
    ];
    for (p, q) in edges(profile) {
        let mut quad = vec![at(x.1, p.1, p.0), at(x.0, p.1, p.0), at(x.0, q.1, q.0), at(x.1, q.1, q.0)];
        if q.1 < p.1 {
            quad.rotate_left(2);
        }
        faces.push(face(quad, paint));
    }
    Part { faces, role: Role::Body }
}

/// `profile` of (x, y), anticlockwise as seen from behind, drawn along from `z.0` to `z.1`: the front, the back, then a face
/// for each edge of the profile.
pub(super) fn prism_z(profile: &[Spot], z: (i32, i32), paint: Paint) -> Part {
    let mut faces = vec![
        face(profile.iter().rev().map(|&(x, y)| at(x, y, z.1)).collect(), paint),
        face(profile.iter().map(|&(x, y)| at(x, y, z.0)).collect(), paint),
    ];
    for (p, q) in edges(profile) {
        let mut quad = vec![at(p.0, p.1, z.0), at(p.0, p.1, z.1), at(q.0, q.1, z.1), at(q.0, q.1, z.0)];
        if q.1 < p.1 {
            quad.rotate_left(2);
        }
        faces.push(face(quad, paint));
    }
    Part { faces, role: Role::Body }
}

/// Rings of (x, z) at heights, from low to high, all with as many corners and parallel edges, anticlockwise as seen from
/// above: the top, the bottom, then ring by ring a face for each edge.
pub(super) fn loft(rings: &[(i32, Vec<Spot>)], paint: Paint) -> Part {
    let (low, high) = (&rings[0], &rings[rings.len() - 1]);
    let mut faces = vec![
        face(high.1.iter().map(|&(x, z)| at(x, high.0, z)).collect(), paint),
        face(low.1.iter().rev().map(|&(x, z)| at(x, low.0, z)).collect(), paint),
    ];
    for pair in rings.windows(2) {
        let ((y0, lower), (y1, upper)) = (&pair[0], &pair[1]);
        for ((p, q), (r, s)) in edges(lower).zip(edges(upper)) {
            let quad = vec![at(p.0, *y0, p.1), at(q.0, *y0, q.1), at(s.0, *y1, s.1), at(r.0, *y1, r.1)];
            faces.push(face(quad, paint));
        }
    }
    Part { faces, role: Role::Body }
}

fn edges(ring: &[Spot]) -> impl Iterator<Item = (Spot, Spot)> + '_ {
    ring.iter().copied().zip(ring.iter().copied().cycle().skip(1))
}

/// An upright ball of `sides` sides, wider in the middle: rings at its poles are half as wide as its waist.
pub(super) fn blob(centre: Point, radius: i32, half_height: i32, sides: i32, paint: Paint) -> Part {
    let ring = |r| ngon((centre.x, centre.z), (r, r), sides, TURN / sides / 2);
    let rings = [
        (centre.y - half_height, ring(radius * 11 / 20)),
        (centre.y - half_height / 4, ring(radius)),
        (centre.y + half_height / 4, ring(radius)),
        (centre.y + half_height, ring(radius * 11 / 20)),
    ];
    loft(&rings, paint)
}

/// A polygon with `sides` corners on an ellipse, anticlockwise, the first corner at `start`.
pub(super) fn ngon(centre: Spot, radius: (i32, i32), sides: i32, start: i32) -> Vec<Spot> {
    (0..sides)
        .map(|i| {
            let angle = start + i * TURN / sides;
            (
                centre.0 + rounded(radius.0 * cos(angle), ONE),
                centre.1 + rounded(radius.1 * sin(angle), ONE),
            )
        })
        .collect()
}

/// A rectangle, anticlockwise.
pub(super) fn rect(u: (i32, i32), v: (i32, i32)) -> Vec<Spot> {
    vec![(u.0, v.0), (u.1, v.0), (u.1, v.1), (u.0, v.1)]
}

/// A stroke of a pen `thick` wide from `a` to `b`, anticlockwise.
pub(super) fn stroke(a: Spot, b: Spot, thick: i32) -> Vec<Spot> {
    let (du, dv) = (b.0 - a.0, b.1 - a.1);
    let length = (du * du + dv * dv).isqrt().max(1);
    let (nu, nv) = (rounded(-dv * thick, 2 * length), rounded(du * thick, 2 * length));
    vec![
        (a.0 - nu, a.1 - nv),
        (b.0 - nu, b.1 - nv),
        (b.0 + nu, b.1 + nv),
        (a.0 + nu, a.1 + nv),
    ]
}

/// What of a convex polygon lies above (`keep_above`) or below the height `v`.
pub(super) fn clipped(polygon: &[Spot], v: i32, keep_above: bool) -> Vec<Spot> {
    let inside = |p: Spot| if keep_above { p.1 >= v } else { p.1 <= v };
    let mut kept = Vec::new();
    for (p, q) in edges(polygon) {
        if inside(p) {
            kept.push(p);
        }
        if inside(p) != inside(q) && p.1 != v && q.1 != v {
            kept.push((p.0 + rounded((q.0 - p.0) * (v - p.1).abs(), (q.1 - p.1).abs()), v));
        }
    }
    kept
}

/// A plane to draw on, as seen from outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    origin: Point,
    right: (i32, i32),
    roll: i32,
}

impl Canvas {
    /// Seen from the right side: to the right is ahead.
    pub(super) fn right(x: i32) -> Canvas {
        Canvas {
            origin: at(x, 0, 0),
            right: (0, 1),
            roll: 0,
        }
    }

    /// Seen from the left side: to the right is back.
    pub(super) fn left(x: i32) -> Canvas {
        Canvas {
            origin: at(x, 0, 0),
            right: (0, -1),
            roll: 0,
        }
    }

    /// Seen from ahead.
    pub(super) fn front(z: i32) -> Canvas {
        Canvas {
            origin: at(0, 0, z),
            right: (-1, 0),
            roll: 0,
        }
    }

    /// Seen from behind.
    pub(super) fn back(z: i32) -> Canvas {
        Canvas {
            origin: at(0, 0, z),
            right: (1, 0),
            roll: 0,
        }
    }

    /// With its origin moved to the right and up.
    pub(super) fn moved(mut self, u: i32, v: i32) -> Canvas {
        self.origin = self.at((u, v));
        self
    }

    /// Turned anticlockwise about its origin.
    pub(super) fn rolled(mut self, angle: i32) -> Canvas {
        self.roll += angle;
        self
    }

    /// The point of a spot.
    pub(super) fn at(&self, spot: Spot) -> Point {
        let (u, v) = if self.roll == 0 { spot } else { turned(spot, self.roll) };
        at(
            self.origin.x + self.right.0 * u,
            self.origin.y + v,
            self.origin.z + self.right.1 * u,
        )
    }

    /// The points of an outline.
    pub(super) fn outline(&self, spots: &[Spot]) -> Vec<Point> {
        spots.iter().map(|&s| self.at(s)).collect()
    }

    /// Marks `face`, which lies in this plane.
    pub(super) fn mark(&self, face: &mut Face, paint: Paint, spots: &[Spot]) {
        face.decals.push(Decal {
            corners: self.outline(spots),
            colour: paint.colour,
            finish: paint.finish,
        });
    }
}

/// Marks both upright sides of a solid whose first faces are its right and its left: `profile` of (z, y), anticlockwise as
/// seen from the right.
pub(super) fn mark_sides(part: &mut Part, paint: Paint, profile: &[Spot]) {
    let (right, left) = (part.faces[RIGHT].corners[0].x, part.faces[LEFT].corners[0].x);
    Canvas::right(right).mark(&mut part.faces[RIGHT], paint, profile);
    let mirrored: Vec<Spot> = profile.iter().rev().map(|&(z, y)| (-z, y)).collect();
    Canvas::left(left).mark(&mut part.faces[LEFT], paint, &mirrored);
}

/// Marks a face of four corners from (`s.0`, `t.0`) to (`s.1`, `t.1`), in thousandths of its width from the left and of its
/// height from below.
pub(super) fn patch(face: &mut Face, paint: Paint, s: (i32, i32), t: (i32, i32)) {
    patch_outline(face, paint, &rect(s, t));
}

/// Marks a face of four corners, in thousandths of its width from the left and of its height from below.
pub(super) fn patch_outline(face: &mut Face, paint: Paint, spots: &[Spot]) {
    let [a, b, c, d] = [face.corners[0], face.corners[1], face.corners[2], face.corners[3]];
    let place = |a: i32, b: i32, c: i32, d: i32, (s, t): Spot| {
        let (low, high) = (
            i64::from(a) * i64::from(1000 - s) + i64::from(b) * i64::from(s),
            i64::from(d) * i64::from(1000 - s) + i64::from(c) * i64::from(s),
        );
        ((low * i64::from(1000 - t) + high * i64::from(t) + 500_000).div_euclid(1_000_000)) as i32
    };
    let corners = spots
        .iter()
        .map(|&p| {
            at(
                place(a.x, b.x, c.x, d.x, p),
                place(a.y, b.y, c.y, d.y, p),
                place(a.z, b.z, c.z, d.z, p),
            )
        })
        .collect();
    face.decals.push(Decal {
        corners,
        colour: paint.colour,
        finish: paint.finish,
    });
}
