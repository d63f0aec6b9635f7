"""What training needs to know of each network: its batches, its loss, its accuracy."""

from .base import Task
from .scout import ScoutTask
from .signal import SignalTask
from .surface import SurfaceTask

TASKS: dict[str, type[Task]] = {"scout": ScoutTask, "surface": SurfaceTask, "signal": SignalTask}
