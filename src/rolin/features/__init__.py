"""From raw features to vectors, and back to names: dicts, JSON, pandas, polars and Arrow."""

from rolin.features.base import BaseFeatureMap, Part
from rolin.features.field_error import FieldError
from rolin.features.fields import Boolean, Category, Ignored, Number, Tags
from rolin.features.hashed import HashedFeatures
from rolin.features.map import FeatureMap
from rolin.features.recorded import RawContexts
from rolin.features.serialization import from_json, load
from rolin.features.sklearn import Transformed

__all__ = [
    "BaseFeatureMap",
    "Boolean",
    "Category",
    "FeatureMap",
    "FieldError",
    "HashedFeatures",
    "Ignored",
    "Number",
    "Part",
    "RawContexts",
    "Tags",
    "Transformed",
    "from_json",
    "load",
]
