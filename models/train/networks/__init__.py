"""The three networks: `scout` finds objects, `surface` labels pixels, `signal` names crops of lights and signs."""

from torch import nn

from .scout import Scout
from .signal import Signal
from .surface import Surface

NETWORKS: dict[str, type[nn.Module]] = {"scout": Scout, "surface": Surface, "signal": Signal}
