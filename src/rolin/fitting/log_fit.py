"""From a log to what it teaches: `rolin.fit`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar

from rolin._support.blas import one_thread
from rolin._support.optional import needs
from rolin._support.parallel import check_engine, check_n_jobs, each
from rolin.errors import DataError, ParameterError
from rolin.features import BaseFeatureMap
from rolin.fitting import spark
from rolin.fitting.checkpoint import Kept
from rolin.fitting.fold import Fold, Missing
from rolin.fitting.partitions import check_schemas, fold_partition
from rolin.logs import arrow
from rolin.logs.arrow import BadCell
from rolin.logs.batches import Partition, partitions_of
from rolin.logs.files import files_of, first_rows, look
from rolin.model import state_file
from rolin.model.estimation import ScaleEstimate, estimate_scales
from rolin.model.moments import Moments, Total
from rolin.model.posterior import Posterior
from rolin.model.scales import Scales
from rolin.model.state_file import state_of
from rolin.model.summaries import Coefficients
from rolin.policies import Policy
from rolin.policies.rolin_ts import RoLinTS

__all__ = ["Fit", "fit"]

Kind = TypeVar("Kind", bound=Policy[Any])
FitEngine = Literal["dask", "ray", "spark"]


@dataclass(frozen=True)
class Fit:
    """What a log teaches: its evidence, the scales, and policies that start from there."""

    moments: Moments
    """The evidence, without any prior."""
    feature_names: list[str]
    """What the d features are called."""
    feature_map: BaseFeatureMap | None = None
    """What made vectors of raw features."""
    intercept_std: float | None = None
    """Prior standard deviation of an intercept; `None` for no intercept."""
    kept: Path | None = field(default=None, repr=False, compare=False)
    """Where it was noted down how far the fold had come; removed when it is saved."""

    @cached_property
    def estimate(self) -> ScaleEstimate:
        """What the evidence says of the scales, with intervals."""
        return estimate_scales(self.moments, prior=Scales(intercept_std=self.intercept_std))

    @property
    def scales(self) -> Scales:
        """The scales, as learned."""
        return self.estimate.scales

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior with the learned scales."""
        return Posterior.of(self.scales, self.moments)

    @property
    def coefficients(self) -> Coefficients:
        """What is known of the coefficients; with an intercept, it is the last."""
        return self.posterior.coefficients

    def policy(self, kind: type[Kind] = RoLinTS, **options: Any) -> Kind:  # type: ignore[assignment]  # it is one
        """Return a policy that starts with what the log teaches.

        Parameters
        ----------
        kind
            Its class, such as `rolin.RoLinUCB`: any with a Gaussian posterior of its own.
        options
            Its options; scales that are not given are learned, and go on being learned.
        """
        if not (isinstance(kind, type) and issubclass(kind, Policy)):
            raise ParameterError(f"kind={kind!r}, expected the class of a policy")
        return kind.from_fit(self, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to a state file, from which [`RoLinTS.from_fit`][rolin.Policy.from_fit] starts a policy."""
        features = None if self.feature_map is None else self.feature_map.to_json()
        settings = {"intercept_std": self.intercept_std, "feature_names": self.feature_names}
        state_file.write(path, state_of(self.moments, settings, features))
        if self.kept is not None:
            self.kept.unlink(missing_ok=True)

    def __str__(self) -> str:
        """Return how much there was, and the scales."""
        m = self.moments
        head = f"{m.count:,.0f} rewards of {len(m.arms):,} arms, {m.n_features} features"
        return f"{head}\n{self.estimate}"


def fit(
    source: Any,
    *,
    arm: str = "arm",
    reward: str = "reward",
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    feature_map: BaseFeatureMap | None = None,
    missing: Missing = "refuse",
    intercept_std: float | None = None,
    engine: FitEngine | None = None,
    address: str | None = None,
    n_jobs: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: bool | str = True,
) -> Fit:
    """Fold a log of any length into its evidence.

    One pure function makes [`Moments`][rolin.Moments] of a batch, and moments add up: so memory does not
    grow with the rows, and it does not matter where the batches are folded.

    Parameters
    ----------
    source
        Files of Parquet or Arrow: a file, a folder, a URL such as `s3://bucket/log`, or several of them. A
        table of `rolin journal export`. Or a table of pandas, polars or Arrow, anything else that hands out
        Arrow data as a stream (`__arrow_c_stream__`), or a data frame of Spark's.
    arm
        Column of the arm that was chosen.
    reward
        Column of its reward.
    weight
        Column of the reward's weight; by default all weigh 1.
    features
        Columns of the chosen arm's features, numbers or lists of numbers. By default all other such columns; with a
        map, the columns that it reads.
    feature_map
        What makes vectors of raw features.
    missing
        What to do with rows that have no reward: `"refuse"` the log, `"drop"` them, or a number to count instead.
    intercept_std
        Prior standard deviation of an intercept; `None` for no intercept, as for policies.
    engine
        `"dask"`, `"ray"` or `"spark"`; by default threads of this process.
    address
        Of the engine's cluster; by default the one that this process is connected to, or else one on
        this machine.
    n_jobs
        Number of threads, or of workers of a cluster on this machine; by default all cores.
    checkpoint
        A file to note down in how far it has come. Asked again after it was stopped, it goes on from
        there; `save` removes it.
    storage_options
        What the file system of a URL takes, such as `{"anon": True}`.
    progress
        Show a bar with the time left; a text is its label.

    Raises
    ------
    DataError
        If something is wrong with the data. It names the file, the row group, the column and the row.

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
        "feature_map": feature_map, "missing": missing,
    }  # fmt: skip
    Scales(intercept_std=intercept_std)  # refuses what it cannot be
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
        kept = None if checkpoint is None else Kept(checkpoint, fold, files, len(partitions))
        left = partitions[0 if kept is None else kept.done :]
        parts = _each_piece(left, fold, options, engine, address, n_jobs)
        with one_thread():
            moments = _added(parts, partitions, fold, kept, progress)
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
    """Fold a table, a stream of batches, or a data frame of Spark's."""
    if checkpoint is not None:
        raise DataError(
            "checkpoint=… is for files: what was read of a stream or a frame cannot be told"
        )
    if spark.is_frame(source):
        if engine not in (None, "spark"):
            raise DataError(f"the log is a frame of Spark's, which cannot be folded by {engine}")
        fold = Fold.of(arrow.of_spark(source), **columns)
        parts: Iterable[Moments] = spark.fold_frame(source, fold)
    else:
        if engine is not None:
            raise DataError(f"the log is in this process, expected files to fold by {engine}")
        reader = arrow.stream(source)
        first = next((batch for batch in reader if batch.num_rows), None)
        sample = reader.schema.empty_table() if first is None else arrow.table(first)
        fold = Fold.of(sample, **columns)
        parts = _folded(chain(sample.to_batches(), reader), fold)
    return fold, Moments.sum(chain([Moments.zero(fold.n_features)], parts))


def _folded(batches: Iterable[Any], fold: Fold) -> Iterator[Moments]:
    """Yield the moments of batches, one after the other."""
    before, left = 0, iter(batches)
    while True:
        try:
            batch = next(left, None)
        except (arrow.pyarrow().ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(f"the log cannot be read on after {before} rows: {reason}") from error
        if batch is None:
            return
        try:
            yield fold.fold(batch)
        except BadCell as bad:
            raise DataError(bad.at(before)) from None
        before += batch.num_rows


def _each_piece(
    partitions: Sequence[Partition],
    fold: Fold,
    options: Mapping[str, Any],
    engine: FitEngine | None,
    address: str | None,
    n_jobs: int | None,
) -> Iterator[Moments]:
    """Yield the moments of partitions, in their order, wherever they are folded."""
    if engine == "spark":
        return spark.fold_pieces(partitions, fold, options, address, n_jobs)
    function = partial(fold_partition, fold=fold, options=options, process=os.getpid())
    return each(function, partitions, engine=engine, address=address, n_jobs=n_jobs)


def _added(
    parts: Iterator[Moments],
    partitions: Sequence[Partition],
    fold: Fold,
    kept: Kept | None,
    progress: bool | str,
) -> Moments:
    """Add up the moments of the partitions that are left, noting down how far it has come."""
    total, done = Total(fold.n_features), 0
    if kept is not None:
        total.add(kept.moments)
        done = kept.done
    with ExitStack() as stack:
        advance = _bar(stack, partitions, done, progress)
        # Whether the total is that of the first `done` partitions, wherever it is interrupted.
        whole = True
        try:
            for moments in parts:
                whole = False
                total.add(moments)
                done += 1
                whole = True
                advance(partitions[done - 1].size)
                if kept is not None and kept.is_due:
                    kept.note(done, total.moments())
        finally:
            if kept is not None and whole and done > kept.done:
                kept.note(done, total.moments())
    return total.moments()


def _bar(
    stack: ExitStack, partitions: Sequence[Partition], done: int, progress: bool | str
) -> Callable[[int], None]:
    if not progress:
        return lambda _: None
    with needs("sim"):
        from rolin._support.progress import bar
    label = progress if isinstance(progress, str) else "folding"
    sizes = [partition.size for partition in partitions]
    return stack.enter_context(bar(label, sum(sizes), sum(sizes[:done]), in_bytes=True))
