"""Hugging Face's tokenizer.json as arguments of tokenizers."""

from keras_headattn._files import read_json
from keras_headattn.interop._sentencepiece_models import WORD_START, unigram_model, white_space_charsmap
from keras_headattn.interop._tokenizer_settings import LANGUAGE_MODELS

NFC, DIGITS = {"type": "NFC"}, {"type": "Digits", "individual_digits": True}
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
SPLITS = {
    name: {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    for name, pattern in {"llama3": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}.items()
}
# Normalizers and the steps before ByteLevel, by the name of a `BytePairTokenizer`.
PRE_TOKENIZERS = {
    "gpt2": ([], []),
    "gpt_neox": ([NFC], []),
    "smollm": ([], [DIGITS]),
    "llama3": ([], [SPLITS["llama3"]]),
    "qwen2": ([NFC], [SPLITS["qwen2"]]),
}
# Normalizers and pre-tokenizers of SentencePiece models with byte fallback, and if they put a space before texts and do
# so once. transformers 5 writes the rows with DOUBLE.
PREPEND = {"type": "Prepend", "prepend": WORD_START}
SPACE = {"type": "Replace", "pattern": {"String": " "}, "content": WORD_START}
DOUBLE = {"type": "Replace", "pattern": {"Regex": rf"\A{WORD_START}"}, "content": WORD_START * 2}
ALWAYS, FIRST, NEVER = (
    {"type": "Metaspace", "replacement": WORD_START, "prepend_scheme": scheme, "split": False}
    for scheme in ("always", "first", "never")
)
NO_SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
PREFIXES = (
    ([PREPEND, SPACE], [], True, False),
    ([SPACE, DOUBLE], [ALWAYS], True, False),
    ([SPACE], [FIRST], True, True),
    ([], [FIRST], True, True),
    ([SPACE], [NO_SPLIT], False, False),
    ([SPACE], [], False, False),
    ([], [NEVER], False, False),
)
ENCODERS = {"roberta": "gpt2", "modernbert": "gpt_neox"}
SQUEEZE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": None}

TEMPLATES = {
    "bert": ("[CLS]:0 A:0 [SEP]:0", "[CLS]:0 A:0 [SEP]:0 B:1 [SEP]:1"),
    "roberta": ("<s>:0 A:0 </s>:0", "<s>:0 A:0 </s>:0 </s>:0 B:0 </s>:0"),
    "t5": ("A:0 </s>:0", None),
}
TEMPLATES |= {"electra": TEMPLATES["bert"], "modernbert": TEMPLATES["bert"], "mt5": TEMPLATES["t5"]}
TEMPLATES |= {"xlm-roberta": TEMPLATES["roberta"], "camembert": TEMPLATES["roberta"]}


class TokenizerJson:
    """A tokenizer.json whose parts must all be supported."""

    def __init__(self, path, kind):
        self.path, self.kind = path, kind
        self.document = read_json(path)
        if not isinstance(self.document, dict):
            self.refuse("the content", self.document)
        self.model = self._part("model")
        self._check_sides()
        self.beginning = None
        self._check_template()

    def refuse(self, name, value):
        raise ValueError(
            f"`{name}` of tokenizer.json is not supported for {self.kind}. Received: {str(value)[:200]} in {self.path}"
        )

    def _part(self, name):
        part = self.document.get(name)
        if part is not None and not (isinstance(part, dict) and isinstance(part.get("type", "BPE"), str)):
            self.refuse(name, part)
        return part or {}

    def _check(self, name, part, **fixed):
        """Compares a part with its expected values; a tuple lists alternatives."""
        for key, expected in fixed.items():
            if part.get(key) not in (expected if isinstance(expected, tuple) else (expected,)):
                self.refuse(f"{name}.{key}", part.get(key))
        unknown = set(part) - {*fixed, "type"}
        if unknown:
            self.refuse(f"{name}.{min(unknown)}", part[min(unknown)])

    def _check_sides(self):
        """Refuses cutting and padding on the left; how much is set in each call."""
        for name in ("truncation",) if self.kind in LANGUAGE_MODELS else ("truncation", "padding"):
            part = self.document.get(name)
            direction = part.get("direction", "Right") if isinstance(part, dict) else "Right"
            if direction != "Right":
                self.refuse(f"{name}.direction", direction)

    def _check_template(self):
        part = self._part("post_processor")
        steps = self._steps("post_processor", "processors")
        steps = [step for step in steps if step.get("type") != "ByteLevel"]  # it changes offsets only
        if self.kind in LANGUAGE_MODELS:
            self._find_beginning(steps)
            return
        expected = TEMPLATES[self.kind]
        if len(steps) != 1:
            self.refuse("post_processor", part or None)
        single, pair = self._templates(steps[0])
        if self.kind == "modernbert":  # the model has no segments
            pair = pair.replace("B:0 [SEP]:0", "B:1 [SEP]:1")
        if single != expected[0] or expected[1] is not None and pair != expected[1]:
            self.refuse("post_processor", f"{steps[0].get('type')} {single!r}, {pair!r}")

    def _find_beginning(self, steps):
        """Reads the token that begins every text of a language model, if there is one."""
        if not steps:
            return
        *first, text = self._templates(steps[0])[0].split(" ")
        if len(steps) > 1 or text != "A:0" or len(first) > 1 or not all(token.endswith(":0") for token in first):
            self.refuse("post_processor", steps[-1])
        self.beginning = first[0].removesuffix(":0") if first else None

    def _templates(self, step):
        kind = step.get("type")
        try:
            if kind in ("BertProcessing", "RobertaProcessing"):
                cls, sep = step["cls"][0], step["sep"][0]
                first, second = f"{cls}:0 A:0 {sep}:0", 1 if kind == "BertProcessing" else 0
                between = f" {sep}:0" * (kind == "RobertaProcessing")
                return first, f"{first}{between} B:{second} {sep}:{second}"
            if kind == "TemplateProcessing":
                for token in step["special_tokens"].values():
                    if token["tokens"] != [token["id"]]:
                        self.refuse("post_processor.special_tokens", token)
                return tuple(
                    " ".join(f"{part['id']}:{part['type_id']}" for entry in step[side] for part in entry.values())
                    for side in ("single", "pair")
                )
        except (KeyError, TypeError, AttributeError, IndexError):
            pass
        self.refuse("post_processor", step)

    def _steps(self, name, key):
        """Returns a part, or those of a sequence, as a list."""
        part = self._part(name)
        steps = part.get(key) if part.get("type") == "Sequence" else [part] if part else []
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            self.refuse(name, part)
        return steps

    def word_pieces(self):
        """Returns the vocabulary, `lowercase` and `strip_accents` of a `WordPieceTokenizer`."""
        self._check(
            "model", {**self.model, "vocab": None},
            type="WordPiece", unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100,
            vocab=None,
        )  # fmt: skip
        normalizer, before = self._part("normalizer"), self._part("pre_tokenizer")
        self._check(
            "normalizer", normalizer,
            type="BertNormalizer", clean_text=True, handle_chinese_chars=True, lowercase=(True, False),
            strip_accents=(None, True, False),
        )  # fmt: skip
        self._check("pre_tokenizer", before, type="BertPreTokenizer")
        return self._tokens(), normalizer["lowercase"], normalizer.get("strip_accents")

    def byte_pairs(self):
        """Returns the vocabulary and other arguments of a `BytePairTokenizer`."""
        merges, is_model = self.model.get("merges"), self.kind in LANGUAGE_MODELS
        self._check(
            "model", {**self.model, "vocab": None, "merges": None},
            type=("BPE", None), dropout=(None, 0.0), unk_token=(None,) if is_model else (None, "<unk>", "[UNK]"),
            continuing_subword_prefix=(None, ""), end_of_word_suffix=(None, ""), fuse_unk=(None, False),
            byte_fallback=(None, False), ignore_merges=(None, False, is_model), vocab=None, merges=None,
        )  # fmt: skip
        arguments = self._words()
        if not isinstance(merges, list):
            self.refuse("model.merges", merges)
        merges = [" ".join(m) if isinstance(m, list) and all(isinstance(t, str) for t in m) else m for m in merges]
        ignore_merges = bool(self.model.get("ignore_merges"))
        return self._tokens(), arguments | {"merges": merges, "ignore_merges": ignore_merges}

    @property
    def falls_back(self):
        """True for the byte pairs of a SentencePiece model with byte fallback."""
        return self.model.get("byte_fallback") is True

    def prefix(self):
        """Returns if a SentencePiece model puts a space before texts, and if it does so once."""
        steps = self._steps("normalizer", "normalizers"), self._steps("pre_tokenizer", "pretokenizers")
        for *parts, has_prefix, once in PREFIXES:
            if parts == [*steps]:
                return has_prefix, once
        self.refuse("normalizer` or `pre_tokenizer", steps)

    def _words(self):
        """Returns the arguments that split a text into words."""
        normalizers = self._steps("normalizer", "normalizers")
        *steps, last = self._steps("pre_tokenizer", "pretokenizers") or [{}]
        names = [ENCODERS[self.kind]] if self.kind in ENCODERS else [*PRE_TOKENIZERS]
        names = [name for name in names if PRE_TOKENIZERS[name][1] == steps]
        if not names:
            self.refuse("pre_tokenizer", steps[0])
        self._check(
            "pre_tokenizer", last,
            type="ByteLevel", add_prefix_space=(True, False) if not steps else False, trim_offsets=(None, True, False),
            use_regex=False if steps and steps[0] in SPLITS.values() else (None, True),
        )  # fmt: skip
        names = [name for name in names if PRE_TOKENIZERS[name][0] == normalizers]
        if not names:
            self.refuse("normalizer", self._part("normalizer"))
        return {"pre_tokenizer": names[0], "add_prefix_space": last["add_prefix_space"]}

    def _tokens(self):
        """Returns the vocabulary in the order of ids."""
        ids = self.model.get("vocab")
        if self.kind == "modernbert" and isinstance(ids, dict):  # its special tokens are added ones
            added = [entry for entry in self.document.get("added_tokens") or [] if isinstance(entry, dict)]
            ids = ids | {entry["content"]: entry["id"] for entry in added if {"content", "id"} <= entry.keys()}
        if not isinstance(ids, dict) or not all(type(index) is int for index in ids.values()):
            self.refuse("model.vocab", ids)
        if sorted(ids.values()) != list(range(len(ids))):
            self.refuse("model.vocab", f"ids that are not 0 to {len(ids) - 1}, each once")
        return sorted(ids, key=ids.get)

    def unigram(self, control):
        """Returns a SentencePiece model, its number of sentinels, and all tokens by id."""
        vocabulary, unknown = self.model.get("vocab"), self.model.get("unk_id")
        self._check(
            "model", {**self.model, "vocab": None, "unk_id": None},
            type=("Unigram", None), byte_fallback=(None, False), vocab=None, unk_id=None,
        )  # fmt: skip
        if not isinstance(vocabulary, list) or not vocabulary or not all(map(_is_scored, vocabulary)):
            self.refuse("model.vocab", vocabulary)
        if type(unknown) is not int or not 0 <= unknown < len(vocabulary):
            self.refuse("model.unk_id", unknown)
        tokens = [token for token, _ in vocabulary]
        if len(set(tokens)) < len(tokens):
            self.refuse("model.vocab", "tokens that are there twice")
        sentinels = 0
        while tokens[-1 - sentinels :][:1] == [f"<extra_id_{sentinels}>"]:
            sentinels += 1
        charsmap = self._charsmap()
        self._check_spaces()
        pieces = vocabulary[: len(vocabulary) - sentinels]
        return unigram_model(pieces, unknown, charsmap, control, self.path), sentinels, tokens

    def _charsmap(self):
        if not self._part("normalizer"):
            return white_space_charsmap()
        first = (self._steps("normalizer", "normalizers") or [{}])[0]
        if first.get("type") != "Precompiled" or not isinstance(first.get("precompiled_charsmap"), str):
            self.refuse("normalizer", self._part("normalizer") or None)
        return first["precompiled_charsmap"]

    def _check_spaces(self):
        """Refuses spaces that are not treated as in SentencePiece."""
        squeezes = strips = False
        for step in self._steps("normalizer", "normalizers")[1:]:
            if step.get("type") == "Strip" and step.get("strip_right"):
                strips = True
            elif {**step, "content": None} == SQUEEZE and step.get("content") in (" ", WORD_START):
                squeezes = True
            else:
                self.refuse("normalizer", step)
        *first, last = self._steps("pre_tokenizer", "pretokenizers") or [{}]
        if first == [{"type": "WhitespaceSplit"}]:
            squeezes = strips = True
        elif first:
            self.refuse("pre_tokenizer", first[0])
        self._check(
            "pre_tokenizer", last,
            type="Metaspace", replacement=WORD_START, str_rep=(None, WORD_START), split=(None, True),
            add_prefix_space=(None, True), prepend_scheme=(None, "always", "first"),
        )  # fmt: skip
        if not (squeezes and strips):
            self.refuse("pre_tokenizer", "Metaspace, with spaces that are neither squeezed nor stripped")
        # Text after an added token would begin without a space.
        self.begins_once = last.get("prepend_scheme") == "first"


def _is_scored(entry):
    """Returns True for a pair of token and score."""
    if not isinstance(entry, list) or len(entry) != 2:
        return False
    token, score = entry
    is_text = isinstance(token, str) and token != "" and "\0" not in token
    return is_text and type(score) in (int, float) and abs(score) < 1e30
