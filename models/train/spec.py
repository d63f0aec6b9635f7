"""What the networks share with the runtime: sizes, class lists, preparation of the picture.

Every number here is also in the networks' cards (`models/<name>/model.toml`); the order of the classes is part of the weights.
"""

from __future__ import annotations

# Camera picture, and the network picture: exactly half of it, letterboxed top left onto a canvas whose sides are multiples of 32.
PICTURE_WIDTH, PICTURE_HEIGHT = 1280, 720
STRIDES = (8, 16, 32)
FILL = 114.0

# (value - MEAN) / STD for each of the channels R, G, B; the same for all three networks.
MEAN, STD = 127.5, 64.0

SCOUT_CLASSES = ("car", "truck", "person", "cyclist", "traffic light", "traffic sign")
SURFACE_CLASSES = ("road", "lane mark", "sidewalk", "vehicle", "person", "sky", "other")
SIGNAL_CLASSES = (
    "light red",
    "light yellow",
    "light green",
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
)
LIGHT, SIGN = SCOUT_CLASSES.index("traffic light"), SCOUT_CLASSES.index("traffic sign")
NO_SIGNAL = SIGNAL_CLASSES.index("other")

# `signal`: a batch of square crops; the box of a detection is enlarged by MARGIN of its sides on each side first.
CROP = 64
CROPS = 8
MARGIN = 0.1
# What the data set stores of a crop: CONTEXT times the box, sampled to CONTEXT_SIDE pixels, so that training can jitter the box.
CONTEXT = 1.6
CONTEXT_SIDE = 96

# Ground truth counts from this visible height (pixels of the camera picture) and this visible share on.
LEAST_HEIGHT = 24
LEAST_VISIBLE = 0.4

# Label of pixels that take no part in the loss of `surface`.
UNLABELLED = 255


def canvas(height: int, width: int) -> tuple[int, int]:
    """Sides of the network's input that holds a picture: the next multiples of 32 (360 x 640 -> 384 x 640)."""
    return (height + 31) // 32 * 32, (width + 31) // 32 * 32
