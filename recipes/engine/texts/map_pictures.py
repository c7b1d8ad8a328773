"""Attention maps of a text in finished runs of classification."""

from keras_headattn.analysis import attention_maps, draw_text_maps
from keras_headattn.serving import Classifier
from recipes.engine.finished import by_title, chosen_layers, indices, save
from recipes.engine.texts.predicting import load_predictor, recipe_of, sides_of
from recipes.engine.texts.training import model_inputs


def text(options):
    """Draws the maps of a text, or of a pair with a tab between, of several runs one below the other."""
    if options.kind != "encoder":
        raise ValueError(f"--kind must be encoder for runs of classification. Received: kind={options.kind!r}")
    print(options.sentence)
    results = {title: _maps(title, folder, options) for title, folder in by_title(options.runs, str).items()}
    (tokens, *others) = [tokens for tokens, _ in results.values()]
    if any(other != tokens for other in others):
        raise ValueError(
            f"The runs must split the text into the same tokens. Draw them one by one. Received: {options.sentence}"
        )
    numbered = [(number, title, maps) for title, (_, layers) in results.items() for number, maps in layers.items()]
    numbered.sort(key=lambda item: item[0])  # stable: runs stay in order
    layers = {f"{title}, layer {number}": maps for number, title, maps in numbered}
    head, title = None, options.sentence
    if options.head is not None:
        (head,) = indices("--head", [options.head], min(maps.weights.shape[1] for maps in layers.values()))
        title += f" Head {options.head}"
    save(draw_text_maps(layers, tokens, head=head, title=title), options.output)


def _maps(title, folder, options):
    """Prints a run's answer; returns the tokens of the text and the `AttentionMaps` by number of the layer."""
    run = recipe_of(folder).run_of(folder)
    predictor, is_pair = load_predictor(run), run.read_config().is_pair
    _, sides = sides_of([options.sentence], is_pair, "--sentence")
    if not isinstance(predictor, Classifier) or (is_pair and not predictor.joins_pairs):
        raise ValueError(f"The run must have an encoder that reads a text, or a pair, at once. Received: {folder}")
    ids = next(iter(predictor.columns(*sides).values()))[0]
    ((_, inputs),) = predictor.batches(*sides, batch_size=1)
    maps = attention_maps(predictor.model, model_inputs(inputs), training=False)
    (answer,) = predictor.targets.cells(predictor(*sides))
    print(f"{title}: {answer}")
    layers = {number: maps[path] for number, path in chosen_layers(maps, options.layers).items()}
    return [predictor.tokenizer.id_to_token(int(token)) for token in ids], layers
