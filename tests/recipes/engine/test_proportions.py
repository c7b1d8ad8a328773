import pytest

from recipes.classify.__main__ import RECIPE
from recipes.classify.settings import ClassifyConfig
from recipes.engine.proportions import remark_on_size
from recipes.glue.settings import GlueConfig
from recipes.imagenet.settings import ImageNetConfig
from recipes.pretrain.settings import PretrainConfig
from recipes.translate.settings import TranslateConfig


def test_the_options_that_make_a_model_smaller_are_named():
    remark = remark_on_size(ClassifyConfig(), 37_776_503, 317)
    assert "37,776,503 parameters are many for 317 training examples" in remark
    assert "--model-arguments mlp_dim (now 2000)" in remark and remark.endswith(
        "--model-arguments embedding_dim (now 300)."
    )
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
    lines = [f"word{number % 7} word{number % 5}\t{number % 2}" for number in range(40)]
    (tmp_path / "texts.tsv").write_text("\n".join(["text\tlabel", *lines]))
    size = ["--pooling-dim", "8", "--model-arguments", "mlp_dim=1000", "embedding_dim=8", "hidden_dim=8"]
    arguments = ["--train", tmp_path / "texts.tsv", *size, "--run", tmp_path / "run", "--export", "none"]
    for epochs in (1, 2):
        RECIPE.main(["train", *map(str, arguments), "--epochs", str(epochs)])
        remarks = capsys.readouterr().out.count(" parameters are many for 32 training examples")
        assert remarks == (epochs == 1)
