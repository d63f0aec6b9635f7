//! From a drive and a number to a frame: sky, ground, shadows, bodies from far to near, weather, sensor, ground truth.

use super::fixed::{Dice, TURN, sin};
use super::light::Light;
use super::models::body::Body;
use super::models::library::Library;
use super::paint::brush::{Brush, Meaning, Pose};
use super::paint::camera::{Camera, NEAR};
use super::paint::census::{Census, Seen};
use super::paint::ground::{Grain, Ground};
use super::paint::marks::Marker;
use super::paint::painter::Canvas;
use super::paint::sensor::Sensor;
use super::paint::sky::{self, Clouds};
use super::paint::{falling, glare, shadow};
use super::world::ahead::Ahead;
use super::world::drive::Drive;
use super::world::thing::Thing;
use super::world::{crossing, roadside, traffic, walkers};
use super::{Frame, HEIGHT, WIDTH};

/// Renders frames; keeps what can be kept from one to the next. Holds no state that a frame depends on.
#[derive(Clone, Debug)]
pub struct Renderer {
    canvas: Canvas,
    clouds: Clouds,
    grain: Grain,
    sensor: Sensor,
    library: Library,
    brush: Brush,
    things: Vec<Thing>,
    census: Census,
}

impl Default for Renderer {
    fn default() -> Renderer {
        Renderer::new()
    }
}

impl Renderer {
    /// A renderer for all drives.
    pub fn new() -> Renderer {
        Renderer {
            canvas: Canvas::default(),
            clouds: Clouds::new(),
            grain: Grain::new(),
            sensor: Sensor::new(),
            library: Library::default(),
            brush: Brush::default(),
            things: Vec::new(),
            census: Census::default(),
        }
    }

    /// Renders a frame of a drive. What `frame` held before does not matter; its memory is used again.
    pub fn render(&mut self, drive: &Drive, number: u32, frame: &mut Frame) {
        let ahead = Ahead::new(&drive.route, number);
        let light = Light::new(drive.seed, number);
        let camera = camera(&ahead);
        std::mem::swap(&mut self.canvas.pixels, &mut frame.pixels);
        std::mem::swap(&mut self.canvas.labels, &mut frame.labels);
        self.canvas.prepare();
        self.library.tidy();

        sky::paint(&mut self.canvas, &self.clouds, &camera, &light, drive.seed, ahead.turned());
        Ground {
            camera: &camera,
            light: &light,
            ahead: &ahead,
            soil: &drive.soil,
            grain: &self.grain,
        }
        .paint(&mut self.canvas);
        self.things.clear();
        roadside::stand(&ahead, &light, &mut self.library, &mut self.things);
        traffic::drive(&ahead, &light, &mut self.things);
        crossing::cross(&ahead, &light, &mut self.things);
        walkers::walk(&ahead, &mut self.things);
        // A stable order: things at one depth stay in the order of their making.
        self.things.sort_by_key(|thing| std::cmp::Reverse(thing.rank));
        let mut marker = Marker::new(&camera, &light, &drive.soil);
        marker.pieces(&mut self.canvas, &ahead);
        glare::pools(&mut self.canvas, &mut marker, &camera, &light, &self.things);
        shadow::cast(&mut self.canvas, &mut marker, &camera, &light, &mut self.library, &self.things);
        glare::reflections(&mut self.canvas, &camera, &light, &mut self.library, &self.things);
        self.bodies(&camera, &light);
        falling::fall(&mut self.canvas, &light, drive.seed, number);
        self.census.count(&self.canvas.owners, &mut frame.objects);
        self.sensor.take(&mut self.canvas.pixels, &light, drive.seed, number);
        std::mem::swap(&mut self.canvas.pixels, &mut frame.pixels);
        std::mem::swap(&mut self.canvas.labels, &mut frame.labels);
        debug_assert_eq!(frame.pixels.len(), WIDTH * HEIGHT * 3);
    }

    fn bodies(&mut self, camera: &Camera, light: &Light) {
        self.census.start();
        for thing in &self.things {
            let solid = self.library.solid(thing.body);
            let at = camera.place(thing.z, thing.u);
            let size = solid.extent;
            let radius = size.max.x.max(-size.min.x).max(size.max.z).max(-size.min.z);
            if at.z + radius < NEAR {
                continue;
            }
            // Far beyond the picture's sides.
            if (at.x.abs() - radius * 3 / 2) > at.z.max(0) + radius {
                continue;
            }
            let pose = Pose {
                at,
                yaw: (thing.yaw + camera.heading(thing.z)).rem_euclid(TURN),
            };
            let meaning = Meaning {
                surface: thing.surface(),
                owner: if thing.class.is_some() { self.census.next() } else { 0 },
            };
            let aside = (at.x.abs() / 16).min(4000) * 256 / (at.z.max(NEAR) / 16).max(1);
            let beam = (light.beam(at.z) * (256 - (aside * aside / 400).min(230))) >> 8;
            let footprint = self.brush.paint(&mut self.canvas, camera, light, solid, pose, meaning, beam);
            // Windows and shop fronts shine without a halo.
            if matches!(thing.body, Body::Building(..)) {
                self.brush.glows.clear();
            }
            for (middle, radius, colour) in self.brush.glows.drain(..) {
                glare::glow(&mut self.canvas, middle, radius, colour, light.lamps.min(150));
            }
            if let Some(class) = thing.class {
                self.census.add(Seen {
                    id: thing.id,
                    class,
                    signal: thing.signal,
                    footprint,
                    haze: light.haze(thing.z),
                });
            }
        }
    }
}

/// Where the camera is: it keeps to its lane, not quite straight, and nods a little.
fn camera(ahead: &Ahead) -> Camera {
    let route = &ahead.route;
    let mut dice = Dice::new(route.seed, 0xB0, 0);
    let (sway, period) = (dice.between(40, 240), dice.between(60, 170));
    let horizon = dice.between(322, 348) * 256;
    let centre = 640 * 256 + dice.between(-10, 10) * 256;
    let mut nod = Dice::new(route.seed, 0xB1, i64::from(ahead.number));
    let wave =
        |period: i32, high: i32| (sin((i64::from(ahead.number) * i64::from(TURN) / i64::from(period)) as i32 & (TURN - 1)) * high) >> 14;
    let u = route.own * route.lane + route.lane / 2 + wave(period, sway);
    let horizon = horizon + wave(23, 500) + wave(61, 500) + nod.between(-140, 140);
    Camera::new(ahead.total(0), u, centre + wave(period * 3 / 4, 1600), horizon, |metre| {
        ahead.curvature(metre * 1000)
    })
}
