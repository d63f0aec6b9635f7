//! What is painted on the traffic signs, about the face's middle, to the right and up, as convex marks.

use super::shape::{Paint, Spot, ngon, rect, stroke, turned};
use crate::scenes::fixed::TURN;
use crate::scenes::mesh::Rgb;
use crate::scenes::truth::Signal;

const RED: Paint = Paint::reflector(Rgb(196, 28, 34));
const WHITE: Paint = Paint::reflector(Rgb(240, 240, 236));
const BLACK: Paint = Paint::matt(Rgb(24, 24, 26));
const BLUE: Paint = Paint::reflector(Rgb(22, 82, 168));
const YELLOW: Paint = Paint::reflector(Rgb(248, 196, 24));
const GREY: Paint = Paint::matt(Rgb(132, 135, 138));

/// A sign's face: its outline, its ground and the marks on it, in the order of painting.
pub(super) struct Art {
    pub(super) outline: Vec<Spot>,
    pub(super) ground: Paint,
    pub(super) marks: Vec<(Paint, Vec<Spot>)>,
}

impl Art {
    fn new(outline: Vec<Spot>, ground: Paint) -> Art {
        Art {
            outline,
            ground,
            marks: Vec::new(),
        }
    }

    fn with(mut self, paint: Paint, spots: Vec<Spot>) -> Art {
        self.marks.push((paint, spots));
        self
    }

    fn lines(mut self, paint: Paint, thick: i32, points: &[Spot]) -> Art {
        for pair in points.windows(2) {
            self.marks.push((paint, stroke(pair[0], pair[1], thick)));
        }
        self
    }
}

/// The face of `signal`, `radius` from its middle to its edge or corner.
pub(super) fn art(signal: Signal, radius: i32) -> Art {
    let of = |thousandths: i32| radius * thousandths / 1000;
    match signal {
        Signal::Stop => stop(radius),
        Signal::Yield => {
            let triangle = |r: i32| vec![turned((0, -r), 0), turned((0, -r), TURN / 3), turned((0, -r), 2 * TURN / 3)];
            Art::new(triangle(of(1120)), RED).with(WHITE, triangle(of(700)))
        }
        Signal::NoEntry => disc(radius, RED).with(WHITE, rect((of(-720), of(720)), (of(-160), of(160)))),
        Signal::Speed30 => limit(radius, '3'),
        Signal::Speed50 => limit(radius, '5'),
        Signal::Speed80 => limit(radius, '8'),
        Signal::PriorityRoad => {
            let diamond = |r| ngon((0, 0), (r, r), 4, 0);
            Art::new(diamond(of(1000)), WHITE)
                .with(BLACK, diamond(of(950)))
                .with(WHITE, diamond(of(915)))
                .with(YELLOW, diamond(of(660)))
        }
        Signal::PedestrianCrossing => crossing(radius),
        Signal::Roundabout => roundabout(radius),
        Signal::NoParking => disc(radius, RED).with(BLUE, ngon((0, 0), (of(800), of(800)), 16, 128)).lines(
            RED,
            of(200),
            &[(of(-610), of(610)), (of(610), of(-610))],
        ),
        Signal::KeepRight => {
            let (tip, tail) = ((of(480), of(-480)), (of(-450), of(450)));
            disc(radius, WHITE)
                .with(BLUE, ngon((0, 0), (of(940), of(940)), 16, 128))
                .lines(WHITE, of(210), &[tail, (of(300), of(-300))])
                .with(WHITE, vec![tip, (of(480), of(160)), (of(-160), of(-480))])
        }
        Signal::Roadworks => roadworks(radius),
        Signal::Red | Signal::Yellow | Signal::Green | Signal::Off | Signal::Other => disc(radius, GREY),
    }
}

fn disc(radius: i32, ground: Paint) -> Art {
    Art::new(ngon((0, 0), (radius, radius), 16, 128), ground)
}

fn stop(radius: i32) -> Art {
    let octagon = |r| ngon((0, 0), (r, r), 8, TURN / 16);
    let of = |thousandths: i32| radius * thousandths / 1000;
    let mut art = Art::new(octagon(of(1060)), WHITE).with(RED, octagon(of(990)));
    let (low, high, thick) = (of(-280), of(280), of(105));
    let column = |x: i32| (of(x - 165), of(x + 165));
    // S: two rings, each open at one side.
    let middle = of(-600);
    let arc = (of(172), of(158));
    let hole = (of(72), of(62));
    for side in [1, -1] {
        let open = (middle + side * of(180), middle + side * of(10));
        let gap = (side * of(28), side * of(92));
        art = art
            .with(WHITE, ngon((middle, side * of(124)), arc, 12, 171))
            .with(RED, ngon((middle, side * of(124)), hole, 12, 171))
            .with(
                RED,
                rect((open.0.min(open.1), open.0.max(open.1)), (gap.0.min(gap.1), gap.0.max(gap.1))),
            );
    }
    // T
    let top = high - thick / 2;
    let (a, b) = column(-200);
    art = art
        .lines(WHITE, thick, &[(a, top), (b, top)])
        .lines(WHITE, thick, &[((a + b) / 2, top), ((a + b) / 2, low)]);
    // O
    art = art
        .with(WHITE, ngon((of(205), 0), (of(190), of(280)), 12, 171))
        .with(RED, ngon((of(205), 0), (of(85), of(170)), 12, 171));
    // P
    let (a, b) = column(620);
    art.with(WHITE, ngon((b - of(140), of(115)), (of(150), of(162)), 12, 171))
        .with(WHITE, rect((a, b - of(140)), (of(-47), of(277))))
        .with(RED, ngon((b - of(150), of(115)), (of(60), of(60)), 8, 0))
        .with(RED, rect((a + thick, b - of(140)), (of(55), of(175))))
        .with(WHITE, rect((a, a + thick), (low, high)))
}

/// A red-rimmed disc with the digit and a nought.
fn limit(radius: i32, digit: char) -> Art {
    let of = |thousandths: i32| radius * thousandths / 1000;
    let mut art = disc(radius, RED).with(WHITE, ngon((0, 0), (of(790), of(790)), 16, 128));
    let (left, right) = (of(-310), of(320));
    let ring = |art: Art, centre: Spot, half: (i32, i32)| {
        let pen = of(125);
        art.with(BLACK, ngon(centre, half, 12, 171))
            .with(WHITE, ngon(centre, (half.0 - pen, half.1 - pen), 12, 171))
    };
    art = match digit {
        '3' => {
            let art = ring(ring(art, (left, of(-180)), (of(265), of(255))), (left, of(205)), (of(245), of(225)));
            art.with(WHITE, rect((of(-600), left - of(40)), (of(-150), of(170))))
                .with(BLACK, rect((left - of(70), left + of(40)), (of(-45), of(75))))
        }
        '5' => {
            let art = ring(art, (left, of(-150)), (of(270), of(285)));
            art.with(WHITE, rect((of(-590), left - of(60)), (of(-190), of(130))))
                .lines(BLACK, of(120), &[(left - of(150), of(-20)), (left - of(120), of(420))])
                .with(BLACK, rect((left - of(180), left + of(230)), (of(310), of(430))))
        }
        _ => ring(ring(art, (left, of(-180)), (of(270), of(255))), (left, of(210)), (of(240), of(225))),
    };
    ring(art, (right, 0), (of(270), of(435)))
}

fn crossing(radius: i32) -> Art {
    let of = |thousandths: i32| radius * thousandths / 1000;
    let square = |r: i32| rect((-r, r), (-r, r));
    let mut art = Art::new(square(of(940)), WHITE)
        .with(BLUE, square(of(890)))
        .with(WHITE, vec![(of(-780), of(-680)), (of(780), of(-680)), (0, of(760))]);
    art = art.with(BLACK, ngon((of(20), of(330)), (of(85), of(85)), 8, 0));
    art = art.lines(BLACK, of(120), &[(of(20), of(230)), (of(-10), of(-120))]);
    art = art.lines(BLACK, of(85), &[(of(-10), of(-90)), (of(150), of(-330)), (of(180), of(-560))]);
    art = art.lines(BLACK, of(85), &[(of(-10), of(-90)), (of(-110), of(-340)), (of(-260), of(-540))]);
    art = art.lines(BLACK, of(65), &[(of(20), of(180)), (of(190), of(30)), (of(250), of(-60))]);
    art = art.lines(BLACK, of(65), &[(of(20), of(180)), (of(-140), of(20)), (of(-190), of(-90))]);
    for x in [-520, -250, 20, 290, 520] {
        art = art.with(BLACK, rect((of(x - 70), of(x + 60)), (of(-655), of(-595))));
    }
    art
}

fn roundabout(radius: i32) -> Art {
    let of = |thousandths: i32| radius * thousandths / 1000;
    let mut art = disc(radius, WHITE).with(BLUE, ngon((0, 0), (of(940), of(940)), 16, 128));
    for third in 0..3 {
        let turn = third * TURN / 3 + 200;
        let spot = |angle: i32, r: i32| turned((of(r), 0), turn + angle);
        for arc in [0, 205, 410, 615] {
            art = art.with(
                WHITE,
                vec![spot(arc, 430), spot(arc, 610), spot(arc + 206, 610), spot(arc + 206, 430)],
            );
        }
        art = art.with(WHITE, vec![spot(790, 770), spot(1190, 540), spot(790, 270)]);
    }
    art
}

fn roadworks(radius: i32) -> Art {
    let of = |thousandths: i32| radius * thousandths / 1000;
    let triangle = |r: i32| vec![turned((0, r), 0), turned((0, r), TURN / 3), turned((0, r), 2 * TURN / 3)];
    let mut art = Art::new(triangle(of(1120)), RED).with(WHITE, triangle(of(700)));
    art = art.with(BLACK, ngon((of(-40), of(190)), (of(75), of(75)), 8, 0));
    art = art.lines(BLACK, of(120), &[(of(-60), of(110)), (of(-130), of(-90))]);
    art = art.lines(BLACK, of(75), &[(of(-130), of(-90)), (of(-30), of(-180)), (of(-60), of(-310))]);
    art = art.lines(BLACK, of(75), &[(of(-130), of(-90)), (of(-230), of(-310))]);
    art = art.lines(BLACK, of(60), &[(of(-60), of(90)), (of(60), of(-20)), (of(130), of(-70))]);
    art = art.lines(BLACK, of(40), &[(of(-90), of(60)), (of(260), of(-210))]);
    art.with(
        BLACK,
        vec![(of(110), of(-320)), (of(440), of(-320)), (of(330), of(-150)), (of(240), of(-150))],
    )
}
