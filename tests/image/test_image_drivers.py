"""The drivers of pictures beside TensorStore's: pixels, specs and errors; folders of pictures as volumes."""

import io
import json

import numpy as np
import pytest
import tensorstore as ts
from PIL import Image

import chunkwise as cw
from chunkwise.core.codec.pictures import sniff

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 255, (20, 30), dtype="u1")
RGB = RNG.integers(0, 255, (20, 30, 3), dtype="u1")
RGBA = RNG.integers(0, 255, (20, 30, 4), dtype="u1")
GREY_ALPHA = RNG.integers(0, 255, (20, 30, 2), dtype="u1")
LOSSLESS = {"webp": {"lossless": True}}


def encoded(pixels, format, mode=None, **options):
    image = Image.fromarray(pixels)
    into = io.BytesIO()
    (image if mode is None else image.convert(mode)).save(into, format, **options)
    return into.getvalue()


def stores(**files):
    found = []
    for library in (ts, cw):
        context = library.Context()
        kvstore = library.KvStore.open("memory://", context=context).result()
        for name, value in files.items():
            kvstore[name] = value
        found.append((library, context))
    return found


def open_both(format, value, **members):
    return [
        library.open({"driver": format, "kvstore": "memory://x", **members}, context=context).result()
        for library, context in stores(x=value)
    ]


@pytest.mark.parametrize(
    ("format", "pixels"),
    [
        ("png", GREY),
        ("png", GREY_ALPHA),
        ("png", RGB),
        ("png", RGBA),
        ("jpeg", GREY),
        ("jpeg", RGB),
        ("tiff", GREY),
        ("tiff", RGB),
        ("webp", GREY),
        ("webp", RGB),
        ("webp", RGBA),
        ("avif", GREY),
        ("avif", RGB),
        ("avif", RGBA),
        ("bmp", GREY),
        ("bmp", RGB),
        ("bmp", RGBA),
    ],
    ids=lambda value: value if isinstance(value, str) else "x".join(map(str, value.shape)),
)
def test_pixels_and_specs_are_those_of_tensorstore(format, pixels):
    theirs, ours = open_both(format, encoded(pixels, format, **LOSSLESS.get(format, {})))
    assert ours.shape == theirs.shape
    assert ours.spec().to_json() == theirs.spec().to_json()
    assert ours.schema.to_json() == theirs.schema.to_json()
    assert ours.url == theirs.url
    tolerance = 3 if format in ("jpeg", "avif") else 0
    found = [array.read().result().astype(int) for array in (theirs, ours)]
    np.testing.assert_allclose(found[1], found[0], atol=tolerance)
    if not tolerance:
        np.testing.assert_array_equal(
            ours[3:7, ::-2, 0].read().result(), theirs[3:7, ::-2, 0].read().result()
        )
    assert (ours.mode, ours.readable, ours.writable) == ("r", True, False)


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits"])
def test_compressed_tiff(compression):
    theirs, ours = open_both("tiff", encoded(RGB, "tiff", compression=compression))
    np.testing.assert_array_equal(ours, theirs.read().result())


def test_a_palette_of_png_is_read_as_its_numbers_as_by_tensorstore():
    theirs, ours = open_both("png", encoded(RGB, "png", "P"))
    np.testing.assert_array_equal(ours, theirs.read().result())


def test_pages_of_tiff():
    into = io.BytesIO()
    Image.fromarray(GREY).save(into, "tiff", save_all=True, append_images=[Image.fromarray(255 - GREY)])
    for page, expected in enumerate((GREY, 255 - GREY)):
        for array in open_both("tiff", into.getvalue(), page=page):
            np.testing.assert_array_equal(array.read().result()[..., 0], expected)
    for library, context in stores(x=into.getvalue()):
        with pytest.raises(ValueError, match="Multi-page TIFF"):
            library.open({"driver": "tiff", "kvstore": "memory://x"}, context=context).result()
    with pytest.raises(ValueError, match='"page" is 2, but the TIFF file has 2 pages'):
        cw.open({"driver": "tiff", "kvstore": "memory://x", "page": 2}, context=context).result()


@pytest.mark.parametrize(
    ("format", "value", "kind"),
    [
        ("png", b"hello", ValueError),
        ("png", b"", ValueError),
        ("png", encoded(RGB, "jpeg"), ValueError),
        ("png", encoded(GREY, "png", "1"), NotImplementedError),
        ("png", encoded(GREY.astype("u2"), "png"), NotImplementedError),
        ("jpeg", encoded(RGB, "jpeg", "CMYK"), ValueError),
        ("tiff", encoded(GREY.astype("f4"), "tiff"), NotImplementedError),
        ("tiff", encoded(GREY.astype("u2"), "tiff"), NotImplementedError),
        ("tiff", encoded(RGB, "tiff", "P"), ValueError),
        ("bmp", encoded(RGB, "bmp", "P"), ValueError),
    ],
)
def test_what_tensorstore_does_not_open(format, value, kind):
    for library, context in stores(x=value):
        with pytest.raises(kind):
            library.open({"driver": format, "kvstore": "memory://x"}, context=context).result()


@pytest.mark.parametrize("format", ["png", "jpeg", "tiff", "bmp", "webp", "avif"])
def test_a_file_that_is_cut_off_is_named(format):
    value = encoded(RGB, format)
    (_, context) = stores(picture=value[: len(value) // 2])[1]
    with pytest.raises(ValueError, match=r'"picture": Failed to decode'):
        cw.open({"driver": format, "kvstore": "memory://picture"}, context=context).result().read().result()


def test_pixels_without_end_are_refused_before_they_are_decoded():
    value = bytearray(encoded(GREY, "png"))
    value[16:24] = (60_000).to_bytes(4, "big") * 2  # width and height
    (_, context) = stores(x=bytes(value))[1]
    with pytest.raises(ValueError, match="Failed to decode PNG"):
        cw.open({"driver": "png", "kvstore": "memory://x"}, context=context).result()


@pytest.mark.parametrize(
    "members",
    [
        {"kvstore": "memory://missing"},
        {"kvstore": "memory://x", "quality": 5},
        {"kvstore": "memory://x", "open": True},
        {"kvstore": "memory://x", "compression_level": "9"},
        {"kvstore": "memory://x", "dtype": "uint16"},
        {"kvstore": "memory://x", "rank": 2},
        {"kvstore": "memory://x", "schema": {"fill_value": 1}},
        {"kvstore": "memory://x", "schema": {"codec": {"driver": "n5"}}},
        {"kvstore": "memory://x", "schema": {"dimension_units": ["1nm", None, None]}},
        {"kvstore": "memory://x", "schema": {"domain": {"shape": [1, 2, 3], "inclusive_min": [1, 0, 0]}}},
        {},
    ],
    ids=json.dumps,
)
def test_specs_that_tensorstore_refuses(members):
    for library, context in stores(x=encoded(RGB, "png")):
        with pytest.raises(ValueError):
            library.open({"driver": "png", **members}, context=context).result()


@pytest.mark.parametrize("members", [{}, {"page": 3}, {"recheck_cached_data": True}], ids=json.dumps)
def test_specs_before_they_are_opened(members):
    theirs, ours = (
        library.Spec({"driver": "tiff", "kvstore": "memory://x", **members}) for library in (ts, cw)
    )
    assert ours.to_json() == theirs.to_json()
    assert (ours.rank, ours.dtype.name) == (theirs.rank, theirs.dtype.name)
    assert ours.schema.to_json() == theirs.schema.to_json()


def test_pictures_are_not_written():
    for library, context in stores(x=encoded(RGB, "png")):
        with pytest.raises(ValueError, match="only reading is supported"):
            library.open({"driver": "png", "kvstore": "memory://x"}, context=context, write=True).result()


@pytest.mark.parametrize("format", ["png", "jpeg", "tiff", "webp", "avif", "bmp"])
def test_the_format_is_found_out(format, tmp_path):
    path = tmp_path / "picture"
    path.write_bytes(encoded(RGB, format))
    found = cw.open(path).result()
    assert found.spec().to_json()["driver"] == format
    assert found.shape == RGB.shape
    assert cw.open(f"file://{path}|{format}:").result().shape == RGB.shape


def test_a_picture_that_was_replaced_by_another_shape_is_an_error():
    (_, context) = stores(x=encoded(RGB, "png"))[1]
    array = cw.open({"driver": "png", "kvstore": "memory://x"}, context=context).result()
    cw.KvStore.open("memory://", context=context).result()["x"] = encoded(GREY, "png")
    with pytest.raises(ValueError, match=r"shape \[20, 30, 1\] now, and had \[20, 30, 3\]"):
        array.read().result()


def test_a_folder_of_pictures_is_a_volume(tmp_path):
    slices = RNG.integers(0, 255, (6, 20, 30), dtype="u1")
    for number, pixels in enumerate(slices):
        Image.fromarray(pixels).save(tmp_path / f"{number:03}.png")
    volume = cw.stack([cw.open(path).result() for path in sorted(tmp_path.iterdir())])[..., 0]
    assert volume.shape == slices.shape
    np.testing.assert_array_equal(volume, slices)
    np.testing.assert_array_equal(volume[2:5, 3, ::2].read().result(), slices[2:5, 3, ::2])
    again = cw.open(volume.spec()).result()
    np.testing.assert_array_equal(again, slices)


HEADS = {
    b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"II*\0": "tiff", b"MM\0*": "tiff",
    b"II+\0": "tiff", b"MM\0+": "tiff", b"RIFF1234WEBP": "webp", b"1234ftypavif": "avif",
    b"1234ftypavis": "avif", b"BM": "bmp",
}  # fmt: skip


def test_a_picture_is_known_by_its_first_bytes_only():
    for head, format in HEADS.items():
        assert sniff(head + b"anything"[: 12 - len(head)]) == format
        assert sniff(b" " + head) is None
        for at in range(len(head)):
            other = head[:at] + b"~" + head[at + 1 :]
            known = b"1234" in head and head[at : at + 1] in b"1234"
            assert sniff(other.ljust(12)) == (format if known else None), other
    for other in (b"", b"RIFF1234WAVE", b"1234ftypmp42", b"II*\1"):
        assert sniff(other) is None


def test_what_is_said_of_a_picture_before_it_is_read(tmp_path):
    """It is one chunk, which is read as a whole."""
    Image.fromarray(np.arange(60, dtype="u1").reshape(4, 5, 3)).save(tmp_path / "a.png")
    a = cw.open({"driver": "png", "kvstore": f"file://{tmp_path}/a.png"}).result()
    for view, n in ((a, 1), (a[1:2, 3], 1), (a[:0], 0)):
        told = str(view.explain()).splitlines()
        assert f'local file "{tmp_path}/a.png"' in told[0]
        assert [line.split()[-1] for line in told[1:3]] == [str(n), str(n)]
        assert told[5].split() == ["decoded", "bytes", str(60 * n)]
    assert str(cw.stack([a, a]).explain()).splitlines()[2].split() == ["requests", "2"]
    found = a.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    assert (found.not_stored, found.fully_stored) == (False, True)
    found = a[:0].storage_statistics(query_not_stored=True, query_fully_stored=True).result()
    assert (found.not_stored, found.fully_stored) == (True, True)
    inside = a.with_transaction(cw.Transaction())
    np.testing.assert_array_equal(inside.read().result(), a.read().result())


def test_a_bmp_of_four_bytes_that_is_cut_off(tmp_path):
    """Pillow would not notice."""
    Image.fromarray(np.arange(80, dtype="u1").reshape(4, 5, 4)).save(tmp_path / "b.bmp")
    raw = (tmp_path / "b.bmp").read_bytes()
    (tmp_path / "b.bmp").write_bytes(raw[:-9])
    with pytest.raises(ValueError, match=f"Failed to decode BMP: {len(raw) - 9} bytes, expected {len(raw)}"):
        cw.open({"driver": "bmp", "kvstore": f"file://{tmp_path}/b.bmp"}).result()
