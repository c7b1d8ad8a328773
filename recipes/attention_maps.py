"""What attention does in finished runs: pictures of maps, and how much of an image a map keeps.

    python -m recipes.attention_maps image runs/aa runs/ea --files bird.jpg --layers -3 -2 -1
    python -m recipes.attention_maps text runs/evolving --sentence "a man sleeps ." --layers 2 3
    python -m recipes.attention_maps classify runs/aa runs/ea --layers -3 -2 -1

`image` draws what one pixel attends to, of runs of `recipes.imagenet`, one below the other (Wang et al. 2021, "Evolving
attention with residual convolutions", figures 4 and 7 to 10). `text` draws maps of a run of `recipes.translate`, and of
evolving attention its two parts (figure 11). `classify` trains a network to tell the class of an image from what its
middle pixel attends to (table 7): the higher its accuracy, the more of the image is in the map.

Layers are counted from 1 in the order in which they are called, or from the last, -1.
"""

import argparse
import functools
import pathlib
import sys


def main(arguments=None):
    options = _parser().parse_args(arguments)
    from recipes.quiet import quiet_tensorflow

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
    for command in (image, text, classify):
        command.add_argument("--layers", nargs="+", type=int, default=[-3, -2, -1], help="[-3 -2 -1]")
    image.add_argument("--files", nargs="+", required=True, help="image files")
    image.add_argument("--heads", nargs="+", type=int, help="counted from 0 [all]")
    image.add_argument("--pixel", nargs=2, type=int, help="row and column of what the network sees [its middle]")
    image.add_argument("--output", default="maps.png", help="of several files their names are added [maps.png]")
    text.add_argument("--sentence", required=True, help="of the source language")
    kinds = ("encoder", "decoder", "cross")
    text.add_argument("--kind", choices=kinds, default="encoder", help="which attention [encoder]")
    text.add_argument("--head", type=int, default=0, help="counted from 0 [0]")
    text.add_argument("--output", default="maps.png", help="[maps.png]")
    classify.add_argument("--epochs", type=int, default=30, help="[30]")
    classify.add_argument("--filters", type=int, default=256, help="width of the classifier's first stage [256]")
    classify.add_argument("--images", type=int, help="use only so many images of each split [all]")
    return parser


def _image(options):
    import tensorflow as tf

    from keras_headattn.analysis import attention_maps, draw_image_maps
    from recipes.classification.data import evaluation_pixels
    from recipes.classification.map_accuracy import map_sizes
    from recipes.classification.run import Run

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
    from keras_headattn.analysis import attention_maps, draw_text_maps
    from recipes.data.buckets import pad_ids
    from recipes.translation.run import Run
    from recipes.translation.tensorboard import pieces
    from recipes.translation.text import make_text
    from recipes.translation.translator import Translator

    run = Run(options.runs[0])
    config = run.config()
    text, transformer = make_text(config, None, run.folder), run.load_model()
    (translation,) = Translator(transformer, text, config)([options.sentence])
    (source,), (target,) = text.encode_source([options.sentence]), text.encode_target([translation.text])
    shifted = [text.target.bos_id, *target[:-1]]
    inputs = {"source": pad_ids([source], 1, len(source)), "target": pad_ids([shifted], 1, len(shifted))}
    read, written = pieces(text.source, source), pieces(text.target, shifted)
    kinds = {"encoder": (read, read), "decoder": (written, written), "cross": (written, read)}
    maps = attention_maps(transformer, inputs)
    wanted = {"encoder": "encoder_", "decoder": "decoder_", "cross": "decoder_"}[options.kind]
    last = "/cross_attention" if options.kind == "cross" else "/attention"
    maps = {path: layer for path, layer in maps.items() if f"/{wanted}" in path and path.endswith(last)}
    chosen = {f"layer {number}": maps[path] for number, path in _chosen(maps, options.layers).items()}
    draw_text_maps(chosen, kinds[options.kind], head=options.head).savefig(options.output, dpi=120)
    print(f"{options.sentence}\n{translation.text}\n{options.output}")


def _classify(options):
    from recipes.classification.map_accuracy import map_accuracy
    from recipes.classification.run import Run

    for folder in options.runs:
        run = Run(folder)
        choose = functools.partial(_chosen, numbers=options.layers)
        accuracies = map_accuracy(run, choose, options.epochs, options.filters, options.images)
        for number, accuracy in accuracies.items():
            print(f"{run.folder.name}, layer {number}: {accuracy:.2%}", flush=True)


COMMANDS = {"image": _image, "text": _text, "classify": _classify}

if __name__ == "__main__":
    main()
