import collections
import time

import pytest

from keras_headattn.text import train_byte_pairs
from tests.text.generated import generated_texts
from tests.text.test_byte_pair_tokenizer import SIGNS, words_of


def learn(texts, size):
    """Merges by one count of all pairs after another, and all tokens."""
    signs = [SIGNS[byte] for byte in range(256)]
    tokens, merges = list(signs), []
    words = [[*word.encode()] for text in texts for word in words_of(text)]
    while len(tokens) < size - 1:
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:], strict=False))
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        token = tokens[best[0]] + tokens[best[1]]
        merge = f"{tokens[best[0]]} {tokens[best[1]]}"
        merges += [merge] if merge not in merges else []
        tokens += [token] if token not in tokens else []
        for word in words:
            place = 0
            while place < len(word) - 1:
                if (word[place], word[place + 1]) == best:
                    word[place : place + 2] = [tokens.index(token)]
                place += 1
    return [*tokens, "<|endoftext|>"], merges


@pytest.mark.parametrize("texts, size", [
    (["the cat's mat", "They'll see  the 42 cats", "aaaa bbbb abab", "the thesis then", "é 😀 é"], 320),
    (["aaaaaaa aaa aaaa aaaaaaaaa"] * 3, 300),
    (["abcab cabc abca bcabcabc"], 999),
    ([], 300),
    (["a" * 40 + "b" * 7], 300),
])  # fmt: skip
def test_slow_code_gives_the_same(texts, size):
    tokenizer = train_byte_pairs(iter(texts), size)
    assert ([*tokenizer.vocabulary], [*tokenizer.merges]) == learn(texts, size)
    assert [text.decode() for text in tokenizer.detokenize(tokenizer(texts)).numpy()] == texts


def test_generated_texts():
    texts = [text for text in generated_texts(120) if len(text) < 60]
    tokenizer = train_byte_pairs(texts, 400)
    assert ([*tokenizer.vocabulary], [*tokenizer.merges]) == learn(texts, 400)


@pytest.mark.parametrize("name", ["smollm", "llama3", "qwen2"])
def test_other_words(name):
    """Merges stay within words: no token has two digits, or more than three."""
    tokenizer = train_byte_pairs(["the 1234 12 1234e\u0301 12"] * 9, 300, name)
    longest = max(len(token) for token in tokenizer.vocabulary if token.isdigit())
    assert longest == (3 if name == "llama3" else 1) and tokenizer.pre_tokenizer == name
    assert (tokenizer.eos_id, tokenizer.bos_id) == (tokenizer.vocabulary_size - 1, -1)
    assert ("Ã©" in tokenizer.vocabulary) == (name == "qwen2")


def test_a_corpus(shared_data):
    """A megabyte in seconds, each token twice as long as a byte."""
    corpus = (shared_data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    start = time.perf_counter()
    tokenizer = train_byte_pairs([corpus], 1000)
    assert time.perf_counter() - start < 60 and tokenizer.vocabulary_size == 1000
    assert len(tokenizer.encode([corpus])[0]) < len(corpus) / 2
