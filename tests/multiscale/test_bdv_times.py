"""Containers of BigDataViewer by their numbers: setups, times and views that are missing, places."""

import json

import numpy as np
import pytest
import z5py

import chunkwise as cw

VALUES = np.arange(4 * 6 * 8, dtype="uint16").reshape(4, 6, 8)  # z, y, x


def _view(root, setup, time, levels=1):
    for k in range(levels):
        values = VALUES[:, :: 2**k, :: 2**k] + 1000 * setup + 100 * time
        z5py.File(str(root), "a").create_dataset(
            f"setup{setup}/timepoint{time}/s{k}", data=values, chunks=values.shape, compression="gzip"
        )
    factors = [[2**k, 2**k, 1] for k in range(levels)]
    attributes = {"downsamplingFactors": factors, "dataType": "uint16"}
    (root / f"setup{setup}/attributes.json").write_text(json.dumps(attributes))


def _xml(root, setups, times, missing=(), registrations=()):
    """Write the XML file; `registrations` are time, setup and translation along x."""
    views = "".join(
        f'<ViewRegistration timepoint="{t}" setup="{s}"><ViewTransform type="affine">'
        f"<affine>4 0 0 {at} 0 4 0 0 0 0 40 0</affine></ViewTransform></ViewRegistration>"
        for t, s, at in registrations
    )
    named = "".join(
        f"<ViewSetup><id>{s}</id><name>tile {s}</name><size>8 6 4</size><voxelSize><unit>nm</unit>"
        "<size>4 4 40</size></voxelSize></ViewSetup>"
        for s in setups
    )
    gone = "".join(f'<MissingView timepoint="{t}" setup="{s}"/>' for t, s in missing)
    root.with_suffix(".xml").write_text(
        f'<SpimData version="0.2"><SequenceDescription><ImageLoader format="bdv.n5"><n5>{root.name}</n5>'
        f"</ImageLoader><ViewSetups>{named}</ViewSetups>{times}<MissingViews>{gone}</MissingViews>"
        f"</SequenceDescription><ViewRegistrations>{views}</ViewRegistrations></SpimData>"
    )


def test_setups_and_times_by_their_numbers(tmp_path):
    """Setups of other times line up, by the numbers of the times; what isn't there is zeros."""
    root = tmp_path / "a.n5"
    for setup, times in ((16, (18, 20)), (17, (19,))):
        for time in times:
            _view(root, setup, time, levels=2)
    images = cw.open_multiscale(root)
    assert list(images) == ["setup16", "setup17"]
    for setup, times in ((16, (18, 20)), (17, (19,))):
        level = images[f"setup{setup}"].levels[1]
        assert level.domain.inclusive_min[-1] == 18 and level.shape == (4, 3, 4, 3)
        for time in (18, 19, 20):
            expected = (VALUES[:, ::2, ::2] + 1000 * setup + 100 * time).T if time in times else 0
            np.testing.assert_array_equal(
                level[..., time].read().result(), np.broadcast_to(expected, (4, 3, 4))
            )
    assert len(images["setup16"].problems) == 1 and "time 19" in images["setup16"].problems[0]


@pytest.mark.parametrize(
    "times",
    [
        '<Timepoints type="range"><first>0</first><last>3</last></Timepoints>',
        '<Timepoints type="pattern"><integerpattern>0, 2-3</integerpattern></Timepoints>',
        '<Timepoints type="pattern"><integerpattern>0-3:1</integerpattern></Timepoints>',
        '<Timepoints type="list"><Timepoint><id>3</id></Timepoint>'
        "<Timepoint><id>0</id></Timepoint></Timepoints>",
    ],
)
def test_times_and_missing_views_of_the_file(tmp_path, times):
    """A view that the file says is missing is no problem."""
    root = tmp_path / "a.n5"
    _view(root, 0, 0)
    _view(root, 0, 3)
    _view(root, 1, 3)
    _xml(root, (0, 1, 2), times, missing=[(0, 1), (1, 1), (2, 1), (1, 0), (2, 0)])
    images = cw.open_multiscale(tmp_path / "a.xml")
    level = images["setup1"].levels[0]
    assert level.shape[-1] == 4 and not level[..., 0].read().result().any()
    np.testing.assert_array_equal(level[..., 3].read().result(), (VALUES + 1300).T)
    assert images["setup0"].problems == () == images["setup1"].problems
    assert any("setup2" in problem for problem in images.problems)


def test_registrations_of_each_time(tmp_path):
    """A view has the place of its time; an image of all of them that of the first, which it says."""
    root = tmp_path / "a.n5"
    for time in range(2):
        _view(root, 0, time)
    times = '<Timepoints type="range"><first>0</first><last>1</last></Timepoints>'
    _xml(root, (0,), times, registrations=[(1, 0, 80), (0, 0, 0)])
    image = cw.open_multiscale(root)["setup0"]
    assert image.translations[0] == (0.0, 0.0, 0.0, 0.0) and "registrations differ" in image.problems[0]
    for time in range(2):
        alone = cw.open_multiscale(root / f"setup0/timepoint{time}")
        assert alone.translations[0] == (80.0 * time, 0.0, 0.0) and alone.scales[0] == (4.0, 4.0, 40.0)


def test_an_image_without_its_first_level_at_one_time(tmp_path):
    root = tmp_path / "a.n5"
    _view(root, 0, 1, levels=2)
    (root / "setup0/timepoint0").mkdir()
    (root / "setup0/timepoint0/attributes.json").write_text("{}")
    image = cw.open_multiscale(root)["setup0"]
    assert image.levels[0].shape == (8, 6, 4, 2) and not image.levels[0][..., 0].read().result().any()
    assert "time 0" in image.problems[0]


@pytest.mark.parametrize("pattern", ["x", "1-", "0-99999999"])
def test_wrong_times_are_named(tmp_path, pattern):
    root = tmp_path / "a.n5"
    _view(root, 0, 0)
    _xml(root, (0,), f'<Timepoints type="pattern"><integerpattern>{pattern}</integerpattern></Timepoints>')
    with pytest.raises(ValueError, match=r"a.xml.*Timepoints: expected"):
        cw.open_multiscale(root)


def test_channels_and_times_with_gaps(tmp_path):
    """The groups c and t of n5-viewer, whichever are there."""
    for channel in (1, 3):
        for time in (2, 4):
            z5py.File(str(tmp_path / "a.n5"), "a").create_dataset(
                f"c{channel}/t{time}/s0",
                data=VALUES + channel + 10 * time,
                chunks=(4, 4, 4),
                compression="gzip",
            )
    images = cw.open_multiscale(tmp_path / "a.n5")
    assert list(images) == ["c1", "c3"]
    level = images["c3"].levels[0]
    np.testing.assert_array_equal(level[..., 4].read().result(), (VALUES + 43).T)
    assert level.domain.inclusive_min[-1] == 2 and not level[..., 3].read().result().any()
