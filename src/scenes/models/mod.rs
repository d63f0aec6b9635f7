//! The bodies that move or speak: vehicles, people, cyclists, traffic lights and signs.
