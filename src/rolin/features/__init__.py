"""Feature maps: from raw features (dicts, JSON, pandas, polars, Arrow) to vectors, and back to names."""

from rolin.features.base import BaseFeatureMap, Part
from rolin.features.field_error import FieldError
from rolin.features.fields import Boolean, Category, Ignored, Number, Tags
from rolin.features.hashed import HashedFeatures
from rolin.features.map import FeatureMap
from rolin.features.recorded import RecordedFeatures
from rolin.features.serialization import from_json, load
from rolin.features.sklearn import SklearnFeatureMap

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
    "RecordedFeatures",
    "SklearnFeatureMap",
    "Tags",
    "from_json",
    "load",
]
