"""Arms by the million, whose features rarely change."""

from rolin.catalogue.catalogue import Catalogue

__all__ = ["Catalogue"]
