"""Pictures of maps and the classifier of maps, of runs that only look finished."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_headattn.analysis import attention_maps
from recipes.attention_maps import main
from recipes.engine.config import override
from recipes.engine.encoders import make_tokenizer
from recipes.engine.run import Run
from recipes.engine.texts.training import keep_labels
from recipes.glue import __main__ as glue
from recipes.glue.data import read_corpora
from recipes.glue.settings import GlueConfig
from recipes.glue.targets import targets_of
from recipes.glue.train import make_model
from recipes.imagenet.__main__ import RECIPE
from recipes.imagenet.configs import digits
from recipes.imagenet.map_pictures import map_sizes, of_pixels
from recipes.imagenet.modelling import make_classifier
from tests.refusals import refused


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of two networks as they are before training, with attention and with evolving attention."""
    folder = tmp_path_factory.mktemp("runs")
    names = [str(label) for label in range(10)]
    for attention in ("multi_head", "evolving"):
        run = Run(folder / attention, RECIPE)
        size = dict(num_heads=2, blocks=1, model_arguments=dict(filters=20))
        config = digits.CONFIG.changed({"attention": attention, "run": str(run.folder)} | size)
        run.start(config)
        (run.folder / "classes.txt").write_text("\n".join(names))
        run.save_model(make_classifier(config, len(names)), run.model)
    return folder


@pytest.fixture
def image(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), "uint8")
    tf.io.write_file(str(tmp_path / "image.png"), tf.io.encode_png(pixels))
    return tmp_path / "image.png"


@pytest.fixture(scope="module")
def patches(tmp_path_factory):
    """Folder of a Vision Transformer as it is before training: 4 x 4 patches after a class token."""
    run = Run(tmp_path_factory.mktemp("vit"), RECIPE)
    size = dict(patch_size=4, hidden_dim=8, intermediate_dim=8, num_layers=2)
    given = dict(model="vit_tiny", model_arguments=size, attention="evolving", num_heads=2, run=str(run.folder))
    config = digits.CONFIG.changed(given)
    run.start(config)
    (run.folder / "classes.txt").write_text("\n".join(map(str, range(10))))
    run.save_model(make_classifier(config, 10), run.model)
    return run


def test_maps_of_patches(patches, image, tmp_path, figures):
    """Those of a pixel over the patches, without the class token."""
    output = str(tmp_path / "maps.png")
    main(["image", str(patches.folder), "--files", str(image), "--output", output, "--layers", "1", "2"])
    assert [len(axes.get_images()) for axes in figures[0].axes] == [1, 2, 2] * 2 + [0] * 2
    model = patches.load_model()
    sizes, maps = map_sizes(model), attention_maps(model, np.zeros((3, 16, 16, 3)))
    assert list(sizes) == list(maps) and set(sizes.values()) == {(4, 4)}
    weights = maps[list(maps)[0]].weights
    found = of_pixels(weights, (4, 4))
    assert weights.shape == (3, 2, 17, 17)
    np.testing.assert_array_equal(found, weights[:, :, 1:, 1:])


def test_maps_of_two_runs_over_an_image(runs, image, tmp_path, capsys, figures):
    main(
        [
            "image",
            str(runs / "multi_head"),
            str(runs / "evolving"),
            "--files",
            str(image),
            "--output",
            str(tmp_path / "maps.png"),
        ]
    )
    assert (tmp_path / "maps.png").exists()
    pictures = [len(axes.get_images()) for axes in figures[0].axes]
    # A row for each layer: the image, and over it the map of each of two heads.
    rows = len(pictures) // 4  # and a colour bar for each row
    assert pictures == [1, 2, 2] * rows + [0] * rows and {"multi_head", "evolving"} == {
        axes.get_ylabel().split("\n")[0] for axes in figures[0].axes[: 3 * rows : 3]
    }
    assert capsys.readouterr().out.splitlines()[-1].endswith("maps.png")


@pytest.mark.parametrize("options, name, received", [
    (["--layers", "9"], "4 attention layers", "--layers 9"),
    (["--heads", "0", "2"], "2", "--heads 0"),
    (["--pixel", "99", "0"], "pixel", [99, 0]),
])  # fmt: skip
def test_errors(runs, image, options, name, received):
    with refused(name, received, SystemExit):
        main(["image", str(runs / "multi_head"), "--files", str(image), *options])


def test_runs_without_maps(runs, image, tmp_path):
    plain = Run(tmp_path / "plain", RECIPE)
    plain.start(digits.CONFIG.changed({"attention": "none"}))
    with pytest.raises(SystemExit, match="Received: nothing.jpg"):
        main(["image", str(runs / "multi_head"), "--files", "nothing.jpg"])
    with pytest.raises(SystemExit, match="without attention has no maps"):
        main(["image", str(plain.folder), "--files", str(image)])
    with refused("recipes.imagenet", "config.json for recipes.translate", SystemExit):
        main(["text", str(runs / "multi_head"), "--sentence", "one"])


def test_accuracy_of_a_classifier_of_maps(runs, capsys):
    keras.utils.set_random_seed(0)
    options = ["--layers", "-1", "--epochs", "1", "--filters", "8", "--images", "64"]
    main(["classify", str(runs / "evolving"), *options])
    assert "evolving, layer 4: " in capsys.readouterr().out.splitlines()[-1]


def test_maps_of_a_text_in_runs_of_glue(tmp_path, capsys, figures):
    """Plain attention, and below it evolving attention with its two parts, layer by layer."""
    rows = (f"one{' two' * row} three,0\nthree{' two' * row} one,1\n" for row in range(1, 11))
    (tmp_path / "data.csv").write_text("text,label\n" + "".join(rows))
    for attention in ("multi_head", "evolving"):
        values = dict(train=(str(tmp_path / "data.csv"),), text_column="text", label_column="label", size="bert_tiny")
        config = override(GlueConfig(), values | {"attention": attention, "run": str(tmp_path / attention)})
        run, texts = Run(config.run, glue.RECIPE), read_corpora(config)
        run.start(config)
        targets = targets_of(config, corpus=texts.train)
        keep_labels(run, targets, texts)
        tokenizer = make_tokenizer(run, config, lambda texts=texts: texts.train.texts)
        run.save_model(make_model(config, tokenizer, targets), run.model)
    runs = [str(tmp_path / name) for name in ("multi_head", "evolving")]
    output = tmp_path / "maps.png"
    main(["text", *runs, "--sentence", "one two", "--layers", "1", "2", "--head", "1", "--output", str(output)])
    titles = [axes.get_title().replace("\n", " ") for axes in figures[0].axes if axes.get_images()]
    assert [title.split(":")[0].split(", ")[0] for title in titles if "layer 1" in title][0] == "multi_head"
    assert len(titles) > 4 and "[CLS]" in [label.get_text() for label in figures[0].axes[0].get_xticklabels()]
    assert output.exists() and "evolving: " in capsys.readouterr().out
    with refused("--kind", "'cross'", SystemExit):
        main(["text", *runs, "--sentence", "one two", "--kind", "cross"])
