import collections
import heapq
import itertools
from collections.abc import Iterable

import tensorflow as tf

from keras_headattn._validation import check_number, check_positive
from keras_headattn.text._byte_pair_tokenizer import BytePairTokenizer, byte_signs
from keras_headattn.text._byte_tokenizer import END_OF_TEXT
from keras_headattn.text._pair_tokenizer import check_texts, portions
from keras_headattn.text._pre_tokenizers import rules_of, split_into_words


def train_byte_pairs(texts: Iterable[str], size: int, pre_tokenizer: str = "gpt2") -> BytePairTokenizer:
    """Trains a `BytePairTokenizer`: joins the most frequent pair of tokens within words, again and again.

    Ids 0 to 255 are bytes, as in `ByteTokenizer`, then come the joined tokens in order, and last `<|endoftext|>`,
    `eos_id`, which is not added to texts. Of equally frequent pairs the one with the smaller ids is joined, so that the
    same text gives the same tokenizer. A corpus of 1 MB takes seconds.

    Source: Sennrich et al. 2016, "Neural machine translation of rare words with subword units"; Radford et al. 2019,
    "Language models are unsupervised multitask learners".

    Args:
        texts: iterable of str.
        size: largest number of tokens, at least 257; there are fewer if all words are single tokens before.
        pre_tokenizer: see `BytePairTokenizer`.

    Raises:
        ValueError: for a size below 257, another name, or a text that is not a str.

    >>> tokenizer = train_byte_pairs(["low lower lowest"], size=260)
    >>> tokenizer.merges, tokenizer.eos_id
    (('l o', 'lo w', 'Ġ low'), 259)
    >>> tokenizer(["lower low"]).numpy().tolist()
    [[257, 101, 114, 258]]
    """
    check_number("size", check_positive("size", size), least=257)
    rules, counts = rules_of(pre_tokenizer), collections.Counter()
    for some in portions(texts, 1000):
        words = split_into_words(tf.constant(check_texts(some)), rules).flat_values
        different, _, numbers = tf.unique_with_counts(words, tf.int64)
        counts.update(dict(zip(different.numpy().tolist(), numbers.numpy().tolist(), strict=True)))
    tokens, merges = _learn(counts, size - 1)
    vocabulary = [*tokens, END_OF_TEXT]
    specials = {"eos": END_OF_TEXT}
    return BytePairTokenizer(vocabulary, merges, specials=specials, pre_tokenizer=pre_tokenizer, add_eos=False)


class _Pairs:
    """Counts of the pairs of ids in words, and the most frequent one."""

    def __init__(self, words, numbers):
        self._words, self._numbers = words, numbers
        self._counts, self._places = collections.Counter(), collections.defaultdict(set)
        for index in range(len(words)):
            self._count(index, 1)
        self._heap = [(-count, pair) for pair, count in self._counts.items()]
        heapq.heapify(self._heap)

    def _count(self, index, sign):
        word = self._words[index]
        for pair in itertools.pairwise(word):
            self._counts[pair] += sign * self._numbers[index]
            if sign > 0:
                self._places[pair].add(index)

    def most_frequent(self):
        """Returns the most frequent pair, the smallest of equals, or `None` if there is none."""
        while self._heap:
            count, pair = heapq.heappop(self._heap)
            if self._counts[pair] == -count:
                return pair
            if self._counts[pair]:  # fewer than when it came on the heap
                heapq.heappush(self._heap, (-self._counts[pair], pair))
        return None

    def join(self, pair, new):
        """Replaces a pair by a new id in all words."""
        fresh = set()
        for index in self._places.pop(pair):
            self._count(index, -1)
            self._words[index] = _joined(self._words[index], pair, new)
            self._count(index, 1)
            fresh.update(p for p in itertools.pairwise(self._words[index]) if new in p)
        for changed in fresh:
            heapq.heappush(self._heap, (-self._counts[changed], changed))


def _joined(word, pair, new):
    """Returns the ids of a word with each occurrence of a pair, from the left, as one id."""
    joined, index = [], 0
    while index < len(word):
        is_pair = index + 1 < len(word) and (word[index], word[index + 1]) == pair
        joined.append(new if is_pair else word[index])
        index += 1 + is_pair
    return joined


def _learn(counts, size):
    """Returns at most `size` tokens by id, and the merges."""
    tokens, merges = byte_signs(), {}
    ids = {token: index for index, token in enumerate(tokens)}
    pairs = _Pairs([list(word) for word in counts], list(counts.values()))
    while len(tokens) < size and (pair := pairs.most_frequent()):
        token = "".join(tokens[index] for index in pair)
        if token not in ids:  # else another pair made it before
            ids[token] = len(tokens)
            tokens.append(token)
        merges.setdefault(" ".join(tokens[index] for index in pair))
        pairs.join(pair, ids[token])
    return tokens, [*merges]
