//! Colours of classes and labels: the same name or number always gets the same colour.

use super::canvas::Color;

/// Colours that people of the field know by name, most specific first.
const NAMED: [(&str, Color); 41] = [
    ("red light", [235, 45, 60]),
    ("yellow light", [255, 200, 30]),
    ("green light", [40, 210, 90]),
    ("light off", [160, 166, 178]),
    ("stop", [230, 40, 60]),
    ("yield", [250, 110, 90]),
    ("no entry", [205, 30, 50]),
    ("speed", [245, 75, 80]),
    ("priority road", [250, 205, 60]),
    ("pedestrian crossing", [60, 120, 235]),
    ("roundabout", [80, 140, 250]),
    ("no parking", [100, 100, 230]),
    ("keep right", [50, 150, 240]),
    ("roadworks", [255, 150, 50]),
    ("lane", [255, 214, 10]),
    ("drivable", [38, 200, 120]),
    ("sidewalk", [244, 80, 222]),
    ("crosswalk", [140, 140, 200]),
    ("road", [150, 90, 230]),
    ("curb", [255, 120, 40]),
    ("building", [120, 130, 150]),
    ("wall", [132, 126, 176]),
    ("fence", [200, 160, 140]),
    ("pole", [190, 190, 190]),
    ("traffic light", [250, 176, 40]),
    ("traffic sign", [236, 224, 30]),
    ("vegetation", [108, 150, 40]),
    ("terrain", [150, 220, 140]),
    ("sky", [80, 150, 210]),
    ("person", [240, 40, 90]),
    ("rider", [255, 60, 20]),
    ("cyclist", [255, 60, 20]),
    ("motorcycle", [70, 90, 255]),
    ("bicycle", [180, 40, 60]),
    ("car", [30, 160, 255]),
    ("vehicle", [30, 160, 255]),
    ("truck", [255, 140, 30]),
    ("bus", [30, 210, 200]),
    ("train", [60, 190, 160]),
    ("dog", [200, 130, 60]),
    ("cat", [220, 170, 90]),
];

/// Colours of numbers, neighbours far apart.
const NUMBERED: [Color; 12] = [
    [255, 90, 70],
    [40, 180, 250],
    [90, 210, 70],
    [250, 190, 30],
    [180, 90, 240],
    [20, 210, 190],
    [250, 100, 190],
    [150, 190, 40],
    [90, 110, 250],
    [250, 140, 60],
    [60, 200, 130],
    [210, 70, 110],
];

/// The colour of class `number` called `name` (which may be empty).
pub fn color(number: u32, name: &str) -> Color {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let known = |wanted: &str| wanted.split(' ').all(|w| words.contains(&w));
    let named = NAMED.iter().find(|(wanted, _)| known(wanted)).map(|(_, color)| *color);
    named.unwrap_or(NUMBERED[number as usize % NUMBERED.len()])
}

/// True for a label that stands for "nothing in particular", which is left unpainted: one whose name says so, or a first
/// one without a name or whose name begins so.
pub fn is_background(number: usize, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let nothing = |word: &str| ["background", "bg", "none", "other", "rest", "unlabeled"].contains(&word);
    let first = || name.split([' ', '_', '-']).next().unwrap_or_default();
    nothing(&name) || number == 0 && (nothing(first()) || ["", "not"].contains(&first()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_numbers() {
        assert_eq!(color(2, "car"), color(13, "Car"));
        assert_eq!(color(0, "lane_mark"), color(1, "Lane"));
        assert_ne!(color(0, "carpet"), color(0, "car"));
        assert_eq!(color(1, ""), color(13, "teapot"));
    }

    #[test]
    fn labels_without_meaning_are_background() {
        assert!(is_background(0, "background") && is_background(0, "") && is_background(0, "not drivable"));
        assert!(is_background(6, "other") && is_background(0, "other-things"));
        assert!(!is_background(0, "road") && !is_background(1, "") && !is_background(6, "other vehicle"));
    }

    #[test]
    fn what_signs_and_lights_say_has_colours_of_its_own() {
        assert_ne!(color(0, "red light"), color(2, "green light"));
        assert_ne!(color(10, "priority road"), color(0, "road"));
        assert_eq!(color(7, "speed 30"), color(8, "speed 50"));
    }
}
