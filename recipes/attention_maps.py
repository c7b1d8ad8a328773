"""Attention in finished runs: pictures of maps, and how much of an image a map keeps.

    python -m recipes.attention_maps image runs/aa runs/ea --files bird.jpg --layers -3 -2 -1
    python -m recipes.attention_maps text runs/evolving --sentence "a man sleeps ." --layers 2 3
    python -m recipes.attention_maps text runs/bert runs/ea --sentence "Mary tried John to go abroad." --layers 2 11 12
    python -m recipes.attention_maps classify runs/aa runs/ea --layers -3 -2 -1
    python -m recipes.attention_maps redundancy runs/multi_head runs/disentangled
    python -m recipes.attention_maps clusters runs/disentangled --sentence "a man sleeps ."
    python -m recipes.attention_maps tokens runs/disentangled --cluster 3
    python -m recipes.attention_maps queries runs/multi_head runs/disentangled --kind decoder
    python -m recipes.attention_maps ablation runs/multi_head runs/disentangled

`image` draws what one pixel attends to, of runs of `recipes.imagenet`, one below the other (Wang et al. 2021, "Evolving
attention with residual convolutions", figures 4 and 7 to 10). `text` draws the maps of all heads of a run of
`recipes.translate`, or of runs of `recipes.glue` or `recipes.classify`; with `--head` that of one, and of evolving
attention its two parts (figure 11). A row of a decoder is the token that is written. `classify` trains a network to
tell the class of an image from what its middle pixel attends to (table 7): the higher its accuracy, the more of the
image is in the map.

Of runs of `recipes.translate`, on the first sentences of a test set and their translations: `redundancy` measures how
much heads repeat each other ("Disentangled mask attention", LR, HR and figure 3), `queries` draws where the heads'
queries lie (figures 6 to 8), for TensorBoard's projector, too, and `ablation` how much less BLEU greedy translations
have without each head (An et al. 2020, "Repulsive attention", figure 2). Of those of `--attention disentangled_mask`
besides: `clusters`, those of a sentence's tokens (figure 5), and `tokens`, those that each cluster has most of (4).

Layers, heads and clusters are counted from 1, layers in the order in which they are called, or from the last, -1.
"""

from recipes.engine.command import make_parser, one_line_errors
from recipes.engine.finished import new_path
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.texts import map_pictures as texts
from recipes.engine.texts.predicting import RECIPES, recipe_name
from recipes.imagenet import map_pictures as images
from recipes.translate import map_pictures as translations


def main(arguments=None):
    options = _parser().parse_args(arguments)
    quiet_tensorflow()
    with one_line_errors():
        COMMANDS[options.command](options)


def _text(options):
    """Draws the maps of a text in runs of classification, or of a sentence in one of translation."""
    (texts if recipe_name(options.runs[0]) in RECIPES else translations).text(options)


COMMANDS = {
    "image": images.image,
    "text": _text,
    "classify": images.classify,
    "clusters": translations.clusters,
    "tokens": translations.tokens,
    "redundancy": translations.redundancy,
    "queries": translations.queries,
    "ablation": translations.ablation,
}


def _parser():
    parser = make_parser("attention_maps", __doc__)
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    helps = {
        "image": "what one pixel attends to, over the image",
        "text": "what the tokens of a sentence attend to",
        "classify": "accuracy of a classifier that sees maps alone",
        "clusters": "clusters of a sentence's tokens, and the mask they make",
        "tokens": "the tokens that each cluster has most of",
        "redundancy": "how much heads repeat each other",
        "queries": "where the queries of heads lie, by t-SNE",
        "ablation": "how much worse translations are without each head",
    }
    added = {name: commands.add_parser(name, help=text) for name, text in helps.items()}
    _add_shared(**added)
    _add_own(**added)
    return parser


def _add_shared(image, text, classify, clusters, tokens, redundancy, queries, ablation):
    """Adds the options that several commands have."""
    for command in (image, classify):
        command.add_argument("runs", nargs="+", help="folders of finished runs of recipes.imagenet")
    for command in (text, clusters, tokens):
        several = "; of recipes.glue or .classify, of one or more" if command is text else ""
        help = f"folder of a finished run of recipes.translate{several}"
        command.add_argument("runs", nargs="+" if command is text else 1, help=help)
        of_all = command is text
        help = "with its parts, of evolving attention [all heads]" if of_all else "[1]"
        command.add_argument("--head", type=int, default=None if of_all else 1, help=help)
    for command in (redundancy, queries, ablation):
        command.add_argument("runs", nargs="+", help="folders of finished runs of recipes.translate")
    for command in (tokens, redundancy, queries, ablation):
        command.add_argument("--sentences", type=int, default=100, help="so many of a test set [100]")
    for command in (image, text, classify):
        command.add_argument("--layers", nargs="+", type=int, help="[the last three]")
    for command in (clusters, tokens, queries):
        command.add_argument("--layer", type=int, default=-1, help="[the last]")
    for command in (text, clusters):
        pair = "; of runs on pairs two texts with a tab between" if command is text else ""
        command.add_argument("--sentence", required=True, help=f"of the source language{pair}")
    for command in (text, clusters, tokens, redundancy, queries):
        kinds = ("encoder", "decoder", "cross")
        command.add_argument("--kind", choices=kinds, default="encoder", help="which attention [encoder]")
        command.add_argument(
            "--output", default=new_path("maps.png"), help=".png, .svg or .pdf [maps.png, then maps-2.png]"
        )


def _add_own(image, classify, tokens, queries, ablation, **others):
    """Adds the options that one command has."""
    image.add_argument("--files", nargs="+", required=True, help="image files")
    image.add_argument("--heads", nargs="+", type=int, help="[all]")
    image.add_argument("--pixel", nargs=2, type=int, help="row and column of what the network sees [its middle]")
    image.add_argument(
        "--output",
        default=new_path("maps.png"),
        help=".png, .svg or .pdf; of several files their names are added [maps.png, then maps-2.png]",
    )
    ablation.add_argument(
        "--output", default=new_path("ablation.png"), help=".png, .svg or .pdf [ablation.png, then ablation-2.png]"
    )
    ablation.add_argument("--bins", type=int, help="bars of a histogram of all heads [a bar for each head]")
    queries.add_argument("--points", type=int, default=300, help="tokens of each head to draw [300]")
    queries.add_argument("--projector", help="folder to write them to for TensorBoard's projector, too")
    tokens.add_argument("--cluster", type=int, default=1, help="the one that is drawn [1]")
    tokens.add_argument("--top", type=int, default=15, help="tokens of each [15]")
    tokens.add_argument("--leave-out", nargs="+", metavar="WORD", help="not to be shown [English stop words]")
    classify.add_argument("--epochs", type=int, default=30, help="[30]")
    classify.add_argument("--filters", type=int, default=256, help="width of the classifier's first stage [256]")
    classify.add_argument("--images", type=int, help="use only so many images of each split [all]")


if __name__ == "__main__":
    main()
