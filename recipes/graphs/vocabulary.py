"""Ids of the words, entities, types and relations of graphs."""

import collections
import json

from keras_headattn._files import read_json, write_atomically
from recipes.graphs.corpus import SPLITS

SPECIAL = ("<pad>", "<unk>", "<start>", "<end>")
RELATIONS = ("<pad>", "<unk>", "<global>")
END = SPECIAL.index("<end>")


class GraphVocabulary:
    """Ids of graphs and their texts, as `models.GraphWriter` reads and writes them.

    Words of texts: padding 0, unknown 1, start 2, end 3, the types, then the words; from `vocabulary_size` on the
    entities of a graph. Words of names and titles have vocabularies of their own: padding 0, unknown 1. Relations:
    padding 0, unknown 1, the global vertex 2. An unknown type is the unknown word.

    Args:
        words, types, entity_words, title_words, relations: lists of str. Without `title_words` there are no titles.
        split: str, how names and titles become words, as of `GraphCorpus`.
        max_words: int, how many words of a name are read; it is copied in full all the same. Few names are long, and
            all are padded to the longest. Default `None`: all are.

    >>> vocabulary = GraphVocabulary(["lives", "in"], ["person", "town"], ["anna", "oslo"], [], ["home"])
    >>> vocabulary.vocabulary_size, vocabulary.encode_text((0, "lives", "near", 1))
    (8, [8, 6, 1, 9, 3])
    """

    def __init__(self, words, types, entity_words, title_words, relations, split="signs", max_words=None):
        if split not in SPLITS:
            raise ValueError(f"`split` must be one of {', '.join(SPLITS)}. Received: split={split!r}")
        self.words, self.types, self.relations = list(words), list(types), list(relations)
        self.entity_words, self.title_words = list(entity_words), list(title_words)
        self.split = split
        self.max_words = max_words
        self.tokens = [*SPECIAL, *(f"<{kind}>" for kind in self.types), *self.words]
        self._ids = {
            "words": _ids(self.words, len(SPECIAL) + len(self.types)),
            "types": _ids(self.types, len(SPECIAL)),
            "entities": _ids(self.entity_words, 2),
            "title": _ids(self.title_words, 2),
            "relations": _ids(self.relations, len(RELATIONS)),
        }

    @classmethod
    def learn(cls, corpus, min_count=5, max_words=None):
        """Learns the vocabulary of a `GraphCorpus`. Words of texts and titles must occur `min_count` times."""
        split, graphs = SPLITS[corpus.split_at], corpus.graphs
        words = (token for graph in graphs for text in graph.texts for token in text if isinstance(token, str))
        words = _frequent(words, min_count)
        if not words:
            raise ValueError(f"There must be words that occur {min_count} times. Received: none in {corpus.name}")
        return cls(
            words,
            sorted({kind for graph in graphs for kind in graph.types}),
            _frequent((word for graph in graphs for name in graph.entities for word in split(name)[:max_words]), 1),
            _frequent((word for graph in graphs for word in split(graph.title)), min_count),
            sorted({relation for graph in graphs for _, relation, _ in graph.triples}),
            corpus.split_at,
            max_words,
        )

    def save(self, path):
        """Writes the vocabulary to a file of JSON."""
        names = "words", "types", "entity_words", "title_words", "relations", "split", "max_words"
        text = json.dumps({name: getattr(self, name) for name in names}, ensure_ascii=False, indent=0)
        write_atomically(path, text.encode("utf-8"))

    @classmethod
    def load(cls, path):
        """Reads a file that `save` has written."""
        values = read_json(path)
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The file must be one that `GraphVocabulary.save` wrote. Received: {path} ({error})"
            ) from error

    vocabulary_size = property(lambda self: len(self.tokens))
    entity_vocabulary_size = property(lambda self: 2 + len(self.entity_words))
    title_vocabulary_size = property(lambda self: 2 + len(self.title_words) if self.title_words else None)
    num_relations = property(lambda self: max(1, len(self.relations)))
    forbidden_ids = property(lambda self: (0, 1, 2, *self._ids["types"].values()))

    def encode(self, graph):
        """Returns the ids of a `Graph`: `"entities"`, `"types"`, `"triples"` and, with titles, `"title"`."""
        ids, split = self._ids, SPLITS[self.split]
        encoded = {
            "entities": [_lookup(ids["entities"], split(name)[: self.max_words]) or [1] for name in graph.entities],
            "types": _lookup(ids["types"], graph.types),
            "triples": [[head, ids["relations"].get(name, 1), tail] for head, name, tail in graph.triples],
        }
        return encoded | ({"title": _lookup(ids["title"], split(graph.title))} if self.title_words else {})

    def examples(self, corpus):
        """Makes examples for `GraphBatches`: the ids of each text of a corpus with those of its graph."""
        encoded = ((self.encode(graph), graph) for graph in corpus.graphs)
        return [ids | {"target": self.encode_text(text)} for ids, graph in encoded for text in graph.texts]

    def encode_text(self, tokens):
        """Returns the ids of a text, str and int as in `Graph.texts`, with the end."""
        words, size = self._ids["words"], self.vocabulary_size
        return [*(size + token if isinstance(token, int) else words.get(token, 1) for token in tokens), END]

    def decode(self, ids):
        """Returns the tokens, as in `Graph.texts`, of ids up to the end."""
        tokens = []
        for token in map(int, ids):
            if token in (0, END):
                break
            entity = token - self.vocabulary_size
            tokens.append(entity if entity >= 0 else self.tokens[token])
        return tokens


def _ids(words, first):
    return {word: index for index, word in enumerate(words, first)}


def _lookup(ids, words):
    return [ids.get(word, 1) for word in words]


def _frequent(words, min_count):
    """Words that occur so often, the most frequent first."""
    counts = collections.Counter(words)
    return sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
