"""Attention in finished runs: pictures of maps, and how much of an image a map keeps.

    python -m recipes.attention_maps image runs/aa runs/ea --files bird.jpg --layers -3 -2 -1
    python -m recipes.attention_maps text runs/evolving --sentence "a man sleeps ." --layers 2 3
    python -m recipes.attention_maps classify runs/aa runs/ea --layers -3 -2 -1
    python -m recipes.attention_maps redundancy runs/multi_head runs/disentangled
    python -m recipes.attention_maps clusters runs/disentangled --sentence "a man sleeps ."
    python -m recipes.attention_maps tokens runs/disentangled --cluster 2
    python -m recipes.attention_maps queries runs/multi_head runs/disentangled --kind decoder
    python -m recipes.attention_maps ablation runs/multi_head runs/disentangled

`image` draws what one pixel attends to, of runs of `recipes.imagenet`, one below the other (Wang et al. 2021, "Evolving
attention with residual convolutions", figures 4 and 7 to 10). `text` draws maps of a run of `recipes.translate`, and of
evolving attention its two parts (figure 11). `classify` trains a network to tell the class of an image from what its
middle pixel attends to (table 7): the higher its accuracy, the more of the image is in the map.

Of runs of `recipes.translate`, on the first sentences of a test set and their translations: `redundancy` measures how
much heads repeat each other ("Disentangled mask attention", LR, HR and figure 3), `queries` draws where the heads'
queries lie (figures 6 to 8), for TensorBoard's projector, too, and `ablation` how much less BLEU greedy translations
have without each head (An et al. 2020, "Repulsive attention", figure 2). Of those of `--attention disentangled_mask`
besides: `clusters`, those of a sentence's tokens (figure 5), and `tokens`, those that each cluster has most of (4).

Layers are counted from 1 in the order in which they are called, or from the last, -1.
"""

import argparse
import functools
import pathlib
import sys

import numpy as np


def main(arguments=None):
    options = _parser().parse_args(arguments)
    from recipes.engine.quiet import quiet_tensorflow

    quiet_tensorflow()
    try:
        COMMANDS[options.command](options)
    except (ValueError, OSError, ImportError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted.")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m recipes.attention_maps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    image = commands.add_parser("image", help="what one pixel attends to, over the image")
    text = commands.add_parser("text", help="what the tokens of a sentence attend to")
    classify = commands.add_parser("classify", help="accuracy of a classifier that sees maps alone")
    for command in (image, classify):
        command.add_argument("runs", nargs="+", help="folders of finished runs of recipes.imagenet")
    text.add_argument("runs", nargs=1, help="folder of a finished run of recipes.translate")
    clusters = commands.add_parser("clusters", help="clusters of a sentence's tokens, and the mask they make")
    tokens = commands.add_parser("tokens", help="the tokens that each cluster has most of")
    redundancy = commands.add_parser("redundancy", help="how much heads repeat each other")
    queries = commands.add_parser("queries", help="where the queries of heads lie, by t-SNE")
    for command in (clusters, tokens):
        command.add_argument("runs", nargs=1, help="folder of a finished run of recipes.translate")
    for command in (redundancy, queries):
        command.add_argument("runs", nargs="+", help="folders of finished runs of recipes.translate")
    ablation = commands.add_parser("ablation", help="how much worse translations are without each head")
    ablation.add_argument("runs", nargs="+", help="folders of finished runs of recipes.translate")
    ablation.add_argument("--output", default="ablation.png", help="[ablation.png]")
    for command in (tokens, redundancy, queries, ablation):
        command.add_argument("--sentences", type=int, default=100, help="so many of a test set [100]")
    for command in (image, text, classify):
        command.add_argument("--layers", nargs="+", type=int, default=[-3, -2, -1], help="[-3 -2 -1]")
    image.add_argument("--files", nargs="+", required=True, help="image files")
    image.add_argument("--heads", nargs="+", type=int, help="counted from 0 [all]")
    image.add_argument("--pixel", nargs=2, type=int, help="row and column of what the network sees [its middle]")
    image.add_argument("--output", default="maps.png", help="of several files their names are added [maps.png]")
    for command in (text, clusters):
        command.add_argument("--sentence", required=True, help="of the source language")
    for command in (text, clusters, tokens, redundancy, queries):
        kinds = ("encoder", "decoder", "cross")
        command.add_argument("--kind", choices=kinds, default="encoder", help="which attention [encoder]")
        command.add_argument("--output", default="maps.png", help="[maps.png]")
    for command in (text, clusters, tokens):
        command.add_argument("--head", type=int, default=0, help="counted from 0 [0]")
    for command in (clusters, tokens, queries):
        command.add_argument("--layer", type=int, default=-1, help="[-1]")
    queries.add_argument("--points", type=int, default=300, help="tokens of each head to draw [300]")
    queries.add_argument("--projector", help="folder to write them to for TensorBoard's projector, too")
    tokens.add_argument("--cluster", type=int, default=0, help="the one that is drawn, counted from 0 [0]")
    tokens.add_argument("--top", type=int, default=15, help="tokens of each [15]")
    tokens.add_argument("--leave-out", nargs="+", metavar="WORD", help="not to be shown [English stop words]")
    classify.add_argument("--epochs", type=int, default=30, help="[30]")
    classify.add_argument("--filters", type=int, default=256, help="width of the classifier's first stage [256]")
    classify.add_argument("--images", type=int, help="use only so many images of each split [all]")
    return parser


def _image(options):
    import tensorflow as tf

    from keras_headattn.analysis import attention_maps, draw_image_maps
    from recipes.images.data import evaluation_pixels
    from recipes.images.map_accuracy import map_sizes
    from recipes.images.run import Run

    for name in options.files:
        if not pathlib.Path(name).is_file():
            raise FileNotFoundError(f"There is no file {name}")
    runs = [Run(folder) for folder in options.runs]
    models = [(run.folder.name, run.load_model(), evaluation_pixels(run.config())) for run in runs]
    for name in options.files:
        maps, sizes = {}, {}
        for title, model, pixels_of in models:
            pixels = pixels_of(tf.io.read_file(name))
            recorded, size_of = attention_maps(model, pixels[None]), map_sizes(model)
            for number, path in _chosen(recorded, options.layers).items():
                maps[f"{title}\nlayer {number}"] = recorded[path].weights[0]
                sizes[f"{title}\nlayer {number}"] = size_of[path]
        # The models standardise what they are given: pixels are those of the image.
        figure = draw_image_maps(pixels.numpy() / 255, maps, sizes, options.pixel, options.heads)
        output = pathlib.Path(options.output)
        if len(options.files) > 1:
            output = output.with_stem(f"{output.stem}-{pathlib.Path(name).stem}")
        figure.savefig(output, dpi=120)
        print(output)


def _chosen(maps, numbers):
    """Paths of the layers of these numbers, by number from 1."""
    paths = list(maps)
    wrong = [number for number in numbers if not 1 <= abs(number) <= len(paths)]
    if wrong:
        raise ValueError(f"The model has {len(paths)} attention layers. Received: --layers {' '.join(map(str, wrong))}")
    places = [number - 1 if number > 0 else len(paths) + number for number in numbers]
    return {place + 1: paths[place] for place in places}


def _text(options):
    from keras_headattn.analysis import draw_text_maps
    from recipes.translation.text_maps import maps_of_sentence

    run = _translation_run(options.runs[0])
    translation, maps = maps_of_sentence(run, options.sentence, options.kind)
    chosen = {f"layer {number}": maps.layers[path] for number, path in _chosen(maps.layers, options.layers).items()}
    figure = draw_text_maps(chosen, (maps.queries[0], maps.keys[0]), head=options.head)
    figure.savefig(options.output, dpi=120)
    print(f"{options.sentence}\n{translation}\n{options.output}")


def _clusters(options):
    from keras_headattn.analysis import draw_clusters
    from recipes.translation.text_maps import maps_of_sentence

    run = _translation_run(options.runs[0])
    _, maps = maps_of_sentence(run, options.sentence, options.kind)
    ((_, (posteriors, of_keys)),) = _posteriors(run, maps, [options.layer]).items()
    head = _head(options.head, posteriors)
    keys = maps.keys[0], of_keys[0, head]
    draw_clusters(maps.queries[0], posteriors[0, head], keys).savefig(options.output, dpi=120)
    if options.kind == "decoder":
        print("This is the mask of training: a decoder's self-attention has none when it translates.")
    print(options.output)


def _tokens(options):
    from keras_headattn.analysis import cluster_tokens, draw_cluster_tokens
    from recipes.translation.text_maps import maps_of_test

    run = _translation_run(options.runs[0])
    of_tokens, tokens = [], []
    for maps in maps_of_test(run, options.sentences, options.kind):
        ((number, (posteriors, _)),) = _posteriors(run, maps, [options.layer]).items()
        head, clusters = _head(options.head, posteriors), posteriors.shape[-1]
        if not 0 <= options.cluster < clusters:
            raise ValueError(f"There are {clusters} clusters. Received: --cluster {options.cluster}")
        of_tokens.append(posteriors[:, head][maps.mask])
        tokens += [token for sentence in maps.queries for token in sentence]
    clusters = cluster_tokens(np.concatenate(of_tokens), tokens, options.top, options.leave_out)
    for cluster, found in enumerate(clusters):
        print(f"cluster {cluster}: {' '.join(found)}")
    title = f"layer {number}, head {options.head}, cluster {options.cluster}"
    draw_cluster_tokens(clusters[options.cluster], title).savefig(options.output, dpi=120)
    print(options.output)


def _redundancy(options):
    from keras_headattn.analysis import draw_head_redundancy, head_redundancy_matrix, layer_redundancy
    from recipes.translation.text_maps import maps_of_test

    matrices = {}
    for folder in options.runs:
        run = _translation_run(folder)
        layers, heads, tokens = [], [], []  # of each batch
        for maps in maps_of_test(run, options.sentences, options.kind):
            layers.append(layer_redundancy(maps.layers, maps.mask))
            heads.append(head_redundancy_matrix(maps.layers, maps.mask))
            tokens.append(maps.mask.sum())
        matrices[folder] = np.average(heads, axis=0, weights=tokens)
        layer, whole = np.average(layers, weights=tokens), matrices[folder].mean()
        print(f"{folder}, {options.kind}: LR {layer:.3f}, HR {whole:.3f}", flush=True)
    draw_head_redundancy(matrices).savefig(options.output, dpi=120)
    print(options.output)


def _queries(options):
    from keras_headattn.analysis import draw_queries
    from recipes.translation.text_maps import maps_of_test

    found, tokens = {}, {}
    for folder in options.runs:
        run = _translation_run(folder)
        parts, tokens[folder] = [], []
        for maps in maps_of_test(run, options.sentences, options.kind):
            (path,) = _chosen(maps.layers, [options.layer]).values()
            parts.append(maps.layers[path].queries.swapaxes(0, 1)[:, maps.mask])
            tokens[folder] += [token for sentence in maps.queries for token in sentence]
        found[folder] = np.concatenate(parts, axis=1)
    if options.projector:
        _write_queries(options.projector, found, tokens)
    draw_queries(found, options.points).savefig(options.output, dpi=120)
    print(options.output)


def _ablation(options):
    from keras_headattn.analysis import draw_head_ablation, head_ablation
    from recipes.translation.evaluation import named_metrics
    from recipes.translation.text import make_text
    from recipes.translation.text_maps import lines_of_test
    from recipes.translation.translator import Translator

    drops = {}
    for folder in options.runs:
        run = _translation_run(folder)
        sources, references = lines_of_test(run, options.sentences, "sources", "references")
        config, transformer = run.config(), run.load_model()
        (bleu,) = named_metrics(["bleu"], config.target_language)
        translate = Translator(transformer, make_text(config, None, run.folder), config, beam_size=1)

        def measure(bleu=bleu, translate=translate, sources=sources, references=references):
            return bleu([translation.text for translation in translate(sources)], references).value

        drops[folder] = head_ablation(transformer, measure, verbose=True)
        for path, heads in drops[folder].items():
            print(f"{folder}, {path}: " + " ".join(f"{drop:.2f}" for drop in heads))
    draw_head_ablation(drops, measure="BLEU").savefig(options.output, dpi=120)
    print(options.output)


def _write_queries(folder, queries, tokens):
    """Queries `(h, N, d)` by name for TensorBoard's projector, each with its head and its token."""
    from keras_headattn.training import write_projector

    embeddings = {}
    for name, found in queries.items():
        heads, length = found.shape[:2]
        labels = {"token": tokens[name] * heads, "head": [head for head in range(heads) for _ in range(length)]}
        embeddings[name.strip("/").replace("/", "_")] = found.reshape(heads * length, -1), labels
    write_projector(folder, embeddings)
    print(f"tensorboard --logdir {folder}")


def _translation_run(folder):
    from recipes.translation.run import Run

    return Run(folder)


def _posteriors(run, maps, numbers):
    """Posteriors of clusters of queries and keys, each `(B, h, n, C)`, by number of the layer."""
    layers = {number: maps.layers[path] for number, path in _chosen(maps.layers, numbers).items()}
    if any(layer.posteriors is None for layer in layers.values()):
        raise ValueError(
            "Attention of clusters is that of --attention disentangled_mask. "
            f"Received: {run.folder}, attention={run.config().attention}"
        )
    return {number: (layer.posteriors, layer.key_posteriors) for number, layer in layers.items()}


def _head(head, posteriors):
    if not 0 <= head < posteriors.shape[1]:
        raise ValueError(f"The layer has {posteriors.shape[1]} heads. Received: --head {head}")
    return head


def _classify(options):
    from recipes.images.map_accuracy import map_accuracy
    from recipes.images.run import Run

    for folder in options.runs:
        run = Run(folder)
        choose = functools.partial(_chosen, numbers=options.layers)
        accuracies = map_accuracy(run, choose, options.epochs, options.filters, options.images)
        for number, accuracy in accuracies.items():
            print(f"{run.folder.name}, layer {number}: {accuracy:.2%}", flush=True)


COMMANDS = {
    "image": _image,
    "text": _text,
    "classify": _classify,
    "clusters": _clusters,
    "tokens": _tokens,
    "redundancy": _redundancy,
    "queries": _queries,
    "ablation": _ablation,
}

if __name__ == "__main__":
    main()
