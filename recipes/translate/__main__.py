"""Translation with any attention of this library: train, evaluate, export, translate.

    python -m recipes.translate --quick          two minutes, to see that everything works
    python -m recipes.translate                  the synthetic task: English numbers and dates to German
    python -m recipes.translate --train train.en train.de --validation val.en val.de --test test.en test.de
    python -m recipes.translate --train deu.txt --validation val.tsv --test test.tsv
    python -m recipes.translate --attention evolving --attention-arguments alpha=0.1 kernel_size=5
    python -m recipes.translate --pretrained opus-mt-en-de --attention multi_head --train ...
    python -m recipes.translate import opus-mt-en-de --run runs/opus
    python -m recipes.translate prepare --records records/mine --train ... --validation ...
    python -m recipes.translate lengths records/mine
    python -m recipes.translate evaluate runs/translate
    python -m recipes.translate export runs/translate
    python -m recipes.translate translate runs/translate < sentences.txt
    python -m recipes.translate score runs/translate source.en target.de
    python -m recipes.translate shortlist runs/translate train.en train.de
    python -m recipes.translate convert runs/translate ct2 --to ctranslate2 --quantization int8

The same command continues a run that was interrupted, from its last checkpoint, and ends as if it had not been.
After Ctrl-C or SIGTERM the state is saved; the exit code is 130 or 143.

Settings of papers are in configs/, with what they should score.
"""

import math
import os
import sys

from keras_headattn.data import Records
from keras_headattn.interop import read_shortlist
from recipes.engine.command import Command, portions, report_cut, sentences_in
from recipes.engine.finished import new_path
from recipes.engine.quiet import quiet_tensorflow
from recipes.engine.recipe import Recipe, check_readable, given_settings
from recipes.engine.run import Run
from recipes.translate.convert import convert
from recipes.translate.corpora import load_corpora, read_files
from recipes.translate.lengths import describe, draw
from recipes.translate.modelling import make_transformer
from recipes.translate.prepare import prepare
from recipes.translate.settings import DECODING, LEARNT_FROM, TranslateConfig
from recipes.translate.text import check_moses, learn_shortlist, load_text, load_translator, shortlist_path
from recipes.translate.train import check, evaluate, train, write

PORTION = 1024  # pairs that are scored at a time


def _check_files(config):
    check_readable(*config.train, *config.validation_files, *config.test, config.embeddings)
    for file in config.vocabulary:
        if not os.path.isfile(file):
            raise FileNotFoundError(f"--vocabulary must name files. Received: {file}")
    if config.pretrained and not os.path.isdir(config.pretrained):
        raise FileNotFoundError(f"--pretrained must be a folder of a Marian model. Received: {config.pretrained}")
    if len(config.train) == 2 and config.train[0] == config.train[1]:
        print(f"Source and target are the same file, {config.train[0]}: the model will learn to copy.")
    for name, files in (("validation", config.validation), ("test", config.test)):
        if same := set(files) & set(config.train):
            print(f"--{name} has a file to train on: scores will be too high. Received: {', '.join(sorted(same))}")


def _add_translate(parser):
    RECIPE.add_run(parser, DECODING)
    parser.add_argument(
        "file", nargs="?", default="-", help="one sentence a line, .gz, .xml, .sgm too; none: standard input"
    )
    parser.add_argument("--scores", action="store_true", help="a score and a tab before each translation")
    parser.add_argument(
        "--n-best", type=int, metavar="INT", help="so many translations of each sentence: NUMBER ||| TEXT ||| SCORE"
    )
    parser.add_argument(
        "--prefixes", metavar="FILE", help="the beginning of each translation, a line for each sentence; may be empty"
    )
    parser.add_argument(
        "--replace-unknown", action="store_true", help="unknown characters are copied from where heads look"
    )


def _translate(options):
    check_readable(*[path for path in (options.file, options.prefixes) if path])
    run, config = RECIPE.open(options.folder, given_settings(options, DECODING))
    most = config.search_arguments["num_samples"] or config.beam_size
    if options.n_best is not None and not 1 <= options.n_best <= most:
        raise ValueError(
            f"--n-best must be from 1 to {most}, the number of hypotheses; --beam-size gives more. "
            f"Received: n_best={options.n_best}, beam_size={config.beam_size}"
        )
    if options.prefixes and options.file != "-":
        numbers = [sum(1 for _ in sentences_in(path)) for path in (options.file, options.prefixes)]
        if numbers[0] != numbers[1]:
            raise ValueError(f"--prefixes must have a line for each of {numbers[0]} sentences. Received: {numbers[1]}")
    prefixes = sentences_in(options.prefixes) if options.prefixes else None
    how = dict(num_hypotheses=options.n_best or 1, replace_unknown=options.replace_unknown)
    translator = load_translator(run, config, run.load_model(), **how)
    if options.file == "-" and sys.stdin.isatty():
        print("Type a sentence and Enter; Ctrl-D ends.", file=sys.stderr)
    done, cut = 0, []
    for sentences in portions(options.file):
        batch_prefixes = prefixes and [next(prefixes, "") for _ in sentences]
        for done, translation in enumerate(translator(sentences, prefixes=batch_prefixes), done + 1):  # noqa: B020
            if options.n_best:
                for hypothesis in (translation, *translation.others):
                    print(f"{done} ||| {hypothesis.text} ||| {hypothesis.score:.4f}", flush=True)
            else:
                score = f"{translation.score:.4f}\t" if options.scores else ""
                print(score + translation.text, flush=True)
            if translation.is_cut:
                cut.append(done)
    report_cut(cut, done, translator.max_source_length)


def check_pair(files):
    if len(files) > 2:
        raise ValueError(f"Give a source and a target, or a file of pairs. Received: {' '.join(files)}")


def _add_score(parser):
    RECIPE.add_run(parser, ("columns",))
    parser.add_argument("files", nargs="+", metavar="FILE", help="source and target, or a file of pairs")
    parser.add_argument("--tokens", action="store_true", help="each token and its score after the score of the pair")


def _score(options):
    check_readable(*options.files)
    check_pair(options.files)
    run, config = RECIPE.open(options.folder, given_settings(options, ("columns",)))
    corpus = read_files(options.files, config.columns, languages=config.languages)
    translator = load_translator(run, config, run.load_model())
    total, num_tokens, cut = 0.0, 0, []
    for start in range(0, len(corpus), PORTION):
        part = corpus.source[start : start + PORTION], corpus.target[start : start + PORTION]
        for line_number, scored in enumerate(translator.score(*part), start + 1):
            tokens = [f"{token} {score:.4f}" for token, score in scored.token_scores] if options.tokens else []
            print(f"{scored.score:.4f}", *tokens, sep="\t", flush=True)
            total, num_tokens = total + scored.score, num_tokens + len(scored.token_scores)
            cut += [line_number] * scored.is_cut
    report_cut(cut, len(corpus), translator.max_source_length)
    if num_tokens:
        print(
            f"{len(corpus):,} pairs, {num_tokens:,} tokens: log probability {total / num_tokens:.4f} a token, "
            f"perplexity {math.exp(-total / num_tokens):.3f}",
            file=sys.stderr,
        )


def _add_shortlist(parser):
    RECIPE.add_run(parser, ("columns",))
    parser.add_argument("files", nargs="*", metavar="FILE", help="text to learn from: source and target, or pairs")
    parser.add_argument("--lexicon", metavar="FILE", help="in place of text: a table as Marian's, lex.s2t; .gz too")


def _shortlist(options):
    lexicon = [options.lexicon] if options.lexicon else []
    if bool(lexicon) == bool(options.files):
        raise ValueError(f"Give text, or --lexicon. Received: {' '.join(lexicon + options.files) or 'neither'}")
    check_readable(*lexicon, *options.files)
    check_pair(options.files)
    run, config = RECIPE.open(options.folder, given_settings(options, ("columns",)))
    text = load_text(run, config)
    if lexicon:
        read_shortlist(options.lexicon, text.source, text.target).save(shortlist_path(run))
    else:
        learn_shortlist(run, text, read_files(options.files, config.columns, LEARNT_FROM, config.languages))
    print(f"python -m recipes.translate translate {options.folder} --shortlist 1000 < sentences.txt")


def _prepare(options):
    config = RECIPE.chosen_settings(options)
    if not config.records:
        raise ValueError("Give --records, the folder for the tokens. Received: records=None")
    _check_files(config)
    quiet_tensorflow()
    if config.moses:
        check_moses(config.languages)
    load_corpora(config)  # reports now, not hours later, what training needs besides
    records = prepare(config, repair=True)
    print(describe(records, config.shape["hidden_dim"]))


def _add_lengths(parser):
    parser.add_argument("records", help="folder that `prepare` has written")
    parser.add_argument("--hidden-dim", type=int, default=512, metavar="INT", help="width of the model [512]")
    parser.add_argument(
        "--output", default=new_path("lengths.png"), metavar="FILE", help="histogram [lengths.png, then lengths-2.png]"
    )


def _lengths(options):
    quiet_tensorflow()
    records = Records(options.records)
    print(describe(records, options.hidden_dim))
    draw(records, options.output)
    print(f"Histogram: {options.output}")


def _add_import(parser):
    parser.add_argument("checkpoint", help="folder of a Marian model as Hugging Face has it")
    RECIPE.add_settings(parser, without=("pretrained",))


def _import(options):
    settings = given_settings(options, RECIPE.names())
    config = TranslateConfig(attention="multi_head").changed(settings)
    config = config.changed({"pretrained": options.checkpoint})
    config.refuse_unused(settings)
    quiet_tensorflow()
    run = Run(config.run, RECIPE)
    run.check(config)
    check(config)
    run.start(config)
    text = load_text(run, config)
    run.save_model(make_transformer(config, text.source.vocabulary_size, text.target.vocabulary_size), run.model)
    run.save_config(config)
    print(f"python -m recipes.translate translate {config.run} < sentences.txt")


def _add_convert(parser):
    parser.add_argument("run", help="folder of the run")
    parser.add_argument("folder", help="folder to write; for CTranslate2 a new one")
    parser.add_argument("--to", choices=("ctranslate2", "hugging_face"), required=True, help="library")
    parser.add_argument("--quantization", metavar="TYPE", help="of CTranslate2's matrices: int8, float16, ...")


def _convert(options):
    if options.quantization and options.to != "ctranslate2":
        raise ValueError(f"--quantization is for --to ctranslate2. Received: {options.quantization} for {options.to}")
    convert(*RECIPE.open(options.run), options.folder, options.to, options.quantization)


RECIPE = Recipe(
    name="translate",
    doc=__doc__,
    page=True,
    settings=TranslateConfig,
    train=train,
    evaluate=evaluate,
    write=write,
    built_in="numbers",
    quick=dict(
        model_arguments=dict(num_layers=1, hidden_dim=64, intermediate_dim=128),
        validation_sentences=0,
        tensorboard=(),
        beam_size=2,
        records=None,
        warmup_steps=150,
    ),
    quick_data=dict(
        max_sentences=5_000, vocabulary_size=2_000, tokens_per_batch=2048, learning_rate=4e-3, warmup_steps=100
    ),
    files=(
        "vocabulary.model",
        "source.model",
        "target.model",
        "moses.source.json",
        "moses.target.json",
        "shortlist.npz",
    ),
    check_files=_check_files,
    evaluated=(*DECODING, "metrics", "embeddings", "comet_model", "test", "columns", "iwslt", "tfds", "splits"),
    exported=(*DECODING, "export", "samples", "export_arguments"),
    commands={
        "translate": Command(_translate, "translate a file, or standard input", _add_translate, filters=True),
        "score": Command(_score, "log probabilities of given translations, a line a pair", _add_score, filters=True),
        "convert": Command(_convert, "write a finished run as a model of CTranslate2 or Hugging Face", _add_convert),
        "shortlist": Command(
            _shortlist, "learn which tokens may translate which, to search among fewer", _add_shortlist
        ),
        "import": Command(_import, "make a run of a Marian model, such as OPUS-MT's, without training", _add_import),
        "prepare": Command(
            _prepare,
            "write the training text as tokens to the folder --records; takes the options of train",
            lambda parser: RECIPE.add_settings(parser),
            continues=True,
        ),
        "lengths": Command(
            _lengths, "lengths of sentences of --records, and the most heads that they suggest", _add_lengths
        ),
    },
)
main = RECIPE.main

if __name__ == "__main__":
    main()
