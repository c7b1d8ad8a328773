"""ImageNet as Wang et al. 2021, "Evolving attention with residual convolutions", train all their networks.

    python -m recipes.imagenet --config imagenet --images imagenet --attention evolving \\
        --attention-arguments alpha=0.5 beta=1

`imagenet` holds `train/n01440764/*.JPEG` and so on, and `val` alike; `--records FOLDER --num-classes 1000
--validation validation` reads TFRecords in place of it, `--tfds imagenet2012 --validation validation` what
tensorflow-datasets has.

    python -m recipes.sweep evolving_table1 --images imagenet

The last command trains all of the paper's table 1; `evolving_table2` is its ablations, `evolving_figure6_alpha` and
`_beta` are its figure 6. Its alpha is 0.5, and 0.7 for 101 and 152 layers (appendix A.1). These settings have not been
run here.

From the paper: SGD with momentum, 32 images a GPU on 8 of them, weight decay, warm-up, rates and epochs. The rate of
0.128 is for 256 images a step: with other numbers of replicas it is in proportion, as in the code of TensorFlow's
models 1.13, which the paper names. There the smallest crop is 5 % of an image, here the 8 % of Szegedy et al.; no label
smoothing.
"""

from recipes.engine.tables import Table, figures
from recipes.imagenet.settings import ImageNetConfig

CONFIG = ImageNetConfig(
    validation="val",
    statistics_momentum=0.997,
    warmup_epochs=5.0,
    decay_epochs=(30, 60, 80, 90),
)

NETWORKS = {
    f"{prefix}resnet{depth}": dict(model=f"resnet{depth}", **heads)
    for depth, alpha in ((34, 0.5), (50, 0.5), (101, 0.7), (152, 0.7))
    for prefix, heads in {
        "": dict(attention="none"),
        "aa_": dict(attention="multi_head"),
        "ea_aa_": dict(attention="evolving", attention_arguments=dict(alpha=alpha, beta=1.0)),
    }.items()
}
EVOLVING = NETWORKS["ea_aa_resnet34"]
MEASURES = ("test", "accuracy"), ("test", "top5_accuracy"), ("training", "parameters"), ("training", "FLOPs")
TABLE_1 = {
    "resnet34": (0.7379, 0.9143, 21.8e6, 7.4e9),
    "aa_resnet34": (0.7433, 0.9192, 20.7e6, 7.1e9),
    "ea_aa_resnet34": (0.7523, 0.9235, 20.7e6, 7.9e9),
    "resnet50": (0.7644, 0.9319, 25.6e6, 8.2e9),
    "aa_resnet50": (0.7770, 0.9380, 25.8e6, 8.3e9),
    "ea_aa_resnet50": (0.7822, 0.9421, 25.8e6, 8.7e9),
    "resnet101": (0.7787, 0.9389, 44.5e6, 15.6e9),
    "aa_resnet101": (0.7850, 0.9402, 45.4e6, 16.1e9),
    "ea_aa_resnet101": (0.7929, 0.9481, 45.4e6, 17.2e9),
    "resnet152": (0.7840, 0.9420, 60.2e6, 23.0e9),
    "aa_resnet152": (0.7910, 0.9460, 61.6e6, 23.8e9),
    "ea_aa_resnet152": (0.7963, 0.9485, 61.6e6, 25.7e9),
}
TABLE_2 = {
    "aa_resnet34": (0.7433, 0.9192),
    "ea_aa_resnet34": (0.7523, 0.9235),
    "no_convolution": (0.7434, 0.9198),
    "no_skip": (0.7429, 0.9185),
    "1x1": (0.7499, 0.9220),
    "5x5": (0.7512, 0.9255),
}
ABLATIONS = {
    "no_convolution": dict(beta=0.0),
    "no_skip": dict(alpha=0.0),
    "1x1": dict(kernel_size=1),
    "5x5": dict(kernel_size=5),
}


def _evolving(**arguments):
    return EVOLVING | dict(attention_arguments=EVOLVING["attention_arguments"] | arguments)


def _figure_6(name):
    return Table(
        title=f"Wang et al. 2021, figure 6: EA-AA-ResNet-34 by {name}; the paper prints no numbers",
        config="imagenet",
        rows={"ea_aa_resnet34": EVOLVING},
        columns={value: dict(attention_arguments={name: value}) for value in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)},
        over=name,
        measures=MEASURES[:2],
    )


TABLES = {
    "evolving_table1": Table(
        title="Wang et al. 2021, table 1 and figure 1: ImageNet",
        config="imagenet",
        rows=NETWORKS,
        measures=MEASURES,
        published=figures(MEASURES, TABLE_1),
        scatter=(MEASURES[3], MEASURES[0]),
    ),
    "evolving_table2": Table(
        title="Wang et al. 2021, table 2: ablations on ImageNet",
        config="imagenet",
        rows={name: NETWORKS[name] for name in ("aa_resnet34", "ea_aa_resnet34")}
        | {name: _evolving(**changed) for name, changed in ABLATIONS.items()},
        measures=MEASURES[:2],
        published=figures(MEASURES[:2], TABLE_2),
    ),
    "evolving_figure6_alpha": _figure_6("alpha"),
    "evolving_figure6_beta": _figure_6("beta"),
}
