"""The same work on real clusters of Dask, Ray and Spark on this machine, workers killed included."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rolin
from rolin.errors import DataError, EngineError
from rolin.fitting import Fold, log_fit
from rolin.logs import batches
from rolin.model.moments import Moments

pytestmark = [
    # what the engines say to each other about sockets, forks and versions of pandas is theirs
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ENGINES = ("dask", "ray", "spark")
BIN = Path(sys.executable).parent
GROUPS = 12


@pytest.fixture(scope="module", autouse=True)
def small_partitions() -> Iterator[None]:
    """Every row group is a partition, so that small files make many."""
    before, batches._BYTES = batches._BYTES, 1
    yield
    batches._BYTES = before


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three files with four row groups each."""
    path = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    for i in range(3):
        n = 4000
        x = rng.normal(size=(n, 5)) + 2.0
        table = pa.table(
            {
                "arm": [f"item-{k}" for k in rng.integers(50, size=n)],
                "reward": x @ np.arange(5.0) + rng.normal(size=n),
                **{f"x{j}": x[:, j] for j in range(5)},
            }
        )
        pq.write_table(table, path / f"part-{i}.parquet", row_group_size=1000)
    return path


@pytest.fixture(scope="module")
def local(log: Path) -> Moments:
    """What one process makes of the log."""
    return rolin.fit(log, n_jobs=1, progress=False).moments


def assert_same(a: Moments, b: Moments, tolerance: float) -> None:
    """Both are the same evidence."""
    order = [b.arms.index(arm) for arm in a.arms]
    assert len(order) == len(b.arms)
    for name in ("count", "sum_log_weight", "scatter", "cross", "reward_scatter"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=tolerance, atol=tolerance
        )
    for name in ("weight", "mean_context", "mean_reward"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name)[order], rtol=tolerance, atol=tolerance
        )


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A cluster of two workers, to which this process is connected."""
    name = request.param
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if name == "dask":
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster),
        ):
            yield name
    elif name == "ray":
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield name
        ray.shutdown()
    else:
        from pyspark.sql import SparkSession

        # a master, two workers and their executors, each a process of its own
        builder = SparkSession.builder.master("local-cluster[2,1,1024]")
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield name
        session.stop()


def test_an_engine_says_what_one_process_says(engine: Any, log: Path, local: Moments) -> None:
    """To the bit: partitions are the same, and are added in the same order."""
    found = rolin.fit(log, engine=engine, progress=False).moments
    assert found.arms == local.arms
    assert_same(found, local, 0.0)


def test_an_engine_folds_slopes_as_one_process_does(engine: Any, log: Path) -> None:
    """The scatter of each arm, too, to the bit; of a Spark data frame, whose rows have no order, to 1e-10."""
    options: dict[str, Any] = {"slopes": ["x0", "x3"], "progress": False}
    expected = rolin.fit(log, n_jobs=1, **options).moments
    found = rolin.fit(log, engine=engine, **options).moments
    assert (found.arms, found.slopes) == (expected.arms, (0, 3))
    assert_same(found, expected, 0.0)
    np.testing.assert_array_equal(found.arm_scatter, expected.arm_scatter)
    if engine == "spark":
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        frame = session.read.parquet(str(log)).repartition(5)
        shuffled = rolin.fit(frame, **options).moments
        order = [expected.arms.index(arm) for arm in shuffled.arms]
        np.testing.assert_allclose(
            shuffled.arm_scatter, expected.arm_scatter[order], rtol=1e-10, atol=1e-10
        )


def slow(folder: Path, seconds: float, deadly: str | None = None) -> Callable[..., Fold]:
    """Return what makes folds that take their time, and leave the number of their process.

    A fold at a `deadly` arm kills its own process. The class is sent to the workers as it is, since it
    is not in a module.
    """
    notes = str(folder)

    class Slow(Fold):
        def __call__(self, batch: Any) -> Moments:
            import os
            import signal
            import time
            import uuid

            if deadly is not None and deadly in batch.column("arm").to_pylist():
                os.kill(os.getpid(), signal.SIGKILL)
            with open(f"{notes}/{os.getpid()}-{uuid.uuid4().hex}", "w"):
                pass
            time.sleep(seconds)
            return Fold(**vars(self))(batch)

    def make(*arguments: Any, **options: Any) -> Fold:
        return Slow(**vars(Fold.of(*arguments, **options)))

    return make


def test_a_killed_worker_counts_once(
    engine: Any, log: Path, local: Moments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL half-way: its partition is folded by another, and nothing is lost or counted twice."""
    monkeypatch.setattr(
        log_fit, "Fold", type("Made", (), {"of": staticmethod(slow(tmp_path, 0.5))})
    )
    killed: list[int] = []

    def kill() -> None:
        began = time.monotonic()
        while time.monotonic() - began < 120:
            notes = os.listdir(tmp_path)
            if len(notes) >= GROUPS // 2:
                pid = int(max(notes, key=lambda n: (tmp_path / n).stat().st_mtime).split("-")[0])
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                return
            time.sleep(0.02)

    killer = threading.Thread(target=kill)
    killer.start()
    found = rolin.fit(log, engine=engine, progress=False).moments
    killer.join()
    assert killed
    assert killed[0] != os.getpid()
    assert len(os.listdir(tmp_path)) > GROUPS  # one partition was begun again
    assert_same(found, local, 0.0)


def test_workers_that_die_again_and_again_are_told(
    engine: Any, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and the row group are named, and the finished part is stored."""
    table = pq.read_table(log / "part-0.parquet")
    arms = table["arm"].to_pylist()
    arms[2500] = "deadly"
    target = tmp_path / "log.parquet"
    pq.write_table(table.set_column(0, "arm", pa.array(arms)), target, row_group_size=1000)
    made = slow(tmp_path, 0.0, deadly="deadly")
    monkeypatch.setattr(log_fit, "Fold", type("Made", (), {"of": staticmethod(made)}))
    stored = tmp_path / "stored"
    with pytest.raises(EngineError, match=r"log.parquet, row group 2, perhaps for lack of memory"):
        rolin.fit(target, engine=engine, checkpoint=stored, progress=False)
    if engine != "spark":  # whose round is all or nothing
        assert rolin.model.state_file.read(stored).settings["folded"] == 2


def test_bad_data_is_named_by_a_worker(engine: Any, log: Path, tmp_path: Path) -> None:
    """As in one process: file, row group, row and column."""
    table = pq.read_table(log / "part-0.parquet")
    values = table["x3"].to_pylist()
    values[1234] = None
    target = tmp_path / "log.parquet"
    pq.write_table(table.set_column(5, "x3", pa.array(values)), target, row_group_size=1000)
    with pytest.raises(DataError, match=r"log.parquet, row group 1, row 234: column 'x3' is null"):
        rolin.fit(target, engine=engine, progress=False)


def test_a_frame_of_spark_is_folded_where_it_is(log: Path, local: Moments, engine: Any) -> None:
    """`rolin.fit(frame)`: partitions in any order, the same evidence to 1e-10."""
    if engine != "spark":
        from pyspark.sql import SparkSession

        assert SparkSession.getActiveSession() is None  # each engine by itself
        return
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    frame = session.read.parquet(str(log)).repartition(5)
    assert_same(rolin.fit(frame, progress=False).moments, local, 1e-10)
    doubled = frame.selectExpr("arm", "reward * 2 as reward", "x0", "x1")
    assert rolin.fit(doubled, progress=False).moments.count == local.count
    with pytest.raises(DataError, match="there is no column 'money'"):
        rolin.fit(frame, reward="money", progress=False)
    with pytest.raises(DataError, match="cannot be folded by dask"):
        rolin.fit(frame, engine="dask", progress=False)


def test_simulations_are_the_same(engine: Any, tmp_path: Path) -> None:
    """`rolin.simulation.runner` on Dask and Ray, as in one process."""
    if engine == "spark":
        with pytest.raises(rolin.errors.ParameterError, match="expected None or one of dask, ray"):
            rolin.simulate({}, None, rounds=1, runs=1, engine="spark")  # type: ignore[arg-type]
        return
    world = rolin.environments.Synthetic(n_arms=6, n_features=3)
    policies: dict[str, Any] = {
        "RoLinTS": lambda seed: rolin.RoLinTS(n_features=3, seed=seed),
        "LinUCB": lambda seed: rolin.LinUCB(n_features=3, seed=seed),
    }
    options: dict[str, Any] = {"rounds": 150, "runs": 7, "seed": 3, "progress": False}
    one = rolin.simulate(policies, world, **options)
    many = rolin.simulate(policies, world, engine=engine, checkpoint=tmp_path / "runs", **options)
    for name in policies:
        np.testing.assert_array_equal(one.regret[name], many.regret[name])


# -- the commands, with clusters of their own ------------------------------------------------------


def runs_of(folder: Path) -> list[Any]:
    """Return all runs in a folder, in their order."""
    found = []
    for path in sorted(folder.glob("runs*.jsonl")):
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
        found.append(sorted(lines, key=lambda line: line["run"]))
    return found


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `rolin` in a process of its own."""
    with warnings.catch_warnings():
        return subprocess.run(
            [str(BIN / "rolin"), *map(str, arguments)],
            capture_output=True, text=True, check=True, env={**os.environ, **environment}, timeout=300,
        )  # fmt: skip


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_the_commands_take_a_flag(engine: str, tmp_path: Path) -> None:
    """`rolin reproduce` and `rolin simulate`: same numbers as on one process."""
    size = ("--runs", 3, "--rounds", 40)
    for name, words in (
        ("reproduce", ("reproduce", "ucb")),
        ("simulate", ("simulate", "RoLinTS", "Uniform", "--n-arms", 8)),
    ):
        one, many = tmp_path / f"{name}-one", tmp_path / f"{name}-many"
        command(*words, *size, "--n-jobs", 1, "--out", one)
        command(*words, *size, "--engine", engine, "--out", many)
        assert runs_of(one)
        assert runs_of(one) == runs_of(many)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_command_folds_on_a_cluster_of_its_own(
    engine: str, log: Path, local: Moments, tmp_path: Path
) -> None:
    """`rolin fit --engine …` starts one on this machine, and ends it."""
    out = tmp_path / "state"
    done = command("fit", log, "--out", out, "--engine", engine, "--n-jobs", 2)
    assert "12,000 rewards of 50 arms, 5 features" in done.stdout
    assert_same(rolin.RoLinTS.from_fit(out).moments, local, 1e-12)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def test_dask_at_an_address(log: Path, local: Moments, tmp_path: Path) -> None:
    """A scheduler and a worker that were started elsewhere; nobody at an address is told."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    processes = [
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for words in (
            [str(BIN / "dask"), "scheduler", "--port", str(port), "--no-dashboard"],
            [str(BIN / "dask"), "worker", address, "--nthreads", "2", "--no-dashboard"],
        )
    ]
    try:
        found = rolin.fit(log, engine="dask", address=address, progress=False)
        assert_same(found.moments, local, 0.0)
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        pytest.raises(EngineError, match=f"no Dask cluster answers at tcp://127.0.0.1:{port}"),
    ):
        rolin.fit(log, engine="dask", address=address, progress=False)


def test_a_worker_without_memory_is_told(tmp_path: Path) -> None:
    """Dask's nanny kills a worker that takes too much: the row group is named."""
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    n, d = 60_000, 100
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=n * d)), d)
    table = pa.table({"arm": rng.integers(5, size=n), "reward": rng.normal(size=n), "x": flat})
    target = tmp_path / "wide.parquet"
    pq.write_table(table, target, row_group_size=n)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="260MB", dashboard_address=None
        ) as cluster,
        Client(cluster),
        pytest.raises(EngineError, match=r"wide.parquet, row group 0, perhaps for lack of memory"),
    ):
        rolin.fit(target, features="x", engine="dask", progress=False)


# -- an object store over HTTP ---------------------------------------------------------------------


def test_a_log_in_s3(log: Path, local: Moments, monkeypatch: pytest.MonkeyPatch) -> None:
    """s3fs talks to a server that answers as S3 does; the log and a catalogue are read from there."""
    from moto.server import ThreadedMotoServer

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}"}
    try:
        import s3fs

        store = s3fs.S3FileSystem(**options)
        store.mkdir("bucket")
        for path in log.iterdir():
            store.put(str(path), f"bucket/log/{path.name}")
        found = rolin.fit("s3://bucket/log", storage_options=options, progress=False)
        assert_same(found.moments, local, 1e-12)
        with pytest.raises(DataError, match="there is no file or folder s3://bucket/none"):
            rolin.fit("s3://bucket/none", storage_options=options, progress=False)
        x = np.random.default_rng(1).normal(size=(20, 2))
        items = pa.table({"arm": np.arange(20), "a": x[:, 0], "b": x[:, 1]})
        with store.open("bucket/items.parquet", "wb") as file:
            pq.write_table(items, file)
        catalogue = rolin.Catalogue.read(
            rolin.RoLinTS(n_features=2), "s3://bucket/items.parquet", storage_options=options
        )
        np.testing.assert_array_equal(catalogue.contexts(range(20)), x)
    finally:
        server.stop()
