"""Ratings: the three file formats, errors in files, splitting, and downloads."""

from __future__ import annotations

import hashlib
import http.server
import io
import itertools
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rolin import errors
from rolin.datasets import Ratings, download, fetch_movielens, read_ratings

# Three ratings, the same in every format.
FILES = {
    "ratings.dat": "7::10::5::978300760\n3::10::3::978302109\n7::20::3.5::978301968\n",
    "ratings.csv": "userId,movieId,rating,timestamp\n7,10,5,1\n3,10,3,2\n7,20,3.5,3\n",
    "u.data": "7\t10\t5\t881250949\n3\t10\t3\t891717742\n7\t20\t3.5\t878887116\n",
}


def check_three(ratings: Ratings) -> None:
    """Assert that these are the three ratings."""
    assert ratings.user_names.tolist() == [3, 7]
    assert ratings.item_names.tolist() == [10, 20]
    assert ratings.users.tolist() == [1, 0, 1]
    assert ratings.items.tolist() == [0, 0, 1]
    assert ratings.values.tolist() == [5.0, 3.0, 3.5]
    assert (len(ratings), ratings.n_users, ratings.n_items) == (3, 2, 2)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_formats(tmp_path: Path, name: str, end: str) -> None:
    """All formats give the same ratings, from the file or its folder, with any line ends."""
    (tmp_path / name).write_bytes(FILES[name].replace("\n", end).encode())
    check_three(read_ratings(tmp_path))
    check_three(read_ratings(str(tmp_path / name)))


@pytest.mark.parametrize(
    "text",
    [
        "rating,movie_id,user_id\n5,10,7\n3,10,3\n3.5,20,7",
        "\ufefftitle,user_id,movie_id,rating\nÉté,7,10,5\n,3,10,3\nx,7,20,3.5\n\n",
        "UserID, MovieID, Rating\n7, 10, 5.0\n3,10 ,3\n 7,20,3.5\n",
    ],
)
def test_csv_columns_are_found_by_name(tmp_path: Path, text: str) -> None:
    """The columns of a CSV file may come in any order, among others."""
    (tmp_path / "ratings.csv").write_text(text, encoding="utf-8")
    check_three(read_ratings(tmp_path))


def test_first_known_file_wins(tmp_path: Path) -> None:
    """If a folder has several files, ratings.dat comes before ratings.csv, which comes before u.data."""
    for name in reversed(FILES):
        (tmp_path / name).write_text(FILES[name])
    for i, name in enumerate(FILES):
        for later in list(FILES)[i + 1 :]:
            (tmp_path / later).write_text("broken")
        check_three(read_ratings(tmp_path))
        (tmp_path / name).unlink()
        for later in list(FILES)[i + 1 :]:
            (tmp_path / later).write_text(FILES[later])


def test_repeated_pairs_are_kept(tmp_path: Path) -> None:
    """A user may rate a movie twice, with any finite values."""
    (tmp_path / "u.data").write_text("1\t1\t-1e300\t0\n1\t1\t4\t0\n")
    ratings = read_ratings(tmp_path)
    assert ratings.values.tolist() == [-1e300, 4.0]
    assert (ratings.n_users, ratings.n_items) == (1, 1)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ratings.dat", b"", ["is empty"]),
        ("ratings.dat", b"\n \n", ["is empty"]),
        ("ratings.dat", b"1::2::3::4\n1::2::3\n", ["line 2", "3 fields", "expected 4", "'::'"]),
        ("ratings.dat", b"1::2::3::4\n\n1::2::3::4\n", ["line 2", "no fields", "expected 4"]),
        ("ratings.dat", b"1::2::3::4\n1::2::five::4\n", ["line 2", "'five'", "a rating"]),
        ("ratings.dat", b"1::2:5::3::4\n", ["line 1", "'2:5'", "a movie id", "whole number"]),
        ("ratings.dat", b"1.5::2::3::4\n", ["line 1", "'1.5'", "a user id", "whole number"]),
        ("ratings.dat", b"1::9007199254740993::3::4\n", ["line 1", "a movie id"]),
        ("ratings.dat", b"1::2::1_0::4\n", ["line 1", "'1_0'"]),
        ("u.data", b"1\t2\tnan\t4\n", ["line 1", "'nan'", "finite"]),
        ("u.data", b"1\t2\t3\t4\n1\t2\t1e999\t4\n", ["line 2", "'1e999'", "finite"]),
        ("u.data", b"1 2 3 4\n", ["line 1", "1 fields", "'\\t'"]),
        ("u.data", b"1\t2\t3\t4\n\xff\xfe1\t2\n", ["line 2", "0xff", "UTF-8"]),
        ("ratings.csv", b"1,2,3\n4,5,6\n", ["line 1", "no column user_id or userId", "'1,2,3'"]),
        ("ratings.csv", b"userId,movieId\n", ["line 1", "no column rating"]),
        ("ratings.csv", b"userId,user_id,movieId,rating\n", ["line 1", "more than one column"]),
        ("ratings.csv", b"userId,movieId,rating\n", ["no ratings"]),
        ("ratings.csv", b"userId,movieId,rating\n1,2,3,4\n", ["line 2", "4 fields", "expected 3"]),
        ("ratings.csv", b"userId,movieId,rating\n1,,3\n", ["line 2", "''", "a movie id"]),
        ("ratings.txt", b"1::2::3::4\n", [".txt", ".dat, .csv, .data"]),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, content: bytes, words: list[str]) -> None:
    """The error for a bad file names the file, the line, what was found and what was expected."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(errors.DataError) as caught:
        read_ratings(tmp_path / name)
    for word in [name, *words]:
        assert word in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    """The error for a missing file names the files that were looked for."""
    with pytest.raises(errors.DataError, match="nowhere does not exist"):
        read_ratings(tmp_path / "nowhere")
    with pytest.raises(errors.DataError, match=r"ratings\.dat, ratings\.csv, u\.data"):
        read_ratings(tmp_path)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without read permission is a DataError."""

    def refuse(path: Path) -> bytes:  # as an administrator may read everything
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "u.data").write_text(FILES["u.data"])
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(errors.DataError, match=r"u\.data cannot be read: Permission denied"):
        read_ratings(tmp_path)


def numbered(n: int) -> Ratings:
    """Ratings that differ in their values."""
    return Ratings.from_ids(np.arange(n) % 7, np.arange(n) % 5, np.arange(n, dtype=float))


def test_split_is_a_partition(rng: np.random.Generator) -> None:
    """The parts of a split hold every rating once, unchanged, and share the codes."""
    whole = numbered(101)
    parts = whole.split(0.3, rng)
    assert [len(part) for part in parts] == [30, 71]
    values = np.concatenate([part.values for part in parts])
    np.testing.assert_array_equal(np.sort(values), whole.values)
    for part in parts:
        rows = part.values.astype(int)
        np.testing.assert_array_equal(part.users, whole.users[rows])
        np.testing.assert_array_equal(part.items, whole.items[rows])
        assert (part.n_users, part.n_items) == (7, 5)


def test_samples_are_nested(seed: int) -> None:
    """With equal generators, larger samples contain smaller ones."""
    whole = numbered(200)
    samples = [
        set(whole.sample(share, np.random.default_rng(seed)).values)
        for share in (0.0, 0.01, 0.02, 0.5, 1.0)
    ]
    assert [len(sample) for sample in samples] == [0, 2, 4, 100, 200]
    for small, large in itertools.pairwise(samples):
        assert small < large


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half"])
def test_shares_are_checked(share: float, rng: np.random.Generator) -> None:
    """A share is a number from 0 to 1."""
    with pytest.raises(errors.ParameterError, match="share"):
        numbered(10).sample(share, rng)


def test_columns_are_checked() -> None:
    """Ratings whose columns do not match are rejected."""
    names = np.arange(2)
    with pytest.raises(errors.InputError, match="codes from 0 to 2, expected 0 to 1"):
        Ratings(np.array([0, 2]), np.array([0, 1]), np.zeros(2), names, names)
    with pytest.raises(errors.ShapeError, match=r"items has shape \(1,\), expected \(2,\)"):
        Ratings(np.array([0, 1]), np.array([0]), np.zeros(2), names, names)
    with pytest.raises(errors.NotFiniteError, match=r"values\[1\]"):
        Ratings.from_ids([1, 2], [1, 2], [0.0, np.inf])
    with pytest.raises(errors.InputError, match="users is an array of float64"):
        Ratings.from_ids([1.5], [1], [0.0])


# Fetching, from a server in this process.


def zipped(files: dict[str, str]) -> bytes:
    """An archive of these files."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


ARCHIVE = zipped({"ml-1m/README": "terms", "ml-1m/ratings.dat": FILES["ratings.dat"]})
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that serves some bytes and returns their address."""
    servers: list[http.server.HTTPServer] = []

    def start(body: bytes, *, status: int = 200, length: int | None = None) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                if length != 0:
                    self.send_header("Content-Length", str(length or len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}/data.zip"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_fetch(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive is downloaded, checked and extracted once; the next call returns the folder."""
    monkeypatch.setitem(download.CHECKSUMS, "ml-1m", hashlib.md5(ARCHIVE).hexdigest())
    received: list[int] = []
    folder = fetch_movielens(tmp_path / "data", url=serve(ARCHIVE), progress=received.append)
    assert folder == tmp_path / "data" / "ml-1m"
    check_three(read_ratings(folder))
    assert sum(received) == len(ARCHIVE)
    assert (folder / "README").read_text() == "terms"
    assert list(folder.parent.iterdir()) == [folder]
    assert fetch_movielens(tmp_path / "data", url="http://127.0.0.1:1/gone") == folder


def test_fetch_any_layout(tmp_path: Path, serve: Serve) -> None:
    """Other names have no checksum; the ratings may be in any folder, and the length unknown."""
    (tmp_path / "ml-new").mkdir()
    (tmp_path / "ml-new" / "notes").write_text("mine")
    received: list[int] = []
    archive = zipped({"a/b/u.data": FILES["u.data"]})
    url = serve(archive, length=0)
    folder = fetch_movielens(tmp_path, name="ml-new", url=url, progress=received.append)
    check_three(read_ratings(folder))
    assert sum(received) == len(archive)
    assert (folder / "notes").read_text() == "mine"


@pytest.mark.parametrize("length", [{}, {"length": 0}])
def test_fetch_with_a_progress_bar(
    tmp_path: Path, serve: Serve, length: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """True shows a bar on the error stream, also if the length is unknown; by default there is none."""
    fetch_movielens(tmp_path / "quiet", name="ml-new", url=serve(ARCHIVE, **length))
    assert capsys.readouterr() == ("", "")
    fetch_movielens(tmp_path, name="ml-new", url=serve(ARCHIVE, **length), progress=True)
    out, bar = capsys.readouterr()
    assert not out
    assert "ml-new" in bar


@pytest.mark.parametrize(
    ("body", "options", "name", "words"),
    [
        (ARCHIVE, {"status": 404}, "x", ["404", "by other means", "research", "redistributed"]),
        (ARCHIVE, {"length": 9999}, "x", [f"{len(ARCHIVE)} of 9999 bytes"]),
        (ARCHIVE, {}, "ml-1m", ["MD5", download.CHECKSUMS["ml-1m"]]),
        (b"<html>", {}, "x", ["not a valid zip archive"]),
        (ARCHIVE[:-40], {}, "x", ["not a valid zip archive"]),
        (ARCHIVE.replace(b"978300760", b"978300761"), {}, "x", ["not a valid zip archive"]),
        (zipped({"README": ""}), {}, "x", ["no ratings", "ratings.dat"]),
        (zipped({"../ratings.dat": ""}), {}, "x", ["'../ratings.dat'", "outside"]),
        (zipped({"/tmp/ratings.dat": ""}), {}, "x", ["outside"]),
    ],
)
def test_fetch_refuses(
    tmp_path: Path,
    serve: Serve,
    body: bytes,
    options: dict[str, int],
    name: str,
    words: list[str],
) -> None:
    """A failed download is a DataError with the reason, and leaves no files."""
    with pytest.raises(errors.DataError) as caught:
        fetch_movielens(tmp_path, name=name, url=serve(body, **options))
    for word in words:
        assert word in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_fetch_without_network(tmp_path: Path) -> None:
    """Without a connection, the message says what to download by hand and where to put it."""
    with socket.socket() as closed:  # bound, but nobody listens
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/ml-1m.zip"
        with pytest.raises(errors.DataError) as caught:
            fetch_movielens(tmp_path, url=url)
    for word in (url, str(tmp_path / "ml-1m"), "extract", "research", "Harper"):
        assert word in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_fetch_interrupted(tmp_path: Path, serve: Serve) -> None:
    """An interrupt leaves no files."""

    def interrupt(received: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_movielens(tmp_path, name="x", url=serve(ARCHIVE), progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_fetch_into_a_file(tmp_path: Path) -> None:
    """A folder that cannot be written to is a DataError."""
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.DataError, match="cannot be written"):
        fetch_movielens(tmp_path / "file" / "data")


@pytest.mark.parametrize("name", ["ml-2m", "../ml-1m", "", "a/b"])
def test_fetch_names(tmp_path: Path, name: str) -> None:
    """Names without a known checksum, and paths, are rejected."""
    with pytest.raises(errors.ParameterError, match="name="):
        fetch_movielens(tmp_path, name=name)


@pytest.mark.parametrize("line", ["1::2::3:9::4", "1:::2::3::4"])
def test_a_stray_colon_is_not_overlooked(tmp_path: Path, line: str) -> None:
    """Half a separator inside a field is an error, not another number."""
    (tmp_path / "ratings.dat").write_text(f"1::1::5::978300760\n{line}\n")
    with pytest.raises(errors.DataError, match="line 2"):
        read_ratings(tmp_path)
