//! The ground truth of a frame: objects, surfaces, signals.
//!
//! The numbers of the classes are those of the networks trained on them; their names are the labels of the model cards.

/// What a detector finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Passenger cars and vans.
    Car = 0,
    /// Trucks and buses.
    Truck = 1,
    /// People on foot.
    Person = 2,
    /// People on bicycles.
    Cyclist = 3,
    /// Housings of traffic lights, lit or not.
    TrafficLight = 4,
    /// Faces of traffic signs.
    TrafficSign = 5,
}

impl Class {
    /// Labels in the order of the classes' numbers.
    pub const LABELS: [&str; 6] = ["car", "truck", "person", "cyclist", "traffic light", "traffic sign"];

    /// Its label.
    pub const fn label(self) -> &'static str {
        Class::LABELS[self as usize]
    }
}

/// What a pixel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Surface {
    /// What one may drive on.
    Road = 0,
    /// Paint on the road: lane marks, stop lines, crossings.
    LaneMark = 1,
    /// What one may walk on, its kerb included.
    Sidewalk = 2,
    /// Cars, trucks, buses.
    Vehicle = 3,
    /// People, and cyclists with their bicycles.
    Person = 4,
    /// The sky and what flies in it.
    Sky = 5,
    /// Everything else: buildings, trees, meadows, poles, signs.
    Other = 6,
}

impl Surface {
    /// Labels in the order of the surfaces' numbers.
    pub const LABELS: [&str; 7] = ["road", "lane mark", "sidewalk", "vehicle", "person", "sky", "other"];

    /// Its label.
    pub const fn label(self) -> &'static str {
        Surface::LABELS[self as usize]
    }
}

/// What a traffic light or sign says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Signal {
    /// Traffic light, red lit.
    Red = 0,
    /// Traffic light, yellow lit.
    Yellow = 1,
    /// Traffic light, green lit.
    Green = 2,
    /// Traffic light, nothing lit.
    Off = 3,
    /// Red octagon with STOP.
    Stop = 4,
    /// Red-rimmed triangle on its point.
    Yield = 5,
    /// Red disc with a white bar.
    NoEntry = 6,
    /// Red-rimmed disc with 30.
    Speed30 = 7,
    /// Red-rimmed disc with 50.
    Speed50 = 8,
    /// Red-rimmed disc with 80.
    Speed80 = 9,
    /// Yellow diamond with a white rim.
    PriorityRoad = 10,
    /// Blue square with a white triangle and a walker.
    PedestrianCrossing = 11,
    /// Blue disc with three arrows in a ring.
    Roundabout = 12,
    /// Blue disc with a red rim and a red slash.
    NoParking = 13,
    /// Blue disc with an arrow down to the right.
    KeepRight = 14,
    /// Red-rimmed triangle on its base, with a digger.
    Roadworks = 15,
    /// Neither a sign's face nor a light: what a false alarm shows.
    Other = 16,
}

impl Signal {
    /// Labels in the order of the signals' numbers.
    pub const LABELS: [&str; 17] = [
        "red light",
        "yellow light",
        "green light",
        "light off",
        "stop",
        "yield",
        "no entry",
        "speed 30",
        "speed 50",
        "speed 80",
        "priority road",
        "pedestrian crossing",
        "roundabout",
        "no parking",
        "keep right",
        "roadworks",
        "other",
    ];

    /// The signs a road can have, in the order of their numbers.
    pub const SIGNS: [Signal; 12] = [
        Signal::Stop,
        Signal::Yield,
        Signal::NoEntry,
        Signal::Speed30,
        Signal::Speed50,
        Signal::Speed80,
        Signal::PriorityRoad,
        Signal::PedestrianCrossing,
        Signal::Roundabout,
        Signal::NoParking,
        Signal::KeepRight,
        Signal::Roadworks,
    ];

    /// Its label.
    pub const fn label(self) -> &'static str {
        Signal::LABELS[self as usize]
    }
}

/// An object of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The same thing has the same number in all frames of a drive.
    pub id: u32,
    /// What it is.
    pub class: Class,
    /// What it says, for traffic lights and signs.
    pub signal: Option<Signal>,
    /// Box around its visible pixels: left, top, right, bottom, the last two exclusive, in pixels.
    pub bounds: [u32; 4],
    /// Visible share of the pixels it would cover alone, those beyond the picture's border included, in thousandths.
    ///
    /// Pixels inside the picture are counted. How many lie beyond its border is estimated for an object that is cut by it: the
    /// pixels it covers inside are taken to be the same share of all its pixels as the part inside the picture is of the
    /// rectangle around its projected corners. Parts nearer than the camera draws count neither inside nor beyond.
    pub visible: u16,
    /// Too low ([`MIN_HEIGHT`]), too hidden ([`MIN_VISIBLE`]) or too deep in the haze ([`MAX_HAZE`]) to be asked for: neither a hit
    /// nor a miss.
    pub ignored: bool,
}

/// Least height of the visible box of an object that counts, in pixels.
pub const MIN_HEIGHT: u32 = 24;
/// Least visible share of an object that counts, in thousandths.
pub const MIN_VISIBLE: u16 = 400;
/// Most haze before an object that counts, at the depth of its place, of 256: behind more, less than a sixth of its contrast is left.
pub const MAX_HAZE: i32 = 214;
