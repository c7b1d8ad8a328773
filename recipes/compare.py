"""Finished runs side by side, as tables and as pictures.

    python -m recipes.compare scores runs/standard runs/svgd runs/spos
    python -m recipes.compare reliability runs/standard runs/svgd --output reliability.png
    python -m recipes.compare entropy runs/standard runs/svgd --file texts_of_another_domain.txt
    python -m recipes.compare ablation runs/standard runs/svgd
    python -m recipes.compare heatmap runs/standard runs/svgd --text "the food is amazing" --output heads.html
    python -m recipes.compare errors runs/*

A run is a folder of one, or that of several seeds, as `--seeds` makes it. `scores` is a table of means and standard
deviations, with p values of paired t-tests of each run against the first one, over the seeds both have, and for tasks
of language models McNemar's test over their items. It is of any recipe's runs. In a folder of such folders,
`seed=1/seed=1` and so on, the mean of each is one value: say, of the fine-tunings of one of several pre-trainings. The
others draw figures of An et al. 2020, "Repulsive attention", of runs of `recipes.classify` and `recipes.glue`:

- `reliability`, figure 4: accuracy against confidence, of all seeds together;
- `entropy`, figure 5: how unsure predictions are on texts of another domain, of the first seed;
- `ablation`, figure 2: by how much accuracy drops without each head, of the first seed, a bar for each head, or,
  with `--bins`, a histogram as in the paper;
- `heatmap`, figures 1 and 6 to 10: where heads look, as a picture or a page of HTML, of the first seed;
- `errors`, figure 3: the error against the number of heads, of runs that differ in it.

The last two are of runs of `recipes.classify`, whose pooling has heads.
"""

import functools
import pathlib

import numpy as np
from scipy import stats

from keras_headattn._files import read_json, read_lines
from keras_headattn._sentences import read_sentences
from keras_headattn._terminal import shows_bar
from keras_headattn.analysis import (
    draw_entropy_cdf,
    draw_error_by_heads,
    draw_head_ablation,
    draw_reliability,
    draw_word_scores,
    head_ablation,
    head_scores,
    write_word_scores,
)
from recipes.engine.command import make_parser, one_line_errors
from recipes.engine.finished import by_title, folders_of_seeds, indices, new_path, save
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.report import markdown_table, mean_text
from recipes.engine.run import Run
from recipes.engine.seeds import summary
from recipes.engine.settings import Devices, Output, changeable
from recipes.engine.tables import paired_test
from recipes.engine.texts.data import read_tests
from recipes.engine.texts.predicting import load_predictor, runs_of
from recipes.glue import data as glue

READ_TESTS = {"classify": read_tests, "glue": glue.read_tests}  # by the name of the recipe


def main(arguments=None):
    options = _parser().parse_args(arguments)
    quiet_tensorflow()
    with one_line_errors():
        COMMANDS[options.command](options)


def _parser():
    parser = make_parser("compare", __doc__)
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    helps = {
        "scores": "means, deviations and p values of all measures",
        "reliability": "accuracy against confidence",
        "entropy": "how unsure predictions are on texts of another domain",
        "ablation": "how much accuracy is lost without each head",
        "heatmap": "which words each head looks at",
        "errors": "error against the number of heads",
    }
    added = {name: commands.add_parser(name, help=text) for name, text in helps.items()}
    for name, command in added.items():
        command.add_argument("runs", nargs="+", help="folders of finished runs, or of their seeds")
        if name not in ("entropy", "heatmap"):
            command.add_argument("--set", help="the test set [the first that all runs have]")
        if name != "scores":
            command.add_argument(
                "--output", default=new_path(f"{name}.png"), help=f".png, .svg or .pdf [{name}.png, then {name}-2.png]"
            )
    added["scores"].add_argument("--measures", nargs="+", help="[all]")
    added["entropy"].add_argument("--file", required=True, help="a text a line, .gz too")
    added["ablation"].add_argument("--examples", type=int, default=1000, help="use so many of the test set [1000]")
    added["ablation"].add_argument("--bins", type=int, help="bars of a histogram of all heads [a bar for each head]")
    added["heatmap"].add_argument("--text", nargs="+", required=True, help="a text, or, as HTML, several")
    added["heatmap"].add_argument("--heads", nargs="+", type=int, help="counted from 1 [all]")
    return parser


def _runs(options):
    """Runs by seed of each title."""
    return by_title(options.runs, runs_of)


def _scores_and_test(options):
    """Returns the scores by title and seed on the test set, and its name."""
    scores = by_title(options.runs, scores_by_seed)
    test = options.set or common_test(scores)
    return on_test(scores, test), test


def _predictors(options):
    """Returns the run of each title, of several seeds the first, and its predictor."""
    runs = {title: _of_classes(next(iter(seeds.values()))) for title, seeds in _runs(options).items()}
    return {title: (run, load_predictor(run)) for title, run in runs.items()}


def _of_classes(run):
    if run.read_config().predicts != "class":
        raise ValueError(f"{run.folder} predicts no classes. Received: {run.read_config().predicts}")
    return run


def _with_pooling(run):
    if not hasattr(_of_classes(run).read_config(), "pooling_heads"):
        raise ValueError(f"The run must have a pooling with heads. Received: {run.folder}, of {run.recipe.name}")
    return run


def _scores(options):
    scores, test = _scores_and_test(options)
    print(f"{test}: mean ± standard deviation; p of a paired t-test against {next(iter(scores))}\n")
    print(markdown(scores, options.measures), end="")
    first, *others = by_title(options.runs, functools.partial(right_by_seed, test=test)).items()
    for title, seeds in others:
        for seed in sorted(seeds.keys() & first[1].keys()):
            gained, lost, p = mcnemar(first[1][seed], seeds[seed])
            counts = f"{title} alone has {gained} right, {first[0]} alone {lost}"
            print(f"\nitems, seed {seed}: {counts}; McNemar's p {p:.2g}")


def right_by_seed(folder, test):
    """Returns which items of a task the runs in a folder have right: dictionary from seed to boolean `(N,)`."""
    files = {path: path / "results" / test / "right.json" for path in folders_of_seeds(folder)}
    return {
        _seed(path / "config.json"): np.array(read_json(file), bool) for path, file in files.items() if file.exists()
    }


def mcnemar(right, other_right):
    """Compares two models by the items that one alone has right (McNemar 1947, exact).

    Returns:
        Number of items that only the other has right, number that only the first has right, and the p value.

    >>> mcnemar(np.array([1, 1, 0, 0, 0, 0], bool), np.array([1, 0, 1, 1, 1, 0], bool))
    (3, 1, 0.625)
    """
    if len(right) != len(other_right):
        raise ValueError(f"The runs must have the same items. Received: {len(right)} and {len(other_right)} items")
    gained, lost = int((other_right & ~right).sum()), int((right & ~other_right).sum())
    return gained, lost, float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def _reliability(options):
    runs, (_, test) = _runs(options), _scores_and_test(options)
    predictions = {title: read_predictions(seeds, test) for title, seeds in runs.items()}
    save(draw_reliability(predictions, title=f"Accuracy against confidence, {test}"), options.output)


def read_predictions(runs, test):
    """Reads labels `(N,)` and probabilities `(N, C)` on a test set, of all seeds one below the other."""
    labels, probabilities = [], []
    for run in runs.values():
        if run.read_config().predicts != "class":
            raise ValueError(f"{run.folder} predicts no classes. Received: {run.read_config().predicts}")
        names = list(read_lines(run.folder / "labels.txt"))
        header, *lines = read_lines(run.results / test / "predictions.tsv")
        rows = [line.split("\t") for line in lines]
        labels += [names.index(row[0]) for row in rows]
        probabilities += [[float(value) for value in row[2 : 2 + len(names)]] for row in rows]
    return np.array(labels), np.array(probabilities)


def _entropy(options):
    texts, predictors = list(read_sentences(options.file)), _predictors(options)
    if pairs := [title for title, (run, _) in predictors.items() if run.read_config().is_pair]:
        raise ValueError(f"--file has single texts. Received: runs that classify pairs of texts: {', '.join(pairs)}")
    predictions = {title: predict(texts) for title, (_, predict) in predictors.items()}
    save(
        draw_entropy_cdf(predictions, f"How unsure predictions are, {pathlib.Path(options.file).name}"), options.output
    )


def _ablation(options):
    predictors, drops = _predictors(options), {}
    corpora = {title: READ_TESTS[run.recipe.name](run.read_config()) for title, (run, _) in predictors.items()}
    common = [name for name in next(iter(corpora.values())) if all(name in tests for tests in corpora.values())]
    if not common or options.set not in (None, *common):
        raise ValueError(
            f"Heads are left out on a test set of all runs' settings: {', '.join(common) or 'there is none'}. "
            f"Received: --set {options.set}"
        )
    test = options.set or common[0]
    for title, (run, predictor) in predictors.items():
        corpus = corpora[title][test]
        labels = predictor.targets.of(corpus)[: options.examples]
        sides = [side and side[: options.examples] for side in (corpus.texts, corpus.second_texts)]

        def accuracy(run=run, model=predictor.model, labels=labels, sides=sides):
            return (load_predictor(run, model)(*sides).argmax(axis=1) == labels).mean()

        drops[title] = head_ablation(predictor.model, accuracy, verbose=shows_bar())
        for path, heads in drops[title].items():
            print(f"{title}, {path}: " + " ".join(f"{drop:.4f}" for drop in heads))
    save(draw_head_ablation(drops, options.bins, title=f"Drop in accuracy without each head, {test}"), options.output)


def _heatmap(options):
    as_html = pathlib.Path(options.output).suffix == ".html"
    if len(options.text) > 1 and not as_html:
        raise ValueError(f"--output must end in .html for several texts. Received: {options.output}")
    for seeds in _runs(options).values():
        _with_pooling(next(iter(seeds.values())))
    predictors = _predictors(options)
    pages = [_maps(predictors, text) for text in options.text]
    heads = options.heads and indices("--heads", options.heads, min(map(len, pages[0][1].values())))
    texts, title = [head_scores(*page, heads) for page in pages], "What the heads attend to"
    if as_html:
        write_word_scores(options.output, texts, title)
        print(options.output)
    else:
        save(draw_word_scores(texts, title), options.output)


def _maps(predictors, text):
    """Tokens of a text, and the weights of each model's heads."""
    maps, all_tokens = {}, []
    for title, (_, predictor) in predictors.items():
        tokens, maps[title] = predictor.attention(text)
        all_tokens.append(tokens)
    if any(tokens != all_tokens[0] for tokens in all_tokens):
        raise ValueError(f"The runs must split the text into the same tokens. Draw them one by one. Received: {text}")
    return all_tokens[0], maps


def _errors(options):
    runs, (scores, test) = _runs(options), _scores_and_test(options)
    errors, settings = {}, {}
    for title, seeds in runs.items():
        config = _with_pooling(next(iter(seeds.values()))).read_config()
        kinds = [kind for kind in (config.repulsive, config.attention_regularizer) if kind != "none"]
        kind = " + ".join(kinds) or "standard"
        alike = {"pooling_heads", "seed", *changeable(Devices, Output)}
        ours = {name: value for name, value in vars(config).items() if name not in alike}
        if differing := [name for name, value in settings.setdefault(kind, ours).items() if ours[name] != value]:
            raise ValueError(
                f"Runs that are one line of the picture differ in heads and seed alone. Received: {kind} with "
                + ", ".join(f"{name}={settings[kind][name]} and {ours[name]}" for name in differing)
            )
        row = errors.setdefault(kind, {}).setdefault(config.pooling_heads, [])
        row += [1 - values["accuracy"] for values in scores[title].values()]
    save(draw_error_by_heads(errors, title=f"Error by the number of heads, {test}"), options.output)


def scores_by_seed(folder):
    """Returns the scores of the finished runs in a folder: one run, or those of several seeds.

    In a folder of such folders, `seed=1/seed=1` and so on, each has the means of its runs: say, of the fine-tunings of
    one of several pre-trainings.

    Returns:
        Dictionary from seed to test set to measure to value or `None`, sorted by seed.

    Raises:
        ValueError: if there is no finished run.
    """
    by_seed = {}
    for path in folders_of_seeds(folder):
        if scores := Run(path, recipe=None).scores():
            by_seed[_seed(path / "config.json")] = scores
    if not by_seed:
        by_seed = {int(path.name.removeprefix("seed=")): _means(path) for path in pathlib.Path(folder).glob("seed=*/")}
    if not by_seed:
        raise ValueError(
            f"There is no finished run in the folder. Train one first, or several by --seeds. Received: {folder}"
        )
    return dict(sorted(by_seed.items()))


def _seed(path):
    settings = read_json(path)
    if not isinstance(settings, dict) or not isinstance(settings.get("seed"), int):
        raise ValueError(f"The settings of a run must have a seed. Received: {path}")
    return settings["seed"]


def _means(folder):
    return {
        test: {measure: values["mean"] for measure, values in measures.items()}
        for test, measures in summary(scores_by_seed(folder)).items()
    }


def common_test(scores):
    """The first test set that all runs have; an error if there is none. Takes scores by title, as `scores_by_seed`
    returns them.

    >>> common_test({"plain": {0: {"new": {}, "test": {}}}, "svgd": {0: {"test": {}}}})
    'test'
    """
    common = set.intersection(*(set(tests) for seeds in scores.values() for tests in seeds.values()))
    if not common:
        raise ValueError(
            "The runs must have a test set in common. Score one by the command `evaluate` of each. "
            f"Received: {', '.join(scores)}"
        )
    return sorted(common)[0]


def on_test(scores, test):
    """The scores on one test set: from title to seed to measure to value. Takes scores by title, as `scores_by_seed`
    returns them; those on different numbers of examples are a `ValueError`.
    """
    sizes = {}
    for title, seeds in scores.items():
        for seed, tests in seeds.items():
            if test not in tests:
                raise ValueError(
                    f"{title}, seed {seed}, has results on: {', '.join(sorted(tests))}. Received: --set {test}"
                )
            sizes.setdefault(tests[test].get("examples"), title)
    if len(sizes.keys() - {None}) > 1:
        received = ", ".join(f"{size:,} in {title}" for size, title in sizes.items() if size is not None)
        raise ValueError(f"Compare runs on the same examples of {test}: evaluate them again. Received: {received}")
    return {title: {seed: tests[test] for seed, tests in seeds.items()} for title, seeds in scores.items()}


def markdown(scores, measures=None):
    """Table of means, standard deviations and p values of what `on_test` returns; the others are compared with the
    first.

    >>> print(markdown({"plain": {0: {"f1": 0.5}}, "svgd": {0: {"f1": 0.7}}}))
    | | plain | svgd | p |
    |---|---:|---:|---:|
    | f1 | 0.5000 | 0.7000 | – |
    <BLANKLINE>
    """
    first, *others = scores
    known = [measure for measure in next(iter(scores[first].values())) if measure != "examples"]
    if measures and (unknown := set(measures) - set(known)):
        raise ValueError(f"The measures are {', '.join(known)}. Received: {', '.join(sorted(unknown))}")
    rows = []
    for measure in measures or known:
        columns = {title: _values(seeds, measure) for title, seeds in scores.items()}
        rows.append([measure, mean_text(columns[first].values())])
        for other in others:
            p = paired_test(columns[first], columns[other])
            rows[-1] += [mean_text(columns[other].values()), "–" if p is None else f"{p:.2g}"]
    return "\n".join(markdown_table([first, *(part for other in others for part in (other, "p"))], rows)) + "\n"


def _values(seeds, measure):
    return {seed: scores[measure] for seed, scores in seeds.items() if scores.get(measure) is not None}


COMMANDS = {
    "scores": _scores,
    "reliability": _reliability,
    "entropy": _entropy,
    "ablation": _ablation,
    "heatmap": _heatmap,
    "errors": _errors,
}

if __name__ == "__main__":
    main()
