"""The experiments of *Robust Contextual Linear Bandits* (Zhu & Kveton, AISTATS 2023), one file each."""

from __future__ import annotations

from rolin.paper.experiment import Experiment

__all__ = ["Experiment"]
