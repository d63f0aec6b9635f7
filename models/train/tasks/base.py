"""The interface of a task, and its default settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from augment import Uniform


@dataclass(frozen=True)
class Settings:
    """Defaults of a task's training, each of which the command line may replace."""

    batch: int
    rate: float
    decay: float
    minutes: float


class Task(ABC):
    """A network's data on the device, its batches, its loss and its accuracy on the held-out split."""

    name: str
    settings: Settings
    # What `accuracy` is judged by.
    headline: str

    @abstractmethod
    def __init__(self, data: Path, device: torch.device, training: bool = True):
        """Loads the split `held`, and `train` unless only accuracy is wanted."""

    @abstractmethod
    def batch(self, u: Uniform, size: int, strength: float) -> tuple[Tensor, tuple[Tensor, ...]]:
        """A random augmented batch: the network's input and what its loss compares with. `strength` 0..1 scales the augmentation."""

    @abstractmethod
    def loss(self, output: Tensor, truth: tuple[Tensor, ...]) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of a raw output, and its parts for the log."""

    @abstractmethod
    def accuracy(self, network: nn.Module) -> dict[str, float]:
        """Accuracy on the held-out split, of a network in evaluation mode."""
