//! What must hold of every body, whatever its look.

use super::*;
use crate::scenes::mesh::{Face, Part, Role};
use crate::scenes::truth::{Class, Signal};

/// A vector or the sum of some, wide enough for products of lengths.
type Vector = [i128; 3];

fn vector(p: Point) -> Vector {
    [p.x.into(), p.y.into(), p.z.into()]
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: Vector, b: Vector) -> i128 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// Product that points to the viewer who sees `a`, then `b` anticlockwise: the axes are left-handed.
fn cross(a: Vector, b: Vector) -> Vector {
    [a[2] * b[1] - a[1] * b[2], a[0] * b[2] - a[2] * b[0], a[1] * b[0] - a[0] * b[1]]
}

fn normal(corners: &[Point]) -> Vector {
    let first = vector(corners[0]);
    let mut sum = [0; 3];
    for pair in corners[1..].windows(2) {
        let product = cross(minus(vector(pair[0]), first), minus(vector(pair[1]), first));
        sum = [sum[0] + product[0], sum[1] + product[1], sum[2] + product[2]];
    }
    sum
}

/// How far `p` lies in direction `along` from `from`, in millimetres rounded towards zero.
fn distance(p: Point, from: Point, along: Vector) -> i128 {
    dot(minus(vector(p), vector(from)), along) / dot(along, along).isqrt().max(1)
}

/// Whether `p` lies within the outline of `corners` or at most `slack` mm outside.
fn within(p: Point, corners: &[Point], outward: Vector, slack: i128) -> bool {
    let next = corners.iter().cycle().skip(1);
    corners.iter().zip(next).all(|(&a, &b)| {
        let inward = cross(outward, minus(vector(b), vector(a)));
        distance(p, a, inward) >= -slack
    })
}

fn check_polygon(corners: &[Point], what: &str) {
    assert!((3..=16).contains(&corners.len()), "{what}: {} corners", corners.len());
    let outward = normal(corners);
    assert_ne!(outward, [0; 3], "{what}: no area in {corners:?}");
    for &corner in corners {
        assert!(distance(corner, corners[0], outward).abs() <= 2, "{what}: not flat: {corners:?}");
        assert!(within(corner, corners, outward, 2), "{what}: not convex: {corners:?}");
    }
}

fn check_face(face: &Face, part: &Part, what: &str) {
    check_polygon(&face.corners, what);
    let outward = normal(&face.corners);
    let middle = |points: &mut dyn Iterator<Item = &Point>| {
        let (mut sum, mut count) = ([0i128; 3], 0);
        for p in points {
            sum = [sum[0] + i128::from(p.x), sum[1] + i128::from(p.y), sum[2] + i128::from(p.z)];
            count += 1;
        }
        (sum, count)
    };
    let (of_face, n) = middle(&mut face.corners.iter());
    let (of_part, m) = middle(&mut part.faces.iter().flat_map(|f| &f.corners));
    let away = minus(of_face.map(|v| v * m), of_part.map(|v| v * n));
    assert!(dot(away, outward) > 0, "{what}: looks inwards: {:?}", face.corners);
    for decal in &face.decals {
        check_polygon(&decal.corners, what);
        assert!(
            dot(normal(&decal.corners), outward) > 0,
            "{what}: a mark looks inwards: {:?}",
            decal.corners
        );
        for &corner in &decal.corners {
            assert!(
                distance(corner, face.corners[0], outward).abs() <= 3,
                "{what}: a mark off its face: {:?} on {:?}",
                decal,
                face.corners
            );
            assert!(
                within(corner, &face.corners, outward, 5),
                "{what}: a mark beyond its face: {:?} on {:?}",
                decal,
                face.corners
            );
        }
    }
}

/// Whether a face's plane of one has the other beyond it, but for 2 mm.
fn apart(a: &Part, b: &Part) -> bool {
    let beyond = |a: &Part, b: &Part| {
        a.faces.iter().any(|face| {
            let outward = normal(&face.corners);
            b.faces
                .iter()
                .flat_map(|f| &f.corners)
                .all(|&p| distance(p, face.corners[0], outward) >= -2)
        })
    };
    beyond(a, b) || beyond(b, a)
}

fn check(mesh: &Mesh, what: &str) {
    assert!(!mesh.parts.is_empty(), "{what}: nothing");
    for part in &mesh.parts {
        for face in &part.faces {
            check_face(face, part, what);
        }
    }
    assert_eq!(extent(mesh).min.y, 0, "{what}: stands on the ground");
}

fn check_apart(mesh: &Mesh, what: &str) {
    for (i, a) in mesh.parts.iter().enumerate() {
        for (j, b) in mesh.parts.iter().enumerate().skip(i + 1) {
            assert!(apart(a, b), "{what}: parts {i} and {j} reach into each other");
        }
    }
}

/// Looks of all magnitudes.
fn looks() -> impl Iterator<Item = u32> {
    (0..60).chain((0..32).map(|bit| u32::MAX >> bit))
}

fn lamps(number: u32) -> Lamps {
    let indicator = [None, Some(Side::Left), Some(Side::Right)][number as usize % 3];
    Lamps {
        head: number & 1 != 0,
        brake: number & 2 != 0,
        reverse: number & 4 != 0,
        indicator,
    }
}

#[test]
fn vehicles_are_sound_and_as_large_as_promised() {
    for kind in VehicleKind::ALL {
        for look in looks() {
            let what = format!("{kind:?} {look}");
            let mesh = vehicle(kind, look, lamps(look));
            check(&mesh, &what);
            check_apart(&mesh, &what);
            let Extent { min, max } = extent(&mesh);
            assert_eq!((max.x - min.x, max.y, max.z - min.z), kind.size(), "{what}");
            assert_eq!((max.x + min.x, max.z + min.z), (0, 0), "{what}: in the middle");
        }
    }
}

#[test]
fn cars_and_trucks_are_told_apart_by_class_and_height() {
    for kind in VehicleKind::ALL {
        let truck = kind.class() == Class::Truck;
        assert_eq!(kind.size().1 > 2500, truck, "{kind:?}");
    }
}

#[test]
fn lit_lamps_shine_on_their_own_side_and_end_only() {
    let shining = |lamps: Lamps| -> Vec<(i32, i32)> {
        let mesh = vehicle(VehicleKind::Sedan, 5, lamps);
        let faces = mesh.parts.iter().flat_map(|p| &p.faces);
        let marks = faces
            .flat_map(|f| &f.decals)
            .filter(|d| d.finish == crate::scenes::mesh::Finish::Lamp);
        marks
            .map(|d| (d.corners.iter().map(|c| c.x).sum(), d.corners.iter().map(|c| c.z).sum()))
            .collect()
    };
    assert_eq!(shining(Lamps::default()), []);
    let left = shining(Lamps {
        indicator: Some(Side::Left),
        ..Lamps::default()
    });
    assert!(
        left.len() == 2 && left.iter().all(|p| p.0 < 0),
        "one ahead, one behind, both left: {left:?}"
    );
    let brake = shining(Lamps {
        brake: true,
        ..Lamps::default()
    });
    assert!(brake.len() == 3 && brake.iter().all(|p| p.1 < 0), "three behind: {brake:?}");
    let head = shining(Lamps {
        head: true,
        ..Lamps::default()
    });
    assert_eq!(head.iter().filter(|p| p.1 > 0).count(), 2, "{head:?}");
}

#[test]
fn people_are_sound_in_every_phase() {
    for look in looks() {
        for phase in (0..4096).step_by(256).chain([4095, 4096, u32::MAX]) {
            let what = format!("person {look} at {phase}");
            let mesh = person(look, phase);
            check(&mesh, &what);
            check_apart(&mesh, &what);
            let Extent { max, .. } = extent(&mesh);
            assert!((900..=1950).contains(&max.y), "{what}: {} mm tall", max.y);
            assert_eq!(person(look, phase.wrapping_add(4096)), mesh, "{what}: strides repeat");
        }
    }
}

#[test]
fn cyclists_are_sound_in_every_phase() {
    for look in looks() {
        for phase in (0..4096).step_by(256).chain([u32::MAX]) {
            let what = format!("cyclist {look} at {phase}");
            let mesh = cyclist(look, phase);
            check(&mesh, &what);
            // Wheels and tubes share the middle plane; the rider keeps apart from both.
            let [wheels, frame, rider] = [0..2, 2..3, 3..mesh.parts.len()].map(|range| mesh.parts[range].to_vec());
            check_apart(
                &Mesh {
                    parts: [wheels, rider.clone()].concat(),
                },
                &what,
            );
            check_apart(
                &Mesh {
                    parts: [frame, rider].concat(),
                },
                &what,
            );
            let (width, depth) = extent(&mesh).footprint();
            let tall = extent(&mesh).max.y;
            assert!(
                (500..=600).contains(&width) && (1600..=1800).contains(&depth) && (1600..=1850).contains(&tall),
                "{what}: {width} {depth} {tall}"
            );
        }
    }
}

/// Middle height of what counts as the object, and its width.
fn face_of(mesh: &Mesh) -> (i32, i32) {
    let body = Mesh {
        parts: mesh.parts.iter().filter(|p| p.role == Role::Body).cloned().collect(),
    };
    let Extent { min, max } = extent(&body);
    ((min.y + max.y) / 2, max.x - min.x)
}

#[test]
fn traffic_lights_are_sound_and_light_the_disc_they_should() {
    let lit = |mesh: &Mesh| -> Vec<i32> {
        let marks = mesh.parts.iter().flat_map(|p| &p.faces).flat_map(|f| &f.decals);
        marks
            .filter(|d| d.finish == crate::scenes::mesh::Finish::Lamp)
            .map(|d| d.corners[0].y)
            .collect()
    };
    for style in looks() {
        for overhead in [false, true] {
            let make = |signal| {
                if overhead {
                    traffic_light_overhead(signal, style)
                } else {
                    traffic_light(signal, style)
                }
            };
            for signal in [Signal::Red, Signal::Yellow, Signal::Green, Signal::Off] {
                let what = format!("light {signal:?} {style} {overhead}");
                check(&make(signal), &what);
                check_apart(&make(signal), &what);
            }
            let (middle, _) = face_of(&make(Signal::Red));
            assert!(if overhead { 4800..5400 } else { 2580..3220 }.contains(&middle), "{middle}");
            let [red, yellow, green] = [Signal::Red, Signal::Yellow, Signal::Green].map(|s| lit(&make(s)));
            assert!(lit(&make(Signal::Off)).is_empty());
            assert!(
                red.iter().min() > yellow.iter().max() && yellow.iter().min() > green.iter().max(),
                "{red:?} {yellow:?} {green:?}"
            );
        }
    }
}

#[test]
fn signs_are_sound_and_differ_from_one_another() {
    for style in looks() {
        let faces = Signal::SIGNS.map(|signal| {
            let what = format!("sign {signal:?} {style}");
            let mesh = sign(signal, style);
            check(&mesh, &what);
            check_apart(&mesh, &what);
            let (middle, width) = face_of(&mesh);
            assert!(
                (2050..=2750).contains(&middle) && (640..=960).contains(&width),
                "{what}: {middle} {width}"
            );
            mesh
        });
        for (i, a) in faces.iter().enumerate() {
            assert!(faces[i + 1..].iter().all(|b| a != b), "sign {i} {style}");
        }
    }
}

#[test]
fn what_stands_beside_the_road_is_sound() {
    for look in looks() {
        for flag in [false, true] {
            let house = building(look, flag);
            check(&house, &format!("building {look}"));
            check_apart(&house, &format!("building {look}"));
            check(&street_lamp(look, flag), &format!("street lamp {look}"));
            check_apart(&street_lamp(look, flag), &format!("street lamp {look}"));
        }
        check(&tree(look), &format!("tree {look}"));
        for (name, mesh) in [("barrier", barrier(look)), ("furniture", furniture(look)), ("board", board(look))] {
            check(&mesh, &format!("{name} {look}"));
            check_apart(&mesh, &format!("{name} {look}"));
        }
    }
}

#[test]
fn night_lights_windows_without_moving_a_wall() {
    for look in 0..40 {
        let (day, night) = (building(look, false), building(look, true));
        assert_eq!(extent(&day), extent(&night), "building {look}");
    }
}
