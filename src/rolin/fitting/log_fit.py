"""Fit the model to a log: `rolin.fit`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rolin._support.blas import one_thread
from rolin._support.html import html_table
from rolin._support.optional import needs
from rolin._support.parallel import check_engine, check_n_jobs, each
from rolin._support.progress import Progress, check_progress, reporter
from rolin.errors import DataError, ParameterError
from rolin.features import BaseFeatureMap
from rolin.fitting import spark
from rolin.fitting.checkpoint import Checkpoint
from rolin.fitting.fold import Fold, Slopes
from rolin.fitting.partitions import check_schemas, fold_partition
from rolin.logs import arrow
from rolin.logs.batches import Partition, partitions_of
from rolin.logs.files import files_of, first_rows, look
from rolin.logs.rules import BadCell, Missing
from rolin.model import state_file
from rolin.model.estimation import ScaleEstimate
from rolin.model.moments import Moments, Total
from rolin.model.posterior import Posterior
from rolin.model.scales import InterceptScale, Scales, check_intercept_std
from rolin.model.slopes import SlopePosterior
from rolin.model.state_file import state_of
from rolin.model.summaries import Coefficients
from rolin.model.unknown_scales import estimate_unknown_scales
from rolin.policies import Policy
from rolin.policies.rolin_ts import RoLinTS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Fit", "fit"]

Kind = TypeVar("Kind", bound=Policy[Any])
FitEngine = Literal["dask", "ray", "spark"]


@dataclass(frozen=True)
class Fit:
    """A model that was fitted to a log: evidence, scales, and policies that start from them."""

    moments: Moments
    """The evidence, without any prior."""
    feature_names: list[str]
    """Names of the d features."""
    feature_map: BaseFeatureMap | None = None
    """The feature map that made vectors of raw features."""
    intercept_std: InterceptScale = "learn"
    """Prior standard deviation of an intercept: a number; `"learn"`; or `None` for no intercept."""
    checkpoint: Path | None = field(default=None, compare=False)
    """The file with the progress of the fit, which `save` removes."""

    @cached_property
    def estimate(self) -> ScaleEstimate:
        """The scales, estimated from the evidence, with intervals.

        They are those that a policy learns from the same evidence by default, with `slope_std="learn"` if there are
        slopes.
        """
        return estimate_unknown_scales(self.moments, intercept_std=self.intercept_std)

    @property
    def scales(self) -> Scales:
        """The estimated scales."""
        return self.estimate.scales

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior with the estimated scales."""
        kind = SlopePosterior if self.moments.slopes else Posterior
        return kind.of(self.scales, self.moments)

    @property
    def coefficients(self) -> Coefficients:
        """The coefficients; with an intercept, it is the last one."""
        return self.posterior.coefficients

    def policy(self, kind: type[Kind] = RoLinTS, **options: Any) -> Kind:  # type: ignore[assignment]  # it is one
        """Return a policy that starts with the evidence of the log.

        Parameters
        ----------
        kind
            Its class, such as `rolin.RoLinUCB`: any with a Gaussian posterior of its own.
        options
            Its options. Scales that are not given are learned, from the log and from later rewards.
        """
        if not (isinstance(kind, type) and issubclass(kind, Policy)):
            raise ParameterError(f"kind={kind!r}, expected the class of a policy")
        return kind.from_fit(self, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a state file, from which [`RoLinTS.from_fit`][rolin.Policy.from_fit] starts a policy.

        Parameters
        ----------
        path
            The file.
        """
        features = None if self.feature_map is None else self.feature_map.to_json()
        given = None if self.intercept_std == "learn" else self.intercept_std
        settings = {"intercept_std": given, "feature_names": self.feature_names}
        state_file.write(path, state_of(self.moments, settings, features))
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)

    def to_frame(self) -> pd.DataFrame:
        """Return the coefficients as a data frame: feature, mean, std; an intercept is the last row."""
        with needs("sim"):
            import pandas as pd
        found = self.coefficients
        names = [*self.feature_names, *["intercept"] * (len(found.mean) - len(self.feature_names))]
        return pd.DataFrame({"feature": names, "mean": found.mean, "std": found.std})

    @property
    def _size(self) -> str:
        m = self.moments
        return f"{m.count:,.0f} rewards of {len(m.arms):,} arms, {m.n_features} features"

    def __repr__(self) -> str:
        """Return the size of the log, in one line."""
        return f"<Fit: {self._size}>"

    def __str__(self) -> str:
        """Return the size of the log and the estimated scales."""
        return f"{self._size}\n{self.estimate}"

    def _repr_html_(self) -> str:
        """Return the size of the log and the estimated scales as a table for notebooks."""
        rows = []
        if self.moments.arms:
            found = self.estimate
            for name, (value, low, high) in found.intervals.items():
                interval = f"{low:.3g} to {high:.3g}" if low < high else "as given"
                rows.append([name, f"{value:.4g}", interval])
        names = ", ".join(self.feature_names)
        return html_table(
            f"Fit: {self._size}",
            ["scale", "estimate", "95 % interval"],
            rows,
            [f"Features: {names}"] if names else [],
        )


def fit(
    source: Any,
    *,
    arm: str = "arm",
    reward: str = "reward",
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    feature_map: BaseFeatureMap | None = None,
    missing: Missing = "refuse",
    intercept_std: InterceptScale = "learn",
    slopes: Slopes = False,
    engine: FitEngine | None = None,
    address: str | None = None,
    n_jobs: int | None = -1,
    checkpoint: str | PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress = True,
) -> Fit:
    """Fit the model to a log of any length.

    The log is read in batches. Each batch becomes [`Moments`][rolin.Moments], and moments add up. So memory does not
    grow with the number of rows, and the result does not depend on where the batches are read.

    Parameters
    ----------
    source
        Parquet or Arrow files: a file, a folder, a URL such as `s3://bucket/log`, or several of them. Tables of
        `rolin journal export` are read, too. Or a table of pandas, polars or Arrow, anything else that exports a
        stream of Arrow data (`__arrow_c_stream__`), or a Spark data frame.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    weight
        Column of the reward's weight; by default every weight is 1.
    features
        Columns of the chosen arm's features: numbers, or lists of numbers. By default all other such columns; with a
        feature map, the columns that it reads.
    feature_map
        The feature map that makes vectors of raw features.
    missing
        What to do with rows that have no reward: `"refuse"` the log, `"drop"` them, or a number to count instead.
    intercept_std
        Prior standard deviation of an intercept; `"learn"` learns it from the log, `None` is for no intercept.
    slopes
        The features that arms may have slopes of their own for: `True` for all, or a list of their names, of columns of
        lists, or of indices. The evidence then has O(s d) numbers for each arm, for s of d features. A policy needs it
        for `slope_std="learn"`.
    engine
        `"dask"`, `"ray"` or `"spark"`; by default threads of this process.
    address
        Address of the engine's cluster. By default the one that this process is connected to, or else a new one on
        this machine.
    n_jobs
        Number of threads, or of workers of a new cluster on this machine; -1 for all cores, `None` for 1.
    checkpoint
        A file in which to store the progress. The same call resumes an interrupted fit from it; `Fit.save` removes it.
    storage_options
        Options of the file system of a URL, such as `{"anon": True}`.
    progress
        `True` shows a bar with the time left; a function is called with the number of bytes read since its last call.

    Raises
    ------
    DataError
        If the data cannot be used. The message names the file, the row group, the row and the column.

    Examples
    --------
    >>> import pandas as pd
    >>> log = pd.DataFrame({"arm": ["a", "b", "a"], "age": [1.0, 2.0, 3.0], "reward": [0.5, 1.5, 2.0]})
    >>> found = fit(log, progress=False)
    >>> found.moments.arms, found.moments.weight.tolist()
    (('a', 'b'), [2.0, 1.0])
    """
    check_engine(engine, address, ("dask", "ray", "spark"))
    check_n_jobs(n_jobs)
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise ParameterError(f"storage_options={storage_options!r}, expected a mapping")
    options = {str(name): value for name, value in (storage_options or {}).items()}
    columns: dict[str, Any] = {
        "arm": arm, "reward": reward, "weight": weight, "features": features,
        "feature_map": feature_map, "missing": missing, "slopes": slopes,
    }  # fmt: skip
    if intercept_std != "learn":
        check_intercept_std(intercept_std)
    check_progress(progress)
    if spark.is_frame(source) or hasattr(source, "__arrow_c_stream__"):
        fold, moments = _of_stream(source, columns, engine, checkpoint)
    else:
        files = look(files_of(source, options), options)
        sample, first = first_rows(files, options)
        try:
            fold = Fold.of(sample, **columns)
        except DataError as error:
            raise DataError(f"{first}: {error}") from error
        check_schemas(files, fold)
        partitions = partitions_of(files)
        stored = None
        if checkpoint is not None:
            stored = Checkpoint(checkpoint, fold, files, len(partitions))
        left = partitions[0 if stored is None else stored.n_done :]
        parts = _each_partition(left, fold, options, engine, address, n_jobs)
        with one_thread():
            moments = _sum(parts, partitions, fold, stored, progress)
    return Fit(
        moments,
        fold.feature_names,
        feature_map,
        intercept_std,
        None if checkpoint is None else Path(checkpoint),
    )


def _of_stream(
    source: Any, columns: Mapping[str, Any], engine: str | None, checkpoint: object
) -> tuple[Fold, Moments]:
    """Fold a table, a stream of batches, or a Spark data frame."""
    if checkpoint is not None:
        raise DataError(
            "checkpoint=… is for files: a stream or a data frame cannot be resumed in the middle"
        )
    if spark.is_frame(source):
        if engine not in (None, "spark"):
            raise DataError(f"the log is a Spark data frame, which cannot be folded by {engine}")
        fold = Fold.of(arrow.first_rows_of_spark(source), **columns)
        parts: Iterable[Moments] = spark.fold_frame(source, fold)
    else:
        if engine is not None:
            raise DataError(
                f"the log is a table in this process, expected files to fold by {engine}"
            )
        reader = arrow.stream(source)
        first = next((batch for batch in reader if batch.num_rows), None)
        sample = reader.schema.empty_table() if first is None else arrow.table(first)
        fold = Fold.of(sample, **columns)
        parts = _folded(chain(sample.to_batches(), reader), fold)
    return fold, Moments.sum(chain([fold.zero()], parts))


def _folded(batches: Iterable[Any], fold: Fold) -> Iterator[Moments]:
    """Yield the moments of each batch."""
    before, left = 0, iter(batches)
    while True:
        try:
            batch = next(left, None)
        except (arrow.pyarrow().ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"the log cannot be read beyond row {before}: {reason}") from error
        if batch is None:
            return
        try:
            yield fold(batch)
        except BadCell as bad:
            raise bad if bad.row is None else bad.at(before + bad.row) from None
        before += batch.num_rows


def _each_partition(
    partitions: Sequence[Partition],
    fold: Fold,
    options: Mapping[str, Any],
    engine: FitEngine | None,
    address: str | None,
    n_jobs: int | None,
) -> Iterator[Moments]:
    """Yield the moments of each partition, in order, wherever they are folded."""
    if engine == "spark":
        return spark.fold_partitions(partitions, fold, options, address, n_jobs)
    function = partial(fold_partition, fold=fold, options=options, process=os.getpid())
    return each(function, partitions, engine=engine, address=address, n_jobs=n_jobs)


def _sum(
    parts: Iterator[Moments],
    partitions: Sequence[Partition],
    fold: Fold,
    checkpoint: Checkpoint | None,
    progress: Progress,
) -> Moments:
    """Add up the moments of the remaining partitions, and store the progress in the checkpoint."""
    total, done = Total(fold.n_features, fold.slopes), 0
    if checkpoint is not None:
        total.add(checkpoint.moments)
        done = checkpoint.n_done
    sizes = [partition.size for partition in partitions]
    with reporter(progress, "folding", sum(sizes), sum(sizes[:done]), in_bytes=True) as advance:
        consistent = True  # whether the total is that of the first `done` partitions
        try:
            for moments in parts:
                consistent = False
                total.add(moments)
                done += 1
                consistent = True
                advance(sizes[done - 1])
                if checkpoint is not None and checkpoint.is_due:
                    checkpoint.store(done, total.moments())
        finally:
            if checkpoint is not None and consistent and done > checkpoint.n_done:
                checkpoint.store(done, total.moments())
    return total.moments()
