"""From texts to what a model of texts or of pairs is given, in graphs and in Python."""

from keras_headattn._validation import positive


class TextInputs:
    """A tokenizer and a length, and what a model is given of texts.

    A single text is ids `(B, n)`. A pair is a tuple of two such; of a tokenizer that joins pairs, as
    `WordPieceTokenizer`, it is one sequence: a dictionary of `token_ids` and `segment_ids`, both `(B, n)`, or its ids
    alone where the tokenizer has no segments.

    Args:
        tokenizer: a tokenizer of this room.
        max_length: int, ids of a row beyond which it is cut. Default `None`: none is cut. A tokenizer that joins pairs
            cuts the longer text first, and keeps the symbols at the end.

    Example:

    >>> from keras_headattn.text import WordPieceTokenizer
    >>> tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat"])
    >>> inputs = TextInputs(tokenizer, max_length=5)
    >>> {name: rows[0].tolist() for name, rows in inputs.columns(["a cat"], ["a"]).items()}
    {'token_ids': [2, 4, 3, 4, 3], 'segment_ids': [0, 0, 0, 1, 1]}
    >>> inputs.of_strings(["a cat"]).numpy().tolist()
    [[2, 4, 5, 3]]
    """

    def __init__(self, tokenizer, max_length=None):
        self.max_length = None if max_length is None else positive("max_length", max_length)
        self.joins = getattr(tokenizer, "joins_pairs", False)
        self.tokenizer = tokenizer.with_max_length(self.max_length) if self.joins else tokenizer
        self.pad_id = getattr(tokenizer, "pad_id", 0)

    def columns(self, texts, second_texts=None):
        """Ids of lists of texts, unpadded, for data sets.

        Args:
            texts, second_texts: lists of str; the latter `None` for single texts.

        Returns:
            Dictionary of names to lists of int32 arrays: `text`, and of pairs `second_text`, or `token_ids` and
            `segment_ids`.
        """
        if self.joins and second_texts is not None:
            return self._without_idle_segments(self.tokenizer.encode(texts, second_texts))
        sides = {"text": texts} | ({} if second_texts is None else {"second_text": second_texts})
        return {name: [ids[: self.max_length] for ids in self.tokenizer.encode(side)] for name, side in sides.items()}

    def of_columns(self, columns):
        """What a model is given of columns, as `columns` names them, that were padded: tensors or symbols."""
        if "segment_ids" in columns:
            return dict(columns)
        return next(iter(columns.values())) if len(columns) == 1 else tuple(columns.values())

    def of_strings(self, text, second_text=None):
        """What a model is given of strings, in a graph.

        Args:
            text, second_text: string tensors `(B,)`; the latter `None` for single texts.
        """
        if not self.joins:
            sides = (text,) if second_text is None else (text, second_text)
            ids = tuple(self.tokenizer(side)[:, : self.max_length] for side in sides)
            return ids[0] if second_text is None else ids
        if second_text is None:
            return self.tokenizer(text)
        return self.of_columns(self._without_idle_segments(self.tokenizer(text, second_text)))

    def _without_idle_segments(self, columns):
        return columns if self.tokenizer.has_segments else {"token_ids": columns["token_ids"]}
