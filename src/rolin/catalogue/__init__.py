"""Decisions over up to millions of arms whose features rarely change."""

from rolin.catalogue.catalogue import Catalogue

__all__ = ["Catalogue"]
