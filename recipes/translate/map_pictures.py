"""Attention in finished runs of translation: the commands of `recipes.attention_maps`."""

import numpy as np

from keras_headattn._terminal import shows_bar
from keras_headattn.analysis import (
    cluster_tokens,
    draw_cluster_tokens,
    draw_clusters,
    draw_head_ablation,
    draw_head_redundancy,
    draw_queries,
    draw_text_maps,
    head_ablation,
)
from keras_headattn.training import write_projector
from recipes.engine.finished import by_title, chosen_layers, indices, save, titles
from recipes.translate import evaluation
from recipes.translate.__main__ import RECIPE
from recipes.translate.text import make_text, make_translator
from recipes.translate.text_maps import (
    KINDS,
    lines_of_test,
    maps_of_sentence,
    maps_of_test,
    mean_redundancy,
    names_of_layers,
    num_heads,
)


def text(options):
    """Draws the maps of a sentence."""
    if len(options.runs) > 1:
        raise ValueError(f"Give one run of recipes.translate. Received: {' '.join(options.runs)}")
    run = RECIPE.run_of(options.runs[0])
    translation, maps = maps_of_sentence(run, options.sentence, options.kind)
    numbers = chosen_layers(maps.layers, options.layers)
    chosen = {f"layer {layer_number}": maps.layers[path] for layer_number, path in numbers.items()}
    head, title = None, _title(options)
    if options.head is not None:
        (head,) = indices("--head", [options.head], min(map(num_heads, chosen.values())))
        title += f", head {options.head}"
    figure = draw_text_maps(chosen, (maps.queries[0], maps.keys[0]), head=head, title=title)
    print(f"{options.sentence}\n{translation}")
    save(figure, options.output)


def clusters(options):
    """Draws the clusters of a sentence's tokens."""
    run = RECIPE.run_of(options.runs[0])
    _, maps = maps_of_sentence(run, options.sentence, options.kind)
    ((layer_number, (posteriors, of_keys)),) = _posteriors(run, maps, [options.layer]).items()
    (head,) = indices("--head", [options.head], posteriors.shape[1])
    keys = maps.keys[0], of_keys[0, head]
    title = f"{_title(options)}, layer {layer_number}, head {options.head}"
    if options.kind == "decoder":
        print("This is the mask of training: a decoder's self-attention has none when it translates.")
    save(draw_clusters(maps.queries[0], posteriors[0, head], keys, title), options.output)


def tokens(options):
    """Prints and draws the most frequent tokens of each cluster."""
    run = RECIPE.run_of(options.runs[0])
    of_tokens, tokens = [], []
    for maps in maps_of_test(run, options.sentences, options.kind):
        ((layer_number, (posteriors, _)),) = _posteriors(run, maps, [options.layer]).items()
        (head,) = indices("--head", [options.head], posteriors.shape[1])
        (chosen,) = indices("--cluster", [options.cluster], posteriors.shape[-1])
        of_tokens.append(posteriors[:, head][maps.mask])
        tokens += [token for sentence in maps.queries for token in sentence]
    clusters = cluster_tokens(np.concatenate(of_tokens), tokens, options.top, options.leave_out)
    for cluster, words in enumerate(clusters, 1):
        print(f"cluster {cluster}: {' '.join(words)}")
    title = f"{_title(options)}, layer {layer_number}, head {options.head}, cluster {options.cluster}"
    save(draw_cluster_tokens(clusters[chosen], title), options.output)


def redundancy(options):
    """Measures and draws how much heads repeat each other."""
    matrices, sizes = {}, {}
    for title, run in by_title(options.runs, RECIPE.run_of).items():
        maps = maps_of_test(run, options.sentences, options.kind)
        layer, matrices[title], sizes[title] = mean_redundancy(maps)
        print(f"{title}, {options.kind}: LR {layer:.3f}, HR {matrices[title].mean():.3f}", flush=True)
    title = f"How much heads repeat each other, {_kind(options)}"
    save(draw_head_redundancy(matrices, sizes, title), options.output)


def queries(options):
    """Draws the queries of heads by t-SNE."""
    queries_by_run, tokens, names = {}, {}, {}
    for title, run in by_title(options.runs, RECIPE.run_of).items():
        parts, words = [], []
        for maps in maps_of_test(run, options.sentences, options.kind):
            ((layer_number, path),) = chosen_layers(maps.layers, [options.layer]).items()
            layer = maps.layers[path]
            parts.append(layer.queries.swapaxes(0, 1)[:, maps.mask])
            words += [token for sentence in maps.queries for token in sentence]
        queries_by_run[title], tokens[title] = np.concatenate(parts, axis=1), words
        names[title] = f"{title}, layer {layer_number}"
        if len(queries_by_run[title]) < layer.weights.shape[1]:
            names[title] += ", sum of the heads' queries"
            print(f"{title}: attention sums the queries of its {layer.weights.shape[1]} heads. Their sum is drawn.")
    if options.projector:
        _write_queries(options.projector, queries_by_run, tokens)
    shown = {names[title]: queries for title, queries in queries_by_run.items()}
    save(draw_queries(shown, options.points, title=f"Queries by t-SNE, {_kind(options)}"), options.output)


def ablation(options):
    """Measures and draws how much worse translations are without each head."""
    drops = {}
    for title, run in by_title(options.runs, RECIPE.run_of).items():
        sources, references = lines_of_test(run, options.sentences, "sources", "references")
        config, transformer = run.read_config(), run.load_model()
        (bleu,) = evaluation.named_metrics(["bleu"], config.target_language)
        translate = make_translator(transformer, make_text(config, None, run.folder), **config.greedy_decoding)

        def measure(bleu=bleu, translate=translate, sources=sources, references=references):
            return bleu([translation.text for translation in translate(sources)], references).value

        drops_by_path = head_ablation(transformer, measure, verbose=shows_bar())
        names = sorted(names_of_layers(drops_by_path).items(), key=lambda item: KINDS.index(item[1].split()[0]))
        drops[title] = {name: drops_by_path[path] for path, name in names}
        for name, heads in drops[title].items():
            print(f"{title}, {name}: " + " ".join(f"{drop:.2f}" for drop in heads))
    save(draw_head_ablation(drops, options.bins, measure="BLEU"), options.output)


def _write_queries(folder, queries, tokens):
    """Writes queries `(h, N, d)` by name for TensorBoard's projector, each with its head and its token."""
    embeddings = {}
    for name, values in queries.items():
        heads, length = values.shape[:2]
        labels = {"token": tokens[name] * heads, "head": [head + 1 for head in range(heads) for _ in range(length)]}
        embeddings[name.strip("/").replace("/", "_")] = values.reshape(heads * length, -1), labels
    write_projector(folder, embeddings)
    print(f"tensorboard --logdir {folder}")


def _kind(options):
    return "cross-attention" if options.kind == "cross" else f"self-attention of the {options.kind}"


def _title(options):
    return f"{titles(options.runs)[0]}, {_kind(options)}"


def _posteriors(run, maps, numbers):
    """Posteriors of clusters of queries and keys, each `(B, h, n, C)`, by number of the layer."""
    layers = {layer_number: maps.layers[path] for layer_number, path in chosen_layers(maps.layers, numbers).items()}
    if any(layer.posteriors is None for layer in layers.values()):
        raise ValueError(
            "Attention of clusters is that of --attention disentangled_mask. "
            f"Received: {run.folder}, attention={run.read_config().attention}"
        )
    return {layer_number: (layer.posteriors, layer.key_posteriors) for layer_number, layer in layers.items()}
