import dataclasses

import keras
import pytest

from keras_headattn.data._parallel import ParallelCorpus
from recipes.classify.__main__ import RECIPE
from recipes.classify.settings import ClassifyConfig
from recipes.engine.modelling import fitting_batch, remark_on_size, remark_on_warmup
from recipes.glue.settings import GlueConfig
from recipes.imagenet import train as imagenet
from recipes.imagenet.__main__ import RECIPE as IMAGENET
from recipes.imagenet.modelling import make_classifier
from recipes.imagenet.settings import ImageNetConfig
from recipes.pretrain import train as pretrain
from recipes.pretrain.settings import PretrainConfig
from recipes.translate import train as translate
from recipes.translate.__main__ import RECIPE as TRANSLATE
from recipes.translate.settings import TranslateConfig
from recipes.translate.text import fitting_vocabulary


def test_the_options_that_make_a_model_smaller_are_named():
    remark = remark_on_size(ClassifyConfig(), 37_776_503, 317)
    assert "37,776,503 parameters are many for 317 training examples" in remark
    assert "--model-arguments mlp_dim (now 2000)" in remark and remark.endswith(
        "--model-arguments embedding_dim (now 300)."
    )
    tiny = remark_on_size(TranslateConfig(size="tiny"), 10**8, 10)
    assert "num_layers (now 4)" in tiny and "hidden_dim (now 128)" in tiny
    vit = remark_on_size(ImageNetConfig(model="vit_tiny"), 10**8, 10)
    assert "num_layers (now 12)" in vit and "filters" not in vit  # which other models of the recipe take
    assert remark_on_size(TranslateConfig(), 10**8, 10).endswith("--pretrained.")


@pytest.mark.parametrize(
    "config, parameters, examples",
    [
        (ClassifyConfig(), 10_000, 1),
        (ClassifyConfig(), 10**8, None),
        (GlueConfig(checkpoint="bert"), 10**8, 10),
        (PretrainConfig(), 10**8, 10),
    ],
)
def test_nothing_is_said_of_others(config, parameters, examples):
    assert remark_on_size(config, parameters, examples) is None


def test_a_run_begins_with_the_remark(tmp_path, capsys):
    lines = [f"word{number % 8} word{number % 5}\t{number % 2}" for number in range(40)]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tlabel", *lines]))
    size = ["--pooling-dim", "8", "--model-arguments", "mlp_dim=1000", "embedding_dim=8", "hidden_dim=8"]
    arguments = ["--train", tmp_path / "texts.tsv", *size, "--run", tmp_path / "run", "--export", "none"]
    for epochs in (1, 2):
        RECIPE.main(["train", *map(str, arguments), "--epochs", str(epochs)])
        remarks = capsys.readouterr().out.count(" parameters are many for 32 training examples")
        assert remarks == (epochs == 1)


def test_warm_up_is_a_tenth_of_a_short_training():
    config = TranslateConfig(epochs=4)
    assert translate.warmup_steps(config, 133) == 53
    assert translate.warmup_steps(dataclasses.replace(config, epochs=40), 10_000) == 4000
    assert translate.warmup_steps(dataclasses.replace(config, warmup_steps=4000), 133) == 4000
    assert translate.warmup_steps(TRANSLATE.named_config("wmt14_de"), 1) == 4000
    assert pretrain.warmup_steps(PretrainConfig()) == 2_000
    config = TranslateConfig(warmup_steps=4000, optimizer_arguments={"gradient_accumulation_steps": 16})
    optimizer = translate.adam(config, 133)
    optimizer.build([keras.Variable(0.0)])
    optimizer._iterations.assign(64_000)
    assert int(optimizer.iterations) == 4000 and float(optimizer.learning_rate) == pytest.approx(5e-4, 1e-4)
    assert imagenet.warmup_steps(ImageNetConfig(epochs=2), 100) == 20


def test_a_long_warm_up_is_reported():
    config = TranslateConfig(epochs=4, warmup_steps=4000)
    assert remark_on_warmup(config, 4000, 532).startswith("Warm-up takes 4,000 of the 532 steps")
    assert "smaller --warmup-steps" in remark_on_warmup(config, 4000, 532)
    assert "smaller --warmup-share" in remark_on_warmup(GlueConfig(checkpoint="bert"), 50, 100)
    assert remark_on_warmup(config, 100, 532) is None


def test_batches_and_vocabularies_fit_the_data():
    sizes = 1_000, 10_000, 100_000
    assert [fitting_batch(15 * size, 4096, 512) for size in sizes] == [512, 1500, 4096]
    pieces = [fitting_vocabulary(ParallelCorpus(["ab"] * size, ["cd"] * size, "")) for size in sizes]
    assert pieces == [1269, 4004, 10_000]


@pytest.mark.parametrize("steps, momentum", [(8, 0.9), (300, 0.99), (5_000, 0.997)])
def test_moving_statistics_follow_the_images_of_an_epoch(steps, momentum):
    config = dataclasses.replace(IMAGENET.named_config("cifar10"), blocks=1)
    layers = make_classifier(config, 2, steps)._flatten_layers()
    assert {layer.momentum for layer in layers if hasattr(layer, "moving_mean")} == {momentum}


def test_the_rate_of_images_falls_within_the_training():
    schedule = imagenet.learning_rate(ImageNetConfig(epochs=10), 100, 1)
    assert list(schedule.boundaries) == [300, 600, 800, 900]
