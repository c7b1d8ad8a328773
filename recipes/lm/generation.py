"""Texts that a language model writes."""

from keras_headattn.serving import TextGenerator
from recipes.engine.encoders import saved_tokenizer
from recipes.lm.data import encode
from recipes.lm.train import TOKENIZER, WRITTEN, longest_text


def add_generate(parser):
    """Adds the arguments of `generate`."""
    parser.add_argument("folder", help="folder of the run")
    parser.add_argument("--prompt", default="\n", help="beginning of the text [a line break]")
    parser.add_argument(
        "--max-tokens", type=int, help=f"largest number of new tokens [{WRITTEN}, or half of the learned positions]"
    )
    parser.add_argument("--samples", type=int, default=1, help="number of texts [1]")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 takes the likeliest tokens [0.8]")
    parser.add_argument("--top-k", type=int, help="number of likeliest tokens to draw from [all]")
    parser.add_argument("--top-p", type=float, help="probability of the likeliest tokens to draw from [1]")
    parser.add_argument("--stop", nargs="+", default=(), metavar="TEXT", help="end before the first of these texts")
    parser.add_argument("--seed", type=int, default=0, help="random seed [0]")


def generate(run, options):
    """Prints texts that go on after a prompt."""
    model, tokenizer = run.load_model(), saved_tokenizer(run.folder / TOKENIZER)
    if not len(encode(tokenizer, options.prompt, "--prompt")):  # an error for characters that it lacks
        raise ValueError("--prompt must have a token. Received: an empty one")
    write = TextGenerator(
        model,
        tokenizer,
        options.stop,
        max_length=longest_text(model) if options.max_tokens is None else options.max_tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        num_samples=options.samples,
        seed=options.seed,
    )
    for index, text in enumerate(write([options.prompt])[0]):
        print(f"{'-' * 40}\n" if index else "", end="")
        print(options.prompt + text)
