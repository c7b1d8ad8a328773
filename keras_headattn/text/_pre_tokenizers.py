"""Words of byte-pair tokenizers. RE2 has no look-ahead, so white space is split first."""

from typing import NamedTuple

import tensorflow as tf
import tensorflow_text

from keras_headattn.text._added_tokens import END, SPACE, clean_utf8

OTHER = r"[^\t-\r\x{85}\p{Z}\p{L}\p{N}]"
BLANK = r"[\t\x0b\x0c\x{85}\p{Z}]"  # white space that ends no line
ENDINGS = "'s|'t|'re|'ve|'m|'ll|'d"
GPT2 = rf"({ENDINGS}| ?\p{{L}}+| ?\p{{N}}+| ?{OTHER}+|{SPACE}+)"
LLAMA3 = rf"((?i:{ENDINGS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?{OTHER}+[\r\n]*|{SPACE}*[\r\n]+|{SPACE}+)"


class Rules(NamedTuple):
    word: str = GPT2
    blank: str = SPACE  # what leaves a run of white space for the word after it
    composes: bool = False  # Unicode's form NFC
    splits_digits: bool = False


PRE_TOKENIZERS = {
    "gpt2": Rules(),
    "gpt_neox": Rules(composes=True),
    "smollm": Rules(splits_digits=True),
    "llama3": Rules(LLAMA3, BLANK),
    "qwen2": Rules(LLAMA3.replace("{1,3}", ""), BLANK, composes=True),
}


def rules_of(pre_tokenizer, add_prefix_space=False):
    if pre_tokenizer not in PRE_TOKENIZERS:
        raise ValueError(
            f"`pre_tokenizer` must be {', '.join(PRE_TOKENIZERS)}. Received: pre_tokenizer={pre_tokenizer!r}"
        )
    if add_prefix_space and pre_tokenizer not in ("gpt2", "gpt_neox"):
        raise ValueError(
            f"`add_prefix_space` must be False for {pre_tokenizer}. Received: add_prefix_space={add_prefix_space}"
        )
    return PRE_TOKENIZERS[pre_tokenizer]


def compose(strings):
    """Returns strings in Unicode's form NFC."""
    return tensorflow_text.normalize_utf8(clean_utf8(strings), "NFC")


def split_into_words(strings, rules):
    """Splits strings `(B,)` into words with the spaces before them: ragged `(B, n)`.

    >>> split_into_words(tf.constant(["It's  1234 o'clock!"]), PRE_TOKENIZERS["gpt2"]).to_list()
    [[b'It', b"'s", b' ', b' 1234', b' o', b"'", b'clock', b'!']]
    >>> split_into_words(tf.constant(["It's  1234 o'clock!"]), PRE_TOKENIZERS["llama3"]).to_list()
    [[b'It', b"'s", b' ', b' ', b'123', b'4', b' o', b"'clock", b'!']]
    """
    strings = compose(strings) if rules.composes else clean_utf8(strings)
    if rules.splits_digits:
        strings = tf.strings.regex_replace(strings, r"(\p{N})", END + rb"\1" + END)
    # The last white space before a word stands apart: the word may begin with it.
    last = rf"({SPACE})({rules.blank}[^\t-\r\x{{85}}\p{{Z}}])"
    strings = tf.strings.regex_replace(strings, last, rb"\1" + END + rb"\2")
    strings = tf.strings.regex_replace(strings, rules.word, rb"\1" + END)
    words = tf.strings.split(strings, END)
    return tf.ragged.boolean_mask(words, tf.strings.length(words) > 0)
