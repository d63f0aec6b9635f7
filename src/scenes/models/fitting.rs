//! What cars and trucks share: kinds and sizes, wheels, lamps.

use super::shape::{Paint, clipped, mark_sides, ngon, patch, prism_x};
use crate::scenes::mesh::{Face, Part, Rgb};
use crate::scenes::truth::Class;

/// Kinds of vehicles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VehicleKind {
    /// Short car with a steep tail.
    Hatchback,
    /// Car with a boot.
    Sedan,
    /// Long car with a steep tail.
    Estate,
    /// High car.
    Suv,
    /// Delivery van or minibus.
    Van,
    /// Cabin and open bed.
    Pickup,
    /// Low and wide car.
    Sports,
    /// Two-axle truck with a box.
    BoxTruck,
    /// Tractor with a long trailer.
    SemiTruck,
    /// Truck with a tank.
    Tanker,
    /// Truck with a tipping bed.
    Tipper,
    /// City bus or coach.
    Bus,
}

impl VehicleKind {
    /// All kinds.
    pub const ALL: [VehicleKind; 12] = [
        VehicleKind::Hatchback,
        VehicleKind::Sedan,
        VehicleKind::Estate,
        VehicleKind::Suv,
        VehicleKind::Van,
        VehicleKind::Pickup,
        VehicleKind::Sports,
        VehicleKind::BoxTruck,
        VehicleKind::SemiTruck,
        VehicleKind::Tanker,
        VehicleKind::Tipper,
        VehicleKind::Bus,
    ];

    /// What a detector calls it.
    pub const fn class(self) -> Class {
        match self {
            VehicleKind::BoxTruck | VehicleKind::SemiTruck | VehicleKind::Tanker | VehicleKind::Tipper | VehicleKind::Bus => Class::Truck,
            _ => Class::Car,
        }
    }

    /// Width, height and length, in millimetres.
    pub const fn size(self) -> (i32, i32, i32) {
        match self {
            VehicleKind::Hatchback => (1760, 1480, 4060),
            VehicleKind::Sedan => (1820, 1450, 4680),
            VehicleKind::Estate => (1840, 1500, 4780),
            VehicleKind::Suv => (1900, 1700, 4560),
            VehicleKind::Van => (2020, 2400, 5480),
            VehicleKind::Pickup => (1920, 1800, 5320),
            VehicleKind::Sports => (1900, 1270, 4420),
            VehicleKind::BoxTruck => (2440, 3400, 7600),
            VehicleKind::SemiTruck => (2540, 3960, 14600),
            VehicleKind::Tanker => (2500, 3400, 9200),
            VehicleKind::Tipper => (2500, 2900, 7800),
            VehicleKind::Bus => (2540, 3040, 11800),
        }
    }
}

/// A side of a vehicle, as its driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Towards -x.
    Left,
    /// Towards +x.
    Right,
}

/// Which lamps are lit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lamps {
    /// Headlights, and tail lamps with them.
    pub head: bool,
    /// Brake lamps.
    pub brake: bool,
    /// Reversing lamps.
    pub reverse: bool,
    /// Indicator, in the lit half of its beat.
    pub indicator: Option<Side>,
}

pub(super) const GLASS: Paint = Paint::gloss(Rgb(34, 42, 52));
const RUBBER: Paint = Paint::matt(Rgb(26, 26, 28));
pub(super) const ARCH: Paint = Paint::matt(Rgb(14, 14, 15));
pub(super) const TRIM: Paint = Paint::matt(Rgb(40, 41, 44));
pub(super) const PLATE: Paint = Paint::reflector(Rgb(226, 228, 222));
const RIM: Paint = Paint::gloss(Rgb(150, 154, 160));

/// The parts of two wheels that show below `sill`.
pub(super) fn wheels(z: i32, radius: i32, half_width: i32, sill: i32) -> [Part; 2] {
    let rubber = clipped(&ngon((z, radius), (radius, radius), 12, 171), sill, false);
    let lowest = rubber.iter().map(|p| p.1).min().unwrap_or(0);
    let rubber: Vec<_> = rubber.into_iter().map(|(z, y)| (z, if y == lowest { 0 } else { y })).collect();
    let rim = clipped(&ngon((z, radius), (radius * 62 / 100, radius * 62 / 100), 12, 171), sill, false);
    [(half_width - 220, half_width), (-half_width, 220 - half_width)].map(|x| {
        let mut part = prism_x(&rubber, x, RUBBER);
        if rim.len() > 2 {
            mark_sides(&mut part, RIM, &rim);
        }
        part
    })
}

/// The upper part of a wheel, above `sill`, on a body's sides, with the dark arch about it.
pub(super) fn wheel_arch(body: &mut Part, z: i32, radius: i32, sill: i32) {
    let discs = [(radius * 116 / 100, ARCH), (radius, RUBBER), (radius * 62 / 100, RIM)];
    for (r, paint) in discs {
        let disc = clipped(&ngon((z, radius), (r, r), 12, 171), sill, true);
        if disc.len() > 2 {
            mark_sides(body, paint, &disc);
        }
    }
}

/// A pair of headlights at `s` from either edge, with indicators outside.
pub(super) fn head_lamps(face: &mut Face, lamps: Lamps, s: (i32, i32), t: (i32, i32)) {
    let lamp = if lamps.head {
        Paint::lamp(Rgb(255, 250, 226))
    } else {
        Paint::gloss(Rgb(206, 212, 218))
    };
    let outer = s.0 + (s.1 - s.0) * 3 / 10;
    patch(face, lamp, (outer, s.1), t);
    patch(face, lamp, (1000 - s.1, 1000 - outer), t);
    // Seen from ahead, the driver's right is to the left.
    patch(face, indicator(lamps, Side::Right), (s.0, outer), t);
    patch(face, indicator(lamps, Side::Left), (1000 - outer, 1000 - s.0), t);
}

fn indicator(lamps: Lamps, side: Side) -> Paint {
    if lamps.indicator == Some(side) {
        Paint::lamp(Rgb(255, 168, 24))
    } else {
        Paint::gloss(Rgb(186, 112, 36))
    }
}

/// A pair of tail lamps at `s` from either edge, with indicators below the outer half and reversing lamps within.
pub(super) fn tail_lamps(face: &mut Face, lamps: Lamps, s: (i32, i32), t: (i32, i32)) {
    let red = if lamps.brake {
        Paint::lamp(Rgb(255, 36, 26))
    } else if lamps.head {
        Paint::lamp(Rgb(186, 22, 20))
    } else {
        Paint::gloss(Rgb(140, 20, 22))
    };
    let white = if lamps.reverse {
        Paint::lamp(Rgb(255, 255, 246))
    } else {
        Paint::gloss(Rgb(190, 186, 184))
    };
    let third = t.0 + (t.1 - t.0) * 35 / 100;
    let inner = s.0 + (s.1 - s.0) * 6 / 10;
    for (side, flip) in [(Side::Left, false), (Side::Right, true)] {
        let span = |a: i32, b: i32| if flip { (1000 - b, 1000 - a) } else { (a, b) };
        patch(face, red, span(s.0, s.1), (third, t.1));
        patch(face, indicator(lamps, side), span(s.0, inner), (t.0, third));
        patch(face, white, span(inner, s.1), (t.0, third));
    }
}
